"""A tool result of 1 GB, streamed into a SQLite store: does memory stay flat, and how fast is it?

The bytes are generated while they are kept, so that generating them is part of the time; that share is measured apart.
"""

import json
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import foveal
from foveal.stores.large_results import keep_stream
from foveal.values.entry import Stored

GIGABYTE = 1 << 30
CHUNK = 1 << 20


def chunks(size: int) -> Iterator[bytes]:
    """Lines of text, a megabyte at a time; each chunk is different, so that nothing can be kept once for all."""
    line = b"src/module.py:120: warning: unused variable 'value' in function 'compute'\n"
    body = line * (CHUNK // len(line) + 1)
    for number in range(size // CHUNK):
        yield (b"chunk %010d\n" % number + body)[:CHUNK]


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(size: int = GIGABYTE) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        store = foveal.open_store(Path(name) / "store.db")
        session = foveal.Session(store, "big", model="gpt-5")
        _small_run(session, store)
        before = peak_mb()
        start, cpu = time.perf_counter(), time.process_time()
        stored = keep_stream(store, chunks(size))
        kept_s, kept_cpu_s = time.perf_counter() - start, time.process_time() - cpu
        _answer(session, "big", stored)
        prompt = session.prompt()
        after = peak_mb()
        session.close()
        store.close()
    start = time.perf_counter()
    for _ in chunks(size):
        pass
    return {
        "size_mb": size / 1e6,
        "peak_growth_mb": after - before,
        "mb_per_s": size / 1e6 / kept_s,
        "cpu_s": kept_cpu_s,
        "generating_s": time.perf_counter() - start,
        "prompt_tokens": prompt.tokens,
    }


def _small_run(session: foveal.Session, store: Any) -> None:
    """Run everything once with little data, so that modules loaded at first use are not taken for growth."""
    session.append(foveal.user("Run the linter."))
    _answer(session, "small", keep_stream(store, chunks(4 * CHUNK)))
    session.prompt()


def _answer(session: foveal.Session, call: str, stored: Stored) -> None:
    session.append(foveal.assistant("", foveal.ToolCall(call, "lint", "{}")))
    session.append(foveal.result(call, stored))


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else GIGABYTE), indent=2))
