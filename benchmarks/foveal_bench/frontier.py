"""Cost against far grounding as a picture. Up and to the left is better.

The first panel follows each policy from the smallest budget to the largest; then comes one panel a budget. Policies lie close
together, so that they are numbered, the same in all panels, and named below.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from foveal.analysis.chart import Axis, Mark, document, scatter
from foveal_bench.pooling import MAIN_PRICES, Row
from foveal_bench.tables import ALL

_WIDTH, _HEIGHT = 430, 300
_LEFT, _TOP, _RIGHT, _BOTTOM = 44, 34, 24, 44
_OWN, _LIMIT = "foveal", "oracle"
_LEAST_CURVE = 3
"""Budgets that make a curve."""

_MOST_COST = 1.2
"""Dearer policies are drawn at the edge."""
_COLUMNS = 2
_KEY_COLUMNS, _KEY_LINE = 3, 17
_CAPTION = f"across: cost, whole history = 1 ({MAIN_PRICES}); up: far grounding"


def frontier(rows: Sequence[Row], group: str = ALL) -> str:
    """Return the picture as an SVG document. Policies that went over the budget are drawn hollow."""
    shown = [row for row in rows if row.group == group and row.policy != "full history"]
    budgets = sorted({row.budget for row in shown})
    names = _names(shown)
    panels = [_budget_panel([row for row in shown if row.budget == budget], budget, names) for budget in budgets]
    if len(budgets) >= _LEAST_CURVE:
        panels.insert(0, _curves_panel(shown, budgets, names))
    columns = min(_COLUMNS, len(panels))
    wide, high = _LEFT + _WIDTH + _RIGHT, _TOP + _HEIGHT + _BOTTOM
    floor = high * -(-len(panels) // _COLUMNS)
    placed = (_group(place % _COLUMNS * wide, place // _COLUMNS * high, panel) for place, panel in enumerate(panels))
    size = wide * columns, floor + _KEY_LINE * (-(-len(names) // _KEY_COLUMNS) + 1)
    key = _group(0, floor, _key(names, wide * columns))
    return document(size, f"Cost against far grounding, {group}", (*placed, key))


def _group(x: int, y: int, lines: Iterable[str]) -> str:
    return "\n".join((f'<g transform="translate({x},{y})">', *lines, "</g>"))


def _names(rows: Sequence[Row]) -> dict[str, str]:
    """Return the label of each policy: its name for the two that everything is compared with, a number for the others."""
    policies = list(dict.fromkeys(row.policy for row in rows))
    numbered = [policy for policy in policies if policy not in (_OWN, _LIMIT)]
    return {
        **{policy: policy for policy in policies if policy not in numbered},
        **{policy: str(number) for number, policy in enumerate(numbered, 1)},
    }


def _key(names: Mapping[str, str], wide: int) -> Iterator[str]:
    """Yield the numbers with their policies, column by column."""
    deep = -(-len(names) // _KEY_COLUMNS)
    for place, (policy, name) in enumerate(names.items()):
        x = _LEFT + place // deep * (wide - _LEFT) // _KEY_COLUMNS
        y = _KEY_LINE * (place % deep + 1)
        text = policy if name == policy else f"{name}  {policy}"
        yield f'<circle class="{_kind(policy)}" cx="{x}" cy="{y - 4}" r="4"/>'
        yield f'<text x="{x + 10}" y="{y}">{escape(text)}</text>'


def _axes(rows: Sequence[Row]) -> tuple[Axis, Axis]:
    dearest = min(_MOST_COST, max((1.0, *(row.cost[MAIN_PRICES] for row in rows))))
    least = min((0.9, *(row.grounding for row in rows)))
    return Axis.over(0.0, dearest, _LEFT, _LEFT + _WIDTH), Axis.over(least, 1.0, _TOP + _HEIGHT, _TOP)


def _budget_panel(rows: Sequence[Row], budget: int, names: Mapping[str, str]) -> Iterator[str]:
    axes = _axes(rows)
    ordered = sorted(rows, key=lambda row: (row.policy != _OWN, -row.grounding))
    marks = [_mark(row, _label(row, names, axes[0].high)) for row in ordered]
    return scatter(marks, axes, title=f"{budget:,} tokens a call", caption=_CAPTION)


def _curves_panel(rows: Sequence[Row], budgets: Sequence[int], names: Mapping[str, str]) -> Iterator[str]:
    curves = [sorted((row for row in rows if row.policy == policy), key=lambda row: row.budget) for policy in names]
    curves = [curve for curve in curves if len(curve) >= _LEAST_CURVE]
    curves.sort(key=lambda curve: curve[0].policy in (_OWN, _LIMIT))
    lines = [[_mark(row, names[row.policy] if row is curve[0] else "") for row in curve] for curve in curves]
    title = f"from {budgets[0]:,} to {budgets[-1]:,} tokens a call"
    return scatter([mark for line in lines for mark in line], _axes(rows), title=title, caption=_CAPTION, lines=lines)


def _label(row: Row, names: Mapping[str, str], dearest: float) -> str:
    cost, name = row.cost[MAIN_PRICES], names[row.policy]
    return name if cost <= dearest else f"{name} ({cost:.1f}) →"


def _mark(row: Row, label: str) -> Mark:
    interval = row.grounding_interval
    return Mark(
        row.cost[MAIN_PRICES],
        row.grounding,
        _kind(row.policy),
        f"{row.policy}, {row.budget:,}: cost {row.cost[MAIN_PRICES]:.3f}, far grounding {row.grounding:.3f}, "
        f"{row.figures.over:,} calls over budget",
        label,
        is_hollow=row.figures.over > 0,
        y_whisker=(interval.low, interval.high) if row.policy == _OWN else None,
    )


def _kind(policy: str) -> str:
    return "best" if policy == _LIMIT else "own" if policy.startswith(_OWN) else "other"
