"""The viewer at 5,000 calls and 20,000 messages: how long its page takes to build, to open, to step and to scroll.

    python benchmarks/viewer.py [--calls 5000]

Prints a table. The session is made by code: four messages a call, at 32,000 tokens. The browser is the system's Chromium.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from foveal.analysis import why
from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.analysis.replay.replay import replay
from foveal.session.policy import BudgetTable, Policy
from foveal.stores import MemoryStore
from foveal.values.entry import Message, ToolCall, assistant, result, system, user
from foveal.viewer.builder import stored_page
from foveal.viewer.page import page

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.viewer.chromium import Tab, chromium, find_chromium  # the tests' own way to drive a browser

_LINES = 40
_STEPS = 60
_FRAMES = """new Promise((done) => {
    const box = document.getElementById('map').getBoundingClientRect(), started = performance.now();
    let frames = 0;
    const look = () => {
        frames++;
        const event = { clientX: box.left + 60 + frames * 7, clientY: box.top + 80, bubbles: true };
        document.getElementById('map').dispatchEvent(new MouseEvent('mousemove', event));
        document.getElementById('map').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true }));
        if (performance.now() - started < 2000) requestAnimationFrame(look); else done(frames / 2);
    };
    requestAnimationFrame(look);
})"""


def messages(calls: int) -> Iterator[Message]:
    """Yield a session of an agent that reads three files a call."""
    yield system("Be brief.")
    yield user("Look at everything.")
    for i in range(calls - 1):
        made = [ToolCall(f"c{i}.{n}", "read_file", f'{{"path": "file_{i}_{n}.py"}}') for n in range(3)]
        yield assistant("", *made)
        for n, call in enumerate(made):
            yield result(call.id, "\n".join(f"line {line} of file {i}.{n}" for line in range(_LINES)))
    yield assistant("That was all.")


def timed(name: str, act: Callable[[], object]) -> object:
    start = time.process_time()
    made = act()
    print(f"| {name} | {time.process_time() - start:.2f} s of CPU |")
    return made


def looked_at(tab: Tab, path: Path) -> None:
    """Print how the page behaves in a browser."""
    start = time.monotonic()
    tab.open(path.as_uri())
    print(f"| the page opens | {time.monotonic() - start:.2f} s |")
    steps = list[float]()
    for _ in range(_STEPS):
        tab.press("ArrowLeft")
        steps.append(float(tab.run("document.body.dataset.paint")))
    print(f"| the call before is drawn, median and most | {median(steps):.0f} ms, {max(steps):.0f} ms |")
    print(f"| walking over the map | {tab.run(_FRAMES):.0f} frames a second |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=5_000)
    calls = parser.parse_args().calls
    store, policy = MemoryStore(), Policy(budget=BudgetTable(limit=32_000, reserve=0))
    recording = Recording("made", "", None, "[]", tuple(RecordedStep(one) for one in messages(calls)))
    print(f"| {calls:,} calls, {len(recording.steps):,} messages | |\n|---|---|")
    timed("the replay itself", lambda: replay(recording, policy=policy, dialect="openai_chat", store=store))
    built = stored_page
    data = timed("the data of the page, beyond it", lambda: built(store, "made"))
    html = page([data])  # pyright: ignore[reportArgumentType]
    print(f"| the page | {len(html) / 1e6:.1f} MB |")
    timed("`why` of the call in the middle", lambda: why(store, "made", calls // 2))
    browser = find_chromium()
    if browser is None:
        print("| no browser here | |")
        return
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        chromium(browser, Path(folder) / "profile") as tab,
    ):
        path = Path(folder) / "page.html"
        path.write_bytes(html)
        looked_at(tab, path)


if __name__ == "__main__":
    main()
