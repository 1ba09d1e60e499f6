"""Does an act cost what the prompt holds, or what the history holds? And how much is written for each byte that is appended?

    python benchmarks/flat.py                        # 1,000, 10,000 and 100,000 messages: an hour
    python benchmarks/flat.py --sizes 1000 10000     # minutes

A session of each size is lived through once, at a budget of 32,000 tokens, in an SQLite store. Each act is then made on a copy
of that store, opened anew, in a process of its own, and followed by the next fold. Times are CPU milliseconds, the middle of
three; the last column compares the largest size with the smallest in the same run. Memory is the peak of the process.

Bytes written are counted twice: those that the session hands to its store (rows and snapshots), and those that the process
writes to disk, pages and write-ahead log included. Bytes appended are the payloads of the messages.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import foveal
import synthetic
from foveal.session.policy import BudgetTable
from scaling import fill, turns

BUDGET = 32_000
SIZES = (1_000, 10_000, 100_000)
REPEATS = 3
AMPLIFIED = 5_000
"""Messages of the session whose written bytes are counted."""

RESULTS = Path(__file__).parent / "results" / "flat.md"

Act = Callable[[foveal.Session, "Places"], object]


class Places:
    """The entries of a stored session that the acts are about."""

    def __init__(self, store: Any) -> None:
        entries = store.cards("flat")[0].entries
        self.near = next(store.rows("flat", after=entries - 8)).id
        messages = (
            row for row in store.rows("flat", after=entries // 10) if row.payload.startswith(b'={"is":"message"')
        )
        self.covered = next(messages).id
        middle = (row for row in store.rows("flat", after=entries // 2) if row.payload.startswith(b'={"is":"message"'))
        self.middle = next(middle).id


def retained() -> list[dict[str, Any]]:
    """The tools, one of which now declares a retention."""
    first, *rest = synthetic.TOOLS
    return [{**first, "retention": {"mode": "summary", "limit_tokens": 400}}, *rest]


def why(share: float) -> Act:
    return lambda session, _: session.why(max(1, int(session.view.facts.calls * share)))


ACTS: dict[str, tuple[Act, dict[str, Any]]] = {
    "open and prompt": (lambda session, _: session.prompt(synthetic.TOOLS), {}),
    "pin of a shown message": (lambda session, at: session.append(foveal.Pin(at.near)), {}),
    "pin of a covered message": (lambda session, at: session.append(foveal.Pin(at.covered)), {}),
    "rewind by a few messages": (lambda session, at: session.branches.rewind(at.near), {}),
    "rewind to the middle": (lambda session, at: session.branches.rewind(at.middle), {}),
    "another model": (lambda session, _: session.prompt(synthetic.TOOLS), {"model": "claude-opus-4-5"}),
    "a tool declares retention": (lambda session, _: session.prompt(retained()), {"tools": retained}),
    "why of a call at a tenth": (why(0.1), {}),
    "why of a call in the middle": (why(0.5), {}),
    "why of the last call": (why(1.0), {}),
}


def policy() -> foveal.Policy:
    return foveal.Policy(budget=BudgetTable(limit=BUDGET, reserve=0, max_bytes=1_000_000_000))


def open_session(path: Path, model: str = "gpt-5") -> tuple[Any, foveal.Session]:
    store = foveal.open_store(path)
    return store, foveal.Session(store, "flat", model=model, policy=policy(), takeover=True)


def live(path: Path, messages: int) -> None:
    """Make a session of this size."""
    store, session = open_session(path)
    fill(session, synthetic.messages(messages))
    session.prompt(synthetic.TOOLS)
    session.close()
    store.close()


def next_fold(session: foveal.Session, tools: list[dict[str, Any]]) -> float:
    """Go on until a prompt folds, and return the CPU seconds of that prompt."""
    for number, turn in enumerate(turns(synthetic.messages(4_000, seed=synthetic.SEED + 7)[2:])):
        started = time.process_time()
        if session.prompt(tools).fold and number:
            return time.process_time() - started
        session.extend(turn)
    raise AssertionError("no fold in 4,000 messages")


def act(path: Path, name: str) -> dict[str, float]:
    """Make one act on a stored session in this process."""
    made, options = ACTS[name]
    probe = foveal.open_store(path)
    at = Places(probe)
    probe.close()
    tools = options.get("tools", lambda: synthetic.TOOLS)()
    started = time.process_time()
    store, session = open_session(path, options.get("model", "gpt-5"))
    opened = time.process_time()
    made(session, at)
    acted = time.process_time()
    begun = opened if name not in ("open and prompt", "another model") else started
    found = {"act_ms": (acted - begun) * 1e3, "fold_ms": next_fold(session, tools) * 1e3}
    found["memory_mb"] = status("/proc/self/status", "VmHWM") / 1024  # `ru_maxrss` would count the parent's memory too
    session.close()
    store.close()
    return found


def acts(path: Path, folder: Path) -> Iterator[tuple[str, dict[str, float]]]:
    """Make each act a few times, each time on a copy of the store and in a new process."""
    for name in ACTS:
        runs: list[dict[str, float]] = []
        for _ in range(REPEATS):
            shutil.rmtree(folder / "copy", ignore_errors=True)
            shutil.copytree(path.parent, folder / "copy")
            command = [sys.executable, __file__, "--act", name, str(folder / "copy" / path.name)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            runs.append(json.loads(done.stdout.splitlines()[-1]))
        yield name, {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def status(file: str, name: str) -> int:
    """Return a number of this process that the system tells."""
    lines = Path(file).read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def written() -> int:
    return status("/proc/self/io", "write_bytes")


def amplification(folder: Path, messages: int) -> dict[str, float]:
    """Live through one session, each message with a commit of its own, and count the bytes on their way."""
    store, session = open_session(folder / "written.db")
    writer, handed = session._journal._writer, [0, 0]
    append = writer.append

    def counted(drafts: Any, *, snapshot: bytes | None = None) -> list[int]:
        handed[0] += sum(len(draft.payload) for draft in drafts)
        handed[1] += len(snapshot or b"")
        return append(drafts, snapshot=snapshot)

    writer.append = counted
    before = written()
    for turn in turns(synthetic.messages(messages)):
        if turn[0].role == "assistant":
            session.prompt(synthetic.TOOLS)
        for message in turn:
            session.append(message)
    session.close()
    appended = sum(len(row.payload) for row in store.rows("flat") if row.payload.startswith(b'={"is":"message"'))
    store.close()
    return {
        "appended_mb": appended / 1e6,
        "rows": handed[0] / appended,
        "snapshots": handed[1] / appended,
        "handed": sum(handed) / appended,
        "disk": (written() - before) / appended,
    }


def table(found: dict[int, dict[str, dict[str, float]]]) -> Iterator[str]:
    sizes = sorted(found)
    yield "| act | " + " | ".join(f"{size:,}: act, next fold" for size in sizes) + f" | {sizes[-1]:,} : {sizes[0]:,} |"
    yield "|---|" + "---:|" * (len(sizes) + 1)
    for name in ACTS:
        runs = [found[size][name] for size in sizes]
        cells = [f"{run['act_ms']:,.1f}, {run['fold_ms']:,.0f}" for run in runs]
        ratios = [runs[-1][key] / runs[0][key] for key in ("act_ms", "fold_ms")]
        yield f"| {name} | " + " | ".join(cells) + " | " + ", ".join(f"{ratio:.2f}" for ratio in ratios) + " |"
    most = [max(run["memory_mb"] for run in found[size].values()) for size in sizes]
    yield "| peak memory, MB | " + " | ".join(f"{one:,.0f}" for one in most) + f" | {most[-1] / most[0]:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--act", nargs=2, metavar=("NAME", "STORE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.act:
        print(json.dumps(act(Path(given.act[1]), given.act[0])))
        return
    found: dict[int, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        ratio = amplification(folder, AMPLIFIED)
        for size in sorted(given.sizes):
            path = folder / str(size) / "flat.db"
            path.parent.mkdir()
            live(path, size)
            found[size] = dict(acts(path, folder))
            print(*table(found), sep="\n", flush=True)
            shutil.rmtree(path.parent)
    lines = [
        "# Flat: acts on a long session, and bytes written",
        "",
        f"CPU milliseconds at a budget of {BUDGET:,} tokens, SQLite, the middle of {REPEATS}; the act, and the fold after it.",
        "",
        *table(found),
        "",
        f"Bytes written for each byte appended ({AMPLIFIED:,} messages of {ratio['appended_mb']:.1f} MB, each committed alone):",
        "",
        "| handed to the store | of it rows | of it snapshots | written to disk |",
        "|---:|---:|---:|---:|",
        f"| {ratio['handed']:.2f} | {ratio['rows']:.2f} | {ratio['snapshots']:.2f} | {ratio['disk']:.1f} |",
        "",
        "Made by `python benchmarks/flat.py`.",
    ]
    given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
