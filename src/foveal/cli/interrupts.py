"""Commands that end in order when somebody stops them."""

import asyncio
import signal
import threading
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
from typing import Any

TERMINATED = 143
"""The exit code of a program that SIGTERM has ended, as shells tell it: 128 and the number of the signal."""


@contextmanager
def terminable() -> Generator[None]:
    """Let SIGTERM end the block as Ctrl-C does, with the exit code 143: what is not whole is removed. Signals are the main
    thread's affair; in another one nothing changes."""

    def end(*_: object) -> None:
        raise SystemExit(TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def run_interruptible(work: Coroutine[Any, Any, int]) -> int:
    """Run a command on an event loop and return its exit code. Ctrl-C cancels it; SIGTERM does as well, and the code is 143."""
    return asyncio.run(_terminable(work))


async def _terminable(work: Coroutine[Any, Any, int]) -> int:
    task, terms = asyncio.ensure_future(work), list[int]()

    def end() -> None:
        terms.append(signal.SIGTERM)
        task.cancel()

    # With any handler of its own, the loop is also woken by Ctrl-C: an interrupt just before it waits would else be seen at the
    # next event.
    with suppress(NotImplementedError):  # Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    try:
        return await task
    except asyncio.CancelledError:
        if terms:
            return TERMINATED
        raise
