"""The store in PostgreSQL: what it promises beyond the contract."""

import errno
import os
import shlex
import shutil
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import token_bytes, token_hex
from tempfile import TemporaryDirectory
from typing import Any, cast

import msgspec
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from foveal.cli import main
from foveal.recall.search import Moment, search, search_earlier, search_store
from foveal.session.session import Session
from foveal.stores import open_store
from foveal.stores.chain import link
from foveal.stores.deletion import delete_expired, delete_sessions, expired
from foveal.stores.examination import examine_store
from foveal.stores.format import POSTGRES_SCHEMA
from foveal.stores.memory import MemoryStore
from foveal.stores.moving import copy_store, move_sessions
from foveal.stores.place import DatabaseAddress
from foveal.stores.port import Draft, KeptNote, Row
from foveal.stores.postgres import connections, index_cache
from foveal.stores.postgres import schema as schemas
from foveal.stores.postgres.connections import Connections, Link, Patience, parse_address
from foveal.stores.postgres.durability import check_durability
from foveal.stores.postgres.store import PostgresStore, are_same
from foveal.stores.sqlite import SqliteStore
from foveal.stores.unnamed_artifacts import vacuum_store
from foveal.testing.connection_cutter import ConnectionCutter
from foveal.testing.postgres_server import PostgresServer
from foveal.testing.store_contract import draft, drafts
from foveal.values.codec import encode
from foveal.values.entry import ToolCall, assistant, result, user
from foveal.values.errors import (
    BadInput,
    LeaseLost,
    ListDamaged,
    NotFound,
    SchemaTooNew,
    SessionHeld,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreUnavailable,
    TailLost,
)

Opened = Callable[..., PostgresStore]


def statement(store: PostgresStore, sql: str, *bindings: object) -> list[tuple[Any, ...]]:
    return store._run(lambda link: link.ask(sql, bindings))


def test_an_address_opens_the_store(server: PostgresServer, schema: str, tmp_path: Path) -> None:
    """`open_store` takes one line, with options of Foveal's own in it."""
    place = f"{server.url}&foveal_schema={schema}&foveal_lease_s=7&foveal_cache={tmp_path}"
    with open_store(place) as store:
        assert isinstance(store, PostgresStore)
        store.acquire("s").append(drafts(2))
        assert store._lease._lease_s == 7
    with psycopg.connect(server.url) as connection:
        query = f"SELECT count(*) FROM {schema}.entries"  # noqa: S608 - our own name
        assert connection.execute(query.encode()).fetchone() == (2,)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("foveal_lease=7", "foveal_lease is no option"),
        ("foveal_lease_s=soon", "foveal_lease_s is 'soon'; give a number of seconds"),
        ("foveal_replication=sync", "foveal_replication is 'sync'; give one of warn, require, ignore"),
        ("foveal_schema=A-b", "A-b"),
        ("foveal_schema=information_schema", "not the server's own"),
        ("foveal_schema=pg_catalog", "not the server's own"),
        ("foveal_lease_s=0", "foveal_lease_s is 0.0; give 1 to 86,400 seconds"),
        ("foveal_lease_s=-5", "foveal_lease_s is -5.0"),
        ("foveal_lease_s=nan", "foveal_lease_s is nan"),
        ("foveal_patience_s=-1", "foveal_patience_s is -1.0; give 0 to 86,400 seconds"),
        ("foveal_patience_s=inf", "foveal_patience_s is inf"),
    ],
)
def test_an_option_that_is_not_understood_is_refused(server: PostgresServer, option: str, said: str) -> None:
    """A mistyped option is an error that names those that there are."""
    with pytest.raises(BadInput, match=said):
        open_store(f"{server.url}&{option}")


def test_errors_have_no_password_in_them(tmp_path: Path) -> None:
    """A server that cannot be reached is named without it, and the error says what to do."""
    with pytest.raises(StoreUnavailable, match="nothing was changed") as caught:
        PostgresStore(f"postgresql://me:s3cret@/d?host={tmp_path}", patience_s=0.1)
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in str(parse_address("postgresql://me:s3cret@h/d"))


def test_a_parameter_that_libpq_refuses_is_told_by_its_place() -> None:
    """Its words are not repeated: they may be a password."""
    with pytest.raises(BadInput, match=r"postgresql://me@h/d\?foveal_schema=a: parameter 2") as caught:
        PostgresStore("postgresql://me@h/d?foveal_schema=a&passwort=s3cret")
    assert caught.value.__suppress_context__
    assert "s3cret" not in str(caught.value)


def test_a_password_may_hold_any_mark_that_libpq_allows(server: PostgresServer) -> None:
    """An address that psql takes is taken here too."""
    known = conninfo_to_dict(parse_address(server.url.replace("foveal@", "foveal:a?b#c[d@")).conninfo)
    assert (known["user"], known["password"], known["dbname"]) == ("foveal", "a?b#c[d", "postgres")


def test_options_with_a_blank_reach_the_server(opened: Opened, server: PostgresServer) -> None:
    """They are those that the address names."""
    store = opened(url=f"{server.url}&options=-c%20statement_timeout%3D61000&application_name=my%20gateway")
    assert statement(store, "SHOW statement_timeout") == [("61s",)]
    assert statement(store, "SHOW application_name") == [("my gateway",)]


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_of_another_encoding_gets_no_store(server: PostgresServer, encoding: str) -> None:
    """It cannot hold every name, and says so before anything is made."""
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {encoding} ENCODING '{encoding}' TEMPLATE template0 LOCALE 'C'".encode())
    url = server.url.replace("/postgres?", f"/{encoding.lower()}?")
    with pytest.raises(StoreError, match=f"encoding {encoding}.*UTF8"):
        PostgresStore(url)


def test_names_are_sent_in_utf8_whatever_the_client_is_told(opened: Opened, server: PostgresServer) -> None:
    """An encoding in the address or in the environment changes no name."""
    store = opened(url=f"{server.url}&client_encoding=LATIN1")
    store.acquire("日本").release()
    assert [card.id for card in store.page(prefix="日")] == ["日本"]


def test_a_database_that_is_not_there_is_told_at_once(server: PostgresServer) -> None:
    """Another try would fail in the same way, so there is none."""
    with pytest.raises(StoreError, match="does not exist"):
        PostgresStore(server.url.replace("/postgres?", "/nowhere?"), patience_s=3600)


def test_a_socket_that_is_not_there_is_told_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server was reached yet: the address may be wrong, and nobody waits for it as for one that restarts."""
    monkeypatch.setattr(connections, "ABSENT_S", 0.1)
    with pytest.raises(StoreUnavailable, match=r"for 0 s .*No such file or directory"):
        PostgresStore(f"postgresql:///d?host={tmp_path},{tmp_path}/b", patience_s=3600)


def test_a_server_that_restarts_is_waited_for(
    opened: Opened, cutter: tuple[ConnectionCutter, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket is away for a while; who had reached it has patience."""
    monkeypatch.setattr(connections, "ABSENT_S", 0)
    monkeypatch.setattr(Patience, "wait", lambda patience: waits.append(patience.seconds) or len(waits) < 3)
    waits: list[float] = []
    store = opened(url=cutter[1], patience_s=77)
    (Path(str(conninfo_to_dict(cutter[1])["host"])) / ".s.PGSQL.5432").unlink()
    store._connections._drop_idle()
    with pytest.raises(StoreUnavailable, match=r"for 77 s .*No such file or directory"):
        store.cards()
    assert waits == [77, 77, 77]


def test_a_statement_that_times_out_is_told_as_such(opened: Opened, server: PostgresServer) -> None:
    """The server was reached, and a part of the call may be done."""
    store = opened(patience_s=0)
    with pytest.raises(StoreUnavailable, match=r"ended a statement.*statement timeout.*done before it stays"):
        store._run(lambda link: link.ask("SET statement_timeout = 1") or link.ask("SELECT pg_sleep(60)"))


def test_a_connection_that_is_cut_is_told_by_its_error_alone(
    opened: Opened, cutter: tuple[ConnectionCutter, str], caplog: pytest.LogCaptureFixture
) -> None:
    """psycopg has a warning about the end of the pipeline, too, and prints it where no log is kept."""
    relay, url = cutter
    store = opened(url=url)
    relay.cut(b"cut-here", is_after=False)
    assert store.load("cut-here").entries == 0
    assert [record.message for record in caplog.records if record.name == "psycopg"] == []


def _refuse_logins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no handle connect again: its password was changed."""

    def refuse(_connections: Connections) -> Link:
        raise psycopg.OperationalError('FATAL:  password authentication failed for user "foveal"')

    monkeypatch.setattr(Connections, "_connect", refuse)


@pytest.fixture
def cutter(server: PostgresServer) -> Iterator[tuple[ConnectionCutter, str]]:
    """A relay that cuts connections, and the address of the server behind it."""
    with TemporaryDirectory() as folder:  # a short path, as a socket needs
        relay = ConnectionCutter(Path(folder) / ".s.PGSQL.5432", server.folder / ".s.PGSQL.5432")
        yield relay, f"postgresql://foveal@/postgres?host={folder}"
        relay.close()


def test_a_change_whose_answer_was_lost_is_not_told_as_undone(
    opened: Opened, cutter: tuple[ConnectionCutter, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deletion was committed and the server stays away: the error says that the outcome is unknown."""
    relay, url = cutter
    opened().acquire("s").release()
    store = opened(url=url)
    relay.cut(b"COMMIT", is_after=True)
    _refuse_logins(monkeypatch)
    with pytest.raises(StoreUnavailable, match="whether it did is unknown"):
        store.delete(["s"])
    monkeypatch.undo()
    assert opened().cards() == []


def test_a_statement_that_the_server_refused_has_changed_nothing(opened: Opened) -> None:
    """The server answered: a call that waits for one that can be written says that nothing was changed."""
    store = opened(patience_s=0)
    store.acquire("s").release()
    statement(store, "SET default_transaction_read_only = on")
    with pytest.raises(StoreUnavailable, match="nothing was changed"):
        store.delete(["s"])


def test_an_append_whose_answer_was_lost_is_unknown_although_logins_are_refused(
    opened: Opened, cutter: tuple[ConnectionCutter, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A password that was changed in that moment does not make of it an address that is wrong."""
    relay, url = cutter
    store = opened(url=url, patience_s=0)
    writer = store.acquire("s")
    relay.cut(b"e-unknown", is_after=True)
    _refuse_logins(monkeypatch)
    with pytest.raises(StoreUnavailable, match="append the same entries again, under the same ids"):
        writer.append([draft("e-unknown")])
    monkeypatch.undo()
    assert [row.id for row in opened().rows("s")] == ["e-unknown"]


def test_processes_that_open_a_new_store_together_make_it_once(opened: Opened) -> None:
    """Migrations are made under a lock; each handle finds the same store."""
    with ThreadPoolExecutor(6) as pool:
        stores = list(pool.map(lambda _: opened(), range(6)))
    assert len({store._indexes.folder for store in stores}) == 1
    versions = statement(stores[0], "SELECT version FROM @versions ORDER BY version")
    assert versions == [(version,) for version in range(1, POSTGRES_SCHEMA + 1)]


def test_a_store_of_a_newer_foveal_is_refused(opened: Opened) -> None:
    """It is never guessed at."""
    statement(opened(), "INSERT INTO @versions VALUES (99, 0)")
    with pytest.raises(SchemaTooNew, match="99"):
        opened()


def test_a_handle_that_was_open_writes_nothing_in_a_store_of_a_newer_foveal(opened: Opened) -> None:
    """Neither a session that is there nor a new one, nor one that it holds; who made the tables anew may write them."""
    store = opened()
    writer = store.acquire("held")
    store.acquire("s").release()
    statement(store, "INSERT INTO @versions VALUES (99, 0)")
    for session in ("s", "new"):
        with pytest.raises(SchemaTooNew, match="99"):
            store.acquire(session, takeover=True)
    for refused in (
        lambda: writer.append(drafts(1)),
        lambda: writer.append([]),
        lambda: writer.append([], snapshot=b"view"),
        lambda: store.entitle("s", "title"),
        lambda: store.delete(["s"]),
    ):
        with pytest.raises(SchemaTooNew, match="99"):
            refused()
    assert store.cards("held")[0].entries == 0
    writer.release()


def test_the_look_for_a_newer_schema_takes_no_round_trip(opened: Opened) -> None:
    """It is part of the statement that appends."""
    store = opened()
    writer = store.acquire("s")
    writer.append(drafts(1))
    trips = store.round_trips
    writer.append([draft("next")])
    assert store.round_trips == trips + 1


def test_an_append_that_was_kept_before_an_upgrade_is_acknowledged_after_it(
    opened: Opened, server: PostgresServer, schema: str
) -> None:
    """The answer was lost with the connection, and the tables were upgraded before the next try: it is not told to be refused."""
    store = opened()
    writer = store.acquire("s")
    writer.append(drafts(2))
    held = msgspec.structs.replace(writer.held.register)
    writer.append([draft("kept")])
    writer.held.register = held  # as if the answer had not come
    statement(store, "INSERT INTO @versions VALUES (99, 0)")
    assert writer.append([draft("kept")]) == [3]


def test_a_deletion_reads_the_names_of_children_alone(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of a million sessions is not read within its transaction: a child's name begins with that of its parent."""
    store, read = opened(), list[str]()
    for name in ("a", "a/b", "a/b/c", "a0", "ab", "b", "a/"):
        store.acquire(name).release()
    check = "foveal.stores.postgres.store.check_seen"
    monkeypatch.setattr(check, lambda found, names, seen: read.extend(names))
    store.delete(["a", "a/b"], seen={"a": 0, "a/b": 0})
    assert sorted(set(read)) == ["a/", "a/b", "a/b/c"]


@pytest.mark.parametrize("version", [1, 2])
def test_a_store_of_an_old_schema_is_upgraded(opened: Opened, monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    """A database that was made before there were labels, or before the place of artifacts was kept, gets a place for them, and
    Foveal of that time refuses it then."""
    monkeypatch.setattr(schemas, "POSTGRES_SCHEMA", version)
    monkeypatch.setattr("foveal.stores.postgres.store.remember_artifacts", lambda *_: None)
    old = opened()
    old.acquire("s").append(drafts(2))
    old.close()
    monkeypatch.undo()
    store = opened()
    assert store.tag("s", add=["x"]) == ("x",)
    assert [row.id for row in store.rows("s")] == [one.id for one in drafts(2)]
    monkeypatch.setattr(schemas, "POSTGRES_SCHEMA", version)
    with pytest.raises(SchemaTooNew, match=f"version {POSTGRES_SCHEMA}"):
        opened()


def test_changed_labels_are_found(opened: Opened) -> None:
    """A title that somebody changed in the table is told when the session is listed."""
    store = opened()
    store.acquire("s").release()
    store.entitle("s", "mine")
    statement(store, "UPDATE @labels SET title = 'theirs'")
    with pytest.raises(StoreCorrupt, match="labels"):
        store.cards("s")


def test_entries_lie_in_partitions_that_go_with_their_sessions(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """A range of sessions has a partition; one without sessions is dropped by `vacuum`, and the newest stays."""
    monkeypatch.setattr(schemas, "PARTITION_SESSIONS", 3)
    store = opened()
    for number in range(8):
        writer = store.acquire(f"s{number}")
        writer.append(drafts(2))
        writer.release()
    count = "SELECT count(*)::bigint FROM pg_inherits WHERE inhparent = %s::regclass"
    parent = store._connections.sql("@entries")
    assert statement(store, count, parent) == [(3,)]
    store.delete([f"s{number}" for number in range(4)])
    store.vacuum()
    assert statement(store, count, parent) == [(2,)]
    assert [len(list(store.rows(f"s{number}"))) for number in (4, 5, 6, 7)] == [2, 2, 2, 2]


def test_a_partition_that_is_missing_is_made_by_the_append(opened: Opened) -> None:
    """An append never fails for the want of one."""
    store = opened()
    writer = store.acquire("s")
    statement(store, "DROP TABLE @entries_0")
    assert writer.append(drafts(2)) == [1, 2]


def test_opening_takes_one_round_trip_and_a_session_two(opened: Opened) -> None:
    """The record, the snapshot and the rows after it come together; then the entries that the snapshot names."""
    store = opened()
    with Session(store, "s", model="gpt-5") as session:
        session.append(user("Build it."))
        for number in range(350):
            session.extend([assistant(f"step {number}"), user(f"go on {number}")])
            if number % 60 == 0:
                session.prompt()
    before = store.round_trips
    store.acquire("s").release()
    assert store.round_trips - before == 2  # to open, and to release
    before = store.round_trips
    session = Session(store, "s", model="gpt-5")
    assert store.round_trips - before <= 2
    assert session.view.facts.seq > 700


def test_snapshots_are_kept_small(opened: Opened) -> None:
    """They are deflated, and come back unchanged."""
    store = opened()
    view = b"".join(b"atom %d of the view; " % number for number in range(5_000))
    store.acquire("s").append(drafts(1), snapshot=view)
    found = store.snapshot("s")
    assert found is not None
    assert found.payload == view
    assert statement(store, "SELECT octet_length(payload)::bigint FROM @snapshots")[0][0] < len(view) * 0.4


def test_appends_that_wait_share_a_statement(opened: Opened) -> None:
    """Many sessions that append at the same moment are committed together."""
    store = opened(committers=1)
    writers = [store.acquire(f"s{number}") for number in range(16)]

    def work(writer: Any) -> None:
        for item in drafts(10):
            writer.append([item])

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, writers))
    assert store._commits.statements < 100
    assert all(len(list(store.rows(f"s{number}"))) == 10 for number in range(16))


def test_an_append_does_not_read_the_other_sessions(opened: Opened, schema: str) -> None:
    """The planner takes the index although it does not know how many appends there are: else each would cost as many rows as
    there are sessions."""
    with opened() as store:
        writers = [store.acquire(f"s{number}") for number in range(300)]
        for place in range(5):
            for writer in writers:
                writer.append([draft(f"e{place}", parent=f"e{place - 1}" if place else None)])
    read = "SELECT seq_tup_read FROM pg_stat_user_tables WHERE schemaname = %s AND relname = 'sessions'"
    assert statement(opened(), read, schema)[0][0] < 5 * 300 * 300 / 10


def test_the_holder_of_a_dead_process_is_succeeded_at_once(opened: Opened, server: PostgresServer, schema: str) -> None:
    """A process that can be seen to be dead need not be waited for, although its lease lasts."""
    code = (
        "import sys, time; from foveal.stores.postgres.store import PostgresStore\n"
        f"store = PostgresStore({server.url!r}, schema={schema!r}); store.acquire('s'); print('held', flush=True); time.sleep(99)"
    )
    store = opened()
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(SessionHeld):
            store.acquire("s")
        process.kill()
        process.wait()
        assert store.acquire("s").append(drafts(1)) == [1]


def test_a_session_whose_writer_was_killed_has_no_holder(opened: Opened, server: PostgresServer, schema: str) -> None:
    """Its card says so at once if the process is seen to be dead, so that the session can expire."""
    code = (
        "import os; from foveal.stores.postgres.store import PostgresStore\n"
        f"store = PostgresStore({server.url!r}, schema={schema!r}); store.acquire('s'); os.kill(os.getpid(), 9)"
    )
    store = opened()
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert [card.holder for card in store.cards()] == [None]


def test_a_session_whose_lease_is_over_has_no_holder(opened: Opened) -> None:
    """A process that cannot be seen from here holds a session as long as its lease."""
    store = opened()
    writer = store.acquire("s")
    assert store.cards("s")[0].holder is not None
    assert store.stats().held == 1
    statement(store, "UPDATE @leases SET until = clock_timestamp() - interval '1 s'")
    assert store.cards("s")[0].holder is None
    assert store.stats().held == 0
    writer.release()


def test_an_append_that_was_kept_before_a_takeover_is_acknowledged(opened: Opened) -> None:
    """The answer of a commit was lost, and then the session: the entry is in the log, and so its writer is told. The next one is
    refused."""
    store, other = opened(), opened()
    writer = store.acquire("s")
    writer.append([draft("a")])
    known = writer.held.register
    writer.append([draft("b")])
    writer.held.register = known  # as if the answer to the last append had been lost
    other.acquire("s", takeover=True).append([draft("c")])
    assert writer.append([draft("b")]) == [2]
    for attempt in ([draft("a")], [draft("d")]):
        with pytest.raises(LeaseLost, match="Nothing of this append was written"):
            writer.append(attempt)


def _go_back(store: PostgresStore, *, epochs: int = 0) -> None:
    """Let the database be of a time before the last entry of `s`, as after a failover to a replica that was behind."""
    known = store._known("s")
    before = known.entries - 1
    statement(store, "DELETE FROM @entries WHERE seq > %s", before)
    (chain,) = statement(store, "SELECT hash FROM @entries WHERE seq = %s", before)[0]
    (end,) = store.rows_at("s", [before]).values()
    old = msgspec.structs.replace(known, entries=before, head=end.id, chain=chain)
    statement(
        store,
        "UPDATE @sessions SET entries = %s, head = %s, chain = %s, seal = %s, epoch = epoch - %s, since_ms = since_ms - 1,"
        " token = CASE %s WHEN 0 THEN token END, mark = CASE %s WHEN 0 THEN mark ELSE 1 END",
        *(before, end.id, chain, old.seal(), epochs, epochs, epochs),
    )


@pytest.mark.parametrize("tell", [lambda writer: writer.append([draft("next")]), lambda writer: writer.release()])
def test_a_session_that_a_failover_forgot_is_told(opened: Opened, tell: Callable[[Any], object]) -> None:
    """The record itself is gone without a proof of deletion: the next append says so, and the release if there is none."""
    store = opened()
    writer = store.acquire("s")
    writer.append(drafts(2))
    statement(store, "DELETE FROM @sessions")
    with pytest.raises(TailLost, match="2 were acknowledged"):
        tell(writer)
    writer.release()


@pytest.mark.parametrize("tell", [lambda writer: writer.append([draft("next")]), lambda writer: writer.release()])
@pytest.mark.parametrize("epochs", [0, 1])
@pytest.mark.parametrize("is_same_handle", [False, True])
def test_a_writer_whose_place_was_given_out_again_is_told(
    opened: Opened, tell: Callable[[Any], object], epochs: int, is_same_handle: bool
) -> None:
    """The database went back, and a successor wrote at the same places, perhaps with the same epoch, perhaps in the same process:
    the first writer hears of its lost entries and not just of the successor, and writes nothing among its entries."""
    store = opened()
    store.acquire("s").release()
    first = store.acquire("s")
    first.append(drafts(3))
    _go_back(store, epochs=epochs)
    second = (store if is_same_handle else opened()).acquire("s", takeover=True)
    assert second.append(drafts(3, prefix="new")) == [3, 4, 5]
    assert (second.epoch == first.epoch) == bool(epochs)
    with pytest.raises(TailLost, match=r"3 were acknowledged.*others stand in their place"):
        tell(first)
    assert second.append([draft("more")]) == [6]
    assert [row.id for row in store.rows("s")][-1] == "more"


def test_an_epoch_that_is_given_out_twice_has_one_writer(opened: Opened) -> None:
    """Only the acquisition was lost by a failover, and the same process acquired the session again with the same epoch: of the
    two writers one is refused, although no entry was lost."""
    store = opened()
    store.acquire("s").release()
    first = store.acquire("s")
    statement(store, "UPDATE @sessions SET epoch = epoch - 1, token = NULL, mark = 1")
    second = store.acquire("s")
    assert (second.epoch, second.append(drafts(1))) == (first.epoch, [1])
    with pytest.raises(LeaseLost):
        first.append([draft("late")])
    assert second.append([draft("next")]) == [2]


def test_a_key_that_is_given_out_twice_mixes_no_sessions(opened: Opened) -> None:
    """A session was lost by a failover and its key went to another one of the same process: its writer is told, and nothing of it
    comes into the other's log."""
    store = opened()
    lost = store.acquire("lost")
    lost.append(drafts(1))
    key = lost.held.register.key
    statement(store, "DELETE FROM @entries")
    statement(store, "DELETE FROM @sessions")
    statement(store, "ALTER TABLE @sessions ALTER COLUMN key SET GENERATED BY DEFAULT")
    statement(
        store, f"SELECT setval(pg_get_serial_sequence('{store._connections.sql('@sessions')}', 'key'), {key}, false)"
    )
    other = store.acquire("other")
    assert other.held.register.key == key
    other.append(drafts(2, prefix="o"))
    with pytest.raises(TailLost, match=r"session lost.*has 0 entries"):
        lost.append([draft("next")])
    assert other.append([draft("more")]) == [3]
    assert [row.id for row in store.rows("other")][-1] == "more"


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("UPDATE @entries SET author = 'forger' WHERE seq = 2", "entry 2"),
        ("UPDATE @entries SET payload = 'x' WHERE seq = 3", "entry 3"),
        ("DELETE FROM @entries WHERE seq = 2", "entry 2: it is missing"),
        ("DELETE FROM @entries WHERE seq = 4", "entry 4: it is missing"),
        ("UPDATE @sessions SET head = 'other'", "does not match its seal"),
        ("UPDATE @notes SET text = 'red'", "does not match its seal"),
    ],
)
def test_changed_rows_are_found(opened: Opened, harm: str, said: str) -> None:
    """Reading raises, and the examination names the place."""
    store = opened()
    writer = store.acquire("s", scope="x")
    writer.append([Draft(f"e{i}", None, 1, "me", encode(user(f"text {i}"))) for i in range(4)])
    store.scope("x").keep(KeptNote("k", "blue", "s", "host", 1))
    statement(store, harm)
    with pytest.raises(StoreCorrupt, match=f"{said}.*Run `foveal store doctor 'postgresql://"):
        store.scope("x").notes() if "notes" in harm else list(store.rows("s"))
    if "sessions" not in harm:
        assert any(said.partition(":")[0] in str(damage) for damage in examine_store(store, "here").damage)


def test_a_log_that_is_longer_than_its_record_is_refused(opened: Opened) -> None:
    """A row beyond the end would be taken for the next one, even if it continues the chain."""
    store = opened()
    writer = store.acquire("s")
    writer.append(drafts(3))
    beyond = link(writer.held.register.chain, Row(4, "x", None, 1, "me", b"y"))
    statement(
        store, "INSERT INTO @entries VALUES (%s, 4, 'x', NULL, 1, 'me', %s, 'y')", writer.held.register.key, beyond
    )
    with pytest.raises(StoreCorrupt, match="ends at entry 4, its record says 3"):
        store.acquire("s", takeover=True)


@pytest.mark.parametrize("known", [2, 1])
def test_an_append_behind_a_record_that_went_back_alone_is_refused(opened: Opened, known: int) -> None:
    """A table that was restored alone is behind its entries: the append ends with an error, whether its writer knows the entries
    or not, and the handle goes on."""
    store = opened()
    writer = store.acquire("s")
    writer.append([draft("a")])
    old = writer.held.register
    writer.append([draft("b")])
    statement(
        store,
        "UPDATE @sessions SET entries = %s, head = %s, chain = %s, seal = %s",
        *(old.entries, old.head, old.chain, old.seal()),
    )
    if known == 1:
        writer.held.register = old
    for again in (draft("c"), draft("b")):
        with pytest.raises(StoreCorrupt, match="its record says 1 entries"):
            writer.append([again])
    assert store.acquire("other").append(drafts(1)) == [1]


def test_a_partition_that_stands_apart_ends_the_append(opened: Opened) -> None:
    """It is there and is none of the table's: it is not looked for for ever."""
    store = opened()
    writer = store.acquire("s")
    statement(store, "ALTER TABLE @entries DETACH PARTITION @entries_0")
    with pytest.raises(StoreError, match="no partition of relation"):
        writer.append(drafts(1))


class _Answers:
    def __init__(self, *settings: object) -> None:
        self._settings = settings

    def ask(self, _sql: str) -> list[tuple[object, ...]]:
        return [self._settings]


@pytest.mark.parametrize(
    ("settings", "mode", "said"),
    [
        (("on", "on", "", 2), "warn", "2 replicas follow asynchronously"),
        (("off", "on", "", 0), "warn", "fsync is off"),
        (("on", "off", "", 0), "warn", "synchronous_commit is off"),
        (("on", "on", "", 0), "require", "no synchronous replica"),
        (("on", "local", "a", 1), "require", "synchronous_commit is local"),
    ],
)
def test_a_server_that_can_lose_what_it_acknowledged_is_told(settings: tuple[Any, ...], mode: Any, said: str) -> None:
    """A warning by default, a refusal where the address asks for it, and silence where it asks for that."""
    link = cast("Link", _Answers(*settings))
    expected = pytest.raises(StoreError, match=said) if mode == "require" else pytest.warns(UserWarning, match=said)
    with expected:
        check_durability(link, "here", mode)
    check_durability(link, "here", "ignore")


def test_a_safe_server_is_opened_in_silence() -> None:
    """A server that stands alone and syncs, and one with a synchronous replica that is required."""
    check_durability(cast("Link", _Answers("on", "on", "", 0)), "here", "warn")
    check_durability(cast("Link", _Answers("on", "on", "a", 1)), "here", "require")
    with pytest.raises(BadInput, match="maybe"):
        check_durability(cast("Link", _Answers()), "here", cast("Any", "maybe"))


def test_an_index_of_a_session_that_was_deleted_elsewhere_is_removed(opened: Opened, tmp_path: Path) -> None:
    """Another machine keeps no words of it, and a session of the same name does not find them."""
    here, there = opened(), opened(cache=tmp_path / "elsewhere")
    here.acquire("s").release()
    with here.index("s").opened() as db:
        db.execute("CREATE TABLE words (word)")
    there.delete(["s"])
    there.acquire("s").release()
    with here.index("s").opened() as db:
        assert db.execute("SELECT count(*) FROM sqlite_schema").fetchall() == [(0,)]
    opened().index("s")
    assert len(list(here._indexes.folder.glob("*.db"))) == 1


def _say(store: PostgresStore, session: str, text: str, **options: Any) -> None:
    writer = store.acquire(session, **options)
    writer.append([draft(f"{session}-1", payload=encode(user(text)))])
    writer.release()


def _machine_with_words(opened: Opened, folder: Path) -> PostgresStore:
    """Return a handle of a machine whose indexes of session, scope and all sessions hold the word `zebrafish` of `gone`."""
    store = opened(cache=folder)
    _say(store, "gone", "the zebrafish is private", scope="x")
    _say(store, "stays", "nothing here", scope="x")
    assert [hit.session for hit in search_store(store, "zebrafish")] == ["gone"]
    assert search_earlier(store, Moment("x", "me", 1 << 50), "zebrafish")
    assert search(store, "gone", "zebrafish")
    assert len(_holders(folder)) == 3
    return store


def _holders(folder: Path) -> list[str]:
    return [file.name for file in folder.rglob("*.db") if b"zebrafish" in file.read_bytes()]


def test_a_deletion_leaves_no_words_on_its_machine(opened: Opened, tmp_path: Path) -> None:
    """Neither the index of the session, nor that of its scope, nor that of all sessions keeps them until the next search."""
    _machine_with_words(opened, tmp_path / "cache").delete(["gone"])
    assert _holders(tmp_path / "cache") == []


@pytest.mark.parametrize("use", [lambda store: store.index("stays"), lambda store: store.vacuum()])
def test_words_of_a_session_that_was_deleted_elsewhere_go_while_a_handle_is_open(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Callable[[PostgresStore], object]
) -> None:
    """A gateway that lives for months looks for deletions of others at times, and `vacuum` always does."""
    here = _machine_with_words(opened, tmp_path / "here")
    opened(cache=tmp_path / "there").delete(["gone"])
    monkeypatch.setattr(index_cache, "SWEEP_S", 0.0)
    use(here)
    assert _holders(tmp_path / "here") == []
    assert here.index("stays").place


def test_no_byte_of_a_deleted_session_is_in_the_files_of_the_database_after_a_vacuum(
    opened: Opened, server: PostgresServer
) -> None:
    """Neither entries, title, note and artifact, nor the secret that holds a data key, between neighbours that stay."""
    store = opened()
    words = {name: f"{name}-{token_hex(16)}" for name in ("entry", "title", "note", "artifact")}
    secret = token_bytes(32)
    for number in range(6):
        _say(store, f"before{number}", "a neighbour")
    writer = store.acquire("gone", scope="x", secret=secret)
    writer.append([draft("e", payload=words["entry"].encode())])
    writer.release()
    store.entitle("gone", words["title"])
    store.scope("x").keep(KeptNote("k", words["note"], "gone", "me", 1))
    sha256 = store.artifacts.put([words["artifact"].encode()]).sha256
    for number in range(6):
        _say(store, f"after{number}", "a neighbour")
    store.delete(["gone"])
    store.artifacts.delete(sha256, unless_put_after_ms=1 << 50)
    store.vacuum()
    statement(store, "CHECKPOINT")
    files = [file for file in (server.data / "base").rglob("*") if file.is_file()]
    kept = b"".join(file.read_bytes() for file in files)
    assert [name for name, word in words.items() if word.encode() in kept] == []
    assert secret not in kept
    assert [row.payload for row in store.rows("after5")] == [encode(user("a neighbour"))]


def test_a_vacuum_waits_for_no_backup(opened: Opened, server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that somebody reads all the time is not written anew, so that no writer waits behind it; the error names it."""
    monkeypatch.setattr(schemas, "LOCK_MS", 1)
    store = opened()
    _say(store, "s", "hello")
    with psycopg.connect(server.url) as backup:
        backup.execute(store._connections.sql("SELECT * FROM @labels").encode())
        with pytest.raises(StoreBusy, match="labels could not be written anew"):
            store.vacuum()
    store.vacuum()
    assert len(list(store.rows("s"))) == 1


def test_search_works_over_a_store_in_postgresql(opened: Opened) -> None:
    """Words that were said are found again by the session's own index, which lies in the cache folder."""
    store = opened()
    with Session(store, "s", model="gpt-5") as session:
        session.append(user("The database is called heliotrope."))
        session.append(user("Something else."))
        assert [hit.seq for hit in search(store, "s", "heliotrope")] == [1]
    assert list(store._indexes.folder.glob("*.db"))


def test_a_store_is_moved_to_postgresql_and_back(opened: Opened, filled: Path, tmp_path: Path) -> None:
    """Every row, artifact, snapshot and time is the same after both moves, and nothing is damaged."""
    with SqliteStore(filled) as source, SqliteStore(tmp_path / "back.db") as back:
        store = opened()
        assert move_sessions(source, store).copied == 90
        assert move_sessions(source, store).copied == 0
        assert move_sessions(store, back).sessions == 3
        assert back.cards() == source.cards()
        for card in source.cards():
            assert list(back.rows(card.id)) == list(store.rows(card.id)) == list(source.rows(card.id))
            assert back.snapshot(card.id) == source.snapshot(card.id)
        assert examine_store(store, "here").damage == ()
        assert examine_store(store, "here").artifacts == 9


def test_a_store_in_use_is_copied_to_a_file(
    opened: Opened, server: PostgresServer, schema: str, tmp_path: Path
) -> None:
    """The copy does not wait for writers and has everything that was acknowledged."""
    writer = opened().acquire("s")
    writer.append([Draft("e0", None, 1, "me", encode(user("hello")))])
    place = DatabaseAddress(f"{server.url}&foveal_schema={schema}")
    report = copy_store(place, str(tmp_path / "copy.db"))
    assert (report.sessions, report.entries, report.damage) == (1, 1, ())
    with pytest.raises(BadInput, match="exists already"):
        copy_store(place, str(tmp_path / "copy.db"))


def test_the_command_takes_an_address(
    server: PostgresServer, schema: str, filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command that reads a store, and every verb of `foveal store`, works with the address of a database."""
    place = f"{server.url}&foveal_schema={schema}&foveal_cache={tmp_path}"
    for words in (
        ["store", "migrate", str(filled), place],
        ["store", "doctor", place],
        ["store", "stats", place],
        ["store", "vacuum", place],
        ["store", "backup", place, str(tmp_path / "copy.db")],
        ["sessions", "--store", place],
        ["delete", "s0", "--yes", "--store", place],
    ):
        assert main(words) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "3 sessions are whole" in said
    assert "no damage" in said
    assert main(["doctor", place]) == 2
    assert "foveal store doctor" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("sessions", "--store", "PLACE"),
        ("backup", "copy.db", "--store", "PLACE"),
        ("store", "backup", "PLACE", "copy.db"),
        ("store", "doctor", "PLACE"),
        ("store", "migrate", "PLACE", "copy.db"),
        ("store", "stats", "PLACE"),
        ("store", "vacuum", "PLACE"),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_a_command_that_looks_makes_no_store(
    words: tuple[str, ...],
    server: PostgresServer,
    schema: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A schema that is misspelt is told, as a file is: an empty backup of it would be called whole."""
    place = f"{server.url}&foveal_schema={schema}&foveal_cache={tmp_path / 'cache'}"
    given = {"PLACE": place, "copy.db": str(tmp_path / "copy.db")}
    assert main([given.get(word, word) for word in words]) == 2
    assert f"no tables of Foveal in the schema {schema}" in capsys.readouterr().err
    assert not (tmp_path / "copy.db").exists()
    with psycopg.connect(server.url) as admin:
        assert admin.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [schema]).fetchall() == []


def test_a_large_artifact_is_read_in_pieces(opened: Opened) -> None:
    """Pieces are of equal size however they came, a damaged one is found, and those of a dead upload are swept."""
    store = opened()
    data = bytes(range(256)) * 4_000
    card = store.artifacts.put(data[i : i + 999] for i in range(0, len(data), 999))
    assert b"".join(store.artifacts.read(card.sha256)) == data
    assert store.artifacts.span(card.sha256, 300_000, 400_000) == data[300_000:700_000]
    statement(store, "INSERT INTO @chunks VALUES (99, 0, 5, 'stray')")
    store.artifacts.put([data])
    store.vacuum()
    assert statement(store, "SELECT count(DISTINCT body)::bigint FROM @chunks") == [(1,)]
    with pytest.raises(BadInput, match="cannot begin at byte -5"):
        store.artifacts.span(card.sha256, -5, 3)
    statement(store, "UPDATE @chunks SET data = 'x' WHERE number = 2")
    with pytest.raises(StoreCorrupt):
        list(store.artifacts.read(card.sha256))


def test_artifacts_may_lie_outside_the_database(server: PostgresServer, schema: str, tmp_path: Path) -> None:
    """Named in the address or by the caller, they are put there and not into the database; a file keeps them beside itself."""
    place, folder = f"{server.url}&foveal_schema={schema}&foveal_cache={tmp_path}", tmp_path / "artifacts"
    with open_store(place) as inside:
        name = inside.artifacts.put([b"inside"]).sha256
    for outside in (open_store(place, artifacts=folder), open_store(f"{place}&foveal_artifacts={folder}")):
        with outside:
            kept = outside.artifacts.put([b"outside"]).sha256
            assert (folder / kept[:2] / kept).read_bytes() == b"outside"
            with pytest.raises(NotFound):
                outside.artifacts.read(name)
            outside.vacuum()
    with pytest.raises(BadInput, match="only a store in PostgreSQL"):
        open_store(tmp_path / "a.db", artifacts=folder)


def test_the_place_of_artifacts_is_remembered(server: PostgresServer, schema: str, tmp_path: Path) -> None:
    """An address that does not name it reads and deletes there, too; one that names another place is refused, until the database
    is told that everything was moved."""
    place, folder = f"{server.url}&foveal_schema={schema}&foveal_cache={tmp_path}", tmp_path / "artifacts"
    with open_store(f"{place}&foveal_artifacts={folder}") as store, Session(store, "s", model="gpt-5") as session:
        session.append(assistant("", ToolCall("c1", "make", "{}")))
        session.append(result("c1", "a line of output\n" * 30_000))
    (kept,) = [file for file in folder.glob("??/*") if not file.suffix]
    other = str(tmp_path / "it's another")
    with pytest.raises(BadInput, match="could neither be read nor deleted") as caught:
        open_store(place, artifacts=other)
    assert main(["delete", "s", "--yes", "--store", place]) == 0
    assert not kept.exists()
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(str(caught.value).partition("once: ")[2].encode())
    open_store(place, artifacts=other).close()


def test_a_place_of_artifacts_that_cannot_be_written_is_not_remembered(
    server: PostgresServer, schema: str, tmp_path: Path
) -> None:
    """A misspelt folder would be the only one that the store takes from then on; an empty one would be the working folder."""
    place, folder = f"{server.url}&foveal_schema={schema}&foveal_cache={tmp_path}", tmp_path / "artifacts"
    for wrong, reason in ((tmp_path / "none" / "artifacts", "was not remembered"), ("", "is empty")):
        with pytest.raises(BadInput, match=reason):
            open_store(f"{place}&foveal_artifacts={wrong}")
    open_store(f"{place}&foveal_artifacts={folder}").close()


def test_an_upload_that_fails_leaves_no_pieces(opened: Opened) -> None:
    """Nobody reads half of a result that a tool broke off."""
    store = opened()

    def broken() -> Iterator[bytes]:
        yield b"half" * 200_000
        raise RuntimeError("the tool broke")

    with pytest.raises(RuntimeError):
        store.artifacts.put(broken())
    assert statement(store, "SELECT count(*)::bigint FROM @chunks") == [(0,)]


def test_a_vacuum_removes_what_dead_writers_left_in_a_folder(opened: Opened, tmp_path: Path) -> None:
    """Artifacts in a folder are swept as those in the database are."""
    store = opened(artifacts=tmp_path / "artifacts")
    store.artifacts.put([b"x"])
    left = tmp_path / "artifacts" / "tmp-99999-deadbeef"
    left.write_bytes(b"of a dead writer")
    store.vacuum()
    assert not left.exists()


def test_a_deletion_removes_what_dead_writers_left_in_a_folder(opened: Opened, tmp_path: Path) -> None:
    """It may be of the session that is deleted: beside a database as beside a file."""
    store = opened(artifacts=tmp_path / "artifacts")
    store.artifacts.put([b"x"])
    left = tmp_path / "artifacts" / "tmp-99999-deadbeef"
    left.write_bytes(b"of a dead writer")
    store.acquire("goes").release()
    assert delete_sessions(store, ["goes"]).left == ()
    assert not left.exists()


def test_an_encrypted_database_is_backed_up_with_its_keys(
    server: PostgresServer,
    schema: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without keys the backup is refused, since the artifacts could not be told; with them the copy has all, encrypted again."""
    (tmp_path / "keys").write_text(b64encode(token_bytes(32)).decode())
    place, copy = f"{server.url}&foveal_schema={schema}&foveal_cache={tmp_path / 'cache'}", str(tmp_path / "copy.db")
    store = open_store(place, keys=tmp_path / "keys")
    with store, Session(store, "s", model="gpt-5") as session:
        session.append(assistant("", ToolCall("c1", "make", "{}")))
        session.append(result("c1", "a CANARY line\n" * 30_000))
    assert main(["store", "doctor", place]) == 0
    assert "1 sessions are encrypted" in capsys.readouterr().out
    assert main(["store", "backup", place, copy]) == 2
    assert "FOVEAL_KEYS" in capsys.readouterr().err
    monkeypatch.setenv("FOVEAL_KEYS", str(tmp_path / "keys"))
    for words in (("doctor", place), ("backup", place, copy), ("doctor", copy)):
        assert main(["store", *words]) == 0
        assert "1 sessions, 2 entries, 1 artifacts; no damage" in capsys.readouterr().out
    assert b"CANARY" not in Path(copy).read_bytes()


def test_a_role_that_may_only_read_reads(
    opened: Opened, server: PostgresServer, schema: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Logs, cards, artifacts and search need no right to write; what changes the store says which rights it takes, once."""
    store, role = opened(), f"reader_{schema}"
    writer = store.acquire("s", scope="x")
    writer.append([draft("e", payload=encode(user("the zebrafish")))])
    writer.release()
    name = store.artifacts.put([b"artifact"]).sha256
    statement(store, f"CREATE ROLE {role} LOGIN")
    statement(store, f"GRANT USAGE ON SCHEMA {schema} TO {role}")
    statement(store, f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
    try:
        with opened(url=f"{server.url}&user={role}", cache=tmp_path / "reader") as reader:
            assert [row.id for row in reader.rows("s")] == ["e"]
            assert reader.cards("s")[0].entries == reader.stats().entries == 1
            assert b"".join(reader.artifacts.read(name)) == b"artifact"
            assert [hit.session for hit in search_store(reader, "zebrafish")] == ["s"]
            assert search(reader, "s", "zebrafish")
            assert [card.id for card in reader.scope("x").sessions()] == ["s"]
            acts: list[Callable[[], object]] = [
                *(lambda: reader.acquire("s"), lambda: reader.entitle("s", "T"), lambda: reader.delete(["s"])),
                *(reader.vacuum, lambda: reader.artifacts.put([b"x"])),
                lambda: reader.artifacts.delete(name, unless_put_after_ms=0),
            ]
            for act in acts:
                with pytest.raises(StoreError, match=rf"permission denied.* USAGE on the schema {schema} and SELECT"):
                    act()
            assert "pipeline aborted" not in caplog.text
            reader.artifacts.write_sidecar(name, b"a help for reading, which need not be kept")
            with MemoryStore() as copy:
                assert move_sessions(reader, copy).unheld == ("s",)
    finally:
        statement(store, f"DROP OWNED BY {role}")
        statement(store, f"DROP ROLE {role}")


def test_damage_in_a_database_is_told_with_a_command_that_saves_the_rest(
    server: PostgresServer, schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`foveal doctor --salvage` reads files alone: what it says of a database can be done."""
    place = f"{server.url}&foveal_schema={schema}&foveal_cache={tmp_path}"
    with open_store(place) as store:
        for name in ("sound", "damaged"):
            store.acquire(name).append([draft("e", payload=encode(user(name)))])
        assert isinstance(store, PostgresStore)
        statement(
            store,
            "UPDATE @entries SET author = 'forged' WHERE session = (SELECT key FROM @sessions WHERE id = 'damaged')",
        )
    assert main(["store", "doctor", place]) == 1
    said = capsys.readouterr().out.strip().splitlines()[-1]
    assert "--salvage" not in said
    words = shlex.split(said.partition(": foveal ")[2].replace("NEW.db", str(tmp_path / "new.db")))
    assert main(["store", "migrate", place, words[-1]]) == 1
    assert words[:2] == ["store", "migrate"]
    with SqliteStore(tmp_path / "new.db") as saved:
        assert [row.id for row in saved.rows("sound")] == ["e"]


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE @sessions SET secret = 'x' WHERE id = %s",
        "UPDATE @labels SET title = 'theirs' WHERE session = (SELECT key FROM @sessions WHERE id = %s)",
    ],
)
@pytest.mark.parametrize("tenant", [None, "acme"])
def test_one_damaged_session_closes_no_door_to_the_others(
    server: PostgresServer, schema: str, tmp_path: Path, harm: str, tenant: str | None
) -> None:
    """The others are listed, searched, examined, moved and deleted, each time with the damage told."""
    place = f"{server.url}&foveal_schema={schema}&foveal_cache={tmp_path}"
    with open_store(place) as owner, open_store(place, tenant=tenant) as store:
        for name in ("good", "bad", "other"):
            writer = store.acquire(name)
            writer.append([Draft(f"e{i}", None, 1, "me", encode(user(f"zebra {name}"))) for i in range(3)])
            writer.release()
        store.entitle("bad", "mine")
        assert len(search_store(store, "zebra")) == 3
        assert isinstance(owner, PostgresStore)
        prefix = "" if tenant is None else f"@{tenant}:"
        statement(owner, harm, f"{prefix}bad")

        has_record = "@labels" in harm
        with pytest.raises(ListDamaged, match=f"session {prefix}bad") as raised:
            store.cards()
        assert {card.id for card in raised.value.cards} == {"good", "other"} | ({"bad"} if has_record else set())
        assert list(raised.value.damage) == ["bad"]
        report = examine_store(store, "here")
        assert ["does not match" in str(one) or "do not match" in str(one) for one in report.damage] == [True]
        assert (report.sessions, report.entries) == (3, 9 if has_record else 6)
        unreadable = dict[str, StoreError]()
        found = search_store(store, "zebra", on_unreadable=unreadable.__setitem__)
        assert ({hit.session for hit in found}, [*unreadable]) == (
            ({"good", "bad", "other"}, []) if has_record else ({"good", "other"}, ["bad"])
        )
        with MemoryStore() as target:
            target.acquire("bad", secret=store.secret("bad") if has_record else None).release()
            target.entitle("bad", "mine")
            done = move_sessions(store, target)
            assert (len(done.damaged), done.sessions) == (1, 3 if has_record else 2)
            assert target.cards("bad")[0].title == "mine"
        assert expired(store, 1 << 60) == (list(raised.value.cards))
        assert delete_sessions(store, ["good"]).sessions == ("good",)
        if not has_record:
            with pytest.raises(StoreCorrupt, match="record"):
                delete_sessions(store, ["bad"])
        assert {*delete_expired(store, 1 << 60).sessions} == ({"bad", "other"} if has_record else {"other"})


def test_the_command_lists_the_sessions_beside_a_damaged_one(
    server: PostgresServer, schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends with 1, and names the damaged one."""
    place = f"{server.url}&foveal_schema={schema}&foveal_cache={tmp_path}"
    with open_store(place) as store:
        for name in ("good", "bad"):
            store.acquire(name).append([draft("e", payload=encode(user(name)))])
        assert isinstance(store, PostgresStore)
        statement(store, "UPDATE @sessions SET secret = 'x' WHERE id = 'bad'")
    for more in ([], ["--search", "good"]):
        assert main(["sessions", "--store", place, *more]) == 1
        said = capsys.readouterr().out
        assert "good" in said
        assert "damaged: bad: session bad: its record does not match its seal" in said


def test_entries_that_no_reader_meets_are_found(opened: Opened, server: PostgresServer, schema: str) -> None:
    """The examination names a session whose record is gone, and a log that goes on behind its record's end. A tenant is told of
    its own logs alone."""
    store = opened()
    for name in ("gone", "@acme:long", "@other:long", "sound"):
        store.acquire(name).append([draft(f"e{i}", payload=encode(user(name))) for i in range(3)])
    with open_store(f"{server.url}&foveal_schema={schema}", tenant="acme") as tenant:
        assert examine_store(store, "here").damage == examine_store(tenant, "here").damage == ()
        statement(store, "DELETE FROM @sessions WHERE id = 'gone'")
        statement(
            store,
            "INSERT INTO @entries SELECT session, seq + 1, 'more', parent, time_ms, author, hash, payload FROM @entries"
            " WHERE seq = 3 AND session IN (SELECT key FROM @sessions WHERE id ~ ':long')",
        )
        gone, *behind = map(str, examine_store(store, "here").damage)
        assert "a session is missing: 3 of its entries are there" in gone
        assert [one[:28] for one in behind] == ["session @acme:long, entry 4:", "session @other:long, entry 4"]
        assert [str(one)[:27] for one in examine_store(tenant, "here").damage] == ["session @acme:long, entry 4"]


def _refuse(monkeypatch: pytest.MonkeyPatch, verb: str, folder: Path) -> None:
    """Let a verb of paths be refused in a folder, as to a user who has no right to it."""
    allowed = getattr(Path, verb)

    def refused(place: Path, *given: object, **options: object) -> object:
        if folder in (place, *place.parents):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
        return allowed(place, *given, **options)

    monkeypatch.setattr(Path, verb, refused)


@pytest.mark.parametrize("verb", ["unlink", "iterdir"])
def test_a_deletion_tells_of_words_that_it_cannot_remove_from_its_machine(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """The session is deleted, and the outcome names the files, or the folder that cannot be read; so does `vacuum`."""
    cache = tmp_path / "cache"
    store = _machine_with_words(opened, cache)
    _refuse(monkeypatch, verb, cache)
    _refuse(monkeypatch, "open", cache)
    done = delete_sessions(store, ["gone"])
    assert (done.sessions, len(done.tombstones)) == (("gone",), 1)
    (told,) = done.left
    assert str(store._indexes.folder) in told
    assert "foveal store vacuum" in told
    assert "Permission denied" in vacuum_store(store).left[0]
    monkeypatch.setattr(index_cache, "SWEEP_S", 0.0)
    assert store.index("stays").place  # whoever searches is not kept from it
    monkeypatch.undo()
    assert len(_holders(cache)) == 3
    vacuum_store(store)
    assert _holders(cache) == []


def test_a_deletion_that_may_not_remove_files_from_its_machine_empties_them(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder cannot be changed, and the files in it can."""
    store = _machine_with_words(opened, tmp_path / "cache")
    _refuse(monkeypatch, "unlink", tmp_path / "cache")
    assert delete_sessions(store, ["gone"]).left == ()
    assert _holders(tmp_path / "cache") == []


def test_a_place_of_artifacts_belongs_to_one_store(server: PostgresServer, schema: str, tmp_path: Path) -> None:
    """A second one is refused: a deletion of the first would remove what only the second names. The place stays that of its store
    when everything in it is copied elsewhere."""
    place, folder = f"{server.url}&foveal_cache={tmp_path}&foveal_schema={schema}", tmp_path / "artifacts"
    with open_store(place, artifacts=folder) as store:
        store.artifacts.put([b"x"])
    try:
        with pytest.raises(BadInput, match="artifacts of another store"):
            open_store(f"{place}b", artifacts=folder)
        open_store(f"{place}b", artifacts=tmp_path / "its own").close()
        shutil.copytree(folder, tmp_path / "moved")
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute(f"UPDATE {schema}.store SET artifacts = %s".encode(), (str(tmp_path / "moved"),))  # noqa: S608
        with open_store(place) as store:
            assert len(store.kept_artifacts()) == 1
    finally:
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute(f"DROP SCHEMA IF EXISTS {schema}b CASCADE".encode())


def test_a_store_is_not_migrated_onto_itself_however_it_is_written(
    server: PostgresServer, schema: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With another option, or another name of the host. Another schema, and that of another database, are other stores."""
    place = f"{server.url}&foveal_schema={schema}&foveal_cache={tmp_path}"
    with open_store(place) as store:
        store.acquire("s").append([draft("e", payload=encode(user("hello")))])
    for other in (f"{place}&foveal_lease_s=20", place.replace(f"host={server.folder}", f"host={server.folder}/")):
        assert main(["store", "migrate", place, other]) == 2
        assert "are the same store" in capsys.readouterr().err
        assert are_same(place, other)
    assert not are_same(place, place.replace(schema, f"{schema}_new"))
    assert not are_same(place, place.replace("/postgres?", "/template1?"))
