"""Queues that bring runs to workers: processes that drive what others have started.

A queue holds nothing that the log does not say: a run is under way by its log, and whoever acquires its session drives it. A
queue that loses a run, or brings it twice, does no harm: workers look for runs that nobody drives (`AbandonedRuns`).
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, TypeAlias

from foveal.agent.driver import RunOutcome

TakeUp: TypeAlias = Callable[[str, str], Awaitable[asyncio.Task[RunOutcome] | None]]
"""Takes up a run of an agent and returns the task that drives it; None if it rests, or somebody else drives it."""


class RunQueue(Protocol):
    """The way of runs from those who start them to the workers."""

    async def put(self, run: str, agent: str) -> None:
        """Bring a run, which is under way and which nobody drives, to a worker. One that is on its way is not put twice."""
        ...

    def serving(self, agents: Collection[str], take_up: TakeUp, at_once: int) -> AbstractAsyncContextManager[None]:
        """Have the runs of these agents driven here, so many at once, for as long as this is open."""
        ...


class StoreQueue:
    """The store itself is the queue: workers look into it. Nothing else is needed, and a run waits for up to a second."""

    def __init__(self) -> None:
        self._take_up: TakeUp | None = None
        self._places = 0
        self._taken = 0
        """Runs that are being taken up."""
        self._driven: set[asyncio.Task[RunOutcome]] = set()

    async def put(self, run: str, agent: str) -> None:
        """Take the run up, if this is a worker that has a place free. Otherwise one that has will find it."""
        if self._take_up is None or len(self._driven) + self._taken >= self._places:
            return
        self._taken += 1
        try:
            task = await self._take_up(run, agent)
        finally:
            self._taken -= 1
        if task is not None:
            self._driven.add(task)
            task.add_done_callback(self._driven.discard)

    @asynccontextmanager
    async def serving(self, agents: Collection[str], take_up: TakeUp, at_once: int) -> AsyncGenerator[None]:
        """Let `put` take runs up."""
        self._take_up, self._places = take_up, at_once
        try:
            yield
        finally:
            self._take_up = None
