"""Reports about runs, read from the store alone: cards, outcomes, trees and costs. Nobody has to drive a run to ask for them."""

import logging
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from foveal.agent.driver import RunOutcome
from foveal.agent.inbox import is_inbox
from foveal.agent.run_events import (
    ChildStarted,
    RunEnded,
    RunEvent,
    RunStarted,
    StatusChanged,
    SummaryBilled,
    UsageCounted,
)
from foveal.agent.run_log import RunLog, newest_status
from foveal.agent.run_marks import ENDED, RunStatus, run_name, split_run
from foveal.agent.run_state import RunState, RunUsage
from foveal.agent.spending import bills_in
from foveal.stores.port import PAGE_CARDS, SessionCard, Store
from foveal.values.entry import Usage
from foveal.values.errors import FovealError, KeyMissing, NotFound

logger = logging.getLogger("foveal.runs")


class RunCard(msgspec.Struct, frozen=True):
    """The newest run of a session, as a list shows it."""

    run: str
    session: str
    agent: str
    status: RunStatus | None
    """None for a session that cannot be read; `reason` says why, and `run` is its name."""
    reason: str
    parent: str
    updated_ms: int
    is_held: bool
    """Whether a process has the session open."""
    needs_key: bool = False
    """Whether the session cannot be read because it is encrypted, and its key is not at hand."""

    @property
    def told_status(self) -> str:
        """The status as people are told it: of a run that cannot be read, why not."""
        return self.status or ("encrypted" if self.needs_key else "damaged")


class RunCost(msgspec.Struct, frozen=True):
    """The model calls of a run, and of the whole tree below it; each call is counted once."""

    run: str
    own: dict[str, RunUsage]
    """By model."""
    own_usd: float | None
    """With the summaries. None if a price is unknown, or if the session was deleted; never zero for that reason."""
    children: "tuple[RunCost, ...]" = ()
    summaries: dict[str, RunUsage] = {}
    """Calls of the summariser, by model; of one that tells no model, under an empty name."""

    @property
    def total_usd(self) -> float | None:
        """The cost of the tree; None if any price in it is unknown."""
        parts = [self.own_usd, *(child.total_usd for child in self.children)]
        return None if None in parts else sum(part for part in parts if part is not None)

    @property
    def calls(self) -> int:
        """Model calls of the tree."""
        own = (*self.own.values(), *self.summaries.values())
        return sum(one.calls for one in own) + sum(child.calls for child in self.children)


class RunTree(msgspec.Struct, frozen=True):
    """A run with the runs of its sub-agents."""

    run: str
    agent: str
    status: RunStatus | None
    """None for a sub-agent's run that has not begun, and for one whose session was deleted."""
    children: "tuple[RunTree, ...]" = ()


def newest_run(store: Store, card: SessionCard) -> RunCard | None:
    """Return the newest run of a session; None if it has had none."""
    found = None if is_inbox(card.id) else newest_status(store, card.id, card.entries)
    if found is None:
        return None
    run, is_held = run_name(card.id, found.run), card.holder is not None
    return RunCard(run, card.id, found.agent, found.status, found.reason, found.parent, card.updated_ms, is_held)


def newest_runs(store: Store, cards: Iterable[SessionCard], status: RunStatus | None = None) -> Iterator[RunCard]:
    """Yield the newest run of each of these sessions, of one status if it is named. A session that cannot be read is told in the
    program's log, and has a card that says so if no status is named: the others are listed all the same."""
    for card in cards:
        try:
            found = newest_run(store, card)
        except FovealError as error:
            logger.warning("the run of session %s cannot be read: %s", card.id, error)
            reason = f"cannot be read: {error}"
            is_held, needs_key = card.holder is not None, isinstance(error, KeyMissing)
            found = RunCard(card.id, card.id, "", None, reason, "", card.updated_ms, is_held, needs_key)
        if found is not None and status in (None, found.status):
            yield found


def cards_after(store: Store, name: str) -> Iterator[SessionCard]:
    """Yield the cards of all sessions behind a name, in the order of their names, page by page."""
    while page := store.page(after=name, limit=PAGE_CARDS):
        yield from page
        name = page[-1].id


def read_named(store: Store, run: str) -> tuple[RunLog, list[RunEvent]]:
    """Return the log of a run's session, read once, and the kept events of the run; of the newest one, if a session is named."""
    session, number = split_run(run)
    log = RunLog(store, session)
    told = log.pull()
    named = run if number is not None else log.state.id
    if not (events := [event for event in told if event.scope.run == named]):
        raise NotFound(f"there is no run {run!r} in this store")
    return log, events


def run_state(store: Store, run: str) -> RunState:
    """Return the state of a run. `NotFound` if there is none, and for a run that is not the newest of its session."""
    log, events = read_named(store, run)
    if is_past(log, events):
        raise NotFound(f"run {run!r} has ended, and its session goes on with {log.state.id}; `wait` has its outcome")
    return log.state


def is_past(log: RunLog, events: Sequence[RunEvent]) -> bool:
    """Return whether the session has had other runs after the one of these events."""
    return events[-1].scope.run != log.state.id


def run_outcome(log: RunLog, events: Sequence[RunEvent]) -> RunOutcome:
    """Return the outcome of a run, or the point that it has come to. Of one that has ended, its events tell: the conversation may
    have gone on, or back, since."""
    if not is_past(log, events) and log.state.status not in ENDED:
        return RunOutcome.of(log.state)
    ended = next((one for one in reversed(events) if isinstance(one, RunEnded)), None)
    scope = events[-1].scope
    return RunOutcome(
        run=scope.run,
        session=scope.session,
        status=ended.status if ended else "failed",
        text=ended.text if ended else "",
        reason=ended.reason if ended else "the session went on without it",
        steps=scope.step,
        usage=_usage_in(events),
    )


def run_tree(store: Store, run: str) -> RunTree:
    """Return a run with the runs of its sub-agents, at any depth."""
    _, events = read_named(store, run)
    agent = next(one.agent for one in events if isinstance(one, RunStarted))
    statuses: list[RunStatus] = [one.status for one in events if isinstance(one, StatusChanged)]
    begun = [one for one in events if isinstance(one, ChildStarted)]
    children = tuple(
        run_tree(store, one.child) if _has_begun(store, one.child) else RunTree(one.child, one.agent, None)
        for one in begun
    )
    return RunTree(events[0].scope.run, agent, statuses[-1], children)


def run_cost(store: Store, run: str) -> RunCost:
    """Return the model calls of a run and of its sub-agents, with their cost."""
    log, events = read_named(store, run)
    prices = list(bills_in(events))
    if not is_past(log, events) and log.state.is_asking and not any(card.holder for card in store.cards(log.session)):
        prices.append(None)  # of a process that has died in a model call
    own_usd = None if None in prices else sum(price for price in prices if price is not None)
    begun = [one.child for one in events if isinstance(one, ChildStarted)]
    children = tuple(child_cost(store, one) for one in begun)
    bills = [event.usage or Usage("", 0, 0) for event in events if isinstance(event, SummaryBilled)]
    return RunCost(events[0].scope.run, _usage_in(events), own_usd, children, _summed(bills))


def child_cost(store: Store, run: str) -> RunCost:
    """Return the cost of a sub-agent's run: nothing before it has begun, and unknown if its session is not there."""
    begun = _has_begun(store, run)
    return run_cost(store, run) if begun else RunCost(run, {}, None if begun is None else 0.0)


def _has_begun(store: Store, run: str) -> bool | None:
    """Return whether a run has begun; None if its session is not there, or not there any more."""
    for card in store.cards(split_run(run)[0]):
        return newest_status(store, card.id, card.entries) is not None
    return None


def _usage_in(events: Iterable[RunEvent]) -> dict[str, RunUsage]:
    """Return the model calls of a run, by model."""
    return _summed(event.usage for event in events if isinstance(event, UsageCounted))


def _summed(usages: Iterable[Usage]) -> dict[str, RunUsage]:
    found: dict[str, RunUsage] = {}
    for usage in usages:
        found[usage.model] = found.get(usage.model, RunUsage()).plus(usage)
    return found
