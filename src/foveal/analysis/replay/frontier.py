"""Cost against far grounding as a picture. Up and to the left is better.

The first panel follows each policy from the smallest budget to the largest; then comes one panel a budget. Policies lie close
together, so that they are numbered, the same in all panels, and named below.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from math import cos, pi, sin
from typing import TypeAlias

import msgspec

from foveal.analysis.replay.pooling import MAIN_PRICES, Row
from foveal.analysis.replay.tables import ALL

_WIDTH, _HEIGHT = 430, 300
_LEFT, _TOP, _RIGHT, _BOTTOM = 44, 34, 24, 44
_OWN, _LIMIT = "foveal", "oracle"
_LEAST_CURVE = 3
"""Budgets that make a curve."""

_MOST_COST = 1.2
_COLUMNS = 2
_LETTER, _LINE = 5.4, 9
"""How wide a letter and how high a line of a label is."""
_DOT = 4
_REACH = (10, 15, 21, 28, 36, 46, 58, 72)
_WAYS = 16
"""How far from its mark, and in how many directions, a label looks for room."""
_KEY_COLUMNS, _KEY_LINE = 3, 17

_STYLE = """<style>
text { font: 11px system-ui, sans-serif; fill: #444 } .title { font-weight: 600; font-size: 13px; fill: #222 }
.name { font-size: 9px; text-anchor: middle } .grid { stroke: #ddd } .whisker { stroke: #0b7285; opacity: .5 }
.lead { stroke: #8a8f98; stroke-width: .5 }
.other { fill: #8a8f98; stroke: #8a8f98 } .own { fill: #0b7285; stroke: #0b7285 } .limit { fill: #e8590c; stroke: #e8590c }
circle.broken { fill: none } path { stroke-width: 2 } path.other { stroke-width: 1; opacity: .6 }
path.other, path.own, path.limit { fill: none }
@media (prefers-color-scheme: dark) { text { fill: #bbb } .title { fill: #eee } .grid { stroke: #333 } }
</style>"""


_Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right and bottom."""


class _Scale(msgspec.Struct, frozen=True):
    """Where costs from nothing to `most` and grounding from `least` to 1 stand in a panel."""

    most: float
    least: float

    def x(self, cost: float) -> float:
        """What costs more stands at the edge."""
        return round(_LEFT + _WIDTH * min(cost, self.most) / self.most, 1)

    def y(self, grounding: float) -> float:
        return round(_TOP + _HEIGHT * (1 - grounding) / (1 - self.least), 1)

    def at(self, row: Row) -> tuple[float, float]:
        return self.x(row.cost[MAIN_PRICES]), self.y(row.grounding)


def frontier(rows: Sequence[Row], group: str = ALL) -> str:
    """An SVG that stands alone. Policies that went over the budget are drawn hollow."""
    shown = [row for row in rows if row.group == group and row.policy != "full history"]
    budgets = sorted({row.budget for row in shown})
    names = _names(shown)
    panels = [
        list(_panel([row for row in shown if row.budget == budget], f"{budget:,} tokens a call", names))
        for budget in budgets
    ]
    if len(budgets) >= _LEAST_CURVE:
        panels.insert(0, list(_curves(shown, budgets, names)))
    columns = min(_COLUMNS, len(panels))
    wide, high = _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + _BOTTOM
    floor = high * -(-len(panels) // _COLUMNS)
    placed = (_group(place % _COLUMNS * wide, place // _COLUMNS * high, panel) for place, panel in enumerate(panels))
    key = list(_key(names, wide * columns))
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide * columns} '
            f'{floor + _KEY_LINE * (-(-len(names) // _KEY_COLUMNS) + 1)}" role="img" '
            f'aria-label="Cost against far grounding, {escape(group)}">',
            _STYLE,
            *placed,
            _group(0, floor, key),
            "</svg>\n",
        )
    )


def _group(x: int, y: int, lines: Sequence[str]) -> str:
    return "\n".join((f'<g transform="translate({x},{y})">', *lines, "</g>"))


def _names(rows: Sequence[Row]) -> dict[str, str]:
    """What each policy is called in the panels: the two that everything is compared with by name, the others by number."""
    policies = list(dict.fromkeys(row.policy for row in rows))
    numbered = [policy for policy in policies if policy not in (_OWN, _LIMIT)]
    return {
        **{policy: policy for policy in policies if policy not in numbered},
        **{policy: str(number) for number, policy in enumerate(numbered, 1)},
    }


def _key(names: Mapping[str, str], wide: int) -> Iterator[str]:
    """Which number is which policy, column by column."""
    deep = -(-len(names) // _KEY_COLUMNS)
    for place, (policy, name) in enumerate(names.items()):
        x = _LEFT + place // deep * (wide - _LEFT) // _KEY_COLUMNS
        y = _KEY_LINE * (place % deep + 1)
        said = policy if name == policy else f"{name}  {policy}"
        yield f'<circle class="{_kind(policy)}" cx="{x}" cy="{y - 4}" r="{_DOT}"/>'
        yield f'<text x="{x + 10}" y="{y}">{escape(said)}</text>'


def _scale(rows: Sequence[Row]) -> _Scale:
    least = min((0.9, *(row.grounding for row in rows)))
    return _Scale(min(_MOST_COST, max((1.0, *(row.cost[MAIN_PRICES] for row in rows)))), int(least * 10) / 10)


def _axes(scale: _Scale, title: str) -> Iterator[str]:
    yield f'<text class="title" x="{_LEFT}" y="18">{escape(title)}</text>'
    for step in range(round((1 - scale.least) * 10) + 1):
        at = scale.y(scale.least + step / 10)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{at}" y2="{at}"/>'
        yield f'<text x="{_LEFT - 24}" y="{at + 4}">{scale.least + step / 10:.1f}</text>'
    for step in range(int(scale.most * 5) + 1):
        yield f'<text x="{scale.x(step / 5) - 8}" y="{_TOP + _HEIGHT + 16}">{step / 5:.1f}</text>'
    yield f'<text x="{_LEFT}" y="{_TOP + _HEIGHT + 34}">across: cost, whole history = 1 ({MAIN_PRICES}); up: far grounding</text>'


def _panel(rows: Sequence[Row], title: str, names: Mapping[str, str]) -> Iterator[str]:
    scale = _scale(rows)
    labels = _Labels(map(scale.at, rows))
    yield from _axes(scale, title)
    for row in sorted(rows, key=lambda row: (row.policy != _OWN, -row.grounding)):
        x, y = scale.at(row)
        if row.policy == _OWN:
            low, high = scale.y(row.grounding_interval.low), scale.y(row.grounding_interval.high)
            yield f'<line class="whisker" x1="{x}" x2="{x}" y1="{low}" y2="{high}"/>'
        yield _dot(row, (x, y))
        cost, name = row.cost[MAIN_PRICES], names[row.policy]
        yield from labels.put(name if cost <= scale.most else f"{name} ({cost:.1f}) →", (x, y))


class _Labels:
    """Where there is room for a label: on no mark, on no other label, and inside the panel."""

    def __init__(self, marks: Iterable[tuple[float, float]]) -> None:
        self._taken = [(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in marks]

    def put(self, text: str, at: tuple[float, float]) -> Iterator[str]:
        """Beside its mark; a thin line leads to it from further off. Where there is no room at all it lies on others."""
        half = len(text) * _LETTER / 2
        free = (place for place in _around(at, half) if self._is_free(_box(place, half)))
        x, y = place = next(free, (at[0] + _REACH[0] + half, at[1]))
        self._taken.append(_box(place, half))
        if abs(y - at[1]) > _REACH[0] or abs(x - at[0]) > _REACH[0] + half:
            yield f'<line class="lead" x1="{at[0]}" y1="{at[1]}" x2="{x:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="name" x="{x:.1f}" y="{y + 3:.1f}">{escape(text)}</text>'

    def _is_free(self, box: _Box) -> bool:
        left, top, right, bottom = box
        is_inside = left >= 0 and right <= _LEFT + _WIDTH + _RIGHT and top >= _TOP - _LINE and bottom <= _TOP + _HEIGHT
        return is_inside and not any(
            box[0] < right and left < box[2] and box[1] < bottom and top < box[3] for box in self._taken
        )


def _box(middle: tuple[float, float], half: float) -> _Box:
    x, y = middle
    return x - half, y - _LINE / 2, x + half, y + _LINE / 2


def _around(at: tuple[float, float], half: float) -> Iterator[tuple[float, float]]:
    """Places near a mark, nearest first, to the right first."""
    for reach in _REACH:
        for way in range(_WAYS):
            angle = 2 * pi * way / _WAYS
            yield at[0] + (reach + half - _LETTER) * cos(angle), at[1] + reach * sin(angle)


def _curves(rows: Sequence[Row], budgets: Sequence[int], names: Mapping[str, str]) -> Iterator[str]:
    scale = _scale(rows)
    yield from _axes(scale, f"from {budgets[0]:,} to {budgets[-1]:,} tokens a call")
    curves = {
        policy: sorted((row for row in rows if row.policy == policy), key=lambda row: row.budget) for policy in names
    }
    curves = {policy: curve for policy, curve in curves.items() if len(curve) >= _LEAST_CURVE}
    labels = _Labels(scale.at(row) for curve in curves.values() for row in curve)
    for policy, curve in sorted(curves.items(), key=lambda one: one[0] in (_OWN, _LIMIT)):
        points = [scale.at(row) for row in curve]
        yield f'<path class="{_kind(policy)}" d="M{"L".join(f"{x},{y}" for x, y in points)}"/>'
        yield from map(_dot, curve, points)
        yield from labels.put(names[policy], points[0])


def _dot(row: Row, at: tuple[float, float]) -> str:
    said = (
        f"{row.policy}, {row.budget:,}: cost {row.cost[MAIN_PRICES]:.3f}, far grounding {row.grounding:.3f}, "
        f"{row.figures.over:,} calls over budget"
    )
    kind, radius = f"{_kind(row.policy)}{' broken' * bool(row.figures.over)}", 5 if row.policy == _OWN else 3.5
    return f'<circle class="{kind}" cx="{at[0]}" cy="{at[1]}" r="{radius}"><title>{escape(said)}</title></circle>'


def _kind(policy: str) -> str:
    return "limit" if policy == _LIMIT else "own" if policy.startswith(_OWN) else "other"
