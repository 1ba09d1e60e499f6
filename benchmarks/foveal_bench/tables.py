"""Outcomes as tables to read and as one document for programs."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from foveal.analysis.measurement.outcome import Figures, PolicyOutcome
from foveal_bench.pooling import AGE_NAMES, MAIN_PRICES, PRICE_MODELS, Row, cost_of, row_of

ALL = "all"
"""The name of all sets together."""

EXPLAINED = "explained"

HEAD = (
    "policy",
    *(f"cost, {name}" for name in PRICE_MODELS),
    "far grounding",
    "95 %",
    EXPLAINED,
    "on offer",
    "complete",
    "short range",
    "over budget",
    "invalid",
    "refused",
    "task lost",
    "moves",
    "cached",
    "bare lists",
    "ms a call",
)


def rows_of(outcomes: Iterable[PolicyOutcome]) -> list[Row]:
    """Return a row for each policy, budget and set, and one for all sets; policies in the order in which they come."""
    groups: dict[tuple[int, str, str], list[PolicyOutcome]] = {}
    for outcome in outcomes:
        for group in (outcome.group, ALL):
            groups.setdefault((outcome.budget, group, outcome.policy), []).append(outcome)
    return [row_of(found, group) for (_, group, _), found in groups.items()]


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---", *["---:"] * (len(head) - 1)], *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def cells(row: Row) -> list[str]:
    """Return one line under `HEAD`."""
    figures, spread = row.figures, row.grounding_interval
    return [
        row.policy,
        *(f"{row.cost[name]:.3f}" for name in PRICE_MODELS),
        f"{row.grounding:.3f}",
        f"{spread.low:.2f}–{spread.high:.2f}" if row.sessions > 1 else "–",
        "–" if row.explained is None else f"{row.explained:.3f}",
        f"{row.on_offer:.3f}",
        f"{row.complete:.3f}",
        f"{row.short_range:.3f}",
        *(
            f"{number:,}"
            for number in (figures.over, figures.invalid, figures.refused, figures.task_lost, figures.moves)
        ),
        f"{row.cached:.3f}",
        f"{row.listed:.3f}",
        f"{row.cpu_ms:.1f}",
    ]


def table(rows: Sequence[Row], budget: int, group: str) -> str:
    chosen = [row for row in rows if row.budget == budget and row.group == group]
    lines = [HEAD, *map(cells, chosen)]
    if all(row.explained is None for row in chosen):  # measured only where it is asked for
        at = HEAD.index(EXPLAINED)
        lines = [[*line[:at], *line[at + 1 :]] for line in lines]
    return markdown(lines[0], lines[1:])


def groups_table(rows: Sequence[Row], budget: int) -> str:
    """Return cost and far grounding in each set: a pooled figure hides a set in which a policy fails."""
    chosen = [row for row in rows if row.budget == budget]
    names = sorted({row.group for row in chosen} - {ALL})
    found = {(row.policy, row.group): row for row in chosen}
    sizes = {row.group: row.sessions for row in chosen}
    head = ["cost / far grounding", *(f"{name} ({sizes[name]})" for name in names)]
    lines = [
        [policy, *(_pair(found[policy, name]) if (policy, name) in found else "–" for name in names)]
        for policy in dict.fromkeys(row.policy for row in chosen)
    ]
    return markdown(head, lines)


def _pair(row: Row) -> str:
    return f"{row.cost[MAIN_PRICES]:.2f} / {row.grounding:.2f}"


def ages_table(rows: Sequence[Row], budget: int, group: str = ALL) -> str:
    """Return far grounding by how many messages ago a clue was seen last."""
    chosen = [row for row in rows if row.budget == budget and row.group == group]
    head = ["messages ago", *AGE_NAMES]
    clues = ["far clues", *(f"{number:,}" for number in chosen[0].figures.ages)] if chosen else []
    return markdown(head, [clues, *([row.policy, *(f"{share:.3f}" for share in row.by_age)] for row in chosen)])


def report(rows: Sequence[Row]) -> str:
    """Return all tables, budget by budget."""
    return "\n".join(_sections(rows))


def _sections(rows: Sequence[Row]) -> Iterator[str]:
    for budget in sorted({row.budget for row in rows}):
        pooled = next(row for row in rows if row.budget == budget and row.group == ALL)
        yield f"## {budget:,} tokens a call\n"
        sessions = f"{pooled.sessions:,} session{'s' * (pooled.sessions != 1)}"
        yield f"{sessions}, {pooled.figures.calls:,} calls, {pooled.figures.far:,} far clues.\n"
        yield table(rows, budget, ALL)
        if len({row.group for row in rows}) > 2:
            yield groups_table(rows, budget)
        yield ages_table(rows, budget)
        for row in rows:
            if row.budget == budget and row.group == ALL and row.failures:
                yield f"- {row.policy} gave up: {'; '.join(row.failures[:3])}"


def document(outcomes: Sequence[PolicyOutcome], rows: Sequence[Row], notes: Sequence[str] = ()) -> dict[str, Any]:
    """Return every row, and every session with its figures and costs, so that readers can draw sessions anew.

    Sessions are lists under `session_columns`: they are thousands, and the same names with each would be most of the file.
    """
    about = ("policy", "budget", "group", "session", "failed")
    prices = [f"{name}: {which}, USD" for name in PRICE_MODELS for which in ("sent", "whole history")]
    return {
        "prices": PRICE_MODELS,
        "rows": [_rounded(row) for row in rows],
        "session_columns": [*about, *Figures.__struct_fields__, *prices],
        "sessions": [
            [
                *(getattr(one, name) for name in about),
                *_rounded(one.figures).values(),
                *(round(usd, 6) for name in PRICE_MODELS for usd in msgspec.structs.astuple(cost_of(one, name))),
            ]
            for one in outcomes
        ],
        "notes": list(notes),
    }


def _rounded(value: Row | Figures) -> dict[str, Any]:
    """Return plain data, rounded to meaningful digits."""
    return _plain.decode(msgspec.json.encode(value))


def _digits(number: str) -> float:
    return round(float(number), 5)


_plain = msgspec.json.Decoder(dict[str, Any], float_hook=_digits)
