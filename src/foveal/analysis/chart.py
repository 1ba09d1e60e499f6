"""Charts as SVG: points on two axes, and steps along one. All of them share axes, labels and styles."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape
from math import ceil, cos, floor, log10, pi, sin
from typing import TypeAlias

import msgspec

STYLE = """
:root{color-scheme:light dark;--ink:#16202b;--soft:#5b6b7b;--line:#e3e6e8;--raw:#cfd6dc;--sent:#0b7d8a;--fresh:#e2725b;
--limit:#b26a00;--fold:#8a3ffc;--bad:#c62828;--other:#8a8f98}
@media(prefers-color-scheme:dark){:root{--ink:#e7ecf0;--soft:#93a1ae;--line:#2a343d;--raw:#3a4650;--sent:#35b8c6;
--fresh:#e58a76;--limit:#e0a84a;--fold:#be95ff;--bad:#ff7b72}}
text{font:11px system-ui,sans-serif;fill:var(--soft)}text.title{font-size:13px;font-weight:600;fill:var(--ink)}
text.end{text-anchor:end}text.middle{text-anchor:middle}text.name{font-size:9px;text-anchor:middle}
line.grid{stroke:var(--line)}line.lead{stroke:var(--other);stroke-width:.5}line.whisker{stroke:var(--other);opacity:.6}
path.raw{fill:var(--raw)}path.sent{fill:var(--sent)}path.fresh{fill:var(--fresh)}path.fold{fill:var(--fold)}
path.refused{stroke:var(--bad);stroke-width:2;fill:none}text.limit{fill:var(--limit);font-weight:600}
line.limit{stroke:var(--limit);stroke-width:1.5;stroke-dasharray:5 4}
.own{fill:var(--sent);stroke:var(--sent)}.best{fill:var(--limit);stroke:var(--limit)}.other{fill:var(--other);stroke:var(--other)}
circle.hollow{fill:none}circle.ring{fill:none;stroke:var(--fold);stroke-width:2}
path.line{fill:none;stroke-width:2}path.line.other{stroke-width:1;opacity:.6}
"""
"""The colours and styles of all charts. A page that holds charts includes it once; `document` includes it in the picture."""

_MOST_TICKS = 6
_LETTER, _LINE, _DOT = 5.4, 9, 4
"""The width of a letter, the height of a line, and the radius of a mark, in pixels."""
_REACH = (10, 15, 21, 28, 36, 46, 58, 72)
_DIRECTIONS = 16
"""How far from its mark, and in how many directions, a label looks for room."""

Point: TypeAlias = tuple[float, float]


class Axis(msgspec.Struct, frozen=True):
    """Maps the values from `low` to `high` to the pixels from `start` to `end`. Values outside are drawn at the edge."""

    low: float
    high: float
    start: int
    end: int
    step: float

    @classmethod
    def over(cls, low: float, high: float, start: int, end: int) -> "Axis":
        """Return an axis that holds both values, from one round number to another."""
        span = max(high - low, 1e-9)
        unit = 10.0 ** floor(log10(span / _MOST_TICKS))
        step = next(unit * factor for factor in (1, 2, 5, 10) if span / (unit * factor) <= _MOST_TICKS)
        first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
        return cls(first * step, max(last, first + 1) * step, start, end, step)

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(self.start + (self.end - self.start) * share, 1)

    def ticks(self) -> list[float]:
        """Return the values that are labelled."""
        return [self.low + i * self.step for i in range(round((self.high - self.low) / self.step) + 1)]


class Mark(msgspec.Struct, frozen=True):
    """A point of a scatter chart."""

    x: float
    y: float
    kind: str
    """Its style: `own`, `best` or `other`."""
    title: str
    """The text that a reader sees when pointing at it."""
    label: str = ""
    is_hollow: bool = False
    is_ringed: bool = False
    x_whisker: Point | None = None
    y_whisker: Point | None = None


def document(size: tuple[int, int], label: str, parts: Iterable[str]) -> str:
    """Return a picture of its own, with styles."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="{escape(label)}">'
    return "\n".join((head, f"<style>{STYLE}</style>", *parts, "</svg>\n"))


def horizontal_grid(x: Axis, y: Axis, text: Callable[[float], str]) -> Iterator[str]:
    """Yield a line and a label for each tick of the vertical axis."""
    for value in y.ticks():
        at = y.at(value)
        yield f'<line class="grid" x1="{x.start}" x2="{x.end}" y1="{at}" y2="{at}"/>'
        yield f'<text class="end" x="{x.start - 8}" y="{at + 4}">{text(value)}</text>'


def steps(values: Sequence[int], x: Axis, y: Axis) -> str:
    """Return the path of an area with one step for each value."""
    wide = (x.end - x.start) / max(1, len(values))
    tops = (f"V{y.at(value)}H{x.start + (i + 1) * wide:.1f}" for i, value in enumerate(values))
    return f"M{x.start},{y.start}{''.join(tops)}V{y.start}Z"


def scatter(
    marks: Sequence[Mark], axes: tuple[Axis, Axis], *, title: str, caption: str, lines: Sequence[Sequence[Mark]] = ()
) -> Iterator[str]:
    """Yield a chart of marks; `lines` connect some of them and have the style of their first mark."""
    x, y = axes
    yield f'<text class="title" x="{x.start}" y="{y.end - 16}">{escape(title)}</text>'
    yield from horizontal_grid(x, y, "{:.2f}".format)
    for value in x.ticks():
        yield f'<text class="middle" x="{x.at(value)}" y="{y.start + 16}">{value:.2f}</text>'
    yield f'<text x="{x.start}" y="{y.start + 34}">{escape(caption)}</text>'
    for line in lines:
        way = "L".join(f"{x.at(mark.x)},{y.at(mark.y)}" for mark in line)
        yield f'<path class="line {line[0].kind}" d="M{way}"/>'
    labels = _Labels(axes, marks)
    for mark in marks:
        yield from _drawn(mark, axes)
    for mark in marks:
        if mark.label:
            yield from labels.put(mark.label, (x.at(mark.x), y.at(mark.y)))


def _drawn(mark: Mark, axes: tuple[Axis, Axis]) -> Iterator[str]:
    x, y = axes
    at, up = x.at(mark.x), y.at(mark.y)
    if mark.x_whisker:
        left, right = map(x.at, mark.x_whisker)
        yield f'<line class="whisker" x1="{left}" x2="{right}" y1="{up}" y2="{up}"/>'
    if mark.y_whisker:
        low, high = map(y.at, mark.y_whisker)
        yield f'<line class="whisker" x1="{at}" x2="{at}" y1="{low}" y2="{high}"/>'
    if mark.is_ringed:
        yield f'<circle class="ring" cx="{at}" cy="{up}" r="{2 * _DOT}"/>'
    style = f"{mark.kind}{' hollow' * mark.is_hollow}"
    yield f'<circle class="{style}" cx="{at}" cy="{up}" r="{_DOT}"><title>{escape(mark.title)}</title></circle>'


class _Labels:
    """Finds room for labels: on no mark, on no other label, and inside the chart."""

    def __init__(self, axes: tuple[Axis, Axis], marks: Iterable[Mark]) -> None:
        x, y = self._axes = axes
        places = ((x.at(mark.x), y.at(mark.y), _DOT * (1 + mark.is_ringed)) for mark in marks)
        self._taken = [(at - r, up - r, at + r, up + r) for at, up, r in places]

    def put(self, text: str, at: Point) -> Iterator[str]:
        """Yield the label beside its mark, or farther off with a line to the mark; on others, where no room is left."""
        half = len(text) * _LETTER / 2
        free = (place for place in _around(at, half) if self._is_free(_box(place, half)))
        x, y = place = next(free, (at[0] + _REACH[0] + half, at[1]))
        self._taken.append(_box(place, half))
        if abs(y - at[1]) > _REACH[0] or abs(x - at[0]) > _REACH[0] + half:
            yield f'<line class="lead" x1="{at[0]}" y1="{at[1]}" x2="{x:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="name" x="{x:.1f}" y="{y + 3:.1f}">{escape(text)}</text>'

    def _is_free(self, box: tuple[float, float, float, float]) -> bool:
        x, y = self._axes
        left, top, right, bottom = box
        is_inside = left >= 0 and right <= x.end + _REACH[-1] and top >= y.end - _LINE and bottom <= y.start
        return is_inside and not any(a < right and left < c and b < bottom and top < d for a, b, c, d in self._taken)


def _box(middle: Point, half: float) -> tuple[float, float, float, float]:
    x, y = middle
    return x - half, y - _LINE / 2, x + half, y + _LINE / 2


def _around(at: Point, half: float) -> Iterator[Point]:
    """Yield places near a mark, nearest first, to the right first."""
    for reach in _REACH:
        for way in range(_DIRECTIONS):
            angle = 2 * pi * way / _DIRECTIONS
            yield at[0] + (reach + half - _LETTER) * cos(angle), at[1] + reach * sin(angle)
