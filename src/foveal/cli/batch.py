"""Replaying many recordings, in one process or several, with the same result in the same order.

One process reads the files and hands the recordings out. Each replay writes its prompts to a stream of its own; with several
processes these are part files, put together in the order of the recordings.
"""

import multiprocessing
import shutil
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import msgspec

from foveal.analysis.inspect.stored_session import copy_session
from foveal.analysis.recordings import Recording, read
from foveal.analysis.replay.replay import Replay, replay
from foveal.cli.arguments import open_place
from foveal.models.counters import counter_for
from foveal.session.policy import Policy
from foveal.stores import MemoryStore
from foveal.stores.place import find_place
from foveal.values.errors import BadPolicy, BadRecording, FovealError, NotFound
from foveal.values.prompt import Prompt
from foveal.viewer.builder import OTHERWISE, replayed_page
from foveal.viewer.document import PageSession

_AHEAD = 2
"""Recordings waiting for each process: enough to keep it busy, few enough to hold in memory."""

_CONVERSATION = ("system", "system_instruction", "instructions", "messages", "input", "contents")


class Order(msgspec.Struct, frozen=True):
    """The options of a replay."""

    policy: Policy
    dialect: str | None
    """None is the recorded one."""
    model: str | None = None
    count_as: str | None = None
    """Count as for this model, whichever the replay is for."""
    store: str | None = None
    page_name: str = ""
    """The name of the replay on a page; empty if no page is wanted."""


class BatchOutcome(msgspec.Struct, frozen=True):
    """A replay, or why there is none."""

    replay: Replay | None
    error: str = ""
    page: PageSession | None = None


def replay_files(
    files: Sequence[Path], order: Order, *, jobs: int, prompts: BinaryIO | None, tick: Callable[[int], None]
) -> Iterator[BatchOutcome]:
    """Yield the outcome of each recording and each bad file, in their order."""
    if jobs > 1:
        yield from _in_processes(files, order, jobs, prompts, tick)
        return
    for found in _recordings(files):
        yield found if isinstance(found, BatchOutcome) else replay_one(found, order, prompts, tick)


def replay_one(
    recording: Recording, order: Order, prompts: BinaryIO | None = None, tick: Callable[[int], None] = lambda done: None
) -> BatchOutcome:
    """Replay one recording and write its prompts as they are made. A replay that fails leaves none of them."""
    start = prompts.tell() if prompts and prompts.seekable() else None

    def write(number: int, prompt: Prompt | None, refused: str) -> None:
        if prompts:
            prompts.write(prompt_line(recording.id, number, prompt, refused))
        tick(1)

    memory = MemoryStore()
    counter = counter_for(order.count_as) if order.count_as else None
    try:
        done = replay(
            recording,
            model=order.model,
            policy=order.policy,
            dialect=order.dialect or recording.dialect or OTHERWISE,
            counter=counter,
            store=memory,
            on_prompt=write,
        )
        if order.store:
            with closing(open_place(find_place(order.store))) as store:
                copy_session(memory, store, recording.id)
    except BadPolicy:
        raise  # it would fail for every recording
    except FovealError as error:
        if prompts and start is not None:
            prompts.seek(start)
            prompts.truncate()
        return BatchOutcome(None, f"{recording.source}: {error}")
    page = None
    if order.page_name:
        with suppress(NotFound):  # no prompt was made, so there is nothing to show but the row
            page = replayed_page(recording, order.page_name, done, memory)
    return BatchOutcome(done, page=page)


def prompt_line(session: str, number: int, prompt: Prompt | None, refused: str) -> bytes:
    """Return one line of `--prompts`: the prompt, or the reason why there is none."""
    if prompt is None:
        return msgspec.json.encode({"session": session, "call": number, "refused": refused}) + b"\n"
    request: dict[str, Any] = {**prompt.request, **prompt.request.get("config", {})}
    said = {key: request[key] for key in _CONVERSATION if key in request}
    line = {"session": session, "call": number, **said, "tools": request.get("tools", []), "tokens": prompt.tokens}
    return msgspec.json.encode(line) + b"\n"


def _recordings(files: Sequence[Path]) -> Iterator[Recording | BatchOutcome]:
    for file in files:
        try:
            yield from read(file)
        except BadRecording as error:
            yield BatchOutcome(None, str(error))


def _in_processes(
    files: Sequence[Path], order: Order, jobs: int, prompts: BinaryIO | None, tick: Callable[[int], None]
) -> Iterator[BatchOutcome]:
    waiting: deque[tuple[Future[BatchOutcome] | BatchOutcome, Path | None]] = deque()
    context = multiprocessing.get_context("spawn")
    with TemporaryDirectory(prefix="foveal-") as folder, ProcessPoolExecutor(jobs, context, _ignore_interrupts) as pool:
        try:
            for number, found in enumerate(_recordings(files)):
                part = Path(folder) / f"{number}.jsonl" if prompts else None
                future = found if isinstance(found, BatchOutcome) else pool.submit(_replay_to_file, found, order, part)
                waiting.append((future, part))
                if len(waiting) > jobs * (_AHEAD + 1):
                    yield _collected(*waiting.popleft(), prompts, tick)
            while waiting:
                yield _collected(*waiting.popleft(), prompts, tick)
        except BrokenProcessPool:
            raise FovealError("a process died while replaying, for lack of memory perhaps; try fewer --jobs") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C, which reaches every process of a terminal; the first process ends the work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _replay_to_file(recording: Recording, order: Order, part: Path | None) -> BatchOutcome:
    if part is None:
        return replay_one(recording, order)
    with part.open("wb") as stream:
        return replay_one(recording, order, stream)


def _collected(
    future: Future[BatchOutcome] | BatchOutcome,
    part: Path | None,
    prompts: BinaryIO | None,
    tick: Callable[[int], None],
) -> BatchOutcome:
    outcome = future if isinstance(future, BatchOutcome) else future.result()
    if prompts and part and part.exists():
        with part.open("rb") as stream:
            shutil.copyfileobj(stream, prompts, 1 << 20)
        part.unlink()
    tick(len(outcome.replay.calls) if outcome.replay else 0)
    return outcome
