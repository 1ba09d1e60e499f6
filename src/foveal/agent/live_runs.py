"""The runs that this process drives, by their sessions: their drivers, and the tasks in which they are driven.

A run is driven on one event loop. Whoever asks on another one, in another thread, finds it as if another process drove it.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from foveal.agent.driver import UNDER_WAY, RunDriver, RunOutcome
from foveal.agent.run_marks import RunStatus
from foveal.values.errors import LeaseLost

LOOK_S = 0.05
"""Seconds between two looks at a task of another event loop."""
STOPPED_S = 5.0
"""Seconds for which an event loop may stand still before its runs are left: a program may run it piece by piece."""

logger = logging.getLogger("foveal.runs")


class _OnRest(Protocol):
    def __call__(self, driver: RunDriver, *, has_failed: bool) -> None: ...


class LiveRuns:
    """Drives runs in the background. `on_rest` is called with a driver that has ended, or has failed to write its end."""

    def __init__(self, on_rest: "_OnRest") -> None:
        self._on_rest = on_rest
        self.by_session: dict[str, tuple[RunDriver, asyncio.Task[RunOutcome]]] = {}
        self.unended: dict[str, tuple[RunDriver, str]] = {}
        """Drivers that have failed and could not write so, by their sessions, with their reasons: their runs are under way by the
        log, or may be."""

    def drive(self, driver: RunDriver) -> asyncio.Task[RunOutcome]:
        """Drive a run that has begun or goes on; return the task of it."""
        task = asyncio.create_task(driver.drive(), name=f"foveal run {driver.session}")
        self.unended.pop(driver.session, None)
        self.by_session[driver.session] = driver, task
        task.add_done_callback(lambda ended: self._forget(driver, ended))
        return task

    def _forget(self, driver: RunDriver, task: asyncio.Task[RunOutcome]) -> None:
        """Forget a driver that has ended, unless another one drives its session by now."""
        driver.journal.release()
        has_failed = not task.cancelled() and task.exception() is not None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("the run of session %s is no longer driven here: %s", driver.session, error)
            self.keep_unended(driver, error)
        if self.by_session.get(driver.session, (None, None))[0] is driver:
            del self.by_session[driver.session]
            self._on_rest(driver, has_failed=has_failed)

    def keep_unended(self, driver: RunDriver, error: BaseException) -> None:
        """Keep a driver that has failed if its run is under way by the log, or may be: nobody drives it, unless somebody else has
        taken it up."""
        is_left = driver.state.status in UNDER_WAY or driver.journal.is_unsure
        if is_left and not isinstance(error, LeaseLost):
            self.unended[driver.session] = driver, str(error)

    def driver_of(self, session: str) -> RunDriver | None:
        """Return the driver of a session's run; None if it is not driven on this event loop. A task that has ended counts no
        longer."""
        driver, task = self.by_session.get(session, (None, None))
        if driver is None or task is None or task.done() or _is_here(task):
            return driver if task is not None and not task.done() else None
        if task.get_loop().is_closed():  # without an end of its tasks: nobody else could have the session
            self._give_up(driver)
        return None

    def _give_up(self, driver: RunDriver) -> None:
        """Give up the session of a run whose event loop has stopped, and leave the run as it is."""
        self.by_session.pop(driver.session, None)
        driver.journal.release()
        told = "run %s is left as it is: the event loop that drove it has stopped. resume or recover goes on with it"
        logger.warning(told, driver.state.id)

    def task_of(self, session: str) -> asyncio.Task[RunOutcome] | None:
        """Return the task in which a session's run is driven on this event loop, or was until now."""
        _, task = self.by_session.get(session, (None, None))
        return task if task is not None and _is_here(task) else None

    async def ended(self) -> None:
        """Wait until the runs that are driven here have ended or rest, also those that they have spawned meanwhile."""
        while live := self._under_way():
            await self._wait_for(live)

    async def pause(self, timeout_s: float | None, reason: str) -> None:
        """Wait for the runs under way; after the time they are paused, for this reason."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while live := self._under_way():  # those that they have spawned meanwhile, too
            left_s = None if until is None else max(0.0, until - time.monotonic())
            # Without a time, nothing is waited for before they are told: the caller may be cancelled again.
            if left_s != 0:
                await asyncio.wait({one.ended for one in live}, timeout=left_s)
            for one in live:
                if not one.ended.done():
                    one.stop("paused", reason)
            await self._wait_for(live)

    async def leave(self) -> None:
        """Give up the runs that are driven here, as they are."""
        while live := self._under_way():  # a run that is given up may just have begun another one
            for one in live:
                one.stop("running")
            await self._wait_for(live)

    async def _wait_for(self, live: "Sequence[_LiveRun]") -> None:
        """Wait until these runs have ended or rest. Those of an event loop that has stopped are left."""
        await asyncio.wait({one.ended for one in live})
        for driver, task, _ in live:
            if not task.done() and self.by_session.get(driver.session) == (driver, task):
                self._give_up(driver)

    def _under_way(self) -> "list[_LiveRun]":
        for session in tuple(self.by_session):
            self.driver_of(session)  # forgets those of a closed loop
        return [
            _LiveRun(driver, task, end_of(task)) for driver, task in tuple(self.by_session.values()) if not task.done()
        ]


class _LiveRun(NamedTuple):
    """A run under way."""

    driver: RunDriver
    task: asyncio.Task[RunOutcome]
    ended: asyncio.Future[Any]
    """Is done when the task is, and can be waited for here."""

    def stop(self, status: RunStatus, reason: str = "") -> None:
        """Ask the run to end or to rest, on its own event loop."""
        if _is_here(self.task):
            self.driver.stop(status, reason)
            return
        with suppress(RuntimeError):  # the loop was closed
            self.task.get_loop().call_soon_threadsafe(self.driver.stop, status, reason)


def _is_here(task: asyncio.Future[Any]) -> bool:
    return task.get_loop() is asyncio.get_running_loop()


def end_of(task: asyncio.Future[Any]) -> asyncio.Future[Any]:
    """Return the task, or one of this event loop that ends with it, or when the event loop of it has stopped."""

    async def followed() -> None:
        loop, running_s = task.get_loop(), time.monotonic()
        while not task.done() and not loop.is_closed() and time.monotonic() - running_s < STOPPED_S:
            await asyncio.sleep(LOOK_S)
            if loop.is_running():
                running_s = time.monotonic()

    return task if _is_here(task) else asyncio.ensure_future(followed())
