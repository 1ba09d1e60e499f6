"""An agent with the verbs of a user: `run` and `stream`, and their forms for programs without an event loop."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing, suppress

from foveal.agent.definition import AgentDefinition
from foveal.agent.driver import RunOutcome
from foveal.agent.run_events import RunEvent
from foveal.agent.run_files import RunFile
from foveal.agent.runs import Runs
from foveal.stores import open_store
from foveal.stores.port import Store
from foveal.values.errors import BadInput


class Agent(AgentDefinition):
    """An agent: `Agent("You answer questions about files.", model="claude-sonnet-5", tools=[read_file])`.

    `session` names the conversation in all four verbs: with the same name it goes on. Without a `store` nothing is kept.
    `files` come with the message: paths, or `foveal.File` with bytes. One that cannot be sent is an error before the run begins.
    """

    async def run(
        self, text: str, *, files: Sequence[RunFile] = (), session: str = "", store: Store | None = None
    ) -> RunOutcome:
        """Answer a message: run until there is an answer, or until the run rests or fails. The outcome says which."""
        runs = Runs(open_store() if store is None else store, [self])
        try:
            run = await runs.start(self, text, session=session, files=files)
            return await runs.wait(run)
        finally:
            await runs.drain(0)

    async def stream(
        self, text: str, *, files: Sequence[RunFile] = (), session: str = "", store: Store | None = None
    ) -> AsyncGenerator[RunEvent, None]:
        """Answer a message and yield the events of the run. A caller that leaves the loop early leaves the run paused."""
        runs = Runs(open_store() if store is None else store, [self])
        try:
            run = await runs.start(self, text, session=session, files=files)
            async with aclosing(runs.observe(run)) as events:
                async for event in events:
                    yield event
        finally:
            await runs.drain(0)

    def run_sync(
        self, text: str, *, files: Sequence[RunFile] = (), session: str = "", store: Store | None = None
    ) -> RunOutcome:
        """Answer a message, for programs without an event loop."""
        _require_no_loop("run_sync", "await agent.run(…)")
        return asyncio.run(self.run(text, files=files, session=session, store=store))

    def stream_sync(
        self, text: str, *, files: Sequence[RunFile] = (), session: str = "", store: Store | None = None
    ) -> Generator[RunEvent, None, None]:
        """Answer a message and yield the events of the run, for programs without an event loop. It goes on as it is read."""
        _require_no_loop("stream_sync", "async for event in agent.stream(…)")
        with asyncio.Runner() as runner:
            events = self.stream(text, files=files, session=session, store=store)
            try:
                while (event := runner.run(anext(events, None))) is not None:  # pyright: ignore[reportArgumentType]
                    yield event
            finally:
                runner.run(events.aclose())


def _require_no_loop(called: str, instead: str) -> None:
    """Raise `BadInput` in a program whose event loop runs, as that of a notebook does."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise BadInput(f"{called} is for programs without an event loop, and one is running here; use `{instead}`")
