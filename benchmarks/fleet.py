"""What do 1,000, 100,000 and 10,000,000 sessions need?

    python benchmarks/fleet.py [--few 100] [--live 2000] [--every-s 15] [--write]

Unit costs are measured with a few live sessions of a coding agent at 32k tokens, in one process, on PostgreSQL: CPU of a call
(its appends and its prompt, folds included), memory of an open session, CPU of opening one, CPU of the server and bytes that it
writes. The same is then run with many live sessions, and compared with the prediction of the few. The table multiplies; that
every session makes a call each 15 s is assumed, and nobody has run ten million.

Sticky: a session stays open in one process. Stateless: it is opened for each call and closed after it.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import foveal
from foveal.stores.postgres.store import PostgresStore
from foveal.testing.postgres_server import PostgresServer, find_postgres
from stores import server_cpu_s, server_written
from synthetic import TOOLS, messages

RESULTS = Path(__file__).parent / "results" / "fleet.md"
BEFORE, CALLS, REOPENED = 60, 6, 50
"""Messages of a session before it is measured, its calls that are, and sessions that are opened again."""
CONNECTIONS = 8
"""Connections that a process keeps (`postgres.connections.IDLE_CONNECTIONS`)."""
POLICY = foveal.Policy(max_context_tokens=32_000)
FLEETS = (1_000, 100_000, 10_000_000)


def opened(store: PostgresStore, number: int) -> foveal.Session:
    return foveal.Session(store, f"s{number}", model="gpt-5", policy=POLICY)


def measure(server: PostgresServer, sessions: int) -> dict[str, float]:
    """Return the unit costs of a process with so many live sessions."""
    with (
        tempfile.TemporaryDirectory() as cache,
        PostgresStore(server.url, schema=f"f{sessions}", cache=Path(cache)) as store,
    ):
        first = opened(store, -1)  # loads whatever is loaded once
        first.append(foveal.user("Begin."))
        first.prompt(TOOLS)
        scripts = [messages(BEFORE + 2 * CALLS, seed=number) for number in range(sessions)]
        gc.collect()
        rss = _rss_bytes()
        live = [opened(store, number) for number in range(sessions)]
        for session, script in zip(live, scripts, strict=True):
            session.extend(script[:BEFORE])
            session.prompt(TOOLS)
        gc.collect()
        memory = (_rss_bytes() - rss) / sessions
        cpu, server_cpu, written = time.process_time(), server_cpu_s(server), server_written(server)
        folds = 0
        for call in range(CALLS):
            for session, script in zip(live, scripts, strict=True):
                session.append(script[BEFORE + 2 * call])
                session.append(script[BEFORE + 2 * call + 1])
                folds += session.prompt(TOOLS).fold is not None
        calls = CALLS * sessions
        costs = {
            "folds_per_call": folds / calls,
            "call_ms": (time.process_time() - cpu) / calls * 1e3,
            "server_ms": (server_cpu_s(server) - server_cpu) / calls * 1e3,
            "written_bytes": (server_written(server) - written) / calls,
            "session_bytes": memory,
        }
        for session in live:
            session.close()
        trips, cpu, server_cpu = store.round_trips, time.process_time(), server_cpu_s(server)
        again = min(sessions, REOPENED)
        for number in range(again):
            opened(store, number).close()
        return costs | {
            "open_ms": (time.process_time() - cpu) / again * 1e3,
            "open_server_ms": (server_cpu_s(server) - server_cpu) / again * 1e3,
            "open_trips": (store.round_trips - trips) / again,
        }


def table(costs: dict[str, float], every_s: float) -> list[str]:
    """Return the needs of fleets as lines of a table."""
    lines = [
        "| sessions | way | calls/s | cores, engine | cores, PostgreSQL | memory | connections | written |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for count in FLEETS:
        rate = count / every_s
        for way in ("sticky", "stateless"):
            is_new = way == "stateless"
            engine = rate * (costs["call_ms"] + is_new * costs["open_ms"]) / 1e3
            server = rate * (costs["server_ms"] + is_new * costs["open_server_ms"]) / 1e3
            # A session that is opened for a call is in memory for about as long as the call takes.
            held = count if way == "sticky" else engine
            memory = held * costs["session_bytes"] / 1e9
            processes = max(1, round(engine / 0.6))
            lines.append(
                f"| {count:,} | {way} | {rate:,.0f} | {engine:,.1f} | {server:,.2f} | {memory:,.1f} GB | "
                f"{processes * CONNECTIONS:,} | {rate * costs['written_bytes'] / 1e6:,.1f} MB/s |"
            )
    return lines


def report(few: dict[str, float], many: dict[str, float], loads: tuple[float, float], args: argparse.Namespace) -> str:
    lines = [
        "# Fleets",
        "",
        f"`python benchmarks/fleet.py --few {args.few} --live {args.live}`: sessions of {BEFORE} messages at 32k tokens, "
        f"{CALLS} calls each, two appends a call. Load of the machine before and after: "
        f"{', '.join(f'{load:.1f}' for load in loads)} (costs are CPU time and counts, not wall time).",
        "",
        f"| | {args.few:,} live sessions | {args.live:,} live sessions | ratio |",
        "|---|---|---|---|",
        *(
            f"| {name} | {few[name]:,.2f} | {many[name]:,.2f} | {many[name] / max(few[name], 1e-9):.2f} |"
            for name in few
        ),
        "",
        "A ratio of 1 says that the cost of one does not depend on how many there are. The needs below are of the run with more. "
        f"Assumed: a call every {args.every_s:g} s, processes at 60 % of a core, {CONNECTIONS} connections each.",
        "",
        *table(many, args.every_s),
        "",
        "The sessions take turns in one thread, so that no two appends share a commit: the figures of the server are upper "
        "bounds. "
        "A stateless fleet also reads the snapshot and the newest rows for each call. Past some thousand connections a pooler "
        "stands before PostgreSQL; ten million sessions need several databases, by a hash of the session's name.",
    ]
    return "\n".join(lines) + "\n"


def _rss_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--few", type=int, default=100)
    parser.add_argument("--live", type=int, default=2_000)
    parser.add_argument("--every-s", type=float, default=15.0)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    programs = find_postgres()
    if programs is None:
        print("no PostgreSQL server is installed")
        return 2
    if args.measure:
        server = PostgresServer(programs).start()
        try:
            print(json.dumps(measure(server, args.measure)))
        finally:
            server.remove()
        return 0
    load = os.getloadavg()[0]
    found = [
        json.loads(
            subprocess.run([sys.executable, __file__, "--measure", str(n)], stdout=subprocess.PIPE, check=True).stdout
        )
        for n in (args.few, args.live)
    ]
    text = report(found[0], found[1], (load, os.getloadavg()[0]), args)
    print(text)
    if args.write:
        RESULTS.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
