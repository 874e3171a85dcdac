"""Plots for the report: plain HTML and SVG, no scripts, of a size that a phone shows as it is. All text is escaped."""

from __future__ import annotations

import math
from html import escape
from typing import NamedTuple

WIDTH, HEIGHT, LEFT, BOTTOM = 360, 220, 52, 24
COLOURS = ("#3b6fd6", "#c2571a", "#2e8b57", "#9b4dca", "#b8860b", "#d0417e", "#008b9a", "#777777", "#6b8e23", "#8b4513")
DASHES = ("", "6 3", "2 3")
NOTHING = "<p class=none>Nothing was measured.</p>"


class PlotLine(NamedTuple):
    """One line of a plot: its name, its values from left to right, and the figure beside its name."""

    name: str
    values: list[float]
    label: str


def bars(drawn: list[tuple[str, float, str]]) -> str:
    """Bars with their names and figures."""
    if not drawn:
        return NOTHING
    most = max(value for _, value, _ in drawn) or 1
    rows = [
        f"<div>{escape(name)}</div><div class=bar><i style='width:{max(value / most * 100, 0.5):.1f}%;"
        f"background:{COLOURS[number % len(COLOURS)]}66'></i><small>{escape(label)}</small></div>"
        for number, (name, value, label) in enumerate(drawn)
    ]
    return f"<div class=bars>{''.join(rows)}</div>"


def lines(drawn: list[PlotLine]) -> str:
    """Lines over fifths, on a logarithmic scale, with a legend that can be read."""
    scale = _Scale([value for line in drawn for value in line.values])
    body = [*scale.grid(), *(_line(line, number, scale) for number, line in enumerate(drawn))]
    legend = "".join(
        f"<li><svg viewBox='0 0 24 8' style='width:1.5rem'><path d='M0 4H24' {_pen(number)} /></svg> "
        f"{escape(line.name)}: {escape(line.label)}</li>"
        for number, line in enumerate(drawn)
    )
    return f"<div class=plot><svg viewBox='0 0 {WIDTH} {HEIGHT}' role=img>{''.join(body)}</svg><ul>{legend}</ul></div>"


class _Scale:
    """Bytes to heights: powers of ten from below the least to above the greatest."""

    def __init__(self, values: list[float]) -> None:
        self.low = math.floor(math.log10(max(min(values), 1)))
        self.high = max(math.ceil(math.log10(max(*values, 1))), self.low + 1)

    def y(self, value: float) -> float:
        share = (math.log10(max(value, 1)) - self.low) / (self.high - self.low)
        return (HEIGHT - BOTTOM) * (1 - share) + 8 * share

    def grid(self) -> list[str]:
        powers = range(self.low, self.high + 1)
        marks = [
            f"<path d='M{LEFT} {self.y(10**power):.1f}H{WIDTH}' stroke=currentColor opacity=.2 />"
            for power in powers
        ]  # fmt: skip
        names = [_text(LEFT - 6, self.y(10**power) + 4, "end", _bytes(power)) for power in powers]
        return [*marks, *names, *(_text(x(fifth), HEIGHT - 6, "middle", f"{fifth + 1}/5") for fifth in range(5))]


def _text(at: float, height: float, anchor: str, label: str) -> str:
    where = f"x={at:.1f} y={height:.1f} text-anchor={anchor}"
    return f"<text {where} font-size=11 fill=currentColor>{escape(label)}</text>"


def x(number: int) -> float:
    """Where the fifths stand."""
    return LEFT + 20 + number * (WIDTH - LEFT - 40) / 4


def _line(line: PlotLine, number: int, scale: _Scale) -> str:
    points = " ".join(f"{x(at):.1f},{scale.y(value):.1f}" for at, value in enumerate(line.values))
    return f"<polyline points='{points}' {_pen(number)} />"


def _pen(number: int) -> str:
    colour, dashes = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
    return f"fill=none stroke='{colour}' stroke-width=2 stroke-dasharray='{dashes}'"


def _bytes(power: int) -> str:
    unit, rest = divmod(power, 3)
    return f"{10**rest} {('B', 'kB', 'MB', 'GB', 'TB')[min(unit, 4)]}"
