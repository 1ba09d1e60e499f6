"""A session in asyncio: its calls use no thread of the default pool, and a cancelled caller is let go at once."""

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from foveal import AsyncSession
from foveal.session import async_session
from foveal.session.options import Host, Model
from foveal.session.policy import BudgetTable, Compact, Policy
from foveal.session.session import Session
from foveal.stores import rows as log
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store
from foveal.summary.question import Question
from foveal.values.entry import Fold, ToolCall, assistant, result, user
from foveal.values.events import Event, SummaryRefused

PROSE = "The agent reads files one after the other, and nothing was found yet. Next: read on. " * 2


class Slow:
    """A summariser that answers when it is let."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()
        self.questions = 0
        self._watchers: list[tuple[int, Callable[[], object]]] = []

    def asked(self, times: int) -> asyncio.Event:
        """Return an event of the running loop that is set once so many questions were asked."""
        event = asyncio.Event()
        self._watchers.append((times, tell(event)))
        return event

    def __call__(self, question: Question) -> str:
        self.questions += 1
        for times, told in self._watchers:
            if self.questions >= times:
                told()
        self.may_answer.wait(20)
        return PROSE


def tell(event: asyncio.Event) -> Callable[[], object]:
    """Return a function that sets the event from any thread."""
    loop = asyncio.get_running_loop()
    return lambda: loop.call_soon_threadsafe(event.set)


@pytest.fixture
def slow() -> Iterator[Slow]:
    summariser = Slow()
    yield summariser
    summariser.may_answer.set()


def opened(store: Store, *, events: list[Event] | None = None, **host: Any) -> AsyncSession:
    policy = Policy(budget=BudgetTable(limit=3_000, reserve=0), compact=Compact(soft=0.99))
    told = events if events is not None else []
    return AsyncSession(store, "test", model=Model("gpt-5"), policy=policy, host=Host(on_event=told.append, **host))


async def filled(session: AsyncSession, calls: int = 14) -> None:
    await session.append(user("Go."))
    for i in range(calls):
        await session.extend([assistant("", ToolCall(f"c{i}", "read", "{}")), result(f"c{i}", f"line {i} " * 150)])


def folds(store: Store) -> int:
    return sum(isinstance(log.to_entry(row, "test").body, Fold) for row in store.rows("test"))


def test_a_cancelled_prompt_lets_its_caller_go_and_records_nothing(slow: Slow) -> None:
    """The summary that was being written is given up; the next prompt makes the fold again, and asks again for it."""
    store, events = MemoryStore(), list[Event]()

    async def main() -> None:
        session = opened(store, summariser=slow, events=events)
        await filled(session)
        before = store.cards("test")[0].entries
        is_asked = slow.asked(1)
        asked = asyncio.ensure_future(session.prompt())
        await is_asked.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert not slow.may_answer.is_set()  # the caller is here, and the summariser has not answered
        trace = await session.why()  # waits for the thread, which has stopped waiting as well
        assert store.cards("test")[0].entries == before
        assert trace.fold is None
        slow.may_answer.set()
        prompt = await session.prompt()
        assert prompt.fold
        assert slow.questions > 1
        assert folds(store) == 1
        await session.close()

    asyncio.run(main())
    assert next(event.why for event in events if isinstance(event, SummaryRefused)) == "cancelled"


def test_a_cancelled_append_is_written_or_not_and_the_session_goes_on() -> None:
    """Its thread finishes it; the next call begins behind it, and the view has what the log has."""
    store = MemoryStore()

    async def main() -> None:
        session = opened(store)
        await session.append(user("one"))
        inner = session._turns._session
        assert inner
        writer, real = inner._journal._writer, inner._journal._writer.append
        inside, go_on = asyncio.Event(), threading.Event()
        is_inside = tell(inside)

        def held(*args: Any, **options: Any) -> list[int]:
            is_inside()
            go_on.wait(10)
            return real(*args, **options)

        writer.append = held  # type: ignore[method-assign]
        appended = asyncio.ensure_future(session.append(user("two"), id="second"))
        await inside.wait()
        appended.cancel()
        with pytest.raises(asyncio.CancelledError):
            await appended
        go_on.set()
        await session.append(user("two"), id="second")
        await session.append(user("three"))
        request = str((await session.prompt()).request)
        assert [request.count(word) for word in ("one", "two", "three")] == [1, 1, 1]
        await session.close()

    asyncio.run(main())
    assert [row.id for row in log.branch(store.rows("test"))] == [row.id for row in store.rows("test")]


def test_a_call_that_is_cancelled_before_its_turn_does_nothing(slow: Slow) -> None:
    """It waits behind another call of the session, and is forgotten."""
    store = MemoryStore()

    async def main() -> None:
        session = opened(store, summariser=slow)
        await filled(session)
        is_asked = slow.asked(1)
        first = asyncio.ensure_future(session.prompt())
        await is_asked.wait()
        second = asyncio.ensure_future(session.append(user("never")))
        await asyncio.sleep(0)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        slow.may_answer.set()
        assert (await first).fold
        assert "never" not in str((await session.prompt()).request)
        await session.close()

    asyncio.run(main())


def test_a_call_that_is_cancelled_before_a_thread_is_free_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its turn, and no thread has begun it: the next call begins nevertheless."""
    one_thread, busy = ThreadPoolExecutor(1), threading.Event()
    monkeypatch.setattr(async_session, "_threads", lambda: one_thread)

    async def main() -> None:
        session = opened(MemoryStore())
        await session.append(user("one"))
        one_thread.submit(busy.wait, 20)
        never = asyncio.ensure_future(session.append(user("never")))
        await asyncio.sleep(0)
        never.cancel()
        with pytest.raises(asyncio.CancelledError):
            await never
        busy.set()
        await asyncio.wait_for(session.append(user("two")), 20)
        assert "never" not in str((await session.prompt()).request)
        await session.close()

    asyncio.run(main())


def test_the_error_of_a_call_whose_caller_has_gone_is_told_to_nobody() -> None:
    """Nor does it keep the next call from its turn."""
    told: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        inside, go_on = asyncio.Event(), threading.Event()
        is_inside = tell(inside)

        def fail(_session: object) -> None:
            is_inside()
            go_on.wait(10)
            raise ValueError("nobody hears it")

        turns = async_session.SessionTurns(lambda: Session(MemoryStore(), "test", model="gpt-5"))
        failing = asyncio.ensure_future(turns.run(fail))
        await inside.wait()
        failing.cancel()
        go_on.set()
        assert await turns.run(lambda session: session.name) == "test"
        # Cancelled when the call has ended, and before the caller has gone on.
        loop, callers = asyncio.get_running_loop(), [failing]
        callers.append(asyncio.ensure_future(turns.run(fail, lambda: loop.call_soon(callers[1].cancel))))
        await asyncio.wait(callers)
        assert all(one.cancelled() for one in callers)
        callers.clear()
        del failing
        gc.collect()

    asyncio.run(main())
    assert told == []


def test_no_call_needs_a_thread_of_the_default_pool(slow: Slow) -> None:
    """A program may use that pool for itself: here it has one thread, and that one is taken."""

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        taken = asyncio.ensure_future(asyncio.to_thread(slow.may_answer.wait, 20))
        stores = [MemoryStore() for _ in range(20)]
        sessions = [opened(store, summariser=slow) for store in stores]
        await asyncio.gather(*(filled(session) for session in sessions))
        all_asked = slow.asked(len(sessions) - 1)
        waiting = [asyncio.ensure_future(session.prompt()) for session in sessions[:-1]]
        await all_asked.wait()
        await sessions[-1].append(user("more"))  # nineteen others wait for a model
        slow.may_answer.set()
        assert all([(await prompt).fold for prompt in waiting])
        await taken
        for session in sessions:
            await session.close()

    asyncio.run(main())
