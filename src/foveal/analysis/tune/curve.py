"""Cost against far grounding of all that was tried, with the frontier as a line. Up and to the left is better."""

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor

import msgspec

from foveal.analysis.tune.tuning import Tried, Tuning
from foveal.text.display import visible

_WIDTH, _HEIGHT = 720, 420
_LEFT, _TOP, _RIGHT, _BOTTOM = 56, 40, 200, 48
_STEPS = 20  # in 1: an axis goes from one whole twentieth to another
_CHARS = 60  # of a name in the heading
_LEGEND = (
    "right: cost, whole history = 1; up: far grounding; orange: the default; ringed: recommended; line: the frontier"
)
_STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #444 } .title { font-weight: 600; font-size: 14px; fill: #222 }
.grid { stroke: #ddd } .front { fill: none; stroke: #0b7285; stroke-width: 1.5 } .on { fill: #0b7285 } .off { fill: #8a8f98 }
.out { fill: none; stroke: #8a8f98 }
.default { fill: #e8590c } .ring { fill: none; stroke: #2b8a3e; stroke-width: 2 } .whisker { stroke: #8a8f98; opacity: .6 }
.name { font-size: 10px } @media (prefers-color-scheme: dark) { text { fill: #bbb } .title { fill: #eee } .grid { stroke: #333 } }
</style>"""


class _Axis(msgspec.Struct, frozen=True):
    """From `low` at pixel `start` to `high` at pixel `end`."""

    low: float
    high: float
    start: int
    end: int

    def at(self, value: float) -> float:
        return round(self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low), 1)

    def ticks(self) -> Iterator[float]:
        yield from (step / _STEPS for step in range(round(self.low * _STEPS), round(self.high * _STEPS) + 1))


def curve(tuning: Tuning) -> str:
    """An SVG that stands alone. Whiskers are 95 % of the draws of sessions, for the default and the recommended."""
    x = _axis([tried.point.cost for tried in tuning.tried], _LEFT, _LEFT + _WIDTH)
    y = _axis([tried.point.grounding for tried in tuning.tried], _TOP + _HEIGHT, _TOP)
    heading = f"{tuning.budget:,} tokens a call, {len(tuning.sessions):,} sessions, prices of {tuning.prices[:_CHARS]}"
    front = sorted((tried for tried in tuning.tried if tried.is_frontier), key=lambda tried: tried.point.cost)
    line = " ".join(f"{x.at(tried.point.cost)},{y.at(tried.point.grounding)}" for tried in front)
    parts = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + _RIGHT} {_TOP + _HEIGHT + _BOTTOM}" '
        'role="img" aria-label="Cost against far grounding">',
        _STYLE,
        f'<text class="title" x="{_LEFT}" y="20">{escape(visible(heading))}</text>',
        *_frame(x, y),
        f'<polyline class="front" points="{line}"/>',
        *(part for tried in (tuning.default, tuning.recommended) for part in _whiskers(tried, x, y)),
        *(part for tried in tuning.tried for part in _mark(tuning, tried, (x, y))),
        "</svg>\n",
    )
    return "\n".join(parts)


def _axis(values: Sequence[float], start: int, end: int) -> _Axis:
    """Around all values."""
    low, high = floor(min(values) * _STEPS), ceil(max(values) * _STEPS)
    return _Axis(low / _STEPS, max(high, low + 1) / _STEPS, start, end)


def _frame(x: _Axis, y: _Axis) -> Iterator[str]:
    for value in y.ticks():
        yield f'<line class="grid" x1="{x.start}" x2="{x.end}" y1="{y.at(value)}" y2="{y.at(value)}"/>'
        yield f'<text x="{x.start - 38}" y="{y.at(value) + 4}">{value:.2f}</text>'
    for value in x.ticks():
        yield f'<text x="{x.at(value) - 12}" y="{y.start + 18}">{value:.2f}</text>'
    yield f'<text x="{x.start}" y="{y.start + 38}">{_LEGEND}</text>'


def _whiskers(tried: Tried, x: _Axis, y: _Axis) -> Iterator[str]:
    at, up = x.at(tried.point.cost), y.at(tried.point.grounding)
    cost, grounding = tried.cost_interval, tried.grounding_interval
    left, right = x.at(max(x.low, cost.low)), x.at(min(x.high, cost.high))
    low, high = y.at(max(y.low, grounding.low)), y.at(min(y.high, grounding.high))
    yield f'<line class="whisker" x1="{left}" x2="{right}" y1="{up}" y2="{up}"/>'
    yield f'<line class="whisker" x1="{at}" x2="{at}" y1="{low}" y2="{high}"/>'


def _mark(tuning: Tuning, tried: Tried, axes: tuple[_Axis, _Axis]) -> Iterator[str]:
    x, y = axes
    at, up, name = x.at(tried.point.cost), y.at(tried.point.grounding), escape(tried.variant.name)
    kind = "default" if tried == tuning.default else "on" if tried.is_frontier else "off" if tried.is_sound else "out"
    said = f"{name}: cost {tried.point.cost:.3f}, far grounding {tried.point.grounding:.3f}"
    if tried == tuning.recommended:
        yield f'<circle class="ring" cx="{at}" cy="{up}" r="8"/>'
    yield f'<circle class="{kind}" cx="{at}" cy="{up}" r="4"><title>{said}</title></circle>'
    if tried.is_frontier or tried in (tuning.default, tuning.recommended):  # all names would lie on each other
        yield f'<text class="name" x="{at + 9}" y="{up + 3}">{name}</text>'
