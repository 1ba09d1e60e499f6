"""A large artifact is read without holding it."""

import subprocess
import sys
from pathlib import Path

CODE = """
import resource, sys
import foveal
from foveal.recall import Fetch, fetch

def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

def chunks(count):
    body = b"src/module.py:120: warning: unused variable 'value'\\n" * 20_000
    for number in range(count):
        yield b"chunk %d\\n" % number + body
    yield b"x" * 5_000_000 + b"needle" + b"y" * 5_000_000

store = foveal.open_store(sys.argv[1])
session = foveal.Session(store, "big", model="gpt-5")

def look(count):
    stored = foveal.keep_stream(store, chunks(count))
    ref = session.append(foveal.user("see")).id
    session.append(foveal.assistant("", foveal.ToolCall(f"c{count}", "lint", "{}")))
    ref = session.append(foveal.result(f"c{count}", stored)).id
    lines = fetch(store, "big", Fetch(ref, offset=20_001 * (count - 1), limit=2))
    assert lines.text.startswith(f"chunk {count - 1}\\n"), lines.text
    assert lines.total == 20_001 * count + 1, lines.total
    found = fetch(store, "big", Fetch(ref, pattern=f"^chunk {count - 1}$|needle", context=0))
    assert found.matches == 2, found
    assert "needle" in fetch(store, "big", Fetch(ref, stored.size_bytes - 5_000_100, 200, "characters")).text

look(2)
before = peak_mb()
look(200)
print(peak_mb() - before)
"""


def test_200_megabytes_are_fetched_with_flat_memory(tmp_path: Path) -> None:
    """Lines near the end, a pattern over the whole and a window in characters take no memory that grows with the artifact."""
    run = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "store.db")], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert float(run.stdout) < 32
