"""Cost against far grounding as charts. Up and to the left is better.

The first chart follows each policy from the smallest budget to the largest; then comes one chart a budget. Policies lie close
together, so that they are numbered, the same in all charts, and named in a table.
"""

from collections.abc import Mapping, Sequence

from foveal.analysis.chart import Mark, ScatterChart
from foveal.viewer.document import PageReport, PageTable
from foveal_bench.pooling import MAIN_PRICES, Row
from foveal_bench.tables import ALL

_OWN, _LIMIT = "foveal", "oracle"
_LEAST_CURVE = 3
"""Budgets that make a curve."""

_MOST_COST = 1.2
"""Dearer policies are drawn at the edge."""
_ACROSS, _UP = f"cost, whole history = 1 ({MAIN_PRICES})", "far grounding; hollow: went over the budget"
_HEADS = ("policy", "in the charts", "tokens a call", "cost", "far grounding", "calls over budget")


def frontier(rows: Sequence[Row], group: str = ALL) -> PageReport:
    """Return the charts, and a table with the figures of all their points."""
    shown = [row for row in rows if row.group == group and row.policy != "full history"]
    budgets = sorted({row.budget for row in shown})
    names = _names(shown)
    charts = [_budget_chart([row for row in shown if row.budget == budget], budget, names) for budget in budgets]
    if len(budgets) >= _LEAST_CURVE:
        charts.insert(0, _curves_chart(shown, budgets, names))
    cells = tuple(
        (
            row.policy,
            names[row.policy],
            f"{row.budget:,}",
            f"{row.cost[MAIN_PRICES]:.3f}",
            f"{row.grounding:.3f}",
            f"{row.figures.over:,}",
        )
        for row in shown
    )
    table = PageTable("Every policy at every budget", _HEADS, cells)
    return PageReport(f"Cost against far grounding, {group}", charts=tuple(charts), tables=(table,))


def _names(rows: Sequence[Row]) -> dict[str, str]:
    """Return the label of each policy: its name for the two that everything is compared with, a number for the others."""
    policies = list(dict.fromkeys(row.policy for row in rows))
    numbered = [policy for policy in policies if policy not in (_OWN, _LIMIT)]
    return {
        **{policy: policy for policy in policies if policy not in numbered},
        **{policy: str(number) for number, policy in enumerate(numbered, 1)},
    }


def _budget_chart(rows: Sequence[Row], budget: int, names: Mapping[str, str]) -> ScatterChart:
    ordered = sorted(rows, key=lambda row: (row.policy != _OWN, -row.grounding))
    marks = tuple(_mark(row, _label(row, names)) for row in ordered)
    return ScatterChart(f"{budget:,} tokens a call", _ACROSS, _UP, marks, most_x=_MOST_COST)


def _curves_chart(rows: Sequence[Row], budgets: Sequence[int], names: Mapping[str, str]) -> ScatterChart:
    curves = [sorted((row for row in rows if row.policy == policy), key=lambda row: row.budget) for policy in names]
    curves = [curve for curve in curves if len(curve) >= _LEAST_CURVE]
    curves.sort(key=lambda curve: curve[0].policy in (_OWN, _LIMIT))
    marks, lines = list[Mark](), list[tuple[int, ...]]()
    for curve in curves:
        lines.append(tuple(range(len(marks), len(marks) + len(curve))))
        marks += [_mark(row, names[row.policy] if row is curve[0] else "") for row in curve]
    title = f"from {budgets[0]:,} to {budgets[-1]:,} tokens a call"
    return ScatterChart(title, _ACROSS, _UP, tuple(marks), tuple(lines), most_x=_MOST_COST)


def _label(row: Row, names: Mapping[str, str]) -> str:
    cost, name = row.cost[MAIN_PRICES], names[row.policy]
    return name if cost <= _MOST_COST else f"{name} ({cost:.1f}) →"


def _mark(row: Row, label: str) -> Mark:
    interval = row.grounding_interval
    return Mark(
        row.cost[MAIN_PRICES],
        row.grounding,
        _kind(row.policy),
        label,
        is_hollow=row.figures.over > 0,
        y_whisker=(interval.low, interval.high) if row.policy == _OWN else None,
    )


def _kind(policy: str) -> str:
    return "best" if policy == _LIMIT else "own" if policy.startswith(_OWN) else "other"
