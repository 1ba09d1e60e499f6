"""Kill PostgreSQL and its clients at random moments under load, and prove that nothing acknowledged is lost.

    python scripts/kill_postgres.py --kills 300 [--workers-only] [--seed N] [--sabotage ack-first | no-fence]

Three processes append to sessions of their own and fight for others, each append of two entries, and write a line for each append
that returned. Meanwhile, in turn and at random moments: all processes of the server are killed, its main process, the process of
one connection; it is restarted the fast way; a worker is killed and started again; a worker is stopped for longer than its lease
and woken. At the end the store is read, every hash compared, and counted:

- lost: acknowledged entries that are not at the place that was acknowledged;
- torn: appends of which one entry is there and the other is not;
- doubled: entries that are in a log twice;
- two writers: entries of a writer that stand after one of its successor;
- unclear: errors that were none of those that a store may raise then.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from foveal.stores.port import Draft
from foveal.stores.postgres import commits
from foveal.stores.postgres.store import PostgresStore
from foveal.testing.postgres_server import PostgresServer, find_postgres
from foveal.values.errors import LeaseLost, SessionHeld, StoreUnavailable

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

    def is_clean(self) -> bool:
        return not any(self.counts[name] for name in ("lost", "torn", "doubled", "two writers", "unclear"))

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
        )
        kills = ", ".join(f"{kind} {count}" for kind, count in sorted(self.kills.items()))
        told = ", ".join(f"{name} {self.counts[name]:,}" for name in names)
        return f"kills {sum(self.kills.values())} ({kills}): {told}; longest silence {self.silence_s:.1f} s"


# A worker


def work(url: str, folder: Path, run: str, sabotage: str | None) -> None:
    """Append until there is a file named `stop`."""
    if sabotage == "no-fence":
        commits._APPEND = commits._APPEND.replace(" AND s.epoch = g.epoch AND s.token = g.token", "")
        commits.PostgresCommits._commit_alone = careless  # type: ignore[method-assign]
    store = PostgresStore(url, lease_s=LEASE_S, patience_s=PATIENCE_S, cache=folder / "cache")
    names = [f"own-{run.split('.', maxsplit=1)[0]}-{i}" for i in range(OWN)] + [f"shared-{i}" for i in range(SHARED)]
    with (folder / f"acks-{run}").open("w", buffering=1) as acks:
        shared = {"folder": folder, "acks": acks, "sabotage": sabotage}
        threads = [threading.Thread(target=write, args=(store, name, run), kwargs=shared) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    store.close()


def write(store: PostgresStore, session: str, run: str, *, folder: Path, acks: Any, sabotage: str | None) -> None:
    draw, stop, number = random.Random(f"{run} {session}"), folder / "stop", 0

    def note(kind: str, *rest: object) -> None:
        acks.write(json.dumps([kind, session, time.time(), *rest]) + "\n")

    while not stop.exists():
        try:
            writer = store.acquire(session, takeover=session.startswith("shared") and draw.random() < 0.3)
            while not stop.exists() and not (session.startswith("shared") and draw.random() < 0.05):
                number += 1
                entry = f"{writer.epoch:08}-{run}-{number}"
                drafts = [Draft(name, None, 1, "worker", payload_of(name)) for name in (entry, f"{entry}-too")]
                if sabotage == "ack-first":
                    note("ack", entry, 0)
                places = writer.append(drafts, snapshot=b"view" * 50 if draw.random() < 0.05 else None)
                note("ack", entry, places[0])
            writer.release()
        except SessionHeld:
            time.sleep(0.1)
        except LeaseLost:
            note("fenced")
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

    def __init__(self, server: PostgresServer, folder: Path, sabotage: str | None, draw: random.Random) -> None:
        self.server, self.folder, self._sabotage, self._draw = server, folder, sabotage, draw
        self._runs = [0] * WORKERS
        self.workers = [self._start(number) for number in range(WORKERS)]

    def kill(self, kind: str) -> None:
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
            return
        children = self._children()
        if kind == "backend":
            if children:
                server.kill_backend(self._draw.choice(children))
            return
        if kind == "restart":
            server.stop()
        else:
            server.kill()
            for child in children if kind == "all" else ():
                try:
                    os.kill(child, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        server.start()

    def finish(self) -> None:
        (self.folder / "stop").touch()
        for worker in self.workers:
            worker.wait()

    def _children(self) -> list[int]:
        assert self.server.process is not None
        tasks = Path(f"/proc/{self.server.process.pid}/task/{self.server.process.pid}/children").read_text()
        return [int(pid) for pid in tasks.split()]

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        self._runs[number] += 1
        words = ["--work", f"{number}.{self._runs[number]}", "--url", self.server.url, "--folder", str(self.folder)]
        sabotage = ["--sabotage", self._sabotage] if self._sabotage else []
        return subprocess.Popen([sys.executable, __file__, *words, *sabotage])


def run(kills: int, *, kinds: tuple[str, ...], seed: int, sabotage: str | None = None) -> Outcome:
    """Do so many kills and return the audit."""
    programs = find_postgres()
    if programs is None:
        raise SystemExit("no PostgreSQL server is installed")
    draw, outcome = random.Random(seed), Outcome()
    server = PostgresServer(programs).start()
    folder = Path(tempfile.mkdtemp(prefix="foveal-kills-"))
    try:
        PostgresStore(server.url, cache=folder / "cache").close()
        killer = Killer(server, folder, sabotage, draw)
        wait_for_acks(folder)
        for number in range(kills):
            time.sleep(draw.uniform(0.3, 1.2))
            kind = kinds[number % len(kinds)]
            killer.kill(kind)
            outcome.kills[kind] += 1
        time.sleep(1.0)
        killer.finish()
        audit(server.url, folder, outcome)
    finally:
        server.remove()
    return outcome


def wait_for_acks(folder: Path) -> None:
    deadline = time.monotonic() + 60
    while sum(file.stat().st_size > 500 for file in folder.glob("acks-*")) < WORKERS:
        if time.monotonic() > deadline:
            raise SystemExit("the workers did not begin")
        time.sleep(0.1)


def audit(url: str, folder: Path, outcome: Outcome) -> None:
    """Compare the logs with the acknowledgements."""
    acks, times = dict[tuple[str, str], int](), list[float]()
    for file in folder.glob("acks-*"):
        for line in file.read_text().splitlines():
            try:
                kind, session, moment, *rest = json.loads(line)
            except ValueError:
                continue  # the last line of a worker that was killed
            if kind == "ack":
                acks[session, rest[0]] = rest[1] or acks.get((session, rest[0]), 0)
                times.append(moment)
            else:
                outcome.counts[kind] += 1
                if kind == "unclear":
                    outcome.problems.append(f"{session}: {rest[0]}")
    outcome.counts["acknowledged"] = len(acks)
    with PostgresStore(url, cache=folder / "cache") as store:
        logs = {card.id: list(store.rows(card.id)) for card in store.cards()}  # every hash is compared
    for session, rows in logs.items():
        places = {row.id: row.seq for row in rows}
        outcome.counts["doubled"] += len(rows) - len(places)
        outcome.counts["torn"] += sum((entry + "-too") not in places for entry in places if not entry.endswith("-too"))
        epochs = [int(row.id[:8]) for row in rows]
        outcome.counts["two writers"] += sum(a > b for a, b in pairwise(epochs))
        outcome.counts["lost"] += sum(row.payload != payload_of(row.id) for row in rows)
        outcome.counts["kept, not acknowledged"] += sum(
            (session, row.id) not in acks for row in rows if not row.id.endswith("-too")
        )
        for (name, entry), place in acks.items():
            if name == session and (entry not in places or place not in (0, places[entry])):
                outcome.counts["lost"] += 1
                outcome.problems.append(f"{session}: {entry} was acknowledged at {place}")
    outcome.counts["lost"] += sum(session not in logs for session, _ in acks)
    times.sort()
    outcome.silence_s = max((b - a for a, b in pairwise(times)), default=0.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--workers-only", action="store_true", help="kill workers, and leave the server alone")
    parser.add_argument("--server-only", action="store_true", help="kill the server, and leave the workers alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sabotage", choices=("ack-first", "no-fence"))
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.url, args.folder, args.work, args.sabotage)
        return 0
    kinds = (*(() if args.workers_only else SERVER_KILLS), *(() if args.server_only else WORKER_KILLS))
    outcome = run(args.kills, kinds=kinds, seed=args.seed, sabotage=args.sabotage)
    for problem in outcome.problems[:20]:
        print(problem)
    print(outcome.line())
    return 0 if outcome.is_clean() else 1


if __name__ == "__main__":
    sys.exit(main())
