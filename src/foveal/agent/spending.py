"""The money that a run has spent, with the runs below it, followed in their logs: what was read is not read again."""

from collections.abc import Iterable, Iterator

from foveal.agent.run_events import ChildStarted, CostUnknown, RunEvent, SummaryBilled, UsageCounted
from foveal.agent.run_log import RunLog
from foveal.agent.run_marks import split_run
from foveal.stores.port import Store


def bills_in(events: Iterable[RunEvent]) -> Iterator[float | None]:
    """Yield the cost of each call of a model that the events tell, summaries included; None for one whose cost is unknown."""
    for event in events:
        match event:
            case UsageCounted(usd=usd) | SummaryBilled(usd=usd):
                yield usd
            case CostUnknown():
                yield None
            case _:
                pass


class Spending:
    """Adds up the calls of a run, of its summariser and of its sub-agents, whoever drives them."""

    def __init__(self, store: Store, run: str) -> None:
        self._store, self.run = store, run
        self._log = RunLog(store, split_run(run)[0])
        self._usd, self._unknown = 0.0, 0
        self._below: dict[str, Spending] = {}

    @property
    def usd(self) -> float:
        """The cost of the calls whose cost is known."""
        return self._usd + sum(one.usd for one in self._below.values())

    @property
    def unknown(self) -> int:
        """Calls whose cost is unknown."""
        return self._unknown + sum(one.unknown for one in self._below.values())

    def read(self) -> None:
        """Read what is new in the logs."""
        events = [event for event in self._log.pull() if event.scope.run == self.run]
        for usd in bills_in(events):
            self._usd += usd or 0.0
            self._unknown += usd is None
        for event in events:
            if isinstance(event, ChildStarted):
                self._below.setdefault(event.child, Spending(self._store, event.child))
        for one in self._below.values():
            one.read()
