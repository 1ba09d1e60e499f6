"""The result of the benchmark as one page: how to read it, the ranking, and the tables; and as data for programs."""

from collections.abc import Iterator, Sequence
from typing import Any

from foveal.analysis.measurement.grounding import FAR
from foveal.analysis.measurement.outcome import PolicyOutcome
from foveal_bench.pooling import MAIN_PRICES, PRICE_MODELS, Row
from foveal_bench.ranking import BROKEN, OWN, as_data, ranking_table, verdicts
from foveal_bench.tables import document, report

HOW_TO_READ = (
    "Cost is the input bill as a ratio to sending the whole history in the same calls, by price list: what the call before sent "
    "is read from the cache, the rest is written. Far grounding is the share of what the agent's next action used and had last "
    f"seen more than {FAR} messages ago that stands in the prompt; on offer is that or what it names by a reference. Over "
    "budget, invalid, refused and task lost are calls: a policy that breaks the budget keeps more because it sends more. No "
    "model was asked.\n"
)

_STANDING = (
    f"## Where Foveal stands\n\nCost ({MAIN_PRICES}) / far grounding. Others count where at most {BROKEN:.0%} of calls are over "
    "the budget, refused or invalid. *Behind*: one of them costs less and keeps as much. *Alone*: none of them keeps to the "
    "budget. *Refused*: what must stay is more than the budget, and Foveal says so instead of sending it. The limit is the "
    "oracle, which knows the future; the share of the way to it is measured from the best other for no more.\n"
)


def page(rows: Sequence[Row], notes: Sequence[str] = (), *, beside: Sequence[str] = ()) -> str:
    """Return the page without a title. `beside` is put between the ranking and the tables."""
    return "\n".join((HOW_TO_READ, *_ranking(rows), *beside, report(rows), *_at_other_prices(rows), *_noted(notes)))


def data(outcomes: Sequence[PolicyOutcome], rows: Sequence[Row], notes: Sequence[str] = ()) -> dict[str, Any]:
    return {**document(outcomes, rows, notes), "standing": as_data(rows)}


def _ranking(rows: Sequence[Row]) -> Iterator[str]:
    if not _is_compared(rows):
        return
    yield _STANDING
    yield ranking_table(rows)
    yield "Sets and budgets, counted by how they end, and every loss:\n"
    yield "\n".join(verdicts(rows)) + "\n"


def _at_other_prices(rows: Sequence[Row]) -> Iterator[str]:
    for prices in PRICE_MODELS:
        if prices != MAIN_PRICES and _is_compared(rows):
            yield f"## Where Foveal stands at other prices: {prices}\n"
            yield ranking_table(rows, prices)


def _noted(notes: Sequence[str]) -> Iterator[str]:
    if notes:
        yield "## Left out\n"
        yield from (f"- {note}" for note in notes)


def _is_compared(rows: Sequence[Row]) -> bool:
    return any(row.policy == OWN for row in rows) and any(not row.policy.startswith(OWN) for row in rows)
