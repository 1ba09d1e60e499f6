"""The list of sessions and the page of each, built when they are asked for; bills are counted in the background.

Readers are never kept waiting by a bill: the list opens with the figures that are known, and a stream tells it the others.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Literal

import msgspec

from foveal.text.display import visible
from foveal.values.errors import FovealError
from foveal.viewer.builder import RunOptions
from foveal.viewer.choices import SessionChoice, StoredSessions
from foveal.viewer.document import OverviewRow, PageOverview, PageSession, with_links
from foveal.viewer.live import LiveSession, PageGrowth, Possession
from foveal.viewer.page import page

BUDGETS = (8_000, 16_000, 24_000, 32_000, 48_000, 64_000, 96_000, 128_000, 200_000)
"""The budgets that a list of recordings can be asked for: from a small local model to the window of a large one."""

_KEPT_PAGES = 16
"""Pages of a few megabytes each that are kept, the newest."""
POLL_S = 0.3
"""Seconds between two looks at a store that another process writes: a card is read, and nothing more."""
_SILENCE_S = 10.0
"""Seconds after which a stream without news says that it is alive."""


class _Bill(msgspec.Struct, frozen=True):
    """The row of one session at one budget, and the change that it came with."""

    change: int
    row: OverviewRow


class RowEvent(msgspec.Struct, frozen=True):
    """A row of the list that is new or has changed."""

    number: int
    row: OverviewRow


class SessionPages:
    """The list of the choices and the page of each. May be used by many threads."""

    def __init__(
        self,
        choices: Iterable[SessionChoice] = (),
        *,
        title: str,
        sent_as: str = "sent",
        note: str = "",
        at_budget: Callable[[int], RunOptions] | None = None,
        store: StoredSessions | None = None,
        is_one: bool = False,
    ) -> None:
        """Make pages of the choices, which are taken in the background but for the first two, or of the sessions of a store,
        which is followed as it grows. `at_budget` is the way to replay recordings with another budget; with `is_one`, the first
        session is meant, and the others are reached from it."""
        self._rest = iter(choices)
        self._choices: list[SessionChoice] = []
        self._at_budget, self._store, self._is_one = at_budget, store, is_one
        budgets = BUDGETS if at_budget else ()
        self._overview = PageOverview(title, (), sent_as=sent_as, note=note, budgets=budgets)
        self._bills: dict[tuple[int, int], _Bill] = {}
        """The newest rows, by the number of the session and the budget (0: the way that was asked for)."""
        self._counted: set[tuple[int, int]] = set()
        self._wishes: list[int] = [0]
        """The budgets that readers have asked for, the newest last."""
        self._change, self._changed = 0, threading.Condition()
        self._pages: OrderedDict[tuple[int, int], bytes] = OrderedDict()
        self._building: dict[int, threading.Lock] = {}
        self._live: dict[int, LiveSession] = {}
        for choice in islice(self._rest, 2):
            self._add(choice)
        self._look_again()

    @property
    def count(self) -> int:
        return len(self._choices)

    def first(self, budget: int = 0) -> bytes:
        """Return the page that opens first: the list, or the only session."""
        if not self._has_list:
            return self.session(0, budget)
        with self._changed:
            rows = tuple(self._newest(number, budget).row for number in range(self.count))
        return page((), msgspec.structs.replace(self._overview, sessions=rows, events="events", budget=budget))

    def session(self, number: int, budget: int = 0) -> bytes:
        """Return the page of a session; raise its error if it cannot be built, `IndexError` if there is none."""
        choice = self._choices[number]
        with self._changed:
            lock = self._building.setdefault(number, threading.Lock())
        with lock:
            if (number, budget) in self._pages:
                return self._pages[number, budget]
            live = self._followed(number) if self._store and not budget else None
            built = live.page() if live else choice.source.page(self._way(budget))
            made = self._made(number, built, budget, live)
            if choice.is_fixed:
                self._pages[number, budget] = made
                while len(self._pages) > _KEPT_PAGES:
                    self._pages.popitem(last=False)
            return made

    def list_events(self, budget: int, stop: threading.Event) -> Iterator[RowEvent | None]:
        """Yield the rows as they become known or change; None as a sign of life. Bills at this budget are counted next."""
        with self._changed:
            if budget in self._wishes:
                self._wishes.remove(budget)
            self._wishes.append(budget)
            self._changed.notify_all()
        seen = -1
        while not stop.is_set():
            with self._changed:
                self._changed.wait_for(lambda since=seen: self._change > since or stop.is_set(), _SILENCE_S)
                found = [(number, self._newest(number, budget)) for number in range(self.count)]
                before, seen = seen, self._change
            news = [RowEvent(number, bill.row) for number, bill in found if bill.change > before]
            yield from news
            if not news:
                yield None

    def session_events(
        self, number: int, had: Possession, stop: threading.Event
    ) -> Iterator[PageGrowth | Literal["anew"] | None]:
        """Yield the growth of a followed session since `had`; None as a sign of life, `anew` if the page has to load anew."""
        live, seen = self._followed(number), -1
        silent = 0
        while live and not stop.is_set():
            size, silent = live.log_size(), silent + 1
            if size != seen:
                seen, silent = size, 0
                growth = live.growth(had)
                if growth is None:
                    yield "anew"
                    return
                had = _after(had, growth)
                yield growth
            elif silent * POLL_S > _SILENCE_S:
                silent = 0
                yield None
            stop.wait(POLL_S)

    def work(self, stop: threading.Event) -> None:
        """Take the choices and count the bills, one after the other, until told to stop."""
        while not stop.is_set():
            self._look_again()
            choice = next(self._rest, None)
            if choice:
                self._add(choice)
            elif not self._count_next():
                with self._changed:
                    self._changed.wait(POLL_S)

    @property
    def _has_list(self) -> bool:
        """Whether there is a list: of several sessions, or of a store to which others may come."""
        return not self._is_one and (self.count != 1 or self._store is not None)

    def _way(self, budget: int) -> RunOptions | None:
        return self._at_budget(budget) if budget and self._at_budget else None

    def _made(self, number: int, built: PageSession, budget: int, live: LiveSession | None) -> bytes:
        names = {choice.row.name: str(place) for place, choice in enumerate(self._choices)}
        parent = names.get(built.name.rpartition("/")[0], "")
        home = "./" if self._has_list else ""
        overview = msgspec.structs.replace(
            self._overview,
            sessions=(msgspec.structs.replace(self._newest(number, budget).row, href="", parent=parent),),
            home=f"{home}?budget={budget}" if home and budget else home,
            events=f"{number}/events" if live else "",
            reading=live.reading if live else 0,
            budget=budget,
        )
        return page([with_links(built, names)], overview)

    def _followed(self, number: int) -> LiveSession | None:
        if self._store is None:
            return None
        name = self._store.names[number]
        with self._changed:
            if number not in self._live:
                self._live[number] = self._store.live(name)
            return self._live[number]

    def _newest(self, number: int, budget: int) -> _Bill:
        """Return the newest row; without a bill, if the one at this budget is not known yet."""
        known = self._bills.get((number, budget))
        if known:
            return known
        first = self._bills[number, 0]
        bare = msgspec.structs.replace(
            first.row, sent_usd=None, whole_usd=None, sent_tokens=0, cached_tokens=0, folds=0
        )
        return _Bill(first.change, bare)

    def _add(self, choice: SessionChoice) -> None:
        with self._changed:
            number = len(self._choices)
            self._choices.append(choice)
            if choice.row.error:
                self._counted |= {(number, budget) for budget in (0, *BUDGETS)}
        self._tell(number, 0, choice.row)

    def _tell(self, number: int, budget: int, row: OverviewRow) -> None:
        with self._changed:
            self._change += 1
            self._bills[number, budget] = _Bill(self._change, msgspec.structs.replace(row, href=str(number)))
            self._changed.notify_all()

    def _look_again(self) -> None:
        """Take up the sessions of the store that are new or have grown."""
        if self._store is None:
            return
        for number, choice in self._store.changes():
            if number == len(self._choices):
                self._add(choice)
            else:
                self._counted.discard((number, 0))
                figures = self._newest(number, 0).row
                self._tell(number, 0, _with_card(figures, choice.row))

    def _count_next(self) -> bool:
        """Count the next bill that somebody waits for; return whether there was one."""
        with self._changed:
            wishes = [(number, budget) for budget in reversed(self._wishes) for number in range(self.count)]
            wish = next((wish for wish in wishes if wish not in self._counted), None)
            if wish is None:
                return False
            self._counted.add(wish)
        number, budget = wish
        try:
            row = self._choices[number].source.row(self._way(budget))
        except FovealError as error:
            row = msgspec.structs.replace(self._newest(number, 0).row, error=visible(str(error)))
        self._tell(number, budget, row)
        return True


def _with_card(row: OverviewRow, card: OverviewRow) -> OverviewRow:
    """Return a row with the newest facts of the store, and with the figures that were counted before."""
    return msgspec.structs.replace(
        row, title=card.title, updated=card.updated, messages=card.messages, is_running=card.is_running, error=""
    )


def _after(had: Possession, growth: PageGrowth) -> Possession:
    """Return the part of a session that a page has after this growth."""
    return Possession(
        reading=growth.reading,
        entries=had.entries + len(growth.entries),
        calls=had.calls + sum(call.is_answered for call in growth.calls),
        lines=had.lines + len(growth.lines),
        words=had.words + len(growth.words),
        texts=had.texts + len(growth.texts),
        recalls=had.recalls + len(growth.recalls),
    )
