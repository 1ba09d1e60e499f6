"""Runs of a session that was exported, and imported under another name: their calls have the keys that they had."""

import asyncio
import io

from foveal.agent import ApprovalRule, AskUser, Runs, ToolContext, UserAnswer, tool
from foveal.agent.run_events import ChildEnded, ToolEnded
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


@tool
def pay_now() -> str:
    """Pay."""
    return "paid"


def test_the_sub_agents_of_a_copy_are_its_own(store):
    """They are below its name, and whoever cancels the copy ends nothing of the session that it was copied from."""
    sub = agent_with(FakeModel(calls("pay_now")), pay_now, name="sub", approvals=[ApprovalRule("pay_now")])
    agent = agent_with(FakeModel(calls("delegate", task="Pay.")), agents=[sub])

    async def talk():
        runs = Runs(store, [agent])
        await runs.wait(await runs.start(agent, "Go.", session="s"), 10)
        (below,) = (card.id for card in store.cards() if card.id.startswith("s/sub-"))
        for name in ("s", below):
            file = io.BytesIO()
            export_session(store, name, file)
            file.seek(0)
            import_session(store, file, name=name.replace("s", "t", 1))
        (child,) = runs.tree("t").children
        assert (child.run, child.status) == (f"t{below[1:]}#1", "awaiting_user")
        assert (runs.cost("t").total_usd or 0.0) > (runs.cost("t").own_usd or 0.0)
        await runs.cancel("t")
        return {card.session: card.status for card in runs.list()}, below

    statuses, below = asyncio.run(talk())
    assert (statuses["s"], statuses[below]) == ("awaiting_user", "awaiting_user")
    assert (statuses["t"], statuses[f"t{below[1:]}"]) == ("cancelled", "cancelled")


def test_a_spawned_run_is_followed_under_the_other_name(store):
    """Its end is told once, and the tool that asks for its answer knows it by the name that the model was told."""
    may_answer = asyncio.Event()

    class Patient(FakeModel):
        async def complete(self, request):
            await may_answer.wait()
            async for event in super().complete(request):
                yield event

    sub = agent_with(Patient(says("The cookie is set twice. " * 20)), name="sub")

    def spawning(*replies):
        return agent_with(FakeModel(*replies), pay_now, detached=[sub], approvals=[ApprovalRule("pay_now")])

    async def talk():
        agent = spawning(calls("spawn", task="Look."), calls("pay_now"))
        runs = Runs(store, [agent])
        await runs.wait(await runs.start(agent, "Go.", session="s"), 10)
        (run,) = read_run(store, "s").spawned
        may_answer.set()
        await runs.wait(run, 10)
        other = imported(store)
        file = io.BytesIO()
        export_session(store, run.partition("#")[0], file)
        file.seek(0)
        import_session(other, file, name=f"t{run[1:].partition('#')[0]}")
        runs = Runs(other, [spawning(calls("spawned", run=run), says("Done."))])
        await runs.resume("t", UserAnswer(decision="allow"))
        return await runs.wait("t", 10), list(read_events(other, "t"))

    outcome, events = asyncio.run(talk())
    assert outcome.text == "Done."
    assert [one.status for one in events if isinstance(one, ChildEnded)] == ["completed"]
    assert any(isinstance(one, ToolEnded) and one.text.startswith("The cookie") for one in events)
    assert run_problems(events) == []
