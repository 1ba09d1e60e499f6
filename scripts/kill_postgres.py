"""Kill PostgreSQL and its clients at random moments under load, and prove that nothing acknowledged is lost.

    python scripts/kill_postgres.py --kills 300 [--workers-only] [--pause-ms N] [--seed N] [--sabotage ack-first | no-fence]
    python scripts/kill_postgres.py --kills 20 --failover sync | async [--sabotage late-replica | blind]

Three processes append to sessions of their own and fight for others, each append of two entries, and write a line for each append
that returned. Meanwhile, in turn and at random moments: all processes of the server are killed, its main process, the process of
one connection; it is restarted the fast way; a worker is killed and started again; a worker is stopped for longer than its lease
and woken. At the end the store is read, every hash compared, and counted:

- lost: acknowledged entries that are not at the place that was acknowledged;
- torn: appends of which one entry is there and the other is not;
- doubled: entries that are in a log twice;
- two writers: entries of a writer that stand after one of its successor;
- unclear: errors that were none of those that a store may raise then;
- unavailable: writers that the store gave up, since PostgreSQL did not come back in time.

With `--failover`, a kill is the loss of the server's machine: its replica is cut off for a moment, all processes of the server
are killed, the replica is promoted, and a new one follows it. A synchronous replica must lose nothing. One that follows
asynchronously loses entries, and then is counted:

- unsaid: writers that lost acknowledged entries and were not told (`TailLost`);
- forked: those that went on above the hole.
"""

import argparse
import json
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from forked import Forked

from foveal.stores.port import Draft
from foveal.stores.postgres import commits
from foveal.stores.postgres.store import PostgresStore
from foveal.testing.postgres_server import PostgresServer, find_postgres
from foveal.values.errors import LeaseLost, SessionHeld, StoreUnavailable, TailLost

WORKERS = 3
OWN, SHARED = 4, 4
LEASE_S = 2.0
PATIENCE_S = 60.0
SERVER_KILLS = ("all", "postmaster", "backend", "restart")
WORKER_KILLS = ("worker", "worker", "worker", "sleep")


@dataclass(slots=True)
class Outcome:
    kills: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    silence_s: float = 0.0
    may_lose: bool = False
    """Whether acknowledged entries may be lost, as long as their writers are told."""

    def is_clean(self) -> bool:
        bad = [
            "torn",
            "doubled",
            "two writers",
            "unclear",
            "unsaid",
            "forked",
            "unavailable",
            *([] if self.may_lose else ["lost", "told"]),
        ]
        return not any(self.counts[name] for name in bad)

    def line(self) -> str:
        names = (
            "acknowledged",
            "kept, not acknowledged",
            "fenced",
            "lost",
            "torn",
            "doubled",
            "two writers",
            "unclear",
            "unavailable",
            *(("told", "unsaid", "forked") if "failover" in self.kills else ()),
        )
        kills = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kills.items()))
        told = ", ".join(f"{name} {self.counts[name]:,}" for name in names)
        return f"kills {sum(self.kills.values())} ({kills}): {told}; longest silence {self.silence_s:.1f} s"


# A worker


class Load(NamedTuple):
    """The work of the workers."""

    sabotage: str | None = None
    pause_ms: int = 0
    """Milliseconds between two appends to a session; without a pause, they take all that the machine has."""


def work(url: str, folder: Path, run: str, load: Load) -> None:
    """Append until there is a file named `stop`."""
    sabotage = load.sabotage
    if sabotage == "no-fence":
        fence = " AND s.epoch = g.epoch AND s.token = g.token AND s.mark = g.mark"
        assert fence in commits._APPEND
        commits._APPEND = commits._APPEND.replace(fence, "")
    if sabotage in ("no-fence", "blind"):
        commits.PostgresCommits._commit_alone = careless  # type: ignore[method-assign]
    store = PostgresStore(url, lease_s=LEASE_S, patience_s=PATIENCE_S, cache=folder / "cache", replication="ignore")
    names = [f"own-{run.split('.', maxsplit=1)[0]}-{i}" for i in range(OWN)] + [f"shared-{i}" for i in range(SHARED)]
    with (folder / f"acks-{run}").open("w", buffering=1) as acks:
        shared = {"folder": folder, "acks": acks, "load": load}
        threads = [threading.Thread(target=write, args=(store, name, run), kwargs=shared) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    store.close()


def write(store: PostgresStore, session: str, run: str, *, folder: Path, acks: Any, load: Load) -> None:
    draw, stop, number, stint = random.Random(f"{run} {session}"), folder / "stop", 0, ""

    def note(kind: str, *rest: object) -> None:
        acks.write(json.dumps([kind, session, time.time(), *rest]) + "\n")

    while not stop.exists():
        try:
            writer = store.acquire(session, takeover=session.startswith("shared") and draw.random() < 0.3)
            number += 1
            stint = f"{writer.epoch:08}-{run}-{number}"
            while not stop.exists() and not (session.startswith("shared") and draw.random() < 0.05):
                number += 1
                entry = f"{stint}-{number}"
                drafts = [Draft(name, None, 1, "worker", payload_of(name)) for name in (entry, f"{entry}-too")]
                if load.sabotage == "ack-first":
                    note("ack", entry, 0)
                places = writer.append(drafts, snapshot=b"view" * 50 if draw.random() < 0.05 else None)
                note("ack", entry, places[0])
                time.sleep(load.pause_ms / 1000)
            writer.release()
            note("released", stint)
        except SessionHeld:
            time.sleep(0.1)
        except LeaseLost:
            note("fenced", stint)
        except TailLost:
            note("told", stint)
        except StoreUnavailable as error:
            note("unavailable", str(error))
        except Exception as error:
            note("unclear", repr(error))
            time.sleep(0.1)


def careless(self: Any, ticket: Any, patience: Any) -> list[int]:
    """Take over whatever the log has become: a writer that does not mind being succeeded."""
    with self._connections.link() as link:
        (raw,) = link.ask("SELECT $record FROM @sessions WHERE key = %s", (ticket.held.register.key,))
    ticket.held.register = commits.register(raw, "")
    self._commit_together([ticket])
    return ticket.seqs if ticket.seqs is not None else self._commit_alone(ticket, patience)


def payload_of(entry: str) -> bytes:
    """Return the content of an entry, derived from its id, so that an auditor needs no record of it."""
    return f"{entry} ".encode() * (1 + sum(entry.encode()) % 60)


# The killer


class Killer:
    """The server, the workers and the kills."""

    def __init__(
        self, server: PostgresServer, folder: Path, load: Load, draw: random.Random, url: str | None = None
    ) -> None:
        self.server, self.folder, self._load, self._draw = server, folder, load, draw
        self._url = url or server.url
        self._runs = [0] * WORKERS
        self.workers = [self._start(number) for number in range(WORKERS)]

    def kill(self, kind: str) -> bool:
        """Kill, and return whether there was something to kill."""
        server = self.server
        if kind in ("worker", "sleep"):
            number = self._draw.randrange(WORKERS)
            if kind == "worker":
                self.workers[number].kill()
                self.workers[number].wait()
                self.workers[number] = self._start(number)
            else:
                self.workers[number].send_signal(signal.SIGSTOP)
                time.sleep(LEASE_S + 1.0)
                self.workers[number].send_signal(signal.SIGCONT)
            return True
        if kind == "backend":
            children = server.children()
            if children:
                server.kill_backend(self._draw.choice(children))
            return bool(children)
        {"restart": server.stop, "postmaster": server.kill, "all": server.kill_whole}[kind]()
        server.start()
        return True

    def finish(self) -> None:
        (self.folder / "stop").touch()
        for worker in self.workers:
            worker.wait()

    def _start(self, number: int) -> Forked:
        self._runs[number] += 1
        name = f"{number}.{self._runs[number]}"
        return Forked(lambda: work(self._url, self.folder, name, self._load))


def run(kills: int, *, kinds: tuple[str, ...], seed: int, load: Load = Load()) -> Outcome:  # noqa: B008 - a frozen value
    """Do so many kills and return the audit."""
    programs = find_postgres()
    if programs is None:
        raise SystemExit("no PostgreSQL server is installed")
    draw, outcome = random.Random(seed), Outcome()
    server = PostgresServer(programs).start()
    folder = Path(tempfile.mkdtemp(prefix="foveal-kills-"))
    try:
        PostgresStore(server.url, cache=folder / "cache").close()
        killer = Killer(server, folder, load, draw)
        wait_for_acks(folder)
        for number in range(kills):
            time.sleep(draw.uniform(0.3, 1.2))
            kind = kinds[number % len(kinds)]
            outcome.kills[kind] += killer.kill(kind)
        time.sleep(1.0)
        killer.finish()
        audit(server.url, folder, outcome)
    finally:
        server.remove()
    return outcome


class Pair:
    """A primary and its replica, reached by an address that names both: two links, one of which is new with each failover."""

    def __init__(self, programs: Path, folder: Path, *, is_synchronous: bool) -> None:
        self._programs, self._folder, self._is_synchronous = programs, folder, is_synchronous
        self.primary = PostgresServer(programs, settings={"wal_keep_size": "256MB"}).start()
        self._names = deque(["one", "two"])
        self._link(self.primary)
        PostgresStore(self.primary.url, cache=folder / "cache").close()
        self.replica = self._follow()

    @property
    def url(self) -> str:
        hosts = ",".join(str(self._folder / name) for name in self._names)
        return f"postgresql://foveal@/postgres?host={hosts}&target_session_attrs=read-write"

    def fail_over(self, cut_s: float) -> tuple[float, float]:
        """Cut the replica off for a moment, lose the primary, and let the replica take over. Return the times of the two."""
        if cut_s:
            tell(self.replica, "ALTER SYSTEM SET primary_conninfo = ''", "SELECT pg_reload_conf()")
            time.sleep(cut_s)
        self.primary.kill_whole()
        killed = time.time()
        time.sleep(0.5)  # answers of the dead server are noted
        promoted = time.time()
        self.replica.promote()
        self.primary.remove()
        self.primary = self.replica
        self.replica = self._follow()
        return killed, promoted

    def remove(self) -> None:
        self.replica.remove()
        self.primary.remove()

    def _follow(self) -> PostgresServer:
        """Return a new replica of the primary, once it follows."""
        replica = PostgresServer(self._programs, settings={"wal_keep_size": "256MB"}, primary=self.primary).start()
        self._link(replica)
        following = (
            "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND application_name = 'walreceiver'"
        )
        while tell(self.primary, following) != [(1,)]:
            time.sleep(0.05)
        if self._is_synchronous:
            tell(self.primary, "ALTER SYSTEM SET synchronous_standby_names = 'walreceiver'", "SELECT pg_reload_conf()")
            while tell(self.primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") != [(1,)]:
                time.sleep(0.05)
        return replica

    def _link(self, server: PostgresServer) -> None:
        name = self._names.popleft()
        self._names.append(name)
        (self._folder / name).unlink(missing_ok=True)
        (self._folder / name).symlink_to(server.folder)


def tell(server: PostgresServer, *statements: str) -> list[tuple[Any, ...]]:
    """Run statements as the server's owner, and return the answer to the last."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        cursors = [connection.execute(statement.encode()) for statement in statements]
        return cursors[-1].fetchall()


def fail_over(rounds: int, *, is_synchronous: bool, seed: int, load: Load = Load()) -> Outcome:  # noqa: B008 - a frozen value
    """Lose the primary so many times under load, and return the audit."""
    programs = find_postgres()
    if programs is None:
        raise SystemExit("no PostgreSQL server is installed")
    draw, outcome = random.Random(seed), Outcome(may_lose=not is_synchronous)
    folder = Path(tempfile.mkdtemp(prefix="foveal-failover-"))
    pair = Pair(programs, folder, is_synchronous=is_synchronous and load.sabotage != "late-replica")
    try:
        killer = Killer(pair.primary, folder, load, draw, pair.url)
        failovers = list[tuple[float, float]]()
        for number in range(rounds):
            wait_for_acks(folder, since=failovers[-1][1] if failovers else 0.0)
            time.sleep(draw.uniform(0.3, 1.2))
            failovers.append(pair.fail_over(draw.uniform(0.1, 0.6) if number % 4 != 3 else 0.0))
            outcome.kills["failover"] += 1
        wait_for_acks(folder, since=failovers[-1][1])
        killer.finish()
        audit(pair.primary.url, folder, outcome, failovers)
    finally:
        pair.remove()
    return outcome


def wait_for_acks(folder: Path, since: float = 0.0) -> None:
    """Wait until every worker has been answered since a time."""
    deadline = time.monotonic() + 300
    while sum(f.stat().st_size > 500 and f.stat().st_mtime > since for f in folder.glob("acks-*")) < WORKERS:
        if time.monotonic() > deadline:
            raise SystemExit("the workers are not answered")
        time.sleep(0.1)


def audit(url: str, folder: Path, outcome: Outcome, failovers: Sequence[tuple[float, float]] = ()) -> None:
    """Compare the logs with the acknowledgements."""
    acks, times = dict[tuple[str, str], int](), list[float]()
    notes = list[Note]()
    for file in folder.glob("acks-*"):
        for line in file.read_text().splitlines():
            try:
                kind, session, moment, *rest = json.loads(line)
            except ValueError:
                continue  # the last line of a worker that was killed
            notes.append(Note(kind, session, moment, str(rest[0])))
            if kind == "ack":
                acks[session, rest[0]] = rest[1] or acks.get((session, rest[0]), 0)
                times.append(moment)
            else:
                outcome.counts[kind] += 1
                if kind == "unclear":
                    outcome.problems.append(f"{session}: {rest[0]}")
    outcome.counts["acknowledged"] = len(acks)
    with PostgresStore(url, cache=folder / "cache", replication="ignore") as store:
        logs = {card.id: list(store.rows(card.id)) for card in store.cards()}  # every hash is compared
    for session, rows in logs.items():
        places = {row.id: row.seq for row in rows}
        outcome.counts["doubled"] += len(rows) - len(places)
        outcome.counts["torn"] += sum((entry + "-too") not in places for entry in places if not entry.endswith("-too"))
        epochs = [int(row.id[:8]) for row in rows]
        outcome.counts["two writers"] += sum(a > b for a, b in pairwise(epochs))
        stints = [stint for stint, _ in groupby(stint_of(row.id.removesuffix("-too")) for row in rows)]
        outcome.counts["two writers"] += len(stints) - len(set(stints))
        outcome.counts["lost"] += sum(row.payload != payload_of(row.id) for row in rows)
        outcome.counts["kept, not acknowledged"] += sum(
            (session, row.id) not in acks for row in rows if not row.id.endswith("-too")
        )
        for (name, entry), place in acks.items():
            if name == session and (entry not in places or place not in (0, places[entry])):
                outcome.counts["lost"] += 1
                if not outcome.may_lose:
                    outcome.problems.append(f"{session}: {entry} was acknowledged at {place}")
    outcome.counts["lost"] += sum(session not in logs for session, _ in acks)
    if failovers:
        kept = {(session, row.id) for session, rows in logs.items() for row in rows}
        audit_stints(notes, kept, outcome, failovers)
    times.sort()
    outcome.silence_s = max((b - a for a, b in pairwise(times)), default=0.0)


class Note(NamedTuple):
    """A line that a worker wrote."""

    kind: str
    session: str
    time_s: float
    what: str
    """The entry of an acknowledgement; else the stint."""


def stint_of(entry: str) -> str:
    """Return the stint of an entry: the time from acquiring a session to losing it."""
    return entry.rpartition("-")[0]


def audit_stints(
    notes: Sequence[Note], kept: set[tuple[str, str]], outcome: Outcome, failovers: Sequence[tuple[float, float]]
) -> None:
    """Count the writers that lost acknowledged entries and were not told, and those that went on above the hole."""
    told = {(note.session, note.what) for note in notes if note.kind == "told"}
    ended = {(note.session, note.what): note.time_s for note in notes if note.kind in ("released", "fenced")}
    acks = sorted((note for note in notes if note.kind == "ack"), key=lambda note: note.time_s)
    lost = dict[tuple[str, str], float]()
    for ack in acks:
        stint = ack.session, stint_of(ack.what)
        is_kept = (ack.session, ack.what) in kept
        if is_kept and stint in lost:
            outcome.counts["forked"] += 1
        elif not is_kept:
            lost.setdefault(stint, ack.time_s)
    costly = set[float]()
    for stint, first_s in lost.items():
        promoted = next((promoted for killed, promoted in failovers if killed + 0.5 > first_s), 0.0)
        costly.add(promoted)
        if (
            stint not in told and ended.get(stint, promoted) >= promoted
        ):  # else it had ended before, and heard of nothing
            outcome.counts["unsaid"] += 1
            outcome.problems.append(f"{stint[0]}: the writer {stint[1]} lost entries and was not told")
    outcome.counts["failovers that lost"] = len(costly)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--workers-only", action="store_true", help="kill workers, and leave the server alone")
    parser.add_argument("--server-only", action="store_true", help="kill the server, and leave the workers alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--failover", choices=("sync", "async"), help="lose the primary, and let its replica take over")
    parser.add_argument("--sabotage", choices=("ack-first", "no-fence", "late-replica", "blind"))
    parser.add_argument("--pause-ms", type=int, default=0, help="between two appends to a session")
    args = parser.parse_args()
    load = Load(args.sabotage, args.pause_ms)
    if args.failover:
        outcome = fail_over(args.kills, is_synchronous=args.failover == "sync", seed=args.seed, load=load)
        return report(outcome)
    kinds = (*(() if args.workers_only else SERVER_KILLS), *(() if args.server_only else WORKER_KILLS))
    return report(run(args.kills, kinds=kinds, seed=args.seed, load=load))


def report(outcome: Outcome) -> int:
    """Print the outcome, and return the status of the program."""
    for problem in outcome.problems[:20]:
        print(problem)
    print(outcome.line())
    return 0 if outcome.is_clean() else 1


if __name__ == "__main__":
    sys.exit(main())
