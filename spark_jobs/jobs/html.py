"""Self-contained HTML pages with small SVG plots: no scripts, nothing fetched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color:#222;background:#fff}
table{border-collapse:collapse;margin:1em 0}td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}svg{display:block;margin:.5em 0 1.5em}
svg text{font:11px system-ui,sans-serif;fill:currentColor}
@media(prefers-color-scheme:dark){body{background:#181a1b;color:#ddd}td,th{border-color:#444}}
"""
COLORS = ("#3572a5", "#e07b39")
_LABEL, _BAR, _ROW = 180, 420, 18


def page(title: str, parts: Iterable[str]) -> str:
    """A whole document; ``parts`` are HTML already."""
    body = "\n".join(parts)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    )


def heading(text: str, level: int = 2) -> str:
    """A heading."""
    return f"<h{level}>{escape(text)}</h{level}>"


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{escape(text)}</p>"


def table(rows: Sequence[Mapping[str, object]]) -> str:
    """A table with the keys of the first row as its head."""
    if not rows:
        return paragraph("nothing")
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    lines = ["".join(f"<td>{escape(_text(value))}</td>" for value in row.values()) for row in rows]
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def bars(labels: Sequence[str], *series: Sequence[float], names: Sequence[str] = (), unit: str = "") -> str:
    """Horizontal bars: one a label, or one for each series side by side, with its value."""
    largest = max((value for values in series for value in values), default=0) or 1
    height = len(labels) * (_ROW * len(series) + 6) + (20 if names else 4)
    parts = [f'<svg width="{_LABEL + _BAR + 120}" height="{height}" role="img">']
    y = 2
    for index, label in enumerate(labels):
        parts.append(f'<text x="{_LABEL - 6}" y="{y + 13}" text-anchor="end">{escape(label[:28])}</text>')
        for number, values in enumerate(series):
            width = max(0.0, values[index] / largest * _BAR)
            fill = COLORS[number % len(COLORS)]
            parts.append(f'<rect x="{_LABEL}" y="{y + 2}" width="{width:.1f}" height="{_ROW - 4}" fill="{fill}"/>')
            parts.append(
                f'<text x="{_LABEL + width + 5:.1f}" y="{y + 13}">{escape(_text(values[index]) + unit)}</text>'
            )
            y += _ROW
        y += 6
    for number, name in enumerate(names):
        x = _LABEL + number * 130
        parts.append(f'<rect x="{x}" y="{y}" width="10" height="10" fill="{COLORS[number % len(COLORS)]}"/>')
        parts.append(f'<text x="{x + 15}" y="{y + 10}">{escape(name)}</text>')
    parts.append("</svg>")
    return "".join(parts)


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
