"""Drawings as SVG text: boxes, texts and arrows, nothing measured but by the number of characters.

A drawing has a light ground of its own, so that it reads the same on a dark page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape

INK, QUIET, LINE, GROUND, FILL, ACCENT = "#1f2933", "#5a6772", "#7b8794", "#fbfaf7", "#ffffff", "#b4541a"
FONT = "ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"
_CHARACTER = 6.6  # width of one at 12 px, near enough for labels


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle with its middle, and lines of text in it; the first is the name."""

    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]
    is_accent: bool = False
    is_plain: bool = False
    """Without a name: all lines are quiet."""

    def border(self, towards_x: float, towards_y: float) -> tuple[float, float]:
        """Where the line from the middle to that point leaves the box."""
        dx, dy = towards_x - self.x, towards_y - self.y
        if dx == dy == 0:
            return self.x, self.y
        scale = min(
            (self.width / 2 + 3) / abs(dx) if dx else math.inf,
            (self.height / 2 + 3) / abs(dy) if dy else math.inf,
        )
        return self.x + dx * scale, self.y + dy * scale


@dataclass(slots=True)
class Drawing:
    """What is drawn, in its order; `render` makes the text."""

    width: int
    height: int
    title: str
    parts: list[str] = field(default_factory=list)

    def box(self, box: Box) -> Box:
        """A rectangle with its text; returns it for arrows."""
        stroke = ACCENT if box.is_accent else LINE
        left, top = box.x - box.width / 2, box.y - box.height / 2
        self.parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="6" '
            f'fill="{FILL}" stroke="{stroke}" stroke-width="{1.6 if box.is_accent else 1}"/>'
        )
        first = box.y - (len(box.lines) - 1) * 7.5 + 4
        for number, text in enumerate(box.lines):
            is_name = number == 0 and not box.is_plain
            self.text(box.x, first + number * 15, text, bold=is_name, quiet=not is_name)
        return box

    def text(
        self, x: float, y: float, text: str, *, bold: bool = False, quiet: bool = False, anchor: str = "middle"
    ) -> None:
        """One line with its base at `y`."""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{12 if not quiet else 11}" '
            f'font-weight="{600 if bold else 400}" fill="{QUIET if quiet else INK}">{escape(text)}</text>'
        )

    def label(self, x: float, y: float, lines: tuple[str, ...]) -> None:
        """Quiet lines around a point, on the ground's colour so that no arrow runs through them."""
        if not lines:
            return
        width = max(map(len, lines)) * _CHARACTER * 0.92 + 6
        height = len(lines) * 13 + 2
        self.parts.append(
            f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{GROUND}"/>'
        )
        for number, text in enumerate(lines):
            self.text(x, y - (len(lines) - 1) * 6.5 + number * 13 + 4, text, quiet=True)

    def arrow(self, start: Box, end: Box, lines: tuple[str, ...] = (), *, bend: float = 0, at: float = 0.5) -> None:
        """From one box to another; `bend` is how far its middle lies to the right of the straight line, in pixels.

        The label stands at `at` of the way.
        """
        dx, dy = end.x - start.x, end.y - start.y
        length = math.hypot(dx, dy)
        middle_x = (start.x + end.x) / 2 - dy / length * bend * 2
        middle_y = (start.y + end.y) / 2 + dx / length * bend * 2
        x1, y1 = start.border(middle_x, middle_y)
        x2, y2 = end.border(middle_x, middle_y)
        self.parts.append(
            f'<path d="M{x1:.1f} {y1:.1f} Q{middle_x:.1f} {middle_y:.1f} {x2:.1f} {y2:.1f}" fill="none" '
            f'stroke="{LINE}" marker-end="url(#head)"/>'
        )
        rest = 1 - at
        self.label(
            rest * rest * x1 + 2 * rest * at * middle_x + at * at * x2,
            rest * rest * y1 + 2 * rest * at * middle_y + at * at * y2,
            lines,
        )

    def loop(self, box: Box, lines: tuple[str, ...], *, below: bool = False) -> None:
        """From a box back to itself, above it or below."""
        side = 1 if below else -1
        x, edge = box.x, box.y + side * box.height / 2
        self.parts.append(
            f'<path d="M{x - 18:.1f} {edge + side * 2:.1f} C{x - 30:.1f} {edge + side * 34:.1f} {x + 30:.1f} '
            f'{edge + side * 34:.1f} {x + 18:.1f} {edge + side * 4:.1f}" fill="none" stroke="{LINE}" '
            'marker-end="url(#head)"/>'
        )
        self.label(x, edge + side * (33 + 6.5 * (len(lines) - 1)), lines)

    def line(self, x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False, head: bool = False) -> None:
        """A straight line."""
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        marker = ' marker-end="url(#head)"' if head else ""
        self.parts.append(
            f'<path d="M{x1:.1f} {y1:.1f} L{x2:.1f} {y2:.1f}" fill="none" stroke="{LINE}"{dash}{marker}/>'
        )

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """A filled rectangle, by its upper left corner."""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}" '
            f'stroke="{FILL}" stroke-width="1"/>'
        )

    def render(self) -> str:
        """The whole as SVG."""
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" font-family="{FONT}" role="img">\n'
            f"<title>{escape(self.title)}</title>\n"
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            f'orient="auto-start-reverse"><path d="M0 0.8 L7.5 4 L0 7.2 Z" fill="{LINE}"/></marker></defs>\n'
            f'<rect width="{self.width}" height="{self.height}" rx="10" fill="{GROUND}"/>\n{body}\n</svg>\n'
        )
