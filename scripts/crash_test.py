"""Kill a writer with SIGKILL at random moments, and prove each time that nothing acknowledged is lost.

    python scripts/crash_test.py --kills 2000 [--seed N] [--sabotage ack-before-commit]

A child process appends to several sessions from several threads: messages, artifacts with the messages that name them, and
fold marks with snapshots. It writes a line to a pipe for every append that returned. The parent kills it after a random number
of lines and a random delay. Another child then opens what is left and checks:

- every acknowledged append is there, in order, without gaps, with the bytes that were sent;
- an append that was not acknowledged is there whole or not at all, and nothing is there that was never sent;
- every artifact that is named can be read and has the right hash;
- the doctor finds nothing but the temporary files that the dead writer left.

Some kills are not audited at once, so that the next writer recovers what a killed one left, and is killed in turn.
"""

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from foveal.stores.port import Draft, Store, Writer
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite.doctor import STRAY, examine
from foveal.values.codec import decode, encode
from foveal.values.entry import Fold, Message, Stored, ToolResult, user
from foveal.values.errors import FovealError

SESSIONS = ("one", "two", "three")
ROUND_KILLS = 12
"""Kills of one store before it is replaced by a new one: long enough to grow, short enough to be audited quickly."""
AUDITED_SHARE = 0.7


@dataclass(slots=True)
class Outcome:
    kills: int = 0
    lost: int = 0
    torn: int = 0
    unopenable: int = 0
    acknowledged: int = 0
    problems: list[str] = field(default_factory=list[str])

    def add(self, found: dict[str, Any], where: str = "") -> None:
        """Add the findings of an audit."""
        self.lost += found["lost"]
        self.torn += found["torn"]
        self.unopenable += found["unopenable"]
        self.problems += [where + problem for problem in found["problems"]]

    def is_clean(self) -> bool:
        return not (self.lost or self.torn or self.unopenable)

    def line(self) -> str:
        return f"kills {self.kills} lost {self.lost} torn {self.torn} unopenable {self.unopenable}"


def payload_of(entry: str) -> bytes:
    """Return the content of an entry, derived from its id, so that an auditor needs no record of it."""
    return encode(user(f"{entry} " * (1 + sum(entry.encode()) % 90)))


def large_text(entry: str) -> bytes:
    return f"{entry}: a line of output\n".encode() * (200 + sum(entry.encode()) % 800)


# The writer


def write_until_killed(path: Path, pipe: int, run: int, *, is_sabotaged: bool) -> None:
    store = SqliteStore(path)
    threads = [
        threading.Thread(target=write_session, args=(store, session, pipe, run, is_sabotaged)) for session in SESSIONS
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def write_session(store: Store, session: str, pipe: int, run: int, is_sabotaged: bool) -> None:
    try:
        write_for_ever(store, session, pipe, run, is_sabotaged)
    except BaseException as error:  # a writer may only end by being killed
        os.write(2, f"{session}: {error!r}\n".encode())
        os._exit(70)


def write_for_ever(store: Store, session: str, pipe: int, run: int, is_sabotaged: bool) -> None:
    writer = store.acquire(session)
    rng = random.Random(f"{run} {session}")
    for number in itertools.count():
        size = rng.choice((1, 1, 1, 2, 3, 5))
        names = [f"{run}.{number}.{index}of{size}" for index in range(size)]
        kind = rng.choice(("message", "message", "artifact", "fold"))
        line = f"{session} {' '.join(names)}\n".encode()
        if is_sabotaged:
            os.write(pipe, line)
        append(store, writer, names, kind)
        if not is_sabotaged:
            os.write(pipe, line)


def append(store: Store, writer: Writer, names: list[str], kind: str) -> None:
    snapshot = None
    payloads = [payload_of(name) for name in names]
    if kind == "artifact":
        card = store.artifacts.put([large_text(names[-1])])
        stored = Stored(card.sha256, card.size_bytes, card.lines, card.head, card.tail)
        payloads[-1] = encode(Message("tool", (ToolResult(names[-1], (stored,)),)))
    elif kind == "fold":
        payloads[-1] = encode(Fold((), names[-1], 0, 0, 0))
        snapshot = b"view after " + names[-1].encode()
    now_ms = time.time_ns() // 1_000_000
    drafts = [Draft(name, None, now_ms, "writer", data) for name, data in zip(names, payloads, strict=True)]
    writer.append(drafts, snapshot=snapshot)


# The auditor


def audit(path: Path, acknowledged: dict[str, list[list[str]]]) -> dict[str, Any]:
    """Return all problems of the store, as plain values."""
    found = Outcome()
    try:
        store = SqliteStore(path)
        logs = {card.id: list(store.rows(card.id)) for card in store.cards()}
        for session, rows in logs.items():
            check_log(session, [row.id for row in rows], acknowledged.get(session, []), found)
            for row in rows:
                check_row(store, row.id, row.payload, found)
            check_snapshot(store, session, {row.seq: row.id for row in rows}, found)
        for session in acknowledged.keys() - logs.keys():
            found.lost += len(acknowledged[session])
            found.problems.append(f"{session}: the whole session is gone")
        store.close()
        for damage in examine(path).damage:
            if damage.what != STRAY:
                found.torn += 1
                found.problems.append(str(damage))
    except FovealError as error:
        found.unopenable += 1
        found.problems.append(repr(error))
    return {"lost": found.lost, "torn": found.torn, "unopenable": found.unopenable, "problems": found.problems}


def check_log(session: str, ids: list[str], acknowledged: list[list[str]], found: Outcome) -> None:
    present = {entry: place for place, entry in enumerate(ids)}
    missing = [names for names in acknowledged if not all(name in present for name in names)]
    found.lost += len(missing)
    found.problems += [f"{session}: acknowledged, but not there: {names}" for names in missing]
    order = [present[name] for names in acknowledged for name in names if name in present]
    if order != sorted(order):
        found.torn += 1
        found.problems.append(f"{session}: the order changed")
    position = 0
    while position < len(ids):
        prefix, _, rest = ids[position].rpartition(".")
        size = int(rest.partition("of")[2])
        if ids[position : position + size] != [f"{prefix}.{index}of{size}" for index in range(size)]:
            found.torn += 1
            found.problems.append(f"{session}: half of an append at {ids[position]}")
            return
        position += size


def check_row(store: Store, entry: str, payload: bytes, found: Outcome) -> None:
    body = decode(payload)
    match body:
        case Message("tool", (ToolResult(call, (Stored() as stored,)),)):
            data = b"".join(store.artifacts.read(stored.sha256))
            is_right = call == entry and data == large_text(entry) and sha256(data).hexdigest() == stored.sha256
        case Fold():
            is_right = body.reason == entry
        case _:
            is_right = payload == payload_of(entry)
    if not is_right:
        found.torn += 1
        found.problems.append(f"{entry}: other bytes than were sent")


def check_snapshot(store: Store, session: str, ids: dict[int, str], found: Outcome) -> None:
    snapshot = store.snapshot(session)
    if snapshot is not None and snapshot.payload != b"view after " + ids[snapshot.seq].encode():
        found.torn += 1
        found.problems.append(f"{session}: the snapshot is of another entry than {snapshot.seq}")


# The hangman


def in_child(work: Callable[[int], None]) -> tuple[int, int]:
    """Run `work` in a forked process with the writing end of a pipe; returns its pid and the reading end."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    os.close(reading)
    try:
        work(writing)
        os._exit(0)
    except BaseException as error:
        os.write(2, f"{error!r}\n".encode())
        os._exit(70)


def killed_writer(path: Path, rng: random.Random, run: int, *, is_sabotaged: bool) -> list[str]:
    """Start a writer, kill it at a random moment, and return the lines that it wrote."""
    pid, pipe = in_child(lambda end: write_until_killed(path, end, run, is_sabotaged=is_sabotaged))
    wanted = rng.choice((0, 0, 1, 2, 5, 10, 20, 40))
    heard = b""
    while heard.count(b"\n") < wanted and (piece := os.read(pipe, 65536)):
        heard += piece
    time.sleep(rng.uniform(0, 0.012 if wanted == 0 else 0.003))
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    while piece := os.read(pipe, 65536):
        heard += piece
    os.close(pipe)
    if not os.WIFSIGNALED(status):
        raise SystemExit(f"the writer ended by itself with status {status}")
    return heard.decode().splitlines()


def audited(path: Path, acknowledged: dict[str, list[list[str]]], outcome: Outcome) -> bool:
    """Audit the store in a process of its own, add its findings to the outcome, and return whether all is well."""
    if not path.exists() and not acknowledged:
        return True  # killed before there was a store
    pid, pipe = in_child(lambda end: send(end, json.dumps(audit(path, acknowledged)).encode()))
    said = b""
    while piece := os.read(pipe, 65536):
        said += piece
    os.close(pipe)
    _, status = os.waitpid(pid, 0)
    broken = {"lost": 0, "torn": 0, "unopenable": 1, "problems": ["the auditor broke"]}
    found = broken if status else json.loads(said)
    outcome.add(found)
    return not found["problems"]


def send(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def crash(kills: int, seed: int, folder: Path, *, is_sabotaged: bool = False) -> Outcome:
    rng, outcome = random.Random(seed), Outcome()
    while outcome.kills < kills:
        shutil.rmtree(folder / "store", ignore_errors=True)
        (folder / "store").mkdir()
        last = min(outcome.kills + ROUND_KILLS, kills)
        is_sound = True
        acknowledged: dict[str, list[list[str]]] = {}
        while outcome.kills < last and is_sound:  # a lost entry stays lost in this store, and is counted once
            path = folder / "store" / "log.db"
            for line in killed_writer(path, rng, outcome.kills, is_sabotaged=is_sabotaged):
                session, *names = line.split()
                acknowledged.setdefault(session, []).append(names)
                outcome.acknowledged += len(names)
            outcome.kills += 1
            if outcome.kills == last or rng.random() < AUDITED_SHARE:
                is_sound = audited(path, acknowledged, outcome)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--sabotage", choices=["ack-before-commit"], help="break the writer on purpose: must be caught")
    parser.add_argument("--folder", type=Path, help="where to work (default: in memory if there is /dev/shm)")
    options = parser.parse_args()
    parent = options.folder or (Path("/dev/shm") if Path("/dev/shm").is_dir() else None)  # noqa: S108 - wiped afterwards
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="foveal-crash-", dir=parent) as folder:
        outcome = crash(options.kills, options.seed, Path(folder), is_sabotaged=options.sabotage is not None)
    seconds = time.monotonic() - started
    for problem in outcome.problems[:20]:
        print(problem, file=sys.stderr)
    print(f"seed {options.seed} acknowledged {outcome.acknowledged} kills/s {outcome.kills / seconds:.1f}")
    print(outcome.line())
    return 0 if outcome.is_clean() else 1


if __name__ == "__main__":
    sys.exit(main())
