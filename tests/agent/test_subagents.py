"""Sub-agents: a window of their own, an answer that is capped and can be recalled, questions that reach the user, one bill."""

import asyncio
import json

import msgspec
import pytest

import foveal
from foveal.agent import Agent, ApprovalRule, AskUser, Limits, Runs, ToolContext, tool
from foveal.agent.run_events import ChildTold, ToolEnded
from foveal.agent.run_log import read_events
from foveal.stores.port import Draft
from foveal.testing.run_checks import run_problems

from .conftest import FakeModel, agent_with, calls, collect, says

LONG = "The function is in login.py, line 12, and sets the cookie twice; I am sure of it. " * 4


@tool
def look(path: str) -> str:
    """Look."""
    return f"content of {path}"


def sub(model: FakeModel, *tools, **more) -> Agent:
    return agent_with(model, *tools, instructions="You look.", name="looker", description="looks", **more)


def tree_problems(store, session="s"):
    """The broken rules of a session and of its children."""
    names = [card.id for card in store.cards() if card.id == session or card.id.startswith(f"{session}/")]
    return [problem for name in names for problem in run_problems(read_events(store, name))]


def test_a_sub_agent_has_a_window_of_its_own(store):
    """It sees its instructions and its task; the parent sees its answer, and nothing of its work."""
    below = FakeModel(calls("look", path="a"), says(LONG))
    above = FakeModel(calls("delegate", task="Find the cookie."), says("In login.py."))
    outcome = asyncio.run(agent_with(above, agents=[sub(below, look)]).run("Where?", session="s", store=store))
    assert outcome.text == "In login.py."
    assert [one["content"] for one in below.requests[0]["messages"]] == ["You look.", "Find the cookie."]
    told = json.dumps(above.requests[-1]["messages"])
    assert "sets the cookie twice" in told
    assert "content of a" not in told
    assert tree_problems(store) == []


def test_a_sub_agent_that_the_user_mentions_is_pointed_out(store):
    """The model is reminded that it may give work to it; a name that is nobody's is an ordinary word."""
    above = FakeModel(says("Yes."), says("No."))
    agent = agent_with(above, agents=[sub(FakeModel())])
    for words in ("Ask @looker about it.", "Ask @nobody about it."):
        asyncio.run(agent.run(words, session=words[5:8], store=store))
    first, second = (json.dumps(request["messages"]) for request in above.requests)
    assert "The user mentioned these agents: looker." in first
    assert "The user mentioned these agents" not in second


def test_the_tree_and_its_cost(store):
    """Every call is counted once, where it was made."""
    below = FakeModel(calls("look", path="a"), says(LONG))
    above = FakeModel(says("", ("delegate", {"task": "A"}), ("look", {"path": "x"})), says("Done."))
    asyncio.run(agent_with(above, look, agents=[sub(below, look)]).run("Go.", session="s", store=store))
    tree, cost = Runs(store).tree("s"), Runs(store).cost("s")
    (child,) = tree.children
    assert (tree.run, child.agent, child.status, child.run.startswith("s/looker-")) == (
        "s#1",
        "looker",
        "completed",
        True,
    )
    assert (cost.calls, cost.own["gpt-5"].calls, cost.children[0].own["gpt-5"].calls) == (4, 2, 2)
    assert cost.total_usd == pytest.approx(sum(one.own_usd or 0.0 for one in (cost, *cost.children)))


def test_a_long_answer_is_shown_in_part_and_can_be_recalled(store):
    """The parent's window is not filled by one answer."""
    answer = "".join(f"Line {n} of the report says that all is well in place {n}.\n" for n in range(2_000))
    above = FakeModel(calls("delegate", task="Report."), says("Fine."))
    asyncio.run(agent_with(above, agents=[sub(FakeModel(says(answer)))]).run("Go.", session="s", store=store))
    told = above.requests[-1]["messages"][3]["content"]
    assert len(told) < len(answer) / 4
    (ended,) = [one for one in read_events(store, "s") if isinstance(one, ToolEnded)]
    with foveal.Session(store, "s", model="gpt-5") as session:
        assert session.recall(ended.entry) == answer


def test_a_thin_answer_is_asked_for_again(store):
    """Once; the second answer is taken as it is."""
    below = FakeModel(says("Yes."), says("Yes, in login.py."))
    above = FakeModel(calls("delegate", task="Is it there?"), says("Good."))
    asyncio.run(agent_with(above, agents=[sub(below)]).run("Go.", session="s", store=store))
    assert "too short" in below.requests[1]["messages"][-1]["content"]
    assert "Yes, in login.py." in json.dumps(above.requests[-1]["messages"])


def test_a_sub_agent_that_fails_says_how_far_it_came(store):
    """The parent gets an error with the reason, and goes on."""
    below = FakeModel(says("I begin.", ("look", {"path": "a"})), says("More.", ("look", {"path": "b"})))
    above = FakeModel(calls("delegate", task="Look."), says("Too bad."))
    lazy = sub(below, look, limits=Limits(max_steps=2))
    outcome = asyncio.run(agent_with(above, agents=[lazy]).run("Go.", session="s", store=store))
    (ended,) = [one for one in read_events(store, "s") if isinstance(one, ToolEnded)]
    assert (outcome.status, ended.status) == ("completed", "error")
    assert "failed after 2 steps: no answer within 2 steps" in ended.text


def test_an_unknown_sub_agent_is_answered_with_the_nearest(store):
    """As an unknown tool is."""
    above = FakeModel(calls("delegate", task="x", agent="loker"), says("Oh."))
    asyncio.run(agent_with(above, agents=[sub(FakeModel())]).run("Go.", session="s", store=store))
    (ended,) = [one for one in read_events(store, "s") if isinstance(one, ToolEnded)]
    assert ended.text == "There is no agent 'loker'. Did you mean looker?"


def test_questions_reach_the_user_from_any_depth(store):
    """Two levels down a tool asks and a call needs approval; both are answered at the root, and only there are they seen."""

    @tool
    async def ask(ctx: ToolContext, q: str) -> str:
        if ctx.answer is None:
            raise AskUser(q)
        return f"user: {ctx.answer.text}"

    deepest = FakeModel(calls("ask", q="Which one?"), calls("look", path="/etc"), says(LONG))
    middle = FakeModel(calls("delegate", task="deeper"), says(LONG))
    above = FakeModel(calls("delegate", task="deep"), says("Done."))
    low = agent_with(deepest, ask, look, name="low", approvals=[ApprovalRule("look", {"path": "^/etc"})])
    agent = agent_with(above, agents=[agent_with(middle, name="mid", agents=[low])])

    async def talk():
        first = await agent.run("Go.", session="s", store=store)
        runs = Runs(store, [agent])
        await runs.resume("s", "the second")
        second = await runs.wait("s")
        await runs.approve("s", "always")
        await runs.resume("s")
        return first, second, await runs.wait("s")

    first, second, outcome = asyncio.run(talk())
    assert [(one.kind, one.text) for one in first.questions] == [("question", "Which one?")]
    assert [(one.kind, one.tool) for one in second.questions] == [("approval", "look")]
    assert (outcome.status, outcome.text) == ("completed", "Done.")
    assert "user: the second" in json.dumps(deepest.requests[-1]["messages"])
    assert "Which one?" not in json.dumps(above.requests[-1]["messages"])
    assert tree_problems(store) == []


def test_an_approval_allows_the_call_that_was_shown_and_no_later_one(store):
    """A sub-agent's second call waits under an id of its own: an approval that names the first question is refused."""
    ran = []

    @tool(guarded=True)
    def shell(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return "ok"

    below = FakeModel(calls("shell", command="ls"), calls("shell", command="rm -rf /"), says(LONG))
    agent = agent_with(FakeModel(calls("delegate", task="x"), says("Done.")), agents=[sub(below, shell)])

    async def talk():
        (shown,) = (await agent.run("Go.", session="s", store=store)).questions
        runs = Runs(store, [agent])
        await runs.approve("s", question=shown.id)
        await runs.resume("s")
        (later,) = (await runs.wait("s")).questions
        with pytest.raises(foveal.BadInput, match="has not asked"):
            await runs.approve("s", question=shown.id)
        await runs.approve("s", "deny", question=later.id)
        await runs.resume("s")
        return await runs.wait("s")

    assert asyncio.run(talk()).text == "Done."
    assert ran == ["ls"]
    assert tree_problems(store) == []


def copied(store, upto):
    """A store with all sessions, of which some are cut after so many entries."""
    copy = foveal.open_store()
    for card in store.cards():
        writer = copy.acquire(card.id, secret=store.secret(card.id))
        writer.append([Draft(*msgspec.structs.astuple(row)[1:]) for row in store.rows(card.id, upto=upto.get(card.id))])
        writer.release()
    return copy


def test_a_sub_agent_that_handed_over_goes_on_as_the_one_that_took_over(store):
    """Its tool has asked the user: the answer reaches that tool, which the first agent does not have."""

    @tool
    async def ask(ctx: ToolContext) -> str:
        if ctx.answer is None:
            raise AskUser("Which one?")
        return f"user: {ctx.answer.text}"

    first, second = FakeModel(calls("handoff", agent="second", reason="it knows")), FakeModel(calls("ask"), says(LONG))
    low = agent_with(first, name="first", handoffs=[agent_with(second, ask, name="second")])
    agent = agent_with(FakeModel(calls("delegate", task="deep"), says("Done.")), agents=[low])

    async def talk():
        await agent.run("Go.", session="s", store=store)
        runs = Runs(store, [agent])
        await runs.resume("s", "the other")
        return await runs.wait("s", 30)

    assert asyncio.run(talk()).text == "Done."
    assert (len(first.requests), len(second.requests)) == (1, 2)
    assert "user: the other" in json.dumps(second.requests[-1]["messages"])
    assert tree_problems(store) == []


def test_an_answer_is_heard_once_although_the_next_question_is_lost_above(store):
    """The program ends after a sub-agent's tool has asked again, and before the run above has kept that question: it is asked
    then, and not answered with the words for the first one."""
    heard = []

    @tool
    async def ask(ctx: ToolContext) -> str:
        if ctx.answer is None:
            raise AskUser("First?")
        heard.append(ctx.answer.text)
        if ctx.answer.text == "yes" and len(heard) == 1:
            raise AskUser("Second?")
        return "asked"

    def agent(*above):
        return agent_with(
            FakeModel(*above), agents=[sub(FakeModel(*([calls("ask")] if len(above) > 1 else []), says(LONG)), ask)]
        )

    async def answered(runs):
        await runs.resume("s", "yes")
        return await runs.wait("s")

    first = agent(calls("delegate", task="x"), says("Never."))
    asyncio.run(first.run("Go.", session="s", store=store))
    second = asyncio.run(answered(Runs(store, [first])))
    assert [one.text for one in second.questions] == ["Second?"]

    started = [row.seq for row in store.rows("s") if b"started" in row.payload]
    again, later = copied(store, {"s": started[-1]}), agent(says("Done."))

    async def taken_up():
        runs = Runs(again, [later])
        assert await runs.recover() == ["s#1"]
        waiting = await runs.wait("s")
        return waiting, await answered(runs)

    waiting, outcome = asyncio.run(taken_up())
    assert [one.text for one in waiting.questions] == ["Second?"]
    assert (outcome.status, outcome.text, heard) == ("completed", "Done.", ["yes", "yes"])
    assert tree_problems(again) == []


def test_sub_agents_work_side_by_side_up_to_a_limit(store):
    """Six of one reply, four at a time."""
    inside, most = 0, 0

    @tool
    async def busy() -> str:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        for _ in range(50):
            if most > 4:
                break
            await asyncio.sleep(0.005)
        inside -= 1
        return "ok"

    below = FakeModel(by=lambda request: says(LONG) if request["messages"][-1]["role"] == "tool" else calls("busy"))
    above = FakeModel(says("", *(("delegate", {"task": str(n)}) for n in range(6))), says("Done."))
    outcome = asyncio.run(agent_with(above, agents=[sub(below, busy)]).run("Go.", session="s", store=store))
    assert (outcome.status, most) == ("completed", 4)
    assert len(Runs(store).tree("s").children) == 6


def test_cancelling_reaches_sub_agents(store):
    """Their runs are cancelled with the one above, and so are their tools."""

    async def talk():
        began, ended = asyncio.Event(), []

        @tool
        async def hang() -> str:
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append("hang")
                raise
            return ""

        agent = agent_with(FakeModel(calls("delegate", task="x")), agents=[sub(FakeModel(calls("hang")), hang)])
        runs = Runs(store, [agent])
        name = await runs.start(agent, "Go.", session="s")
        await began.wait()
        await runs.cancel(name, "enough")
        return await runs.wait(name), ended

    outcome, ended = asyncio.run(talk())
    (child,) = Runs(store).tree("s").children
    assert (outcome.status, child.status, ended) == ("cancelled", "cancelled", ["hang"])
    assert tree_problems(store) == []


def test_events_of_sub_agents_are_told_by_the_run_above(store):
    """With a scope of their own."""
    above = FakeModel(calls("delegate", task="x"), says("Done."))
    agent = agent_with(above, agents=[sub(FakeModel(says(LONG)))])
    live = asyncio.run(collect(agent.stream("Go.", session="s", store=store)))
    told = [one.event for one in live if isinstance(one, ChildTold)]
    assert {one.scope.parent for one in told} == {"s#1"}
    assert type(told[-1]).__name__ == "RunEnded"


def test_a_sub_agent_does_not_delegate_to_nobody(store):
    """The tool is offered only to agents that have sub-agents."""
    below = FakeModel(says(LONG))
    above = FakeModel(calls("delegate", task="x"), says("Done."))
    asyncio.run(agent_with(above, agents=[sub(below, look)]).run("Go.", session="s", store=store))
    offered = [one["function"]["name"] for one in below.requests[0]["tools"]]
    assert offered == ["look"]


@pytest.mark.parametrize(
    ("name", "source"),
    [("delegate", "agents"), ("spawn", "detached"), ("spawned", "detached"), ("handoff", "handoffs")],
)
def test_a_tool_cannot_have_the_name_of_one_for_other_agents(name, source):
    """The model would see one of two: the error says whose name it is."""
    own, others = tool(name=name)(lambda: "mine"), {source: [sub(FakeModel())]}
    agent_with(FakeModel(), own)
    with pytest.raises(foveal.BadInput, match=f"'{name}'.*{source}="):
        Agent(model="gpt-5", tools=[own], **others)  # pyright: ignore[reportArgumentType]
