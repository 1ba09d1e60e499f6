"""The runs that this process drives, by their sessions: their drivers, and the tasks in which they are driven."""

import asyncio
import logging
import time
from collections.abc import Callable

from foveal.agent.driver import UNDER_WAY, RunDriver, RunOutcome
from foveal.values.errors import LeaseLost

logger = logging.getLogger("foveal.runs")


class LiveRuns:
    """Drives runs in the background. `on_rest` is called with a driver that has ended."""

    def __init__(self, on_rest: Callable[[RunDriver], None]) -> None:
        self._on_rest = on_rest
        self.by_session: dict[str, tuple[RunDriver, asyncio.Task[RunOutcome]]] = {}
        self.unended: dict[str, tuple[RunDriver, str]] = {}
        """Drivers that have failed and could not write so, by their sessions, with their reasons: their runs are under way by the
        log."""

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
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("the run of session %s is no longer driven here: %s", driver.session, error)
            if driver.state.status in UNDER_WAY and not isinstance(error, LeaseLost):
                self.unended[driver.session] = driver, str(error)
        if self.by_session.get(driver.session, (None, None))[0] is driver:
            del self.by_session[driver.session]
            self._on_rest(driver)

    def driver_of(self, session: str) -> RunDriver | None:
        """Return the driver of a session's run; None if it is not driven here. A task that has ended counts no longer."""
        driver, task = self.by_session.get(session, (None, None))
        return driver if task is not None and not task.done() else None

    def task_of(self, session: str) -> asyncio.Task[RunOutcome] | None:
        """Return the task in which a session's run is driven, or was until now."""
        return self.by_session.get(session, (None, None))[1]

    async def is_at_work(self, session: str, look_s: float) -> bool:
        """Return whether a driver here will read the inbox of a session once more. One whose run rests is letting go: it is
        waited for, since nobody would hear it."""
        while (driver := self.driver_of(session)) is not None:
            if driver.state.status in UNDER_WAY:
                return True
            await asyncio.wait({self.by_session[session][1]}, timeout=look_s)
        return False

    async def ended(self) -> None:
        """Wait until the runs that are driven now have ended or rest."""
        await asyncio.gather(*(task for _, task in self.by_session.values()), return_exceptions=True)

    async def pause(self, timeout_s: float | None, reason: str) -> None:
        """Wait for the runs under way; after the time they are paused, for this reason."""
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while live := self._under_way():  # those that they have spawned meanwhile, too
            left_s = None if until is None else max(0.0, until - time.monotonic())
            late = {task for _, task in live}
            if (
                left_s != 0
            ):  # without a pause nothing is waited for before they are told: a caller may be cancelled again
                _, late = await asyncio.wait(late, timeout=left_s)
            for driver, task in live:
                if task in late:
                    driver.stop("paused", reason)
            if late:
                await asyncio.wait(late)

    async def leave(self) -> None:
        """Give up the runs that are driven here, as they are."""
        while live := self._under_way():  # a run that is given up may just have begun another one
            for driver, _ in live:
                driver.stop("running")
            await asyncio.wait([task for _, task in live])

    def _under_way(self) -> list[tuple[RunDriver, asyncio.Task[RunOutcome]]]:
        return [one for one in self.by_session.values() if not one[1].done()]
