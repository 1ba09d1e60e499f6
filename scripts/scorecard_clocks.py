"""Figures about clocks that jump by a year: of a session, of the processes of a store, and of PostgreSQL."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from itertools import count
from typing import Any
from unittest.mock import patch

from scorecard_parts import Failures, Figure, Plant, add_step, begun_session, folder_in_memory
from scorecard_races import no_fence

from foveal.stores import lease
from foveal.stores.deletion import delete_expired
from foveal.stores.port import Draft, Writer
from foveal.stores.sqlite import SqliteStore, tables, transactions
from foveal.testing import oracles
from foveal.testing.postgres_server import PostgresServer, find_postgres
from foveal.values.errors import LeaseLost, SessionHeld

YEAR_S = 365 * 86_400
MONTH_MS = 30 * 86_400_000
ACTS = 16
"""Acts of two handles in one case, each after a jump or none."""


def clocks(cases: int, seed: int) -> Failures:
    """Let clocks jump by up to a year. In turn: a session has the order, the ids and the prompts of one with a steady clock; and
    two handles of an SQLite file append, release, take over and expire, whose processes see each other or do not."""
    failures = Failures()
    with folder_in_memory() as folder, ExitStack() as stack:
        pairs = [
            [stack.enter_context(SqliteStore(folder / name)) for _ in range(2)] for name in ("seen.db", "unseen.db")
        ]
        jump = stack.enter_context(_jumping_clock())
        for case in range(cases):
            rng = random.Random(f"{seed} {case}")
            if turn := case % 3:
                handles = _Handles(pairs[turn - 1], f"s{case}", jump, is_lease_sure=turn == 1)
                with patch.object(lease, "_namespace", lambda h=handles: str(h.acting)) if turn == 2 else nullcontext():
                    failures += [f"case {case}: {problem}" for problem in handles.play(rng)]
                continue
            steady, jumped = (
                _worked(case, 12, clock) for clock in (count(1).__next__, partial(rng.randrange, 1, 2 * YEAR_S * 1_000))
            )
            failures += [f"case {case}: another order or another prompt"] if steady != jumped else []
    return failures


def postgres_clocks(cases: int, seed: int) -> Failures:
    """Let the clocks of two processes jump by up to a year, and in every second case that of PostgreSQL as well."""
    from foveal.stores.postgres.store import PostgresStore  # noqa: PLC0415 - an extra

    programs = find_postgres()
    assert programs
    failures = Failures()
    with folder_in_memory() as folder, ExitStack() as stack:
        server = PostgresServer(programs).start()
        stack.callback(server.remove)
        jumping, jump_server = stack.enter_context(_database_with_clock(server))
        pairs = [  # apart, since the lease of a handle is renewed at any time, by the clock of its database
            [stack.enter_context(PostgresStore(url, cache=folder)) for _ in range(2)] for url in (server.url, jumping)
        ]
        jump = stack.enter_context(_jumping_clock())

        def jump_both(seconds: int) -> None:
            jump(seconds)
            jump_server(-seconds)

        for case in range(cases):
            is_lease_sure = case % 2 == 0  # leases end by the clock of PostgreSQL
            jump_some = jump if is_lease_sure else jump_both
            handles = _Handles(pairs[case % 2], f"s{case}", jump_some, is_lease_sure=is_lease_sure)
            failures += [f"case {case}: {problem}" for problem in handles.play(random.Random(f"{seed} {case}"))]
            jump_both(0)
    return failures


@contextmanager
def _database_with_clock(server: PostgresServer) -> Iterator[tuple[str, Callable[[int], None]]]:
    """Make a database that has a clock of its own before the server's. Yield its address, and the function that sets how many
    seconds the clock is ahead."""
    import psycopg  # noqa: PLC0415 - an extra

    url = server.url.replace("/postgres?", "/jumping?")
    with psycopg.connect(server.url, autocommit=True) as link:
        link.execute("CREATE DATABASE jumping")
        link.execute("ALTER DATABASE jumping SET search_path = clock, pg_catalog, public")
    with psycopg.connect(url, autocommit=True) as link:
        link.execute("CREATE SCHEMA clock")
        link.execute("CREATE TABLE clock.ahead AS SELECT 0 AS seconds")
        link.execute(
            "CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS"
            " 'SELECT pg_catalog.clock_timestamp() + (SELECT seconds FROM clock.ahead) * interval ''1 s'''"
        )
        yield url, lambda seconds: link.execute("UPDATE clock.ahead SET seconds = %s", (seconds,)) and None


@contextmanager
def _jumping_clock() -> Iterator[Callable[[int], None]]:
    """Let the clock of this process be set: yield the function that sets how many seconds it is ahead."""
    real, ahead = time.time_ns, [0]
    with patch.object(time, "time_ns", lambda: real() + ahead[0] * 1_000_000_000):
        yield lambda seconds: ahead.__setitem__(0, seconds)


class _Handles:
    """Two handles of a store that share a session, and what its log must hold."""

    def __init__(self, stores: list[Any], session: str, jump: Callable[[int], None], *, is_lease_sure: bool) -> None:
        self._stores, self._session, self._jump = stores, session, jump
        self._is_lease_sure = is_lease_sure
        """Whether a lease lasts as long as its process, whatever the clock."""
        self.acting = 0
        """The handle that acts."""
        self._writers: list[Writer | None] = [None, None]
        self._newest: int | None = None
        """The handle whose writer is the one; None if the session was released, or there is none."""
        self._log = list[str]()
        self._problems = Failures()

    def play(self, rng: random.Random) -> Failures:
        """Do some acts, each after a jump or none, and return what they broke."""
        acts = (self._append, self._append, self._append, self._claim, self._take_over, self._release, self._expire)
        for number in range(ACTS):
            self._jump(rng.choice((0, rng.randint(-YEAR_S, YEAR_S))))
            self.acting = at = rng.randrange(2)
            act = rng.choice(acts)
            act(at, number)
            there = [row.id for row in self._stores[at].rows(self._session)] if self._is_there() else []
            if there != self._log:
                self._problems.append(f"{act.__name__} of handle {at}: {self._log} was acknowledged, {there} is there")
                self._log = there
        for self.acting in range(2):
            self._release(self.acting, 0)
        return self._problems

    def _is_there(self) -> bool:
        return bool(self._stores[0].cards(self._session))

    def _append(self, at: int, number: int) -> None:
        """Append, by a writer that may have been succeeded."""
        writer, name = self._writers[at], f"{self._session}.{number}"
        if writer is None:
            return
        try:
            writer.append([Draft(name, None, time.time_ns() // 1_000_000, "clock", b"x")])
        except LeaseLost as error:
            if at == self._newest:
                self._problems.append(f"the newest writer is refused: {error}")
            self._writers[at] = None
            return
        self._log.append(name)
        if at != self._newest:
            self._problems.append("a writer that was succeeded is not refused")

    def _claim(self, at: int, _number: int) -> None:
        """Ask for the session as anybody may: it is refused while it is held, and free once it was released."""
        try:
            writer = self._stores[at].acquire(self._session)
        except SessionHeld:
            if self._newest is None:
                self._problems.append("a session that was released is held")
            return
        if self._newest not in (None, at) and self._is_lease_sure:
            self._problems.append("a session that is held was given to another writer")
        self._now_writes(at, writer)

    def _take_over(self, at: int, _number: int) -> None:
        """Take the session over, which nothing prevents."""
        self._now_writes(at, self._stores[at].acquire(self._session, takeover=True))

    def _now_writes(self, at: int, writer: Writer) -> None:
        self._writers[at], self._newest = writer, at

    def _release(self, at: int, _number: int) -> None:
        writer = self._writers[at]
        if writer is not None:
            writer.release()
            self._writers[at] = None
            self._newest = None if self._newest == at else self._newest

    def _expire(self, at: int, _number: int) -> None:
        """Expire what was not used for a month: by a clock that is ahead that may be any session, but none that is held."""
        was_held = self._newest is not None and self._is_there()
        gone = delete_expired(self._stores[at], time.time_ns() // 1_000_000 - MONTH_MS).sessions
        if self._session not in gone:
            return
        if was_held and self._is_lease_sure:
            self._problems.append("a session that is held has expired")
        self._log, self._newest = [], None


def _worked(case: int, steps: int, now_ms: Callable[[], int]) -> tuple[list[str], bytes]:
    """Return the order of a session's entries and its prompt."""
    from foveal.stores.memory import MemoryStore  # noqa: PLC0415 - as the plant of the clock left it

    store = MemoryStore()
    session = begun_session(store, case, now_ms=now_ms, limit=2_500)
    for n in range(steps):
        add_step(session, case, n)
        session.prompt()
    prompt = session.prompt()
    session.close()
    return [row.id for row in store.rows("s")], oracles.body(prompt)


# Plants


def _rows_by_time() -> None:
    from foveal.stores.memory import MemoryStore  # noqa: PLC0415

    in_order = MemoryStore.rows

    def by_time(self: MemoryStore, session: str, **span: Any) -> Iterator[Any]:
        return iter(sorted(in_order(self, session, **span), key=lambda row: row.time_ms))

    MemoryStore.rows = by_time


def _leases_by_time() -> None:
    """Let a lease end by the clock, though its process is seen to live."""

    def has_ended(_lease: lease.Lease, until_ms: int | None, now_ms: int) -> bool:
        return until_ms is None or until_ms <= now_ms

    transactions.has_ended = tables.has_ended = has_ended


def _leases_by_process_time() -> None:
    """Let leases in PostgreSQL end by the clock of a process, and not by that of the database."""
    from foveal.stores.postgres import store  # noqa: PLC0415 - an extra

    ends = "l.until > clock_timestamp()"
    assert ends in store._ACQUIRE
    store._ACQUIRE = store._ACQUIRE.replace(ends, "l.until > to_timestamp(%(now)s / 1000)")


FIGURES = (
    Figure(
        "R8",
        "clocks that jump by a year: the order and the prompts of a session; leases, fences and expiry in an SQLite file",
        clocks,
        12,
        2_000,
        {
            "order by time": Plant(_rows_by_time, "another order"),
            "leases by time": Plant(_leases_by_time, "given to another writer|has expired"),
            "no fence": Plant(no_fence, "succeeded is not refused"),
        },
    ),
    Figure(
        "R8p",
        "clocks of processes and of PostgreSQL that jump by a year: leases, fences and expiry",
        postgres_clocks,
        20,
        2_000,
        {"leases by the process": Plant(_leases_by_process_time, "given to another writer")},
        skipped=lambda: "" if find_postgres() else "there is no PostgreSQL server here",
    ),
)
