"""Charts and sections for docs/performance.md: plain SVG, no plotting library."""

import math
import re
from pathlib import Path
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 860, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 280, 40, 50
_COLOURS = ["#1b6ca8", "#7db8e0", "#c0392b", "#e59b92", "#4d7c2a", "#a9cf8a", "#7d5ba6", "#c9b6e0"]


def figure(value: float) -> str:
    """Three digits that say something, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def line_chart(
    title: str, x_label: str, y_label: str, series: dict[str, list[tuple[float, float]]], *, log_y: bool = True
) -> str:
    """An SVG document with one line a series; the x axis is logarithmic, the y axis if `log_y`."""
    points = [point for line in series.values() for point in line]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    x_low, x_high = math.log10(min(xs)), math.log10(max(xs))
    if log_y:
        y_low, y_high = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
    else:
        y_low, y_high = 0, math.ceil(max(ys))
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x_at(x: float) -> float:
        return _LEFT + (math.log10(x) - x_low) / max(x_high - x_low, 1e-9) * width

    def y_at(y: float) -> float:
        value = math.log10(y) if log_y else y
        return _TOP + height - (value - y_low) / max(y_high - y_low, 1e-9) * height

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="22" font-size="15">{escape(title)}</text>',
        f'<text x="{_LEFT + width / 2}" y="{_HEIGHT - 10}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text transform="translate(16 {_TOP + height / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>",
    ]
    for x in sorted(set(xs)):
        parts.append(f'<line x1="{x_at(x):.1f}" y1="{_TOP}" x2="{x_at(x):.1f}" y2="{_TOP + height}" stroke="#eee"/>')
        parts.append(f'<text x="{x_at(x):.1f}" y="{_TOP + height + 18}" text-anchor="middle">{x:,.0f}</text>')
    ticks = [10.0**power for power in range(y_low, y_high + 1)] if log_y else [y_high * i / 5 for i in range(6)]
    for y in ticks:
        parts.append(f'<line x1="{_LEFT}" y1="{y_at(y):.1f}" x2="{_LEFT + width}" y2="{y_at(y):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y_at(y) + 4:.1f}" text-anchor="end">{y:,g}</text>')
    for number, (name, line) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        path = " ".join(f"{x_at(x):.1f},{y_at(y):.1f}" for x, y in line)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x_at(x):.1f}" cy="{y_at(y):.1f}" r="3" fill="{colour}"/>' for x, y in line]
        legend = _TOP + 14 + number * 20
        parts.append(f'<rect x="{_WIDTH - _RIGHT + 14}" y="{legend - 9}" width="12" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{_WIDTH - _RIGHT + 32}" y="{legend}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def ratio_chart(ratios: dict[str, float], *, reference: str = "Kafka") -> str:
    """An SVG with one bar a ratio, from the line of 1 to the left or right, on a logarithmic scale; "" for none."""
    positive = {name: ratio for name, ratio in ratios.items() if ratio > 0}
    if not positive:
        return ""
    reach = max(1.0, *(abs(math.log2(ratio)) for ratio in positive.values()))
    width, left, row = 320.0, 360.0, 20
    middle = left + width / 2
    height = row * len(positive) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 80:.0f}" height="{height}" '
        f'font-family="sans-serif" font-size="12">',
        f'<text x="{middle}" y="14" text-anchor="middle">1 = {escape(reference)}</text>',
        f'<line x1="{middle}" y1="20" x2="{middle}" y2="{height}" stroke="#888"/>',
    ]
    for number, (name, ratio) in enumerate(positive.items()):
        end = middle + math.log2(ratio) / reach * width / 2
        top = 24 + number * row
        begin, length = min(middle, end), max(abs(end - middle), 1)
        parts += [
            f'<text x="{left - 8}" y="{top + 11}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{begin:.1f}" y="{top}" width="{length:.1f}" height="14" fill="{_COLOURS[0]}"/>',
            f'<text x="{max(middle, end) + 6:.1f}" y="{top + 11}">{ratio:.2f}</text>',
        ]
    return "\n".join([*parts, "</svg>"])


def bar_chart(groups: dict[str, dict[str, float]], unit: str) -> str:
    """An SVG with a group of bars a row, one bar a series, all on one scale from 0; "" for none."""
    series = list(dict.fromkeys(name for values in groups.values() for name in values))
    most = max((value for values in groups.values() for value in values.values()), default=0)
    if most <= 0:
        return ""
    width, left, bar = 320.0, 360.0, 14
    tall = sum(bar * len(values) + 10 for values in groups.values()) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 120:.0f}" height="{tall}" '
        f'font-family="sans-serif" font-size="12">'
    ]
    at = left
    for number, name in enumerate(series):
        parts += [
            f'<rect x="{at:.0f}" y="5" width="12" height="10" fill="{_COLOURS[number % len(_COLOURS)]}"/>',
            f'<text x="{at + 18:.0f}" y="14">{escape(name)}</text>',
        ]
        at += 30 + 7 * len(name)
    top = 26
    for group, values in groups.items():
        parts.append(f'<text x="{left - 8}" y="{top + 12}" text-anchor="end">{escape(group)}, {escape(unit)}</text>')
        for name, value in values.items():
            colour = _COLOURS[series.index(name) % len(_COLOURS)]
            length = max(value / most * width, 1)
            parts += [
                f'<rect x="{left}" y="{top}" width="{length:.1f}" height="{bar - 2}" fill="{colour}"/>',
                f'<text x="{left + length + 6:.1f}" y="{top + 10}">{figure(value)}</text>',
            ]
            top += bar
        top += 10
    return "\n".join([*parts, "</svg>"])


_PANEL_WIDTH, _PANEL_HEIGHT, _PANEL_LEFT = 420, 150, 60


def panels_chart(
    title: str, x_label: str, panels: dict[str, list[tuple[float, float]]], lines: dict[str, list[tuple[float, float]]]
) -> str:
    """An SVG with a small chart for each figure, two a row, on linear axes from 0; `lines` (trends) dashed over it."""
    height = 40 + _PANEL_HEIGHT * -(-len(panels) // 2) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * _PANEL_WIDTH} {height}" font-family="sans-serif" '
        f'font-size="11"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="20" font-size="15">{escape(title)}</text>',
        f'<text x="{_PANEL_WIDTH}" y="{height - 6}" text-anchor="middle">{escape(x_label)}</text>',
    ]
    for number, (name, points) in enumerate(panels.items()):
        left, top = number % 2 * _PANEL_WIDTH + _PANEL_LEFT, 48 + number // 2 * _PANEL_HEIGHT
        parts += _panel(name, points, lines.get(name, []), left, top)
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    name: str, points: list[tuple[float, float]], line: list[tuple[float, float]], left: int, top: int
) -> list[str]:
    width, height = _PANEL_WIDTH - _PANEL_LEFT - 20, _PANEL_HEIGHT - 50
    x_high = max((x for x, _ in points), default=0) or 1.0
    y_high = max((y for _, y in points + line), default=0) * 1.1 or 1.0

    def path(values: list[tuple[float, float]]) -> str:
        return " ".join(f"{left + x / x_high * width:.1f},{top + height - y / y_high * height:.1f}" for x, y in values)

    parts = [f'<text x="{left}" y="{top - 6}">{escape(name)}</text>']
    for share in (0.0, 0.5, 1.0):
        x, y = left + width * share, top + height * (1 - share)
        parts += [
            f'<line x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}" stroke="#ddd"/>',
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{y_high * share:,.4g}</text>',
            f'<text x="{x:.1f}" y="{top + height + 14}" text-anchor="middle">{x_high * share:,.4g}</text>',
        ]
    parts.append(f'<polyline points="{path(points)}" fill="none" stroke="{_COLOURS[0]}"/>')
    if line:
        parts.append(f'<polyline points="{path(line)}" fill="none" stroke="{_COLOURS[2]}" stroke-dasharray="5 3"/>')
    return parts


def replace_section(document: Path, heading: str, text: str) -> None:
    """Put `text` under `## heading` of a Markdown file, in place of what stood there; makes the file if needed."""
    document.parent.mkdir(exist_ok=True)
    content = document.read_text() if document.exists() else "# Performance\n\nWhat the benchmarks measured.\n"
    section = f"## {heading}\n\n{text.strip()}\n"
    pattern = re.compile(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    if pattern.search(content):
        content = pattern.sub(lambda _: section + "\n", content, count=1)
    else:
        content = content.rstrip() + "\n\n" + section
    document.write_text(content.rstrip() + "\n")
