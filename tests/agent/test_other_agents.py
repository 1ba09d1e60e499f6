"""Agents that work in the background, and agents that take over a conversation."""

import asyncio
import json
from typing import Any

import pytest

from foveal.agent import Agent, ApprovalRule, Limits, Runs, UserAnswer, tool
from foveal.agent.agent_file import read_agent
from foveal.agent.run_events import ChildEnded, ChildStarted, HandedOver, ToolEnded, UserSpoke
from foveal.agent.run_log import read_events
from foveal.testing.crash_points import cut_log
from foveal.testing.run_checks import run_problems
from foveal.values.errors import BadInput

from .conftest import FakeModel, agent_with, calls, says

LONG = "The function is in login.py, line 12, and sets the cookie twice; I am sure of it. " * 4


@tool
def look(path: str) -> str:
    """Look."""
    return f"content of {path}"


def named(name: str, model: FakeModel, *tools, **more) -> Agent:
    return agent_with(model, *tools, instructions=f"You are {name}.", name=name, description=f"does {name}", **more)


def ended(store, session="s"):
    return [(one.status, one.text) for one in read_events(store, session) if isinstance(one, ToolEnded)]


def tree_problems(store, session="s"):
    names = [card.id for card in store.cards() if card.id == session or card.id.startswith(f"{session}/")]
    return [problem for name in names for problem in run_problems(read_events(store, name))]


class Background:
    """An agent that spawns a reader, whose tool waits until it is let go."""

    def __init__(self, *replies, below=None, **more):
        self.go = asyncio.Event()

        @tool
        async def dig() -> str:
            await self.go.wait()
            return "dug"

        self.below = below or FakeModel(calls("dig"), says(LONG))
        self.above = FakeModel(*replies)
        self.reader = named("reader", self.below, dig)
        self.agent = agent_with(self.above, look, detached=[self.reader], **more)

    def runs(self, store):
        return Runs(store, [self.agent])


def child_of(store, session="s"):
    return next(one.child for one in read_events(store, session) if isinstance(one, ChildStarted))


def test_a_spawned_agent_works_on_after_its_parent_has_answered(store):
    """The call returns at once; the next run is told of the end, and gets the answer by a tool."""

    async def talk():
        bench = Background(calls("spawn", task="Dig.", metadata={"ticket": "7"}), says("It is under way."))
        runs = bench.runs(store)
        await runs.start(bench.agent, "Find out.", session="s")
        first = await runs.wait("s")
        child = child_of(store)
        assert runs.outcome(child).status in ("pending", "running")
        bench.go.set()
        below = await runs.wait(child)
        bench.above.replies += [calls("spawned", run=child), says("It is set twice.")]
        await runs.start(bench.agent, "And?", session="s")
        return bench, first, child, below, await runs.wait("s")

    bench, first, child, below, last = asyncio.run(talk())
    assert (first.text, below.status, last.text) == ("It is under way.", "completed", "It is set twice.")
    assert ended(store)[0] == ("ok", f"[{child} is under way; spawned({child!r}) returns its answer when it has ended]")
    assert ended(store)[1] == ("ok", LONG)
    heard = [one["content"] for one in bench.above.requests[2]["messages"] if one["role"] == "user"]
    assert f"[{child} is completed. The tool `spawned` returns the answers.]" in heard
    assert LONG[:40] not in json.dumps(bench.above.requests[2]["messages"])
    assert [one.status for one in read_events(store, "s") if isinstance(one, ChildEnded)] == ["completed"]
    state: Any = Runs(store).state(child)
    assert (state.spawned_by.parent, state.spawned_by.metadata) == ("s#1", {"ticket": "7"})
    assert tree_problems(store) == []
    tree = Runs(store).tree("s#1")
    assert [(one.run, one.status) for one in tree.children] == [(child, "completed")]
    assert Runs(store).cost("s#1").calls == 4


def test_an_end_is_told_once_and_does_not_cut_calls(store):
    """While the parent works, it hears of it between two steps; the calls of its reply are run first."""

    class Patient(FakeModel):
        """Gives its second reply when the sub-agent has ended."""

        async def complete(self, request):
            if len(self.requests) == 1:
                is_asked.set()
                await runs[0].wait(child_of(store))
            async for event in super().complete(request):
                yield event

    class Waiting(FakeModel):
        """Answers when its parent has been asked for the second time."""

        async def complete(self, request):
            await is_asked.wait()
            async for event in super().complete(request):
                yield event

    runs, is_asked = [], asyncio.Event()

    async def talk():
        above = Patient(calls("spawn", task="Dig."), calls("look", path="a"), says("Well."), says("Bye."))
        agent = agent_with(above, look, detached=[named("reader", Waiting(says(LONG)))])
        runs.append(Runs(store, [agent]))
        for text in ("Go.", "More?"):
            await runs[0].start(agent, text, session="s")
            await runs[0].wait("s")
        return above

    above = asyncio.run(talk())
    assert ended(store)[1] == ("ok", "content of a")
    told = [json.dumps(one["messages"]).count("returns the answers.]") for one in above.requests]
    assert told == [0, 0, 1, 1]


def test_a_spawned_run_of_a_dead_process_is_taken_up(store):
    """By `recover`, as any run; the call of its parent finds it again."""

    async def killed():
        bench = Background(calls("spawn", task="Dig."), says("It is under way."))
        runs = bench.runs(store)
        await runs.start(bench.agent, "Find out.", session="s")
        await runs.wait("s")
        child = child_of(store)
        async for event in runs.observe(child):
            if type(event).__name__ == "ToolStarted":
                break
        await runs.drain(0)
        return child

    child = asyncio.run(killed())
    session = child.partition("#")[0]
    with_pause = len(list(store.rows(session)))
    cut = cut_log(store, session, with_pause - 1)

    async def later():
        bench = Background(below=FakeModel(says(LONG)))
        bench.go.set()
        runs = Runs(cut, [bench.agent])
        taken = await runs.recover()
        return taken, await runs.wait(child)

    taken, outcome = asyncio.run(later())
    assert (taken, outcome.status) == ([child], "completed")


def test_no_more_agents_are_spawned_than_a_model_can_keep_in_mind(store):
    """The ninth is refused."""

    async def talk():
        spawned = says("", *(("spawn", {"task": str(n)}) for n in range(9)))
        bench = Background(spawned, says("So many."), below=FakeModel(by=lambda request: calls("dig")))
        runs = bench.runs(store)
        await runs.start(bench.agent, "Go.", session="s")
        await runs.wait("s")
        await runs.drain(0)

    asyncio.run(talk())
    assert sorted(status for status, _ in ended(store)) == ["error"] + ["ok"] * 8


def test_only_own_spawned_runs_can_be_read(store):
    """The tool returns nothing of other sessions, and nothing of sub-agents that were delegated to."""

    async def talk():
        reader = named("reader", FakeModel(says(LONG)))
        other = agent_with(FakeModel(calls("spawn", task="x"), says("Done.")), detached=[reader])
        runs = Runs(store, [other])
        await runs.start(other, "x", session="t")
        await runs.wait("t")
        await runs.wait(child_of(store, "t"))
        nosy = agent_with(FakeModel(calls("spawned", run=child_of(store, "t")), says("No.")), detached=[reader])
        await nosy.run("Go.", session="s", store=store)

    asyncio.run(talk())
    assert ended(store) == [("error", f"There is no spawned run {child_of(store, 't')!r} of this session.")]


def test_another_agent_takes_over_the_conversation(store):
    """With its own instructions, model and tools, behind everything that was said; the prompt before it stays as it is."""
    second = FakeModel(calls("look", path="a"), says("Refunded."))
    first = FakeModel(says("", ("handoff", {"agent": "billing"}), ("look", {"path": "x"})))
    billing = named("billing", second, look)
    agent = agent_with(first, look, handoffs=[billing])
    outcome = asyncio.run(agent.run("My money.", session="s", store=store))
    assert (outcome.status, outcome.text, outcome.run) == ("completed", "Refunded.", "s#1")
    before, after = first.requests[0]["messages"], second.requests[0]["messages"]
    assert after[: len(before)] == before
    assert after[-1]["content"] == "The agent billing goes on with this conversation.\nYou are billing."
    assert [one["function"]["name"] for one in second.requests[0]["tools"]] == ["look"]
    assert Runs(store).state("s").agent == "billing"
    assert [one.agent for one in read_events(store, "s") if isinstance(one, HandedOver)] == ["billing"]
    assert run_problems(read_events(store, "s")) == []


def test_a_run_that_waits_goes_on_with_the_agent_that_took_over(store):
    """In another process too, which knows only the agent that began; its own calls are decided before the other goes on."""
    second = FakeModel(calls("look", path="b"), says("Refunded."))
    rules = [ApprovalRule("look")]
    first = FakeModel(says("", ("handoff", {"agent": "billing"}), ("look", {"path": "a"})))
    agent = agent_with(first, look, approvals=rules, handoffs=[named("billing", second, look, approvals=rules)])
    asyncio.run(agent.run("My money.", session="s", store=store))
    assert (Runs(store).state("s").status, Runs(store).state("s").agent) == ("awaiting_user", "agent")

    async def later():
        runs = Runs(store, [agent])
        await runs.resume("s", UserAnswer(decision="allow"))
        return await runs.wait("s")

    assert asyncio.run(later()).status == "awaiting_user"
    assert Runs(store).state("s").agent == "billing"
    assert asyncio.run(later()).text == "Refunded."
    assert [text for _, text in ended(store)] == ["[billing takes over]", "content of a", "content of b"]


def test_a_handoff_survives_a_crash_at_any_entry(store):
    """Wherever the log ends, the run goes on and is handed over once."""

    def agents():
        ask = FakeModel(by=lambda request: says("Refunded."))
        first = FakeModel(by=lambda request: calls("handoff", agent="billing"))
        return agent_with(first, handoffs=[named("billing", ask)])

    asyncio.run(agents().run("My money.", session="s", store=store))

    async def later(cut):
        runs = Runs(cut, [agents()])
        await runs.recover()
        return await runs.wait("s")

    tried = 0
    for place in range(2, len(list(store.rows("s")))):
        cut = cut_log(store, "s", place)
        if not any(isinstance(one, UserSpoke) for one in read_events(cut, "s")):
            continue
        tried += 1
        assert asyncio.run(later(cut)).text == "Refunded.", place
        assert len([one for one in read_events(cut, "s") if isinstance(one, HandedOver)]) == 1, place
        assert run_problems(read_events(cut, "s")) == [], place
    assert tried > 8


def test_agents_do_not_hand_over_in_circles(store):
    """After so many times the call is refused, and the model must answer."""
    one = FakeModel(by=lambda request: reply(request, "two"))
    two = FakeModel(by=lambda request: reply(request, "one"))

    def reply(request, other):
        return (
            says("Enough.") if "not handed over" in json.dumps(request["messages"]) else calls("handoff", agent=other)
        )

    first = agent_with(one, name="one", limits=Limits(max_handoffs=3))
    second = agent_with(two, name="two", handoffs=[first], limits=Limits(max_handoffs=3))
    first.handoffs = {"two": second}  # pyright: ignore[reportAttributeAccessIssue]
    outcome = asyncio.run(first.run("Go.", session="s", store=store))
    assert (outcome.text, Runs(store).state("s").handoffs) == ("Enough.", 3)


def test_an_agent_that_begins_in_the_conversation_of_another_is_introduced(store):
    """Its instructions are told where it begins; those of one that goes on are not told again."""
    second = FakeModel(says("Two."), says("Three."))
    other = named("other", second)

    async def talk():
        await agent_with(FakeModel(says("One."))).run("a", session="s", store=store)
        await other.run("b", session="s", store=store)
        await other.run("c", session="s", store=store)

    asyncio.run(talk())
    assert [one["content"] for one in second.requests[-1]["messages"]].count("You are other.") == 1


def test_a_sub_agent_may_see_the_newest_turns(store):
    """With `inherit_turns`; by default it sees its task alone."""
    below = FakeModel(says(LONG))
    above = FakeModel(calls("delegate", task="Look.", inherit_turns=1), says("Done."))
    agent = agent_with(above, agents=[named("looker", below)])
    asyncio.run(agent.run("The cookie is lost.", session="s", store=store))
    seen = json.dumps(below.requests[0]["messages"])
    assert "The cookie is lost." in seen
    assert "Look." in seen


def test_a_file_names_agents_of_all_three_kinds(tmp_path):
    """`agents`, `detached`, `handoffs`; a circle is refused."""
    (tmp_path / "a.toml").write_text('model = "gpt-5"\n')
    (tmp_path / "main.toml").write_text(
        'model = "gpt-5"\nagents = ["a.toml"]\ndetached = ["a.toml"]\nhandoffs = ["a.toml"]\n'
    )
    agent = read_agent(tmp_path / "main.toml")
    assert [list(one) for one in (agent.agents, agent.detached, agent.handoffs)] == [["a"], ["a"], ["a"]]
    (tmp_path / "a.toml").write_text('model = "gpt-5"\nhandoffs = ["main.toml"]\n')
    with pytest.raises(BadInput, match="of itself"):
        read_agent(tmp_path / "main.toml")
