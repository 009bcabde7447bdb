"""Draws figures as an SVG, by hand: stacked bars of what each part takes, and curves over a size on a log scale."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

COLOURS = ("#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377", "#bbbbbb")
"""Paul Tol's "bright" scheme, which people who see fewer colours can tell apart."""
WIDTH, HEIGHT, MARGIN, LEGEND = 560, 260, 60, 150


class Bars(NamedTuple):
    """What each part takes, one bar a load. rows: title of the bar -> part -> value."""

    title: str
    unit: str
    rows: Mapping[str, Mapping[str, float]]


class Curves(NamedTuple):
    """A value over a size. lines: name -> points (size, value)."""

    title: str
    unit: str
    over: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


def write(path: Path, panels: Sequence[Bars | Curves]) -> None:
    """Write the panels below each other."""
    parts = [
        f'<g transform="translate(0,{number * (HEIGHT + MARGIN)})">{"".join(_panel(panel))}</g>'
        for number, panel in enumerate(panels)
    ]
    width, height = WIDTH + MARGIN + LEGEND, len(panels) * (HEIGHT + MARGIN)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif"'
    whole = f'{head} font-size="11"><rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'
    path.write_text(whole)


def _panel(panel: Bars | Curves) -> Iterator[str]:
    yield _text(MARGIN, 18, f"{panel.title} ({panel.unit})", size=13)
    yield from _bars(panel) if isinstance(panel, Bars) else _curves(panel)


def _bars(panel: Bars) -> Iterator[str]:
    parts = list(dict.fromkeys(part for row in panel.rows.values() for part in row))
    top = max((sum(row.values()) for row in panel.rows.values()), default=0.0)
    yield from _grid(top)
    slot = (WIDTH - MARGIN) / max(1, len(panel.rows))
    for number, (title, row) in enumerate(panel.rows.items()):
        left, below = MARGIN + number * slot + slot * 0.15, 0.0
        for part in parts:
            value = row.get(part, 0.0)
            y, height = _y(below + value, top), _y(below, top) - _y(below + value, top)
            colour = COLOURS[parts.index(part) % len(COLOURS)]
            tip = f"<title>{escape(f'{title}, {part}: {value:.2f}')}</title>"
            box = f'x="{left:.1f}" y="{y:.1f}" width="{slot * 0.7:.1f}" height="{height:.1f}"'
            yield f'<rect {box} fill="{colour}">{tip}</rect>'
            below += value
        for line, words in enumerate(textwrap.wrap(title, max(8, int(slot / 5.5)))):
            yield _text(left + slot * 0.35, HEIGHT - 20 + 11 * line, words, anchor="middle", size=9)
    yield from _legend(parts)


def _curves(panel: Curves) -> Iterator[str]:
    points = [point for line in panel.lines.values() for point in line]
    top = max((value for _, value in points), default=0.0)
    sizes = sorted({size for size, _ in points})
    yield from _grid(top)

    def x(size: float) -> float:
        low, high = math.log10(max(1.0, sizes[0])), math.log10(max(1.0, sizes[-1]))
        share = (math.log10(max(1.0, size)) - low) / (high - low) if high > low else 0.5
        return MARGIN + 10 + share * (WIDTH - MARGIN - 30)

    for size in sizes:
        yield _text(x(size), HEIGHT - 18, f"{size:,.0f}", anchor="middle", size=9)
    yield _text(WIDTH, HEIGHT - 4, panel.over, anchor="end", size=9)
    for number, line in enumerate(panel.lines.values()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x(size):.1f},{_y(value, top):.1f}" for size, value in sorted(line))
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for size, value in line:
            tip = f"<title>{size:,.0f}: {value:.2f}</title>"
            yield f'<circle cx="{x(size):.1f}" cy="{_y(value, top):.1f}" r="3" fill="{colour}">{tip}</circle>'
    yield from _legend(list(panel.lines))


def _grid(top: float) -> Iterator[str]:
    for step in range(5):
        value = top * step / 4
        y = _y(value, top)
        yield f'<line x1="{MARGIN}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
        yield _text(MARGIN - 6, y + 4, f"{value:.3g}", anchor="end", size=9)


def _y(value: float, top: float) -> float:
    return HEIGHT - 34 - (value / top if top else 0.0) * (HEIGHT - 70)


def _legend(names: Sequence[str]) -> Iterator[str]:
    for number, name in enumerate(names):
        y = 40 + number * 16
        yield f'<rect x="{WIDTH + 12}" y="{y - 9}" width="10" height="10" fill="{COLOURS[number % len(COLOURS)]}"/>'
        yield _text(WIDTH + 28, y, name)


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 11) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'
