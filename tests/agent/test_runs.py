"""Runs from the first message to the last status: loop, limits, queue, approvals, failures, and the way back after them."""

import asyncio

import pytest

import foveal
from foveal.agent import Agent, ApprovalRule, AskUser, Limits, ModelChoice, Runs, ToolContext, UserAnswer, tool
from foveal.agent.built_in_tools import built_in_tools
from foveal.agent.inbox import Steering, StopRequest, post
from foveal.agent.run_events import (
    AnswerGiven,
    ModelReplied,
    ModelRetried,
    QuestionAsked,
    RunEnded,
    StatusChanged,
    StepStarted,
    TextCame,
    ToolEnded,
    ToolProgressed,
    ToolReturned,
    UsageCounted,
    UserSpoke,
    is_kept,
)
from foveal.agent.run_log import read_events
from foveal.agent.tool_calls import SKIPPED, STOPPED
from foveal.agent.usage_cost import usage_usd
from foveal.testing.run_checks import run_problems
from foveal.values.entry import Usage
from foveal.values.errors import BadInput, ModelFailed
from foveal.writers.port import Reply

from .conftest import FakeModel, agent_with, calls, collect, says


@tool
def look(path: str) -> str:
    """Look."""
    return f"content of {path}"


class Overflow(Exception):
    """A provider's refusal of a prompt that is too long."""

    status_code = 400

    def __init__(self) -> None:
        super().__init__(
            "This model's maximum context length is 3000 tokens. However, your messages resulted in 4000 tokens."
        )


def run(agent, *texts, store=None, session="s"):
    """The outcomes of a conversation."""
    kept = foveal.open_store() if store is None else store

    async def talk():
        return [await agent.run(text, session=session, store=kept) for text in texts]

    outcomes = asyncio.run(talk())
    assert run_problems(read_events(kept, session)) == []
    return outcomes[-1]


def results(store, session="s"):
    """Status and text of every tool result."""
    return [(one.status, one.text) for one in read_events(store, session) if isinstance(one, ToolEnded)]


def test_a_run_calls_tools_until_there_is_an_answer(store):
    """The model sees the instructions, the request and the results; the outcome has the answer."""
    model = FakeModel(
        calls("look", path="a"), says("", ("look", {"path": "b"}), ("look", {"path": "c"})), says("Found it.")
    )
    outcome = run(agent_with(model, look), "Where?", store=store)
    assert (outcome.status, outcome.text, outcome.steps, outcome.run) == ("completed", "Found it.", 3, "s#1")
    roles = [message["role"] for message in model.requests[-1]["messages"]]
    assert roles[:7] == ["system", "user", "assistant", "tool", "assistant", "tool", "tool"]
    assert results(store) == [("ok", f"content of {one}") for one in "abc"]


def test_a_conversation_goes_on_in_its_session(store):
    """The second run sees the first."""
    model = FakeModel(says("One."), says("Two."))
    outcome = run(agent_with(model), "First?", "Second?", store=store)
    assert outcome.run == "s#2"
    assert [one["content"] for one in model.requests[-1]["messages"][1:4]] == ["First?", "One.", "Second?"]


def test_one_failing_call_does_not_keep_the_others_from_their_results(store):
    """The whole batch is drained."""

    @tool
    def broken() -> str:
        raise RuntimeError("no")

    model = FakeModel(
        says("", ("broken", {}), ("look", {"path": "a"}), ("lok", {"path": "b"}), ("look", {})), says("ok")
    )
    run(agent_with(model, broken, look), "Go.", store=store)
    statuses = sorted(status for status, _ in results(store))
    assert statuses == ["error", "error", "error", "ok"]


def test_calls_of_one_reply_run_side_by_side(store):
    """Unless their tool is serial: those run one after the other."""

    async def both(serial: bool) -> int:
        inside, most = 0, 0

        @tool(serial=serial)
        async def wait(n: int) -> str:
            nonlocal inside, most
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            for _ in range(50):
                if inside > 1:
                    break
                await asyncio.sleep(0.001)
            inside -= 1
            return str(n)

        model = FakeModel(says("", ("wait", {"n": 1}), ("wait", {"n": 2})), says("ok"))
        await agent_with(model, wait).run("Go.", store=foveal.open_store())
        return most

    assert asyncio.run(both(serial=False)) == 2
    assert asyncio.run(both(serial=True)) == 1


def test_the_last_step_allows_no_call(store):
    """The request says so in the provider's own way, and the model is told."""
    model = FakeModel(calls("look", path="a"), says("So far: nothing."))
    outcome = run(agent_with(model, look, limits=Limits(max_steps=2)), "Where?", store=store)
    assert (outcome.status, outcome.text) == ("completed", "So far: nothing.")
    assert model.requests[-1]["tool_choice"] == "none"
    assert "last step" in model.requests[-1]["messages"][-1]["content"]


def test_a_model_that_calls_on_at_its_last_step_has_failed(store):
    """Its calls are answered, so that the conversation can go on."""
    model = FakeModel(calls("look", path="a"), calls("look", path="b"))
    outcome = run(agent_with(model, look, limits=Limits(max_steps=2)), "Where?", store=store)
    assert (outcome.status, outcome.reason) == ("failed", "no answer within 2 steps")


def test_an_empty_reply_is_asked_for_again(store):
    """Its usage counts; after three of them the run has failed."""
    outcome = run(agent_with(FakeModel(says(""), says(" "), says("Here."))), "Well?", store=store)
    assert (outcome.text, outcome.usage["gpt-5"].calls) == ("Here.", 3)
    outcome = run(agent_with(FakeModel(says(""), says(""), says(""))), "Well?")
    assert outcome.status == "failed"
    assert "3 replies in a row said nothing" in outcome.reason


def test_a_prompt_that_is_too_long_is_folded_and_sent_again(store):
    """The run does not notice, but for a smaller prompt."""

    @tool
    def long(n: int) -> str:
        return f"{n} line of text\n" * 200

    model = FakeModel(*(calls("long", n=n) for n in range(4)), Overflow(), says("ok"))
    outcome = run(agent_with(model, long), "Read.", store=store)
    assert outcome.status == "completed"
    assert len(str(model.requests[-1]["messages"])) < len(str(model.requests[-2]["messages"]))


def test_another_model_takes_over(store):
    """When the first refuses for good: the run goes on with the second, and stays with it."""

    class Refused(Exception):
        status_code = 404

    first, second = FakeModel(Refused("no such model")), FakeModel(says("Two."), says("Three."))
    models = {"gpt-5": first, "gpt-5-mini": second}
    agent = Agent(
        "Hi.", model="openai:gpt-5", fallbacks=["openai:gpt-5-mini"], open_model=lambda choice: models[choice.model]
    )
    assert run(agent, "One?", store=store).text == "Two."
    told = [type(one).__name__ for one in read_events(store, "s")]
    assert told.count("ModelFellBack") == 1
    assert second.requests[0]["model"] == "gpt-5-mini"


def test_a_resumed_run_stays_with_its_model(store):
    """The one that it fell back to, in another process too; the next run begins with the first again."""

    class Refused(Exception):
        status_code = 404

    opened: list[str] = []
    first, second = FakeModel(Refused("no"), says("Three.")), FakeModel(calls("look", path="a"), says("Two."))

    def open_model(choice):
        opened.append(choice.model)
        return {"gpt-5": first, "gpt-5-mini": second}[choice.model]

    agent = Agent(
        model="openai:gpt-5",
        fallbacks=["openai:gpt-5-mini"],
        tools=[look],
        approvals=[ApprovalRule("*")],
        open_model=open_model,
    )
    run(agent, "One?", store=store)

    async def resumed():
        runs = Runs(store, [agent])
        await runs.approve("s")
        await runs.resume("s")
        return await runs.wait("s")

    assert asyncio.run(resumed()).text == "Two."
    assert run(agent, "And?", store=store).text == "Three."
    assert opened == ["gpt-5", "gpt-5-mini", "gpt-5-mini", "gpt-5"]


def test_a_failed_run_asks_the_first_model_again_when_it_is_resumed(store):
    """That one may answer by now, and then the fallbacks in their order: each resumption asks all of them."""

    class Refused(Exception):
        status_code = 402

    first = FakeModel(Refused("no credit"), Refused("no credit"), says("Paid."))
    second = FakeModel(Refused("bad key"), Refused("bad key"))
    models = {"gpt-5": first, "gpt-5-mini": second}
    agent = Agent(model="openai:gpt-5", fallbacks=["openai:gpt-5-mini"], open_model=lambda choice: models[choice.model])
    assert run(agent, "Go.", store=store).status == "failed"

    async def again():
        runs = Runs(store, [agent])
        return await runs.wait(await runs.resume("s"), 10)

    assert asyncio.run(again()).status == "failed"
    assert asyncio.run(again()).text == "Paid."
    assert (len(first.requests), len(second.requests)) == (3, 2)


def test_a_model_that_does_not_answer_fails_the_run_which_can_be_resumed(store):
    """The reason says what to do, and nothing is lost."""

    class Wrong(Exception):
        status_code = 401

    model = FakeModel(calls("look", path="a"), Wrong("bad key sk-abcdefghijkl"), says("Found."))
    agent = agent_with(model, look)
    outcome = run(agent, "Where?", store=store)
    assert outcome.status == "failed"
    assert "(auth)" in outcome.reason
    assert "sk-abc" not in outcome.reason

    async def again():
        runs = Runs(store, [agent])
        await runs.resume("s")
        return await runs.wait("s")

    outcome = asyncio.run(again())
    assert (outcome.status, outcome.text, outcome.run) == ("completed", "Found.", "s#1")
    assert len(results(store)) == 1
    assert run_problems(read_events(store, "s")) == []


def test_a_call_waits_for_the_user_and_the_process_may_end(store):
    """The question is in the log; another supervisor answers it, and the run goes on where it was."""
    model = FakeModel(says("", ("look", {"path": "/etc/x"}), ("look", {"path": "b"})), says("Done."))
    agent = agent_with(model, look, approvals=[ApprovalRule("look", {"path": "^/etc"})])
    waiting = run(agent, "Go.", store=store)
    assert (waiting.status, [one.tool for one in waiting.questions]) == ("awaiting_user", ["look"])
    assert results(store) == [("ok", "content of b")]

    async def answered():
        runs = Runs(store, [agent])
        with pytest.raises(foveal.BadInput, match="waits for an answer"):
            await runs.resume("s")
        await runs.approve("s", "edit", arguments={"path": "/srv/x"})
        await runs.resume("s")
        return await runs.wait("s")

    assert asyncio.run(answered()).text == "Done."
    assert results(store)[-1][1].splitlines() == [
        '[the user changed the arguments to {"path":"/srv/x"}]',
        "content of /srv/x",
    ]


def test_a_tool_asks_and_is_called_again_with_the_answer(store):
    """`AskUser` stops the tool; `ctx.answer` has the answer when it is called again, under the same key."""
    keys = []

    @tool
    async def ask(ctx: ToolContext, q: str) -> str:
        keys.append(ctx.key)
        if ctx.answer is None:
            raise AskUser(q, ["red", "blue"])
        return f"they said {ctx.answer.text}"

    agent = agent_with(FakeModel(calls("ask", q="Which colour?"), says("Red it is.")), ask)
    waiting = run(agent, "Paint.", store=store)
    assert (waiting.questions[0].text, waiting.questions[0].options) == ("Which colour?", ("red", "blue"))

    async def answered():
        runs = Runs(store, [agent])
        await runs.resume("s#1", "red")
        return await runs.wait("s#1")

    assert asyncio.run(answered()).text == "Red it is."
    assert results(store) == [("ok", "they said red")]
    assert keys[0] == keys[1]


def test_an_answer_to_no_question_is_refused(store):
    """With the questions that are open."""
    run(agent_with(FakeModel(says("Hi."))), "Hi.", store=store)
    with pytest.raises(foveal.BadInput, match="open questions: none"):
        asyncio.run(Runs(store).answer("s", UserAnswer("x", question="k")))


class Held:
    """A tool that runs until it is let go, and a way to know that it has begun."""

    def __init__(self) -> None:
        self.began, self.go = asyncio.Event(), asyncio.Event()
        self.was_cancelled = False

        @tool(serial=True)
        async def hold(ctx: ToolContext, n: int = 0) -> str:
            """Hold."""
            ctx.progress("holding")
            self.began.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.was_cancelled = True
                raise
            return f"held {n}"

        self.tool = hold


def test_steering_is_heard_before_the_next_call(store):
    """The call under way ends, the one after it is left out, and the model reads the words next."""

    async def talk():
        held = Held()
        model = FakeModel(says("", ("hold", {"n": 1}), ("hold", {"n": 2})), says("As you like."))
        runs = Runs(store, [agent_with(model, held.tool)])
        name = await runs.start("agent", "Go.", session="s")
        await held.began.wait()
        await runs.steer(name, "Rather not.")
        held.go.set()
        return await runs.wait(name), model

    outcome, model = asyncio.run(talk())
    assert outcome.text == "As you like."
    assert [text for _, text in results(store)] == ["held 1", SKIPPED]
    assert "Rather not." in [one["content"] for one in model.requests[-1]["messages"]]


def test_steering_leaves_out_calls_that_wait_for_a_place(store):
    """Of calls side by side, those that had begun end; the others are left out as they get their places."""
    ran = []

    async def talk():
        began, go = asyncio.Event(), asyncio.Event()

        @tool
        async def work(n: int) -> str:
            """Work."""
            ran.append(n)
            began.set()
            await go.wait()
            return f"did {n}"

        model = FakeModel(says("", *(("work", {"n": n}) for n in range(5))), says("As you like."))
        runs = Runs(store, [agent_with(model, work, limits=Limits(parallel_calls=2))])
        name = await runs.start("agent", "Go.", session="s")
        await began.wait()
        await runs.steer(name, "Rather not.")
        go.set()
        return await runs.wait(name)

    assert asyncio.run(talk()).text == "As you like."
    assert ran == [0, 1]
    assert sorted(text for _, text in results(store)) == [SKIPPED, SKIPPED, SKIPPED, "did 0", "did 1"]
    assert run_problems(read_events(store, "s")) == []


def test_follow_ups_wait_for_the_answer(store):
    """One after the other, in the same run."""

    async def talk():
        held = Held()
        model = FakeModel(calls("hold"), says("One."), says("Two."), says("Three."))
        runs = Runs(store, [agent_with(model, held.tool)])
        name = await runs.start("agent", "Go.", session="s")
        await held.began.wait()
        await runs.follow_up(name, "Second?")
        await runs.follow_up(name, "Third?")
        held.go.set()
        return await runs.wait(name)

    assert asyncio.run(talk()).text == "Three."
    spoke = [one.text for one in read_events(store, "s") if isinstance(one, UserSpoke)]
    assert spoke == ["Go.", "Second?", "Third?"]


def test_a_cancelled_run_gives_up_its_tools_and_the_chat_can_go_on(store):
    """The open call gets a result, the reason is in the outcome, and the next run is valid."""

    async def talk():
        held = Held()
        model = FakeModel(calls("hold"), says("Fine."))
        agent = agent_with(model, held.tool)
        runs = Runs(store, [agent])
        name = await runs.start("agent", "Go.", session="s")
        await held.began.wait()
        await runs.cancel(name, "enough")
        outcome = await runs.wait(name)
        return outcome, held.was_cancelled, await agent.run("And?", session="s", store=store)

    outcome, was_cancelled, after = asyncio.run(talk())
    assert (outcome.status, outcome.reason, was_cancelled) == ("cancelled", "enough", True)
    assert results(store) == [("interrupted", STOPPED)]
    assert (after.status, after.run) == ("completed", "s#2")


def test_a_paused_run_keeps_its_words_and_goes_on(store):
    """The partial reply is in the log; the model is told to go on from there."""

    async def talk():
        reached = asyncio.Event()
        first = says("Half of the ans")
        first["choices"][0]["finish_reason"] = None
        model = FakeModel([first, reached], says("wer."))
        agent = agent_with(model)
        runs = Runs(store, [agent])
        name = await runs.start("agent", "Go.", session="s")
        await reached.wait()
        await runs.pause(name, "lunch")
        paused = await runs.wait(name)
        await runs.resume(name)
        return paused, await runs.wait(name), model

    paused, outcome, model = asyncio.run(talk())
    assert (paused.status, paused.reason, paused.text) == ("paused", "lunch", "Half of the ans")
    assert outcome.text == "Half of the answer."
    said = [one["content"] for one in model.requests[-1]["messages"]]
    assert "Half of the ans" in said
    assert "cut off" in said[-1]
    assert run_problems(read_events(store, "s")) == []


def test_a_run_whose_program_is_interrupted_is_paused(store):
    """The caller is cancelled: the status says so, and the session is free."""

    async def talk():
        held = Held()
        agent = agent_with(FakeModel(calls("hold")), held.tool)
        task = asyncio.create_task(agent.run("Go.", session="s", store=store))
        await held.began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(talk())
    state = Runs(store).state("s")
    assert state.status == "paused"


def test_events_can_be_replayed_and_are_the_same(store):
    """Kept events come again under the same ids, after any of them; the others only as they happen."""

    async def talk():
        model = FakeModel(calls("look", path="a"), says("Found."))
        agent = agent_with(model, look)
        live = await collect(agent.stream("Where?", session="s", store=store))
        replayed = await collect(Runs(store).observe("s#1"))
        later = await collect(Runs(store).observe("s#1", since=replayed[4].id))
        return live, replayed, later

    live, replayed, later = asyncio.run(talk())
    assert [event for event in live if is_kept(event)] == replayed
    assert later == replayed[5:]
    assert {StepStarted, TextCame} <= {type(event) for event in live} - {type(event) for event in replayed}
    assert [event.id for event in live] == sorted({event.id for event in live})
    assert run_problems(live) == []
    assert isinstance(live[-1], RunEnded)


def test_the_value_of_a_tool_reaches_the_program(store):
    """As an event, beside the text for the model; progress too."""

    @tool
    async def figures(ctx: ToolContext) -> object:
        ctx.progress("counting")
        return {"n": 7}

    agent = agent_with(FakeModel(calls("figures"), says("Seven.")), figures)
    live = asyncio.run(collect(agent.stream("Count.", store=store)))
    assert [one.data for one in live if isinstance(one, ToolReturned)] == [{"n": 7}]
    assert [one.text for one in live if isinstance(one, ToolProgressed)] == ["counting"]


def test_a_retry_is_told(store, monkeypatch):
    """So that whoever shows the words can take them back."""
    monkeypatch.setattr("foveal.agent.model_errors.FIRST_PAUSE_S", 0.0)
    model = FakeModel([says("Hal"), ConnectionResetError("gone")], says("Whole."))
    model.replies[0][0]["choices"][0]["finish_reason"] = None

    live = asyncio.run(collect(agent_with(model).stream("Go.", session="s", store=store)))
    assert [type(one) for one in live if isinstance(one, TextCame | ModelRetried)] == [TextCame, ModelRetried, TextCame]
    assert [one.text for one in live if isinstance(one, ModelReplied)] == ["Whole."]


def test_a_stream_that_ends_too_early_is_asked_for_again(store, monkeypatch):
    """Without an error, and without the provider's last word: half a reply is none."""
    monkeypatch.setattr("foveal.agent.model_errors.FIRST_PAUSE_S", 0.0)
    half = says("Half of it")
    half["choices"][0]["finish_reason"] = None
    assert run(agent_with(FakeModel([half], says("All of it"))), "Go.", store=store).text == "All of it"


def test_a_listener_that_comes_late_misses_nothing_that_is_kept(store):
    """The past up to the moment at which it comes, and everything from then on, each once and in order."""

    async def talk():
        held = Held()
        runs = Runs(store, [agent_with(FakeModel(calls("hold"), says("Done.")), held.tool)])
        name = await runs.start("agent", "Go.", session="s")
        await held.began.wait()
        stream = runs.observe(name)
        first = await anext(stream)
        held.go.set()
        return [first, *await collect(stream)]

    seen = asyncio.run(talk())
    assert [event for event in seen if is_kept(event)] == list(read_events(store, "s"))
    assert [event.id for event in seen] == sorted({event.id for event in seen})


def test_a_slow_listener_does_not_hold_up_the_run(store, monkeypatch):
    """It loses words that are not kept, and none of the others."""
    monkeypatch.setattr("foveal.agent.event_hub.MOST_WAITING", 3)

    async def talk():
        words = [says(str(n)) for n in range(50)]
        for one in words[:-1]:
            one["choices"][0]["finish_reason"] = None
        runs = Runs(store, [agent_with(FakeModel(words))])
        name = await runs.start("agent", "Go.", session="s")
        stream = runs.observe(name)
        first = await anext(stream)
        outcome = await runs.wait(name)
        return outcome, [first, *await collect(stream)]

    outcome, seen = asyncio.run(talk())
    assert outcome.status == "completed"
    assert [one for one in seen if is_kept(one)] == list(read_events(store, "s"))
    assert sum(isinstance(one, TextCame) for one in seen) < 50


def test_a_listener_that_leaves_pauses_the_run(store):
    """`stream` is the run: whoever leaves the loop stops it, and can resume it."""

    async def talk():
        held = Held()
        agent = agent_with(FakeModel(calls("hold"), says("Done.")), held.tool)
        events = agent.stream("Go.", session="s", store=store)
        async for event in events:
            if isinstance(event, ToolProgressed):
                break
        await events.aclose()

    asyncio.run(talk())
    assert Runs(store).state("s").status == "paused"


def test_the_forms_without_an_event_loop(store):
    """Give the same outcome and the same events."""
    agent = agent_with(FakeModel(says("One."), says("Two.")))
    assert agent.run_sync("Hi.", session="s", store=store).text == "One."
    events = list(agent.stream_sync("Hi.", session="s", store=store))
    assert isinstance(events[-1], RunEnded)
    assert events[-1].text == "Two."


def test_runs_are_listed_with_their_statuses(store):
    """The newest of each session, most recent first; inboxes are no runs."""

    async def talk():
        agent = agent_with(FakeModel(says("One."), calls("look", path="/etc")), look, approvals=[ApprovalRule("*")])
        await agent.run("Hi.", session="a", store=store)
        waiting = await agent.run("Hi.", session="b", store=store)
        runs = Runs(store, [agent])
        await runs.approve(waiting.run, "deny", reason="no")
        return runs.list(), runs.list(status="awaiting_user")

    listed, waiting = asyncio.run(talk())
    assert {(one.run, one.status) for one in listed} == {("a#1", "completed"), ("b#1", "awaiting_user")}
    assert [one.run for one in waiting] == ["b#1"]
    assert not waiting[0].is_held


def test_a_waiting_run_can_be_cancelled_without_its_agent(store):
    """By a program that has the store and nothing else."""
    agent = agent_with(FakeModel(calls("look", path="/etc")), look, approvals=[ApprovalRule("*")])
    run(agent, "Hi.", store=store)
    asyncio.run(Runs(store).cancel("s", "too late"))
    assert (Runs(store).state("s").status, Runs(store).state("s").reason) == ("cancelled", "too late")
    assert run_problems(read_events(store, "s")) == []
    with pytest.raises(foveal.BadInput, match="is cancelled already"):
        asyncio.run(Runs(store).cancel("s"))


def test_a_second_run_does_not_begin_beside_the_first(store):
    """A session has one run at a time."""
    agent = agent_with(FakeModel(calls("look", path="/etc")), look, approvals=[ApprovalRule("*")])
    run(agent, "Hi.", store=store)
    with pytest.raises(foveal.BadInput, match=r"s#1 of this session is awaiting_user"):
        run(agent, "Again.", store=store)


def test_draining_pauses_what_takes_too_long(store):
    """And starts nothing more."""

    async def talk():
        held = Held()
        runs = Runs(store, [agent_with(FakeModel(calls("hold")), held.tool)])
        name = await runs.start("agent", "Go.", session="s")
        await held.began.wait()
        await runs.drain(0)
        with pytest.raises(foveal.BadInput, match="nothing more is started"):
            await runs.start("agent", "Go.", session="t")
        return runs.state(name).status

    assert asyncio.run(talk()) == "paused"


def test_unknown_runs_and_agents_are_told(store):
    """With the nearest name."""
    with pytest.raises(foveal.NotFound, match="no run 'x'"):
        Runs(store).state("x")
    with pytest.raises(foveal.BadInput, match="Did you mean agent"):
        asyncio.run(Runs(store, [agent_with(FakeModel())]).start("agnt", "Hi."))


def test_a_question_is_told_as_an_event(store):
    """With its choices, before the status changes."""
    agent = agent_with(FakeModel(calls("look", path="/etc")), look, approvals=[ApprovalRule("*", reason="sure?")])
    live = asyncio.run(collect(agent.stream("Hi.", session="s", store=store)))
    (asked,) = [one for one in live if isinstance(one, QuestionAsked)]
    assert (asked.question.text, asked.question.options[0]) == ("sure?", "allow")
    assert isinstance(live[-1], StatusChanged)
    assert live[-1].status == "awaiting_user"


def test_the_cost_of_an_unknown_model_is_unknown(store):
    """Never zero."""
    agent = Agent(model=ModelChoice("some-model-of-mine", "openai"), open_model=lambda _: FakeModel(says("Hi.")))
    with pytest.warns(UserWarning, match="some-model-of-mine"):
        run(agent, "Hi.", store=store)
    assert Runs(store).cost("s").total_usd is None
    assert Runs(store).cost("s").calls == 1


def test_earlier_runs_of_a_session_can_be_read(store):
    """Their events, their outcome and their cost, after the session has gone on."""
    run(agent_with(FakeModel(says("One."), says("Two."))), "First?", "Second?", store=store)

    async def first():
        runs = Runs(store)
        return await runs.wait("s#1"), await collect(runs.observe("s#1")), runs.cost("s#1")

    outcome, events, cost = asyncio.run(first())
    assert (outcome.status, outcome.text, cost.calls) == ("completed", "One.", 1)
    assert {event.scope.run for event in events} == {"s#1"}
    assert isinstance(events[-1], RunEnded)


def test_an_old_wish_to_stop_does_not_stop_a_resumed_run(store):
    """A pause that nobody read before the run rested for another reason is void when somebody resumes it."""
    agent = agent_with(FakeModel(calls("look", path="/etc"), says("Done.")), look, approvals=[ApprovalRule("*")])
    run(agent, "Hi.", store=store)
    post(store, "s", StopRequest("paused", "an hour ago"))

    async def resumed():
        runs = Runs(store, [agent])
        await runs.approve("s")
        await runs.resume("s")
        return await runs.wait("s")

    assert asyncio.run(resumed()).text == "Done."


def test_words_that_came_too_late_are_heard_in_the_next_run(store):
    """Nothing that a user has said is lost."""
    run(agent_with(FakeModel(says("One."))), "First?", store=store)
    post(store, "s", Steering("And the slow ones?"))
    post(store, "s", StopRequest("cancelled", "too late"))
    outcome = run(agent_with(FakeModel(says("Two."), says("Three."))), "Second?", store=store)
    assert outcome.text == "Three."
    spoke = [one.text for one in read_events(store, "s") if isinstance(one, UserSpoke)]
    assert spoke == ["First?", "Second?", "And the slow ones?"]


def test_another_process_steers_and_cancels_a_run(tmp_path):
    """Through the inbox: it has the store, and neither the session nor the agent."""

    async def talk():
        held = Held()
        with foveal.open_store(tmp_path / "a.db") as mine, foveal.open_store(tmp_path / "a.db") as theirs:
            runs = Runs(mine, [agent_with(FakeModel(calls("hold")), held.tool)])
            name = await runs.start("agent", "Go.", session="s")
            await held.began.wait()
            others = Runs(theirs)
            assert others.list()[0].is_held
            await others.steer(name, "Rather not.")
            await others.cancel(name, "from afar")
            seen = await collect(others.observe(name))
            return await runs.wait(name), await others.wait(name), seen

    mine, theirs, seen = asyncio.run(talk())
    assert (mine.status, mine.reason) == ("cancelled", "from afar")
    assert mine == theirs
    assert isinstance(seen[-1], RunEnded)
    assert run_problems(seen) == []


def test_a_run_that_was_waited_for_makes_room_at_once(store):
    """Whoever has seen the last event can go on in the same session without a pause: with an answer, or with a message."""
    agent = agent_with(
        FakeModel(calls("look", path="a"), says("One."), says("Two.")), look, approvals=[ApprovalRule("look")]
    )

    async def talk():
        runs = Runs(store, [agent])
        run_id = await runs.start(agent, "First.", session="s")
        await collect(runs.observe(run_id))
        assert (await runs.wait(run_id)).status == "awaiting_user"
        await runs.approve(run_id)
        await runs.resume(run_id)
        await collect(runs.observe(run_id))
        first = await runs.wait(run_id)
        second = await runs.start(agent, "Second.", session="s")
        return first, await runs.wait(second)

    assert [one.text for one in asyncio.run(talk())] == ["One.", "Two."]


GONE = Limits(question_s=0.0001)
"""Questions that are overdue as soon as they are asked."""


def test_an_approval_that_nobody_gives_in_time_is_denied(store):
    """By whoever looks at the run next, here in another process; the call is not run, and the model is told why."""
    model = FakeModel(calls("look", path="a"), says("Then not."))
    agent = agent_with(model, look, limits=GONE, approvals=[ApprovalRule("look")])
    asked = run(agent, "Look.", store=store)
    assert (asked.status, asked.questions[0].until_ms is None) == ("awaiting_user", False)

    async def later():
        return await Runs(store, [agent]).wait("s")

    assert asyncio.run(later()).text == "Then not."
    assert results(store) == [("error", "[denied: nobody answered in time]")]
    assert run_problems(read_events(store, "s")) == []


@pytest.mark.parametrize(("otherwise", "said"), [("blue", "blue"), (None, "nobody answered in time")])
def test_a_question_that_nobody_answers_in_time_has_its_stated_answer(store, monkeypatch, otherwise, said):
    """Or one that says so; the answer tells that it is nobody's. A program that starts later takes the run up."""
    (ask,) = built_in_tools(["ask_human"])
    model = FakeModel(calls("ask_human", question="Which?", otherwise=otherwise), says("Fine."))
    agent = agent_with(model, ask, limits=Limits(question_s=60))
    (question,) = run(agent, "Paint.", store=store).questions

    async def recover():
        runs = Runs(store, [agent])
        try:
            return await runs.recover()
        finally:
            await runs.drain()

    assert asyncio.run(recover()) == []
    for module in ("driver", "runs"):
        monkeypatch.setattr(f"foveal.agent.{module}.now_ms", lambda: question.until_ms)
    assert asyncio.run(recover()) == ["s#1"]
    assert results(store) == [("ok", said)]
    (given,) = [one.answer for one in read_events(store, "s") if isinstance(one, AnswerGiven)]
    assert given.source == "timeout"


def test_a_run_goes_on_by_itself_when_the_time_is_up(store):
    """As long as its supervisor lives; a run without a deadline is left alone."""
    model = FakeModel(calls("look", path="a"), says("Then not."))
    agent = agent_with(model, look, limits=Limits(question_s=0.05), approvals=[ApprovalRule("look")])

    async def talk():
        runs = Runs(store, [agent])
        named = await runs.start(agent, "Look.", session="s")
        first = await runs.wait(named)
        for _ in range(1_000):
            if runs.outcome(named).status == "completed":
                break
            await asyncio.sleep(0.005)
        return first, runs.outcome(named)

    first, last = asyncio.run(talk())
    assert (first.status, last.status, last.text) == ("awaiting_user", "completed", "Then not.")


def test_an_answer_after_the_deadline_is_refused(store):
    """An approval that comes too late does not let the call through."""
    agent = agent_with(FakeModel(calls("look", path="a")), look, limits=GONE, approvals=[ApprovalRule("look")])
    run(agent, "Look.", store=store)
    with pytest.raises(BadInput, match="the time for an answer of run s is up"):
        asyncio.run(Runs(store, [agent]).approve("s"))


def test_an_answer_in_time_counts(store):
    """A deadline that is not over changes nothing."""
    model = FakeModel(calls("look", path="a"), says("Seen."))
    agent = agent_with(model, look, limits=Limits(question_s=3_600), approvals=[ApprovalRule("look")])
    run(agent, "Look.", store=store)

    async def later():
        runs = Runs(store, [agent])
        with pytest.raises(BadInput, match="waits for an answer"):
            await runs.resume("s")
        await runs.approve("s")
        await runs.resume("s")
        return await runs.wait("s")

    assert asyncio.run(later()).text == "Seen."
    assert results(store) == [("ok", "content of a")]


@pytest.mark.parametrize(
    ("scope", "ran"), [("turn", ["a", "b", "a"]), ("session", ["a", "b"]), (None, ["a", "a", "b", "a"])]
)
def test_results_are_kept_for_the_same_call(store, scope, ran):
    """Within the user's turn or the session, whatever the order of the arguments; every call has a result of its own."""
    found = []

    @tool(cache=scope)
    def price(item: str, day: int = 1) -> str:
        found.append(item)
        return f"price of {item}: " + "9" * len(found)

    model = FakeModel(
        calls("price", item="a", day=2),
        calls("price", day=2, item="a"),
        calls("price", item="b"),
        says("One."),
        calls("price", item="a", day=2),
        says("Two."),
    )
    run(agent_with(model, price), "Go.", "Again.", store=store)
    assert found == ran
    texts = [text for _, text in results(store)]
    assert (texts[0] == texts[1]) == (scope is not None)
    assert len(texts) == 4


@pytest.mark.parametrize("fails", [False, True], ids=["it succeeds", "the first one fails"])
def test_the_same_call_twice_in_one_reply_is_run_once(store, fails):
    """The second one waits for the result of the first, beside others; if that has failed, it is run."""
    found = []

    @tool(cache="session")
    def price(item: str) -> str:
        found.append(item)
        if fails and len(found) == 1:
            raise RuntimeError("no connection")
        return f"price of {item}"

    model = FakeModel(
        says("", ("price", {"item": "a"}), ("price", {"item": "a"}), ("look", {"path": "b"})), says("Done.")
    )
    agent = agent_with(model, price, look)
    assert run(agent, "Go.", store=store).text == "Done."
    first = ("error", "RuntimeError: no connection") if fails else ("ok", "price of a")
    assert len(found) == (2 if fails else 1)
    assert sorted(results(store)) == sorted([first, ("ok", "price of a"), ("ok", "content of b")])
    assert run_problems(read_events(store, "s")) == []


def test_one_question_allows_the_same_call_twice_in_one_reply(store):
    """The second call waits for the answer to the first, and is asked about only if that has no result to give."""
    found = []

    @tool(cache="session", guarded=True)
    def price(item: str) -> str:
        found.append(item)
        return f"price of {item}"

    agent = agent_with(FakeModel(says("", *[("price", {"item": "a"})] * 2), says("Done.")), price)

    async def talk():
        waiting = await agent.run("Go.", session="s", store=store)
        runs = Runs(store, [agent])
        await runs.resume("s", UserAnswer(decision="always"))
        return waiting.questions, await runs.wait("s")

    questions, ended = asyncio.run(talk())
    assert (len(questions), ended.text, found) == (1, "Done.", ["a"])


def test_only_results_that_succeeded_are_kept(store):
    """A failure, and a result of arguments that the user changed, are not given to further calls."""
    found = []

    @tool(cache="session")
    def price(item: str) -> str:
        found.append(item)
        if len(found) == 1:
            raise RuntimeError("no connection")
        return f"price of {item}"

    model = FakeModel(calls("price", item="a"), calls("price", item="a"), calls("price", item="a"), says("Done."))
    agent = agent_with(model, price, approvals=[ApprovalRule("price")])

    async def talk():
        await agent.run("Go.", session="s", store=store)
        runs = Runs(store, [agent])
        answers = (
            UserAnswer(decision="allow"),
            UserAnswer(decision="edit", arguments={"item": "b"}),
            UserAnswer(decision="allow"),
        )
        for answer in answers:
            await runs.resume("s", answer)
            await runs.wait("s")

    asyncio.run(talk())
    assert found == ["a", "b", "a"]


def test_a_run_may_end_with_a_step_of_its_own(store):
    """After the answer the model is asked once more, in the agent's words and without tools; that reply is the outcome."""
    model = FakeModel(calls("look", path="a"), says("It is there."), says("# Report\nIt is there."))
    agent = agent_with(model, look, finalize="Write a report with a heading.", limits=Limits(max_steps=2))
    outcome = run(agent, "Where?", store=store)
    assert (outcome.status, outcome.text) == ("completed", "# Report\nIt is there.")
    assert "Write a report" in model.requests[-1]["messages"][-1]["content"]
    assert model.requests[-1]["tool_choice"] == "none"


@pytest.mark.parametrize("reminds", [True, False], ids=["reminder", "in the user's place"])
@pytest.mark.parametrize("trouble", ["it fails", "paused at once", "paused in the middle"])
def test_the_final_answer_is_asked_for_again_when_its_call_was_given_up(store, trouble, reminds):
    """The draft is never the outcome, although no steps are left for the report."""
    begun = asyncio.Event()
    failure = ModelFailed("gpt-5", "rejected", "no credit", "Pay.")
    half = says("# Rep")
    half["choices"][0]["finish_reason"] = None
    given_up = {"it fails": failure, "paused at once": begun, "paused in the middle": [half, begun]}[trouble]
    model = FakeModel(says("Draft."), given_up, says("# Report"))
    agent = agent_with(
        model, finalize="Write a report.", limits=Limits(max_steps=1), policy=foveal.Policy(remind=reminds)
    )

    async def talk():
        runs = Runs(store, [agent])
        named = await runs.start(agent, "Where?", session="s")
        if trouble != "it fails":
            await begun.wait()
            await runs.pause(named)
        assert (await runs.wait(named, 10)).status in ("failed", "paused")
        await runs.resume(named)
        return await runs.wait(named, 10)

    outcome = asyncio.run(talk())
    assert (outcome.status, outcome.text, len(model.requests)) == ("completed", "# Report", 3)
    assert "Write a report." in str(model.requests[-1]["messages"][-1]["content"])
    times = 2 if trouble == "paused in the middle" and not reminds else 1  # again behind a reply that was cut off
    assert str(model.requests[-1]).count("Write a report.") == times
    assert run_problems(read_events(store, "s")) == []


def test_another_question_has_a_final_answer_of_its_own(store):
    """The user asks it while the first final answer is written."""
    begun, gate = asyncio.Event(), asyncio.Event()

    class Slow(FakeModel):
        async def complete(self, request):
            if len(self.requests) == 1:
                begun.set()
                await gate.wait()
            async for one in super().complete(request):
                yield one

    model = Slow(says("Draft."), says("# Report"), says("Another draft."), says("# Another report"))

    async def talk():
        agent = agent_with(model, finalize="Write a report.")
        runs = Runs(store, [agent])
        named = await runs.start(agent, "Where?", session="s")
        await begun.wait()
        await runs.follow_up(named, "And when?")
        gate.set()
        return await runs.wait(named, 10)

    assert asyncio.run(talk()).text == "# Another report"


def test_todos_can_be_read_again(store):
    """As they were written last, in a later run too."""
    todos = [{"content": "look", "status": "completed"}, {"content": "mend", "status": "in_progress"}]
    model = FakeModel(
        calls("todo_read"),
        calls("todo_write", todos=todos),
        says("."),
        says("."),
        calls("todo_read"),
        says("."),
        says("."),
    )
    run(agent_with(model, *built_in_tools(["todos"])), "Go.", "And now?", store=store)
    texts = [text for _, text in results(store)]
    assert (texts[0], texts[-1]) == ("[no todos]", "[completed] look\n[in_progress] mend")


@pytest.mark.parametrize(
    ("reply", "usd"),
    [
        (Reply("prose " * 40, Usage("gpt-5", 1_000_000, 0)), 1.25),
        (Reply("prose " * 40, cost_usd=0.5), 0.5),
        ("prose " * 40, None),
    ],
    ids=["tokens", "bill", "unknown"],
)
def test_the_summariser_is_part_of_the_cost(store, reply, usd):
    """By its own bill or by its tokens, also if its prose is refused; without either the cost is unknown. A sub-agent's too."""

    async def summarise(question):
        return reply

    @tool
    def read(part: int) -> str:
        return f"part {part}: " + " ".join(f"word{n}x{part}" for n in range(400))

    def agent(name, **more):
        steps = [calls("read", part=n) for n in range(8)]
        policy = foveal.Policy(max_context_tokens=3_000, remind=True)
        model = FakeModel(*more.pop("before", ()), *steps, says("It is all there, in eight parts. " * 10))
        return agent_with(model, read, name=name, policy=policy, summariser=summarise, **more)

    below = agent("below")
    run(agent("above", agents=[below], before=[calls("delegate", task="Read.")]), "Read it.", store=store)
    cost = Runs(store).cost("s")
    for one in (cost, *cost.children):
        asked = sum(bill.calls for bill in one.summaries.values())
        assert asked >= 1
        if usd is None:
            assert one.own_usd is None
        else:
            told = read_events(store, one.run.partition("#")[0])
            models = sum(event.usd or 0.0 for event in told if isinstance(event, UsageCounted))
            assert one.own_usd == pytest.approx(models + asked * usd)
    assert cost.calls > sum(bill.calls for one in (cost, *cost.children) for bill in one.own.values())


def test_thinking_is_part_of_the_output_and_paid_once(store):
    """A run adds it up over the calls that tell it; the cost is that of the output, whatever of it was thinking."""

    def thought(reply, tokens):
        details = {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": tokens}}
        return reply | {"usage": reply["usage"] | details}

    model = FakeModel(thought(calls("look", path="a"), 8), calls("look", path="b"), thought(says("Yes."), 3))
    outcome = run(agent_with(model, look), "Think.", store=store)
    (used,) = outcome.usage.values()
    assert (used.calls, used.output_tokens, used.reasoning_tokens) == (3, 19, 11)
    told = [one.usage for one in read_events(store, "s") if isinstance(one, UsageCounted)]
    assert [one.reasoning_tokens for one in told] == [8, None, 3]
    cost = Runs(store).cost("s")
    assert cost.own["gpt-5"] == used
    assert cost.own_usd == pytest.approx(sum(usage_usd(Usage("gpt-5", 10, output), {}) or 0 for output in (9, 1, 9)))
    (silent,) = run(agent_with(FakeModel(says("Yes."))), "Quick.", store=store, session="t").usage.values()
    assert silent.reasoning_tokens is None


def test_an_answer_to_a_question_that_was_answered_is_refused(store):
    """Two people are shown a question; the slower one's answer is none to the question that the tool has asked since."""
    heard = []

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask twice."""
        if ctx.answer is None:
            raise AskUser("List the files?")
        heard.append(ctx.answer.text)
        if len(heard) == 1:
            raise AskUser("Remove the files?")
        return "asked"

    agent = agent_with(FakeModel(calls("ask"), says("Done.")), ask)
    (first,) = run(agent, "Go.", store=store).questions

    async def answered():
        runs = Runs(store, [agent])
        await runs.resume("s", UserAnswer("yes", question=first.id))
        (second,) = (await runs.wait("s")).questions
        with pytest.raises(BadInput, match="has not asked"):
            await runs.answer("s", UserAnswer("yes", question=first.id))
        await runs.resume("s", UserAnswer("no", question=second.id))
        return second, await runs.wait("s")

    second, outcome = asyncio.run(answered())
    assert (second.text, outcome.text, heard) == ("Remove the files?", "Done.", ["yes", "no"])
    assert run_problems(read_events(store, "s")) == []


def test_words_of_a_tool_are_not_taken_for_a_malformed_call(store):
    """A tool that fails with words such as ours about calls that were not run has run: the model may go on."""

    @tool
    def build(n: int) -> str:
        """Build."""
        raise RuntimeError(f"target {n} was not run: the disk is full")

    model = FakeModel(*(calls("build", n=n) for n in range(4)), says("The disk is full."))
    assert run(agent_with(model, build), "Go.", store=store).text == "The disk is full."


@pytest.mark.parametrize(("name", "given"), [("look", {"pat": "x"}), ("lock", {"path": "x"})])
def test_calls_in_a_row_that_no_tool_can_take_end_the_run(store, name, given):
    """By their arguments, or by their names."""
    model = FakeModel(*(calls(name, **given, n=n) for n in range(4)))
    outcome = run(agent_with(model, look), "Go.", store=store)
    assert (outcome.status, outcome.reason) == ("failed", "4 replies in a row had calls that no tool can take")
