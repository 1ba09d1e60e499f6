"""What does an append cost in SQLite and in PostgreSQL, and what does opening a session take?

    python benchmarks/stores.py [--seconds 5] [--rounds 3] [--long 100000] [--bytes] [--write]

Both stores are on the same disk, in the same run, in turns: a figure of one is compared with its neighbours and no other. Writers
are threads, each with a session of its own, that append one entry at a time, of the sizes of recorded sessions. The server's CPU
is that of all its processes. Bytes written are those that its processes write to files, with a checkpoint at the end: by the
number of writers, by the size of the entries of one writer, and for one session that is lived through, with folds and snapshots.
"""

import argparse
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

import foveal
from foveal.stores.port import Draft, Store
from foveal.stores.postgres.store import PostgresStore
from foveal.stores.sqlite import SqliteStore
from foveal.testing.postgres_server import PostgresServer, find_postgres
from synthetic import TOOLS, messages, short_messages

RESULTS = Path(__file__).parent / "results" / "stores.md"
WRITERS = (1, 8, 64)
SIZES = (500, 2_000, 8_000, 32_000)
"""Bytes of an entry, for the curve of bytes written."""
BYTES_HEADING = "## Bytes written"
WHY_BYTES = (
    "The write-ahead log grows by about a byte for each that is appended. But a commit of a writer that is alone writes the pages"
    " of the log that it touches, of 8 kB, whole, and the next one writes the last of them again: with entries of 1.9 kB, more"
    " than four bytes for each of them, and the fewer the larger they are, or the more writers share a commit. The size of these"
    " pages is fixed when PostgreSQL is compiled, and an append that is acknowledged before its commit would not be durable; so a"
    " single session stays at about 6, and `session.extend` of many messages is the way to fewer commits. The rest is full images"
    " of pages after a checkpoint, and the checkpoint."
)
TICKS = os.sysconf("SC_CLK_TCK")


def real_sizes(count: int = 512) -> list[bytes]:
    """Return payloads of about 1.9 kB on average, as 42 recorded sessions have them, of words."""
    draw = random.Random(1)
    words = [f"word{number}" for number in range(3_000)]
    sizes = [min(60_000, int(draw.lognormvariate(6.6, 1.35))) for _ in range(count)]
    return [" ".join(draw.choice(words) for _ in range(size // 8 + 1)).encode() for size in sizes]


PAYLOADS = real_sizes()


def words(size: int, count: int = 64) -> list[bytes]:
    """Return payloads of this size, of numbers as tools print them, which the database compresses to about a half."""
    draw = random.Random(2)
    return [b" ".join(b"%d" % draw.getrandbits(60) for _ in range(size // 18 + 1))[:size] for _ in range(count)]


def append(store: Store, writers: int, seconds: float, run: str, payloads: list[bytes] = PAYLOADS) -> dict[str, float]:
    """Let so many writers append for some seconds, and return the rate and the CPU of this process."""
    held = [store.acquire(f"{run}-{number}") for number in range(writers)]
    done, sent = [0] * writers, [0] * writers
    together, ends = threading.Barrier(writers + 1), [0.0]

    def work(number: int) -> None:
        writer, draw = held[number], random.Random(number)
        together.wait()
        while time.monotonic() < ends[0]:
            data = draw.choice(payloads)
            writer.append([Draft(f"{number}-{done[number]}", None, 1, "agent", data)])
            done[number] += 1
            sent[number] += len(data)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    began, cpu = time.monotonic(), time.process_time()
    ends[0] = began + seconds
    together.wait()
    for thread in threads:
        thread.join()
    took, used = time.monotonic() - began, time.process_time() - cpu
    for writer in held:
        writer.release()
    return {"appends": sum(done), "rate": sum(done) / took, "client_us": used / sum(done) * 1e6, "bytes": sum(sent)}


def server_pids(server: PostgresServer) -> Iterator[int]:
    assert server.process is not None
    root = server.process.pid
    yield root
    yield from map(int, Path(f"/proc/{root}/task/{root}/children").read_text().split())


def server_cpu_s(server: PostgresServer) -> float:
    """Return the CPU of the server: of its processes, and of those that have ended."""
    total = 0
    for number, pid in enumerate(server_pids(server)):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(map(int, fields[11:13])) + (sum(map(int, fields[13:15])) if number == 0 else 0)
    return total / TICKS


def server_written(server: PostgresServer) -> int:
    """Return the bytes that the processes of the server have written to files."""
    total = 0
    for pid in server_pids(server):
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        total += next(int(line.split()[1]) for line in lines if line.startswith("wchar"))
    return total


def rates(sqlite: Store, postgres: PostgresStore, server: PostgresServer, args: Any) -> list[str]:
    """Return the table of appends."""
    lines = [
        "| writers | SQLite, appends/s | PostgreSQL | ratio | CPU of the client: SQLite | PostgreSQL | CPU of the server |",
        "|---|---|---|---|---|---|---|",
    ]
    for writers in WRITERS:
        found: dict[str, list[dict[str, float]]] = {"sqlite": [], "postgres": []}
        for number in range(args.rounds):
            run = f"{writers}-{number}"
            found["sqlite"].append(append(sqlite, writers, args.seconds, run))
            cpu = server_cpu_s(server)
            done = append(postgres, writers, args.seconds, run)
            found["postgres"].append({**done, "server_us": (server_cpu_s(server) - cpu) / done["appends"] * 1e6})
        sides = found["sqlite"], found["postgres"]
        ratios = [b["rate"] / a["rate"] for a, b in zip(*sides, strict=True)]
        cells = [f"{writers}", *(f"{median(turn['rate'] for turn in side):,.0f}" for side in sides)]
        cells.append(f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        cells += [f"{median(turn['client_us'] for turn in side):.0f} µs" for side in sides]
        cells.append(f"{median(turn['server_us'] for turn in sides[1]):.0f} µs")
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return lines


def live(store: Store, name: str, count: int) -> int:
    """Live through a session of so many messages, with a prompt now and then, and return the bytes of its entries."""
    policy = foveal.Policy(budget=foveal.BudgetTable(limit=32_000))
    is_long = count > 5_000
    told = short_messages(count) if is_long else messages(count)
    step = 50 if is_long else 1
    with foveal.Session(store, name, model="gpt-5", policy=policy) as session:
        for place in range(0, count, step):
            batch = told[place : place + step]
            session.extend(batch)
            if (is_long and place % 1_000 == 0) or (not is_long and batch[-1].role != "assistant"):
                session.prompt(TOOLS)
    return sum(len(row.payload) for row in store.rows(name))


def openings(postgres: PostgresStore, sizes: tuple[int, ...]) -> list[str]:
    """Return the table of openings."""
    policy = foveal.Policy(budget=foveal.BudgetTable(limit=32_000))
    lines = ["| messages | round trips | wall | CPU of the client |", "|---|---|---|---|"]
    for size in sizes:
        live(postgres, f"open-{size}", size)
        found: list[tuple[int, float, float]] = []
        for _ in range(5):
            trips, wall, cpu = postgres.round_trips, time.perf_counter(), time.process_time()
            session = foveal.Session(postgres, f"open-{size}", model="gpt-5", policy=policy)
            trips, wall, cpu = postgres.round_trips - trips, time.perf_counter() - wall, time.process_time() - cpu
            found.append((trips, wall, cpu))
            session.close()
        trips, wall, cpu = (median(column) for column in zip(*found, strict=True))
        lines.append(f"| {size:,} | {trips:.0f} | {wall * 1000:.1f} ms | {cpu * 1000:.1f} ms |")
        print(lines[-1], flush=True)
    return lines


def amplification(postgres: PostgresStore, server: PostgresServer, count: int, seconds: float) -> list[str]:
    """Return the bytes that are written for each that is appended."""
    with psycopg.connect(server.url, autocommit=True) as connection:

        def log_bytes() -> int:
            row = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint").fetchone()
            assert row is not None
            return row[0]

        def measured(name: str, job: Callable[[], float]) -> str:
            connection.execute("CHECKPOINT")
            before, log = server_written(server), log_bytes()
            appended = job()
            log = log_bytes() - log
            connection.execute("CHECKPOINT")
            written = server_written(server) - before
            return f"| {name} | {appended / 1e6:.1f} MB | {log / appended:.1f} | {written / appended:.1f} |"

        lines = [
            "| | appended | write-ahead log for a byte | written for a byte |",
            "|---|---|---|---|",
            *(
                measured(
                    f"{writers} writer{'s' if writers > 1 else ''}",
                    lambda n=writers: append(postgres, n, seconds, f"bytes{n}")["bytes"],
                )
                for writers in WRITERS
            ),
            *(
                measured(
                    f"1 writer, entries of {size:,} bytes",
                    lambda n=size: append(postgres, 1, seconds, f"size{n}", words(n))["bytes"],
                )
                for size in SIZES
            ),
            measured(f"one session alone, {count:,} messages", lambda: live(postgres, "written", count)),
        ]
    print("\n".join(lines), flush=True)
    return lines


def bytes_written(programs: Path, seconds: float) -> list[str]:
    """Return the part about bytes written, of a server of its own: another one would have the work of its earlier sessions to do,
    and so would one whose tables are cleaned meanwhile."""
    settings = {"max_wal_size": "4GB", "autovacuum": "off"}
    server = PostgresServer(programs, folder=Path(tempfile.gettempdir()), settings=settings).start()
    try:
        with tempfile.TemporaryDirectory() as place, PostgresStore(server.url, cache=Path(place)) as postgres:
            return [BYTES_HEADING, "", *amplification(postgres, server, 2_000, seconds), "", WHY_BYTES, ""]
    finally:
        server.remove()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long", type=int, default=100_000, help="messages of the long session")
    parser.add_argument("--bytes", action="store_true", help="measure the bytes written alone")
    parser.add_argument("--write", action="store_true", help="write results/stores.md, or that part of it")
    args = parser.parse_args()
    programs = find_postgres()
    if programs is None:
        raise SystemExit("no PostgreSQL server is installed")
    written = bytes_written(programs, args.seconds)
    if args.bytes:
        if args.write:
            before = RESULTS.read_text(encoding="utf-8").partition(BYTES_HEADING)[0]
            RESULTS.write_text(before + "\n".join(written), encoding="utf-8")
        return
    load = f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.0f} at the start"
    with tempfile.TemporaryDirectory() as place:
        server = PostgresServer(programs, folder=Path(tempfile.gettempdir()), settings={"max_wal_size": "4GB"}).start()
        try:
            with SqliteStore(Path(place) / "a.db") as sqlite, PostgresStore(server.url, cache=Path(place)) as postgres:
                parts = [
                    ["# Stores: SQLite and PostgreSQL", ""],
                    [f"{args.rounds} rounds of {args.seconds:.0f} s in turns, medians; one disk, {load}."],
                    ["", "## Appends of one entry", "", *rates(sqlite, postgres, server, args)],
                    ["", "## Opening a session in PostgreSQL", "", *openings(postgres, (700, args.long))],
                    ["", *written],
                ]
        finally:
            server.remove()
    if args.write:
        RESULTS.write_text("\n".join(line for part in parts for line in part), encoding="utf-8")


if __name__ == "__main__":
    main()
