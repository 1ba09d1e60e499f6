"""Every variant over every session, by the benchmark's own measure, and what comes of it under one price list."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count

import msgspec

from foveal.analysis.replay.case import MODEL, Case, Runner, Sent
from foveal.analysis.replay.cost import bill
from foveal.analysis.replay.measure import Job, PolicyOutcome
from foveal.analysis.replay.pooling import share
from foveal.analysis.replay.replay import ids_from
from foveal.analysis.replay.suite import run
from foveal.analysis.tune.grid import Variant
from foveal.models.catalogue import ModelFacts, find
from foveal.session.policy import Policy
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.values.errors import BadInput, OverBudget, Unrepresentable


class Cell(msgspec.Struct, frozen=True):
    """One variant on one session: each figure as a part and its whole, so that sessions can be added up."""

    cost: tuple[float, float]
    """For what was sent, and for the whole history in the same calls."""
    grounding: tuple[float, float]
    complete: tuple[float, float]
    short_range: tuple[float, float]
    broken: int
    """Calls that were refused, over the budget or invalid."""


class TunePoint(msgspec.Struct, frozen=True):
    """One variant over some sessions."""

    cost: float
    """Ratio to sending the whole history."""
    grounding: float
    complete: float
    short_range: float
    broken: int


def point_of(cells: Sequence[Cell]) -> TunePoint:
    return TunePoint(
        cost=share(cell.cost for cell in cells),
        grounding=share(cell.grounding for cell in cells),
        complete=share(cell.complete for cell in cells),
        short_range=share(cell.short_range for cell in cells),
        broken=sum(cell.broken for cell in cells),
    )


def price_list(text: str) -> ModelFacts:
    """The prices of a model, or `READ,WRITE`: what a token costs that the cache holds, and one that it does not."""
    numbers = text.split(",")
    if len(numbers) == 2:
        return _own_prices(text, numbers)
    facts = find(text)
    if facts.price_cache_read is None or not facts.price_cache_write:
        raise BadInput(
            f"{text!r} is free or its prices are not known; name another model (`foveal models`), or give the prices "
            "of cached and of other input, such as 0.3,3.75"
        )
    # As in the benchmark: with the surcharge for long input, the whole history would look dearer than most pay.
    return msgspec.structs.replace(facts, long_prices=None)


def _own_prices(text: str, numbers: Sequence[str]) -> ModelFacts:
    try:
        read, write = map(float, numbers)
    except ValueError:
        read, write = -1.0, 0.0
    if not 0 <= read <= write < float("inf") or not write:
        raise BadInput(f"prices {text!r}: write READ,WRITE, two numbers of which the first is not the larger: 0.3,3.75")
    return ModelFacts(
        id=f"{read:g} read, {write:g} written", price_cache_read=read, price_cache_write=write, known=True
    )


def measured(
    cases: Sequence[Case],
    variants: Sequence[Variant],
    *,
    budget: int,
    prices: ModelFacts,
    jobs: int = 1,
    tick: Callable[[int], None] = lambda calls: None,
) -> dict[Variant, tuple[Cell, ...]]:
    """The cells of each variant, in the order of the cases, which must be `longest_first`."""
    named = {variant.name: variant for variant in variants}
    found: dict[Variant, list[Cell]] = {variant: [] for variant in variants}
    work = [Job(name, budget) for name in named]
    for outcome in run(cases, work, find=partial(_runner, named, prices), jobs=jobs):
        found[named[outcome.policy]].append(_cell(outcome, prices))
        tick(outcome.figures.calls)
    return {variant: tuple(cells) for variant, cells in found.items()}


def longest_first(cases: Sequence[Case]) -> list[Case]:
    """The order in which the benchmark runs cases, and gives their outcomes: ids need not be unique."""
    return sorted(cases, key=lambda case: -sum(case.raw))


def _cell(outcome: PolicyOutcome, prices: ModelFacts) -> Cell:
    figures, sent_usd, raw_usd = outcome.figures, 0.0, 0.0
    for tokens, shared, raw_tokens, raw_shared in outcome.tokens:
        sent_usd += bill(prices, tokens, shared).cost_usd or 0.0
        raw_usd += bill(prices, raw_tokens, raw_shared).cost_usd or 0.0
    return Cell(
        cost=(sent_usd, raw_usd),
        grounding=(figures.far_shown, figures.far),
        complete=(figures.complete, figures.actions),
        short_range=(figures.near_shown, figures.near),
        broken=figures.refused + figures.over + figures.invalid,
    )


def _runner(named: dict[str, Variant], prices: ModelFacts, name: str) -> Runner:
    return _Played(named[name], prices)


class _Played(msgspec.Struct, frozen=True):
    """What a variant sends. Folds that pay for themselves are judged by the prices that it is tuned for."""

    variant: Variant
    prices: ModelFacts

    def __call__(self, case: Case, budget: int) -> Iterator[Sent]:
        policy = msgspec.structs.replace(self.variant.policy(budget), models={MODEL: _prices(self.prices)})
        with _session(case, policy) as session:
            for step in case.recording.steps:
                if step.message.role == "assistant":
                    yield _sent(session, case)
                session.append(step.message)


def _prices(facts: ModelFacts) -> dict[str, float]:
    return {"price_cache_read": facts.price_cache_read or 0.0, "price_cache_write": facts.price_cache_write or 0.0}


def _session(case: Case, policy: Policy) -> Session:
    return Session(
        MemoryStore(),
        case.id,
        model=MODEL,
        policy=policy,
        dialect="openai_chat",
        new_id=ids_from(case.id),
        clock_ms=count().__next__,
    )


def _sent(session: Session, case: Case) -> Sent:
    try:
        request = session.prompt(case.tools).request
    except (OverBudget, Unrepresentable) as error:
        return Sent(refused=f"{type(error).__name__}: {error}")
    return Sent(request["messages"], request.get("tools") or ())
