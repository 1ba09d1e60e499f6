"""Calls that a stop, a word of the user's or an answer came upon: each is run once, or is told as it is."""

import asyncio

import pytest

import foveal
from foveal.agent import Agent, ApprovalRule, ModelChoice, Runs, tool
from foveal.agent.run_events import AnswerGiven
from foveal.agent.run_log import read_events, read_run
from foveal.agent.run_marks import MessageQueued, RunBegan, StatusSet, to_note
from foveal.agent.tool_calls import CANCELLED, GIVEN_UP, STOPPED
from foveal.agent.tools import AskUser, ToolContext, UserAnswer
from foveal.testing.run_checks import run_problems
from foveal.values.errors import BadInput

from .conftest import FakeModel, agent_with, calls, says

RAN: list[str] = []


@tool(retry="never")
def pay(amount: int = 1) -> str:
    """Pay."""
    RAN.append(f"pay {amount}")
    return "paid"


@tool(guarded=True)
def deploy(target: str = "here") -> str:
    """Deploy."""
    RAN.append(f"deploy {target}")
    return "deployed"


@tool
def book(ctx: ToolContext) -> str:
    """Book, and ask for the seat."""
    if ctx.answer is None:
        RAN.append("booked")
        raise AskUser("Which seat?")
    return f"seat {ctx.answer.text}"


@pytest.fixture(autouse=True)
def nothing_ran():
    RAN.clear()


def last_result(model):
    return model.requests[-1]["messages"][-1]


def results(model):
    return [one["content"] for one in model.requests[-1]["messages"] if one["role"] == "tool"]


@pytest.mark.parametrize("stops", ["pause", "leave"])
def test_a_call_that_was_marked_and_not_begun_is_run_when_the_run_goes_on(store, stops):
    """A stop between the mark in the log and the tool is no reason to tell the model that it may have had its effect."""
    model = FakeModel(calls("pay"), says("Paid."))
    agent = agent_with(model, pay)

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        driver, task = runs._driver_of(run), runs._live.task_of("s")
        assert driver is not None
        assert task is not None
        begin = driver._batch.begin

        def stopped(session, step):
            begun = begin(session, step)
            asyncio.run_coroutine_threadsafe(stop(runs, driver), loop).result()
            return begun

        loop, driver._batch.begin = asyncio.get_running_loop(), stopped
        await asyncio.wait_for(task, 20)
        assert RAN == []
        runs = Runs(store, [agent])
        return await runs.wait(await runs.resume(run), 20)

    async def stop(runs, driver):
        driver.stop("paused" if stops == "pause" else "running", "lunch")

    outcome = asyncio.run(talk())
    assert (outcome.text, RAN, results(model)) == ("Paid.", ["pay 1"], ["paid"])
    assert run_problems(read_events(store, "s")) == []


def test_a_call_that_had_begun_before_is_not_told_as_not_run(store, monkeypatch):
    """A stop between the second mark in the log and the tool takes nothing back that the tool has done before."""
    begun = asyncio.Event()

    @tool
    async def send() -> str:
        """Send."""
        RAN.append("send")
        begun.set()
        return await asyncio.Event().wait() and "sent"

    model = FakeModel(calls("send"), says("I see."))
    agent = agent_with(model, send)

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await begun.wait()
        await runs.pause(run)
        await runs.wait(run, 20)
        with monkeypatch.context() as patched:

            async def stopped(batch, step, begun) -> None:
                await runs.pause(run)
                await asyncio.Event().wait()

            patched.setattr("foveal.agent.tool_batch.ToolBatch.do", stopped)
            await runs.resume(run)
            await runs.wait(run, 20)
        await runs.steer(run, "Stop that.")
        await runs.resume(run)
        return await runs.wait(run, 20)

    assert asyncio.run(talk()).text == "I see."
    assert RAN == ["send"]
    assert "It may have had its effect" in results(model)[0]


def test_a_tool_that_asked_and_is_given_up_is_not_told_as_not_run(store):
    """It had an effect before it asked."""
    model = FakeModel(calls("book"), says("I see."))
    agent = agent_with(model, book)

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await runs.wait(run, 20)
        await runs.steer(run, "Never mind.")
        await runs.resume(run)
        return await runs.wait(run, 20)

    asyncio.run(talk())
    assert RAN == ["booked"]
    assert "had begun" in results(model)[0]


@pytest.mark.parametrize("rests", ["at work", "paused"])
def test_calls_of_a_cancelled_run_are_told_as_they_are(store, rests):
    """The next run reads which of them may have had an effect: one was at work, one had asked, and one waited for approval."""
    began = asyncio.Event()

    @tool(retry="never")
    async def send() -> str:
        """Send."""
        began.set()
        await asyncio.Event().wait()
        return ""

    model = FakeModel(says("", ("deploy", {}), ("send", {}), ("book", {})), says("I see."))
    agent = agent_with(model, deploy, send, book)

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await began.wait()
        while not read_run(store, "s").asked:  # noqa: ASYNC110 - it is told by the log alone
            await asyncio.sleep(0.01)
        if rests == "paused":
            await runs.pause(run)
            await runs.wait(run, 20)
        await runs.cancel(run)
        await runs.wait(run, 20)
        await runs.wait(await runs.start(agent, "And?", session="s"), 20)

    asyncio.run(talk())
    assert [GIVEN_UP in results(model)[2], STOPPED in results(model)[1], CANCELLED in results(model)[0]] == [True] * 3


def test_the_sub_agent_of_a_call_that_is_given_up_ends(store):
    """Its question is nobody's any more: no answer may run the call that it asked for."""
    below = FakeModel(calls("deploy"), says("x" * 300))
    child = Agent("c", name="reader", model=ModelChoice("gpt-5", "openai"), tools=[deploy], open_model=lambda _: below)
    model = FakeModel(calls("delegate", task="t"), says("I see."))
    agent = agent_with(model, agents=[child])

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await runs.wait(run, 20)
        await runs.steer(run, "Something else.")
        await runs.resume(run)
        await runs.wait(run, 20)
        return runs.tree(run)

    tree = asyncio.run(talk())
    assert (tree.status, [one.status for one in tree.children], RAN) == ("completed", ["cancelled"], [])
    assert "had begun" in results(model)[0]


@pytest.mark.parametrize(("first", "ran"), [("steer", ["deploy here"]), ("approve", [])])
def test_the_newer_word_of_the_user_counts(store, first, ran):
    """Who approves after steering means the call; who steers after approving is heard before it."""
    model = FakeModel(calls("deploy"), says("I see."))
    agent = agent_with(model, deploy)

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await runs.wait(run, 20)
        for act in ("steer", "approve") if first == "steer" else ("approve", "steer"):
            await (runs.steer(run, "Be quick.") if act == "steer" else runs.approve(run, "allow"))
        await runs.resume(run)
        return await runs.wait(run, 20)

    asyncio.run(talk())
    assert ran == RAN
    if not ran:
        assert "answered, and then said" in results(model)[0]


def test_edited_arguments_are_not_answered_from_earlier_results(store):
    """Somebody has said what is to be run."""
    paths: list[str] = []

    @tool(cache="session", guarded=True)
    def read(path: str) -> str:
        """Read."""
        paths.append(path)
        return f"content of {path}"

    model = FakeModel(calls("read", path="a"), calls("read", path="a"), says("Read."))
    agent = agent_with(model, read)

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await runs.wait(run, 20)
        await runs.approve(run, "allow")
        await runs.resume(run)
        await runs.wait(run, 20)
        await runs.approve(run, "edit", arguments={"path": "b"})
        await runs.resume(run)
        return await runs.wait(run, 20)

    asyncio.run(talk())
    assert paths == ["a", "b"]
    assert "content of b" in results(model)[-1]


def test_a_question_of_a_tool_allows_no_call(store):
    """`always` is for calls that wait for approval."""
    model = FakeModel(calls("book"), says("Booked."))
    agent = agent_with(model, book)

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await runs.wait(run, 20)
        with pytest.raises(BadInput, match="no call that waits for approval"):
            await runs.approve(run, "always")
        return await runs.wait(await runs.resume(run, "4"), 20)

    assert asyncio.run(talk()).text == "Booked."


def test_a_tool_that_asks_for_ever_is_given_up(store):
    """Nobody answers in time, and it asks again each time."""

    @tool
    def nag(ctx: ToolContext) -> str:
        """Ask."""
        raise AskUser("Well?", timeout_s=0.001, otherwise="no")

    model = FakeModel(calls("nag"), says("Enough."))
    agent = agent_with(model, nag)

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        outcome = await runs.wait(run, 20)
        for _ in range(1_000):
            outcome = await runs.wait(run, 20) if outcome.status == "awaiting_user" else outcome
        return outcome

    assert asyncio.run(talk()).text == "Enough."
    assert "asked 50 times" in results(model)[0]


def test_a_question_that_was_answered_below_is_not_asked_above(store):
    """The run above goes on when the sub-agent's own run had its answer."""
    below = FakeModel(calls("deploy"), says("Deployed it all. " * 30))
    child = Agent("c", name="reader", model=ModelChoice("gpt-5", "openai"), tools=[deploy], open_model=lambda _: below)
    model = FakeModel(calls("delegate", task="t"), says("Done."))
    agent = agent_with(model, agents=[child])

    async def talk():
        runs = Runs(store, [agent, child])
        run = await runs.start(agent, "Go.", session="s")
        await runs.wait(run, 20)
        name = runs.tree(run).children[0].run
        await runs.approve(name, "allow")
        await runs.resume(name)
        await runs.wait(name, 20)
        await runs.resume(run)
        return await runs.wait(run, 20)

    assert (asyncio.run(talk()).text, RAN) == ("Done.", ["deploy here"])
    assert "Deployed it all." in results(model)[0]


@pytest.mark.parametrize("goes_on", ["with it", "with the same answer"])
def test_an_answer_that_waits_in_the_run_of_a_sub_agent_lets_the_run_above_go_on(store, goes_on):
    """`resume` of the run above has the sub-agent read the answer that was given in its own run; another answer is refused."""
    below = FakeModel(calls("deploy"), says("Deployed it all. " * 30))
    child = Agent("c", name="reader", model=ModelChoice("gpt-5", "openai"), tools=[deploy], open_model=lambda _: below)
    agent = agent_with(FakeModel(calls("delegate", task="t"), says("Done.")), agents=[child])

    async def talk():
        runs = Runs(store, [agent, child])
        run = await runs.start(agent, "Go.", session="s")
        await runs.wait(run, 20)
        await runs.approve(runs.tree(run).children[0].run, "allow")
        with pytest.raises(BadInput, match=r"has an answer .* already: 'allow'"):
            await runs.resume(run, UserAnswer("", "deny"))
        await runs.resume(run, None if goes_on == "with it" else UserAnswer("", "allow"))
        return await runs.wait(run, 20)

    assert (asyncio.run(talk()).text, RAN) == ("Done.", ["deploy here"])
    answers = [one.answer.source for one in read_events(store, "s") if isinstance(one, AnswerGiven)]
    assert answers == ["sub_agent"]


def test_a_sub_agent_is_not_paused_alone(store):
    """The call that waits for it would take the pause for its answer."""
    begun = asyncio.Event()
    below = FakeModel([begun])
    child = Agent("c", name="reader", model=ModelChoice("gpt-5", "openai"), open_model=lambda _: below)
    agent = agent_with(FakeModel(calls("delegate", task="t"), says("Done.")), agents=[child])

    async def talk():
        runs = Runs(store, [agent, child])
        run = await runs.start(agent, "Go.", session="s")
        await begun.wait()
        with pytest.raises(BadInput, match="works for a call of run s#1"):
            await runs.pause(runs.tree(run).children[0].run)
        await runs.cancel(run)

    asyncio.run(talk())


def test_a_tool_of_another_agent_is_not_allowed_by_its_name(store):
    """The user has allowed the one that was shown."""
    second = Agent(
        "two",
        name="second",
        model=ModelChoice("gpt-5", "openai"),
        tools=[deploy],
        approvals=[ApprovalRule("deploy")],
        open_model=lambda _: FakeModel(calls("deploy", target="prod"), says("Two.")),
    )
    model = FakeModel(calls("deploy"), calls("handoff", agent="second"))
    agent = agent_with(model, deploy, handoffs=[second])

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await runs.wait(run, 20)
        await runs.approve(run, "always")
        await runs.resume(run)
        return await runs.wait(run, 20)

    outcome = asyncio.run(talk())
    assert (outcome.status, RAN) == ("awaiting_user", ["deploy here"])


def test_the_end_of_a_detached_run_outlives_a_cancelled_one(store):
    """They are no words of the user's, who decides about those alone."""
    with foveal.Session(store, "s", model="gpt-5") as session:
        marks = (
            RunBegan(1, "a"),
            MessageQueued("[s/x#1 is completed.]", is_steering=True, is_own=True),
            MessageQueued("Hurry.", is_steering=True),
            StatusSet("cancelled", 1, "a"),
            RunBegan(2, "a"),
        )
        session.extend([to_note(one) for one in marks])
    assert [one.text for one in read_run(store, "s").steering] == ["[s/x#1 is completed.]"]
