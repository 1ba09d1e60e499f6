"""Cost against far grounding as a picture. Up and to the left is better.

The first panel follows each policy from the smallest budget to the largest; then comes one panel a budget, with names.
"""

from collections.abc import Iterator, Sequence
from html import escape

import msgspec

from foveal.bench.pooling import MAIN_PRICES, Row
from foveal.bench.tables import ALL

_WIDTH, _HEIGHT = 430, 300
_LEFT, _TOP, _RIGHT, _BOTTOM = 44, 34, 24, 44
_OWN, _LIMIT = "foveal", "oracle"
_LEAST_CURVE = 3
"""Budgets that make a curve."""

_MOST_COST = 1.2
_COLUMNS = 2
_NAME_WIDTH, _NAME_HEIGHT = 5, 10
"""Of a letter and a line."""

_STYLE = """<style>
text { font: 11px system-ui, sans-serif; fill: #444 } .title { font-weight: 600; font-size: 13px; fill: #222 }
.name { font-size: 9px } .grid { stroke: #ddd } .whisker { stroke: #0b7285; opacity: .5 }
.other { fill: #8a8f98; stroke: #8a8f98 } .own { fill: #0b7285; stroke: #0b7285 } .limit { fill: #e8590c; stroke: #e8590c }
circle.broken { fill: none } path { stroke-width: 1.5 } path.other, path.own, path.limit { fill: none }
@media (prefers-color-scheme: dark) { text { fill: #bbb } .title { fill: #eee } .grid { stroke: #333 } }
</style>"""


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
    panels = [
        list(_panel([row for row in shown if row.budget == budget], f"{budget:,} tokens a call")) for budget in budgets
    ]
    if len(budgets) >= _LEAST_CURVE:
        panels.insert(0, list(_curves(shown, budgets)))
    wide, high = _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + _BOTTOM
    placed = (
        f'<g transform="translate({place % _COLUMNS * wide},{place // _COLUMNS * high})">\n'
        + "\n".join(panel)
        + "\n</g>"
        for place, panel in enumerate(panels)
    )
    rows_of_panels = -(-len(panels) // _COLUMNS)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide * min(_COLUMNS, len(panels))} '
            f'{high * rows_of_panels}" role="img" '
            f'aria-label="Cost against far grounding, {escape(group)}">',
            _STYLE,
            *placed,
            "</svg>\n",
        )
    )


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


def _panel(rows: Sequence[Row], title: str) -> Iterator[str]:
    scale, names = _scale(rows), list[tuple[float, float, float]]()
    yield from _axes(scale, title)
    for row in sorted(rows, key=lambda row: -row.grounding):
        x, y = scale.at(row)
        if row.policy == _OWN:
            low, high = scale.y(row.grounding_interval.low), scale.y(row.grounding_interval.high)
            yield f'<line class="whisker" x1="{x}" x2="{x}" y1="{low}" y2="{high}"/>'
        yield _dot(row, (x, y))
        cost = row.cost[MAIN_PRICES]
        yield from _name(row.policy if cost <= scale.most else f"{row.policy} ({cost:.1f}) →", (x, y), names)


def _name(text: str, at: tuple[float, float], placed: list[tuple[float, float, float]]) -> Iterator[str]:
    """A name beside its mark, below the names that are there already; to the left of it where the panel ends."""
    wide = len(text) * _NAME_WIDTH
    x = at[0] + 7 if at[0] + wide < _LEFT + _WIDTH else at[0] - 7 - wide
    y = at[1] + 3
    while any(x < right and x + wide > left and abs(y - line) < _NAME_HEIGHT for left, right, line in placed):
        y += 1
    placed.append((x, x + wide, y))
    yield f'<text class="name" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _curves(rows: Sequence[Row], budgets: Sequence[int]) -> Iterator[str]:
    scale = _scale(rows)
    yield from _axes(scale, f"from {budgets[0]:,} to {budgets[-1]:,} tokens a call")
    for policy in dict.fromkeys(row.policy for row in rows):
        of_policy = sorted((row for row in rows if row.policy == policy), key=lambda row: row.budget)
        if len(of_policy) < _LEAST_CURVE:
            continue
        points = [scale.at(row) for row in of_policy]
        yield f'<path class="{_kind(policy)}" d="M{"L".join(f"{x},{y}" for x, y in points)}"/>'
        yield from map(_dot, of_policy, points)
        if policy in (_OWN, _LIMIT):
            yield f'<text class="name" x="{points[0][0] + 6}" y="{points[0][1] + 3}">{escape(policy)}</text>'


def _dot(row: Row, at: tuple[float, float]) -> str:
    said = (
        f"{row.policy}, {row.budget:,}: cost {row.cost[MAIN_PRICES]:.3f}, far grounding {row.grounding:.3f}, "
        f"{row.figures.over:,} calls over budget"
    )
    kind, radius = f"{_kind(row.policy)}{' broken' * bool(row.figures.over)}", 5 if row.policy == _OWN else 3.5
    return f'<circle class="{kind}" cx="{at[0]}" cy="{at[1]}" r="{radius}"><title>{escape(said)}</title></circle>'


def _kind(policy: str) -> str:
    return "limit" if policy == _LIMIT else "own" if policy.startswith(_OWN) else "other"
