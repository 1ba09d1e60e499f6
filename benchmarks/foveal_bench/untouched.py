"""Sessions shorter than the budget: nothing of them may be folded. Counts the prompts that differ from the history."""

from collections.abc import Iterable, Sequence

from foveal.analysis.measurement.case import Case
from foveal.analysis.measurement.outcome import Job, PolicyOutcome
from foveal_bench.pooling import MAIN_PRICES, row_of
from foveal_bench.tables import ALL, markdown

FITS = 16_000
"""Tokens a call: more than nearly all conversations with customers and short errands ever need."""

CHECK = Job("foveal", FITS)


def that_fit(cases: Iterable[Case]) -> list[Case]:
    return [case for case in cases if case.raw and case.raw[-1] <= FITS]


def touched(outcome: PolicyOutcome) -> int:
    """Return the number of calls that did not send exactly the history: fewer tokens, another beginning, or nothing."""
    other = sum(tokens != raw for tokens, _, raw, _ in outcome.tokens)
    return max(other, outcome.figures.moves) + outcome.figures.refused


def untouched_table(outcomes: Sequence[PolicyOutcome]) -> str:
    """Return one line for each set, and one for all."""
    groups = {ALL: list(outcomes)} if outcomes else {}
    for outcome in outcomes:
        groups.setdefault(outcome.group, []).append(outcome)
    head = ("set", "sessions", "sessions touched", "calls", "calls touched", f"cost, {MAIN_PRICES}")
    lines = [
        (
            group,
            f"{len(found):,}",
            f"{sum(touched(one) > 0 for one in found):,}",
            f"{sum(one.figures.calls for one in found):,}",
            f"{sum(map(touched, found)):,}",
            f"{row_of(found, group).cost[MAIN_PRICES]:.3f}",
        )
        for group, found in groups.items()
    ]
    return markdown(head, lines)
