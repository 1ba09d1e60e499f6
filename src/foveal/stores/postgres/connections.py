"""Connections to PostgreSQL: a few that are kept, questions that go in one round trip, and errors in Foveal's own words."""

import logging
import random
import re
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, LiteralString, TypeAlias, TypeVar, cast

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper

from foveal.stores.place import DatabaseAddress
from foveal.values.errors import BadInput, StoreError, StoreFull, StoreReadOnly, StoreUnavailable

T = TypeVar("T")
Bindings: TypeAlias = Sequence[object] | Mapping[str, object]

IDLE_CONNECTIONS = 8
"""Connections that are kept open between uses."""

KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "connect_timeout": 10,
}
"""A server that vanished without a word is noticed within 25 seconds, less than a lease."""

LOST = (psycopg.OperationalError, psycopg.InterfaceError, errors.ReadOnlySqlTransaction)
"""Errors after which another try, perhaps at another server, may succeed. A server that reads only waits to be promoted."""

ABSENT_S = 3.0
"""Longest wait for the socket of a server on this machine before the first connection: a server that starts makes it at once."""

_SCHEMA = re.compile(r"(?!pg_|information_schema$)[a-z_][a-z0-9_]{0,62}")
_HOPELESS = re.compile(r"authentication failed|does not exist|no password supplied|no pg_hba.conf entry")


def parse_address(url: str) -> DatabaseAddress:
    """Return a `postgresql://` address that libpq understands. Its own words are not repeated: they quote passwords."""
    address = DatabaseAddress(url)
    try:
        conninfo_to_dict(address.conninfo)
    except psycopg.ProgrammingError:
        wrong = [
            str(n)
            for n, one in enumerate(address.parameters, 1)
            if not _is_known(DatabaseAddress(f"postgresql://?{one}"))
        ]
        which = (
            f"parameter {' and '.join(wrong)} behind the ? is none of its own, or has an = in it"
            if wrong
            else "in no part"
        )
        raise BadInput(f"libpq does not understand the address {address}: {which}") from None
    return address


def _is_known(address: DatabaseAddress) -> bool:
    try:
        conninfo_to_dict(address.conninfo)
    except psycopg.ProgrammingError:
        return False
    return True


class Link:
    """One connection. A statement names a table of the store as `@table`, and well-known columns as `$name`."""

    def __init__(self, connection: psycopg.Connection[Any], owner: "Connections") -> None:
        self._connection, self._owner = connection, owner
        self.was_cut = False
        """Whether the connection ended before this handle closed it: a statement may have been done although it failed here."""

    @property
    def place(self) -> str:
        """The place of the store, for people."""
        return self._owner.place

    def name(self, table: str) -> str:
        return self._owner.sql(table)

    def ask(self, statement: str, bindings: Bindings = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement: one round trip."""
        self._owner.round_trips += 1
        return _rows(self._execute(statement, bindings))

    def ask_all(self, questions: Sequence[tuple[str, Bindings]]) -> list[list[tuple[Any, ...]]]:
        """Return the rows of several statements that are sent together and kept or undone together: one round trip."""
        self._owner.round_trips += 1
        with self._connection.pipeline():
            cursors = [self._execute(statement, bindings) for statement, bindings in questions]
        return [_rows(cursor) for cursor in cursors]

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Commit the statements within together, or undo them by an error."""
        with self._connection.transaction():
            yield

    def close(self) -> None:
        self.was_cut |= self._connection.closed
        self._connection.close()

    @property
    def is_usable(self) -> bool:
        """Whether the connection is open and in no transaction."""
        return not self._connection.closed and not self._connection.info.transaction_status

    def _execute(self, statement: str, bindings: Bindings) -> psycopg.Cursor[Any]:
        query = cast("LiteralString", self._owner.sql(statement))
        return self._connection.execute(query, bindings or None, binary=True)


def _rows(cursor: psycopg.Cursor[Any]) -> list[tuple[Any, ...]]:
    return cursor.fetchall() if cursor.description else []


class Connections:
    """The connections of one store handle. Any thread may use them."""

    def __init__(self, address: DatabaseAddress, schema: str, patience_s: float, columns: Mapping[str, str]) -> None:
        if not _SCHEMA.fullmatch(schema):
            raise BadInput(
                f"foveal_schema is {schema!r:.80}; give a name of small letters, digits and _ that is not the server's own"
            )
        self.place = str(address)
        self.round_trips = 0
        """Times that a caller has waited for the server, for benchmarks."""
        self._conninfo, self._schema, self._patience_s = address.conninfo, schema, patience_s
        self._columns = columns
        self._idle: deque[Link] = deque()
        self._statements: dict[str, str] = {}
        self._is_closed = self._was_reached = False

    def sql(self, statement: str) -> str:
        """Return a statement with the names of tables and columns in full."""
        known = self._statements.get(statement)
        if known is None:
            named = re.sub(r"\$(\w+)", lambda match: self._columns[match[1]], statement)
            known = re.sub(r"@(\w*)", lambda match: f"{self._schema}.{match[1]}".removesuffix("."), named)
            self._statements[statement] = known
        return known

    def run(self, job: Callable[[Link], T]) -> T:
        """Return the result of a job that may be done twice: it is tried again while the server cannot be reached. `StoreError`
        for whatever the server refuses."""
        patience, was_cut = Patience(self._patience_s), False
        while True:
            link: Link | None = None
            try:
                with self.link() as link:
                    return job(link)
            except LOST as error:
                was_cut |= link is not None and link.was_cut
                if not self._was_reached and _is_absent(error):
                    patience.shorten(ABSENT_S)
                if is_hopeless(error) or not patience.wait():
                    raise self.unavailable(error, patience.seconds, may_be_done=was_cut) from error
            except psycopg.Error as error:
                raise self.refused(error) from error

    @contextmanager
    def link(self) -> Generator[Link]:
        """Yield a connection. One that broke is thrown away, and with it all idle ones, which are as old."""
        try:
            link = self._idle.pop()
        except IndexError:
            link = self._connect()
        try:
            yield link
        except BaseException as error:
            if isinstance(error, LOST):
                self._drop_idle()
            if isinstance(error, (errors.DiskFull, errors.OutOfMemory)):
                raise StoreFull(
                    f"{self.place}: the database has no space ({error}); nothing was written, and nothing that was acknowledged "
                    "is lost. Free space and try again."
                ) from error
            raise
        finally:
            if link.is_usable and not self._is_closed and len(self._idle) < IDLE_CONNECTIONS:
                self._idle.append(link)
            else:
                link.close()

    def refused(self, error: psycopg.Error) -> StoreError:
        """Return the error for a statement that the server refuses, with the rights that the role of the address needs."""
        text = f"{self.place}: PostgreSQL refused: {error}"
        if not isinstance(error, errors.InsufficientPrivilege):
            return StoreError(text)
        return StoreReadOnly(
            f"{text}. To read a store, a role needs USAGE on the schema {self._schema} and SELECT on its tables; to write it, it "
            "owns them or is a member of the role that does; to make one, it needs CREATE on the database."
        )

    def unavailable(
        self, error: BaseException, waited_s: float, *, wrote: bool = False, may_be_done: bool = False
    ) -> StoreError:
        """Return the error for a server that cannot be reached, or that ends each try.

        `wrote` says that an append may have got through, `may_be_done` that another call may have: its connection was cut before
        the answer. Both outweigh the reason for which the server cannot be reached now.
        """
        is_ended = isinstance(error, errors.QueryCanceled)
        what = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if wrote:
            outcome = "whether the last append was kept is unknown: append the same entries again, under the same ids"
        elif may_be_done:
            outcome = (
                "the connection was cut during the call: if it was to change anything, whether it did is unknown. "
                "Look, and try again"
            )
        elif is_hopeless(error):
            return StoreError(f"{self.place} cannot be opened: {what}. Check the address, the role and its rights.")
        elif is_ended:
            outcome = (
                "that statement did nothing, and what this call had done before it stays. If statement_timeout ended it, give "
                "the role a longer one, and try again"
            )
        else:
            outcome = "nothing was changed by this call; try again"
        problem = "ended a statement each time it was tried" if is_ended else "could not be reached"
        return StoreUnavailable(f"{self.place} {problem} for {waited_s:.0f} s ({what}); {outcome}.")

    def patience(self) -> "Patience":
        return Patience(self._patience_s)

    def close(self) -> None:
        self._is_closed = True
        self._drop_idle()

    def _drop_idle(self) -> None:
        with suppress(IndexError):  # several threads may do so
            while True:
                self._idle.pop().close()

    def _connect(self) -> Link:
        given = conninfo_to_dict(self._conninfo)
        settings: dict[str, Any] = {key: value for key, value in KEEPALIVE.items() if key not in given}
        name = given.get("application_name", "foveal")
        connection = psycopg.connect(
            self._conninfo, autocommit=True, application_name=name, client_encoding="UTF8", **settings
        )
        # Numbers of one size: else each mixture of sizes is another statement to plan.
        connection.adapters.register_dumper(int, Int8Dumper)
        connection.adapters.register_dumper(int, Int8BinaryDumper)
        self._was_reached = True
        return Link(connection, self)


class Patience:
    """The pauses between tries, until there were enough of them. They grow, and differ from those of other processes."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._began, self._pause_s = time.monotonic(), 0.02

    def shorten(self, seconds: float) -> None:
        """Let it end after this time, if it would later."""
        self.seconds = min(self.seconds, seconds)

    def wait(self) -> bool:
        """Wait for the next try; return False if there is to be none."""
        if time.monotonic() - self._began >= self.seconds:
            return False
        time.sleep(self._pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        self._pause_s = min(1.0, self._pause_s * 2)
        return True


def _is_absent(error: BaseException) -> bool:
    """Return whether there is no socket of a server on this machine in any place that was tried."""
    reasons = re.findall(r"failed: (.+)", str(error))
    return bool(reasons) and all(reason.endswith("No such file or directory") for reason in reasons)


def _is_news(record: logging.LogRecord) -> bool:
    """Return False for an error at the end of a pipeline: it is logged only behind a first one, which is raised."""
    ended = record.args[0] if isinstance(record.args, tuple) and record.args else None
    return not isinstance(ended, psycopg.Pipeline)


logging.getLogger("psycopg").addFilter(_is_news)


def is_hopeless(error: BaseException) -> bool:
    """Return whether another try would fail in the same way: a wrong password, no such database."""
    return bool(_HOPELESS.search(str(error))) and getattr(error, "sqlstate", None) != "57P03"
