"""Runs of a session that was exported, and imported under another name: their calls have the keys that they had."""

import asyncio
import io

from foveal.agent import AskUser, Runs, ToolContext, tool
from foveal.agent.run_log import read_events, read_run
from foveal.stores import open_store
from foveal.stores.portable import export_session, import_session
from foveal.testing.crash_points import cut_log
from foveal.testing.run_checks import run_problems

from .conftest import FakeModel, agent_with, calls, says


def imported(store):
    """Return another store with the session under the name `t`."""
    file, other = io.BytesIO(), open_store()
    export_session(store, "s", file)
    file.seek(0)
    import_session(other, file, name="t")
    return other


def test_a_question_is_answered_under_the_other_name(store):
    """The answer reaches the call that has asked, which gets the key that it had."""
    keys: list[str] = []

    @tool
    def ask(ctx: ToolContext) -> str:
        keys.append(ctx.key)
        if ctx.answer is None:
            raise AskUser("Which?")
        return f"said {ctx.answer.text}"

    async def talk():
        agent = agent_with(FakeModel(calls("ask"), says("Done.")), ask)
        runs = Runs(store, [agent])
        await runs.wait(await runs.start(agent, "Go.", session="s"), 10)
        other = imported(store)
        runs = Runs(other, [agent])
        await runs.resume("t", "blue")
        return await runs.wait("t", 10), other

    outcome, other = asyncio.run(talk())
    assert (outcome.run, outcome.text, len(keys), len(set(keys))) == ("t#1", "Done.", 2, 1)
    assert run_problems(read_events(other, "t")) == []


def test_a_tool_that_had_begun_is_not_run_again_under_the_other_name(store):
    """The model is told that it was interrupted."""
    paid: list[str] = []

    @tool(retry="never")
    def pay(ctx: ToolContext) -> str:
        paid.append(ctx.key)
        return "paid"

    agent = agent_with(FakeModel(calls("pay"), says("Done.")), pay)
    asyncio.run(agent.run("Go.", session="s", store=store))
    cut = next(
        cut
        for number in range(1, store.cards("s")[0].entries)
        if read_run(cut := cut_log(store, "s", number), "s").started
    )

    async def go_on():
        other = imported(cut)
        runs = Runs(other, [agent_with(FakeModel(says("Done.")), pay)])
        await runs.recover()
        return await runs.wait("t", 10)

    assert (asyncio.run(go_on()).text, len(paid)) == ("Done.", 1)
