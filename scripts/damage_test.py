"""Damage the files of stores in every way that disks and people do, and prove that nothing acknowledged is missing in silence.

    python scripts/damage_test.py --cases 20000 [--seed N] [--sabotage trust-the-wal]

A child process writes sessions with artifacts, snapshots and a search index, acknowledges each append, and is closed, or killed
at different ages of its WAL. Each case takes a copy of what it left, in one of three states (closed, killed, open in this
process), and damages one file: a flipped bit, a zeroed sector, a truncation, a removal, or a file of another store in its place.
Then somebody opens the store, lists, reads, recalls, searches and goes on writing. The outcome of a case is

- harmless  everything acknowledged is there, to the byte;
- loud      an error that names the repair came before anything was missed;
- silent    something was missing or changed, and nobody said so, or without saying what to do. There must be none.

For loud cases of the database and its WAL, a part is salvaged, and the share of acknowledged entries that came back is printed.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from foveal.recall.search import search
from foveal.stores.artifacts import artifacts_folder
from foveal.stores.port import Draft, Store
from foveal.stores.sqlite import SqliteStore, wal
from foveal.stores.sqlite.doctor import salvage
from foveal.values.codec import encode
from foveal.values.entry import Message, Stored, ToolResult, user
from foveal.values.errors import FovealError, StoreError

SESSIONS = ("alpha", "beta", "gamma", "delta/child")
KINDS = ("flip", "flip", "flip", "sector", "cut", "remove", "stranger")
SECTOR = 512
OPEN_SHARE, SALVAGED_SHARE = 0.2, 0.04
COUNT = 18
"""Entries of each session."""


class Left(NamedTuple):
    """The files that a writer left, and everything that it had been acknowledged."""

    name: str
    folder: Path
    is_closed: bool


@dataclass(slots=True)
class Tally:
    cases: Counter[str] = field(default_factory=Counter[str])
    silent: list[str] = field(default_factory=list[str])
    salvaged: int = 0
    lost: int = 0
    kinds: Counter[str] = field(default_factory=Counter[str])


class Silence(Exception):
    """Something acknowledged is missing, and nobody said so."""


# The writer


def rows_of(session: str, count: int) -> list[Draft]:
    """Return the entries of a session, derived from its name, so that an auditor needs no record of them."""
    drafts = []
    for number in range(count):
        entry = f"{session}-{number:04}"
        drafts.append(Draft(entry, drafts[-1].id if drafts else None, number, "writer", payload_of(entry)))
    return drafts


def payload_of(entry: str) -> bytes:
    if entry.endswith("5"):
        data = large_text(entry)
        return encode(Message("tool", (ToolResult(entry, (Stored(sha(data), len(data), 400, "head", "tail"),)),)))
    return encode(user(f"{entry} " * (1 + sum(entry.encode()) % 40)))


def large_text(entry: str) -> bytes:
    return f"{entry}: a line of output\n".encode() * 400


def sha(data: bytes) -> str:
    return sha256(data).hexdigest()


def write(store: Store, session: str, first: int, last: int) -> None:
    writer = store.acquire(session, takeover=True)
    for draft in rows_of(session, last)[first:]:
        if draft.id.endswith("5"):
            store.artifacts.put([large_text(draft.id)])
        writer.append([draft], snapshot=b"view " * 200 if draft.id.endswith("7") else None)


def leave(folder: Path, name: str, work: Callable[[SqliteStore], None]) -> Left:
    """Run `work` on a new store in a process of its own, which is then killed."""
    place = folder / name
    place.mkdir()
    pid = os.fork()
    if pid == 0:
        try:
            work(SqliteStore(place / "store.db"))
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(70)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit(f"{name}: the writer ended by itself with status {status}")
    return Left(name, place, name == "closed")


def stages(folder: Path) -> list[Left]:
    """Return what writers leave: closed, and killed with a young WAL, a carried over one, and one that was begun anew."""

    def fill(store: SqliteStore) -> None:
        for session in SESSIONS:
            write(store, session, 0, COUNT)
        search(store, "alpha", "alpha-0003")

    def closed(store: SqliteStore) -> None:
        fill(store)
        store.close()

    def carried_over(store: SqliteStore) -> None:
        fill(store)
        store._commits.run_alone(lambda db: db.wal_checkpoint())

    def begun_anew(store: SqliteStore) -> None:
        for session in SESSIONS:
            write(store, session, 0, COUNT - 3)
        search(store, "alpha", "alpha-0003")
        store._commits.run_alone(lambda db: db.wal_checkpoint())
        for session in SESSIONS:
            write(store, session, COUNT - 3, COUNT)

    works = {"closed": closed, "young": fill, "carried-over": carried_over, "begun-anew": begun_anew}
    return [leave(folder, name, work) for name, work in works.items()]


# The damage


def damage(rng: random.Random, target: Path, kind: str, stranger: Path) -> str:
    """Damage one file and return a description of it."""
    size = target.stat().st_size
    if kind == "remove" or not size:
        target.unlink()
        return "removed"
    if kind == "cut":
        keep = rng.choice((rng.randrange(size), size - size % 4096 - rng.randrange(2) * 4096, max(0, size - 1)))
        os.truncate(target, max(0, keep))
        return f"cut from {size} to {max(0, keep)} bytes"
    if kind == "stranger":
        data = stranger.read_bytes()
        target.unlink()
        target.write_bytes(data)
        return "replaced by a file of another store"
    with target.open("r+b") as file:
        if kind == "flip":
            bit = rng.randrange(size * 8)
            file.seek(bit // 8)
            byte = file.read(1)[0] ^ (1 << bit % 8)
            file.seek(bit // 8)
            file.write(bytes([byte]))
            return f"bit {bit} flipped"
        start = rng.randrange(size) // SECTOR * SECTOR
        file.seek(start)
        file.write(bytes(min(SECTOR, size - start)))
        return f"sector at {start} zeroed"


def targets(folder: Path) -> list[Path]:
    """Return the files of a store, its database and WAL several times: they are what matters most."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    main = [path for path in files if path.name in ("store.db", "store.db-wal")]
    return main * 6 + files


def file_kind(path: Path) -> str:
    if path.name.startswith("store.db"):
        return path.name.removeprefix("store.db") or "db"
    return "index" if ".index" in str(path) else "sidecar" if path.suffix else "artifact"


# The auditor


def check(store: Store) -> None:
    """Read everything that was acknowledged, as users do; `Silence` if something is missing without an error."""
    listed = {card.id: card.entries for card in store.cards()}
    for session in SESSIONS:
        expected = rows_of(session, COUNT)
        if listed.get(session) != COUNT:
            raise Silence(f"{session}: listed with {listed.get(session)} entries of {COUNT}")
        rows = list(store.rows(session))
        if [(row.id, row.parent, row.payload) for row in rows] != [(d.id, d.parent, d.payload) for d in expected]:
            raise Silence(f"{session}: {len(rows)} rows, or others than were written")
        for draft in expected:
            if [row.id for row in store.find(session, draft.id)] != [draft.id]:
                raise Silence(f"{draft.id} is not found")
            text = large_text(draft.id)
            if draft.id.endswith("5") and b"".join(store.artifacts.read(sha(text))) != text:
                raise Silence(f"the artifact of {draft.id} is another one")
        if store.secret(session) == b"":
            raise Silence(f"{session}: its secret is gone")
    search(store, "alpha", "alpha-0003")
    for session in SESSIONS[:2]:
        writer = store.acquire(session, takeover=True)
        if writer.append([Draft("next", None, 1, "auditor", payload_of("next"))]) != [COUNT + 1]:
            raise Silence(f"{session}: it was begun anew")
        writer.release()


def names_the_repair(error: FovealError) -> bool:
    said = str(error)
    return "foveal doctor" in said or "open the store again" in said


def audited(path: Path) -> str:
    """Open the store and read it; return the outcome."""
    try:
        with SqliteStore(path) as store:
            check(store)
        return "harmless"
    except StoreError as error:
        if not names_the_repair(error):
            raise Silence(f"no repair is named: {error}") from error
        return "loud"
    except FovealError as error:
        if not names_the_repair(error):
            raise Silence(f"{type(error).__name__}, which is no damage: {error}") from error
        return "loud"


def audited_open(path: Path, spoil: Callable[[], str]) -> tuple[str, str]:
    """Damage the files of a store while it is open; then its own handle and a later one are asked."""
    what, outcome = "", "harmless"
    with SqliteStore(path) as store:
        try:
            writer = store.acquire("omega")
            what = spoil()
            writer.append([Draft("while-open", None, 1, "auditor", payload_of("while-open"))])
            acknowledged = True
        except FovealError as error:
            acknowledged = False
            outcome = "loud"
            if not names_the_repair(error):
                raise Silence(f"no repair is named: {error}") from error
    if outcome == "loud":
        return what, outcome
    try:
        with SqliteStore(path) as store:
            if acknowledged and not store.find("omega", "while-open"):
                raise Silence("an entry that was acknowledged after the damage is gone")
    except FovealError as error:
        if not names_the_repair(error):
            raise Silence(f"no repair is named: {error}") from error
        return what, "loud"
    return what, outcome


def salvaged_share(path: Path, tally: Tally) -> None:
    target = path.with_name("salvaged.db")
    salvage(path, target)
    with SqliteStore(target) as store:
        names = {card.id for card in store.cards()}
        for session in SESSIONS:
            kept = {row.id for row in store.rows(session)} if session in names else set[str]()
            here = sum(draft.id in kept for draft in rows_of(session, COUNT))
            tally.salvaged += here
            tally.lost += COUNT - here


def one(rng: random.Random, tally: Tally, stage: Left, place: Path) -> None:
    """Damage one file of a copy, and count the outcome."""
    is_open, kind = rng.random() < OPEN_SHARE, rng.choice(KINDS)
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(stage.folder, place)
    path = place / "store.db"
    chosen: list[Path] = []

    def spoil() -> str:
        choice = [target for target in targets(place) if target.exists()]
        # A wal-index is mapped into memory: cutting it under an open store kills the process, which nobody overlooks.
        chosen.append(rng.choice([target for target in choice if not (is_open and target.name.endswith("-shm"))]))
        stranger = stage.folder.parent / "stranger" / chosen[0].name
        return damage(rng, chosen[0], kind if stranger.exists() or kind != "stranger" else "cut", stranger)

    what = ""
    state = "open" if is_open else stage.name
    try:
        if is_open:
            what, outcome = audited_open(path, spoil)
            if outcome == "harmless":
                outcome = audited(path)
        else:
            what = spoil()
            outcome = gone_whole(path, stage) or audited(path)
    except Silence as silence:
        outcome = "silent"
        tally.silent.append(f"{state} {file_kind(chosen[0])} {chosen[0].name[:20]}: {what}: {silence}")
    except Exception as error:  # anything else is a defect as well
        outcome = "silent"
        tally.silent.append(f"{state} {file_kind(chosen[0])}: {what}: raw {error!r}")
    tally.cases[outcome] += 1
    tally.kinds[f"{state} {file_kind(chosen[0])} {outcome}"] += 1
    if outcome == "loud" and not is_open and path.exists() and rng.random() < SALVAGED_SHARE:
        try:
            salvaged_share(path, tally)
        except FovealError as error:
            tally.silent.append(f"{state} {file_kind(chosen[0])}: {what}: cannot be salvaged: {error}")


def gone_whole(path: Path, stage: Left) -> str:
    """Return an outcome for a store of which nothing is left that could tell: its only file was removed."""
    is_alone = stage.is_closed and not path.exists() and not artifacts_folder(path).exists()
    return "harmless" if is_alone else ""


def run(count: int, seed: int, folder: Path) -> Tally:
    rng, tally = random.Random(seed), Tally()
    left = stages(folder)
    leave(folder, "stranger", lambda store: write(store, "alpha", 0, 5))
    for _ in range(count):
        one(rng, tally, rng.choice(left), folder / "case")
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--sabotage", choices=["trust-the-wal"], help="leave a check out on purpose: must be caught")
    parser.add_argument("--folder", type=Path, help="where to work (default: in memory if there is /dev/shm)")
    options = parser.parse_args()
    if options.sabotage:
        sabotage()
    parent = options.folder or (Path("/dev/shm") if Path("/dev/shm").is_dir() else None)  # noqa: S108 - wiped afterwards
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="foveal-damage-", dir=parent) as folder:
        tally = run(options.cases, options.seed, Path(folder))
    seconds = time.monotonic() - started
    for problem in tally.silent[:30]:
        print(problem, file=sys.stderr)
    for name, number in sorted(tally.kinds.items()):
        print(f"  {name}: {number}")
    total = tally.salvaged + tally.lost
    print(f"seed {options.seed} cases/s {options.cases / seconds:.1f} salvaged {tally.salvaged} of {total} entries")
    print(
        f"cases {options.cases} " + " ".join(f"{kind} {tally.cases[kind]}" for kind in ("harmless", "loud", "silent"))
    )
    return 0 if not tally.silent else 1


def sabotage() -> None:
    """Let stores be opened without looking at their WAL first, as SQLite alone would."""
    wal.state_at_rest = lambda path: wal.RestState()


if __name__ == "__main__":
    sys.exit(main())
