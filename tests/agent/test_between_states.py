"""Moments between two states: wishes, answers and other processes that come while a run changes hands, rests or ends."""

import asyncio
import threading
import time
from math import inf
from typing import Any

import msgspec
import pytest

import foveal
from foveal.agent import Agent, ApprovalRule, AskUser, Limits, Runs, ToolContext, UserAnswer, delegation, tool
from foveal.agent import driver as drivers
from foveal.agent import runs as supervision
from foveal.agent.audit import audit_trail
from foveal.agent.deadlines import overdue_answers
from foveal.agent.driver import RunDriver
from foveal.agent.inbox import NOTHING_READ, letters, post
from foveal.agent.run_events import AnswerGiven, ToolEnded
from foveal.agent.run_log import read_events, read_run
from foveal.agent.run_marks import RunStatus
from foveal.agent.tool_calls import INTERRUPTED
from foveal.session.options import now_ms
from foveal.session.session import Session
from foveal.stores.deletion import delete_sessions
from foveal.testing.crash_points import cut_log
from foveal.testing.run_checks import run_problems
from foveal.values.errors import BadInput, SessionHeld, StoreUnavailable

from .conftest import FakeModel, agent_with, calls, damage, says
from .test_other_agents import LONG, Background, child_of, ended, named, tree_problems


@tool
def look() -> str:
    """Look."""
    return "seen"


ASKS = [ApprovalRule("look")]
ALLOWED = UserAnswer("", "allow")


class SlowToClose(FakeModel):
    """A model whose connections take their time to close: its run rests by the log, and its driver is still there."""

    def __init__(self, *replies: Any) -> None:
        super().__init__(*replies)
        self.closing, self.go = asyncio.Event(), asyncio.Event()

    async def close(self) -> None:
        self.closing.set()
        await self.go.wait()


async def until(is_so) -> None:
    """Wait for others on this loop and in threads."""
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)


def held(store) -> set[str]:
    return {card.id for card in store.cards() if card.holder}


def test_a_resumption_while_the_driver_lets_go_is_not_lost(store):
    """Whoever sees the question answers it at once; the driver has looked into its inbox for the last time by then."""

    async def talk():
        model = SlowToClose(calls("look"), says("Done."))
        agent = agent_with(model, look, approvals=ASKS)
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await model.closing.wait()
        resuming = asyncio.create_task(runs.resume(run, UserAnswer("", "allow")))
        await until(lambda: letters(store, "s"))
        model.go.set()
        await resuming
        return await runs.wait(run, 30)

    assert asyncio.run(talk()).text == "Done."
    assert run_problems(read_events(store, "s")) == []


def test_a_cancellation_while_the_driver_lets_go_is_not_lost(store):
    """The run waits for the user by its log: somebody has to end it."""

    async def talk():
        model = SlowToClose(calls("look"))
        agent = agent_with(model, look, approvals=ASKS)
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await model.closing.wait()
        cancelling = asyncio.create_task(runs.cancel(run, "not needed"))
        await until(lambda: letters(store, "s"))
        model.go.set()
        await cancelling
        return runs.outcome(run)

    outcome = asyncio.run(talk())
    assert (outcome.status, outcome.reason) == ("cancelled", "not needed")


def test_a_cancellation_that_nobody_can_grant_is_told(store, monkeypatch):
    """Somebody who does not drive the run has its session open: silence would be taken for the end of the run."""
    monkeypatch.setattr(supervision, "LETTING_GO_S", 0.01)

    async def talk():
        agent = agent_with(FakeModel(calls("look")), look, approvals=ASKS)
        runs = Runs(store, [agent])
        await runs.wait(await runs.start(agent, "Go.", session="s"))
        reader = store.acquire("s")
        with pytest.raises(SessionHeld, match="has had its session"):
            await runs.cancel("s")
        reader.release()
        await runs.cancel("s")
        return runs.outcome("s").status

    assert asyncio.run(talk()) == "cancelled"


def test_a_run_whose_process_was_killed_can_be_cancelled(store, monkeypatch):
    """The card of its session still names that process: whether it lives is only seen by trying."""

    async def talk():
        agent = agent_with(FakeModel())
        driver = RunDriver(agent, store, "s")
        await driver.begin("Go.")
        await driver.journal.write(driver.journal.status_mark("running"))
        await driver.let_go()
        whole = store.cards
        monkeypatch.setattr(
            store, "cards", lambda *name: [msgspec.structs.replace(one, holder="a dead one") for one in whole(*name)]
        )
        runs = Runs(store, [agent])
        await runs.cancel("s", "killed")
        return runs.outcome("s").status

    assert asyncio.run(talk()) == "cancelled"


def test_the_next_run_may_begin_as_soon_as_the_end_is_told(store):
    """Whoever sees the end goes on with the conversation at once."""

    async def talk():
        model = SlowToClose(says("One."), says("Two."))
        agent = agent_with(model)
        runs = Runs(store, [agent])
        await runs.start(agent, "Go.", session="s")
        await model.closing.wait()
        starting = asyncio.create_task(runs.start(agent, "More.", session="s"))
        asyncio.get_running_loop().call_soon(model.go.set)
        return await runs.wait(await starting, 30)

    assert asyncio.run(talk()).text == "Two."


def test_a_wait_is_answered_though_the_session_has_gone_on(store, monkeypatch):
    """Another process ended the run and began the next one between two looks."""

    async def talk():
        agent = agent_with(FakeModel(says("One."), says("Two.")))
        runs, asker = Runs(store, [agent]), Runs(store, [agent])
        first = await runs.start(agent, "Go.", session="s")

        async def observe(_run, *, since=0):
            await runs.wait(first)
            await runs.wait(await runs.start(agent, "More.", session="s"))
            for event in ():
                yield event

        monkeypatch.setattr(asker, "observe", observe)
        return await asker.wait(first, 30)

    assert asyncio.run(talk()).text == "One."


def test_a_tool_that_is_never_run_again_is_not_after_its_question_either():
    """It asked, was answered and was killed while it paid: the answer is no reason to pay a second time."""
    made: list[str] = []

    @tool(retry="never")
    def pay(ctx: ToolContext) -> str:
        if ctx.answer is None:
            raise AskUser("Pay?")
        made.append(ctx.answer.text)
        return "paid"

    async def finish(store, *replies):
        agent = agent_with(FakeModel(*replies), pay)
        runs = Runs(store, [agent])
        if read_run(store, "s").status is None:
            await runs.wait(await runs.start(agent, "Go.", session="s"))
            await runs.resume("s", "yes")
        else:
            await runs.resume("s")
        return await runs.wait("s")

    store = foveal.open_store()
    assert asyncio.run(finish(store, calls("pay"), says("Paid."))).text == "Paid."
    assert made == ["yes"]
    starts = [row.seq for row in store.rows("s") if b'\\"is\\":\\"started\\"' in row.payload]
    cut = cut_log(store, "s", starts[1])
    assert asyncio.run(finish(cut, says("I do not know."))).text == "I do not know."
    assert made == ["yes"]
    assert [one.text for one in read_events(cut, "s") if isinstance(one, ToolEnded)] == [INTERRUPTED]


def test_nobody_can_answer_in_the_name_of_the_clock(store):
    """The audit trail says who decided: an answer that somebody gives is the user's, whatever it says."""

    async def talk():
        agent = agent_with(FakeModel(calls("look"), says("Done.")), look, approvals=ASKS)
        runs = Runs(store, [agent])
        await runs.wait(await runs.start(agent, "Go.", session="s"))
        await runs.resume("s", UserAnswer("", "allow", source="timeout"))
        await runs.wait("s")

    asyncio.run(talk())
    assert [one.answer.source for one in read_events(store, "s") if isinstance(one, AnswerGiven)] == ["user"]


class Refused(Exception):
    status_code = 404


def falling_back(*replies) -> Agent:
    models = {"gpt-5": FakeModel(Refused("no such model")), "gpt-5-mini": FakeModel(*replies)}
    return Agent(model="openai:gpt-5", fallbacks=["openai:gpt-5-mini"], open_model=lambda choice: models[choice.model])


def test_a_look_of_another_process_does_not_fail_a_run_that_changes_its_model(store, monkeypatch):
    """The session is free for a moment then; a worker that tries it has it for some milliseconds."""
    whole = Session.close

    def close(session):
        whole(session)
        monkeypatch.setattr(Session, "close", whole)
        threading.Timer(0.05, store.acquire("s").release).start()

    async def talk():
        agent = falling_back(says("Two."))
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        monkeypatch.setattr(Session, "close", close)
        return await runs.wait(run, 30)

    assert asyncio.run(talk()).text == "Two."
    assert run_problems(read_events(store, "s")) == []


def test_a_run_that_is_taken_while_it_changes_its_model_is_left_to_the_taker(store, monkeypatch):
    """It is not failed, and whoever waits sees the end that the other gives it."""
    whole, takers = Session.close, []
    monkeypatch.setattr("foveal.agent.run_journal._ATTEMPTS", 2)

    def close(session):
        whole(session)
        monkeypatch.setattr(Session, "close", whole)
        takers.append(store.acquire("s"))

    async def talk():
        agent = falling_back(says("Two."))
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        monkeypatch.setattr(Session, "close", close)
        waiting = asyncio.create_task(runs.wait(run, 30))
        await until(lambda: takers and not runs._live.by_session)
        assert read_run(store, "s").status == "running"
        takers[0].release()
        other = Runs(store, [agent])
        assert await other.recover() == [run]
        return await waiting

    assert asyncio.run(talk()).text == "Two."


def test_a_run_is_paused_also_while_it_changes_its_model(store, monkeypatch):
    """The session is closed and opened again in a thread; the wish comes in the middle of it."""
    whole = Session.close

    async def talk():
        agent = falling_back(says("Two."))
        runs, loop = Runs(store, [agent]), asyncio.get_running_loop()
        run = await runs.start(agent, "Go.", session="s")
        driver = runs._live.by_session["s"][0]

        def close(session):
            monkeypatch.setattr(Session, "close", whole)
            loop.call_soon_threadsafe(driver.stop, "paused", "lunch")
            time.sleep(0.05)
            whole(session)

        monkeypatch.setattr(Session, "close", close)
        paused = await runs.wait(run, 30)
        await runs.resume(run)
        return paused, await runs.wait(run, 30)

    paused, outcome = asyncio.run(talk())
    assert (paused.status, paused.reason, outcome.text) == ("paused", "lunch", "Two.")


def test_draining_waits_for_runs_that_are_spawned_meanwhile(store):
    """A run that may end may also begin a detached one, which is under way as the others are."""

    async def talk():
        bench = Background(calls("spawn", task="Dig."), says("It is under way."))
        runs = bench.runs(store)
        await runs.start(bench.agent, "Go.", session="s")
        draining = asyncio.create_task(runs.drain())
        await runs.wait("s")
        await until(lambda: read_run(store, child_of(store).partition("#")[0]).started)
        bench.go.set()
        await draining
        return runs.outcome(child_of(store)).status

    assert asyncio.run(talk()) == "completed"


def test_a_run_that_begins_while_the_program_ends_rests(store, monkeypatch):
    """It is durable, and whoever drains waits for it: the run is paused as the others are, and nobody holds its session."""
    whole, drains = RunDriver.begin, []

    async def talk():
        agent = agent_with(FakeModel(says("Done.")))
        runs = Runs(store, [agent])

        async def begin(driver, text, **options):
            begun = await whole(driver, text, **options)
            drains.append(asyncio.create_task(runs.drain(0)))
            await asyncio.sleep(0)
            return begun

        monkeypatch.setattr(RunDriver, "begin", begin)
        run = await runs.start(agent, "Go.", session="s")
        await drains[0]
        left = runs.outcome(run)
        assert (left.status, left.reason, held(store)) == ("paused", supervision.ENDING, set())
        later = Runs(store, [agent])
        await later.resume(run)
        return await later.wait(run)

    assert asyncio.run(talk()).text == "Done."


def test_a_store_that_is_away_for_a_moment_does_not_make_a_run_deaf(store, monkeypatch):
    """The look into the inbox fails while the model thinks; a cancellation is heard all the same."""
    away, looks = [False], []

    def unsteady(*given):
        if away[0]:
            looks.append(given)
            raise StoreUnavailable("away")
        return letters(*given)

    monkeypatch.setattr(drivers, "letters", unsteady)
    monkeypatch.setattr(drivers, "INBOX_PAUSE_S", 0.01)

    async def talk():
        thinking = asyncio.Event()
        agent = agent_with(FakeModel([thinking]))
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await thinking.wait()
        away[0] = True
        await until(lambda: looks)
        away[0] = False
        await runs.cancel(run)
        return await runs.wait(run, 10)

    assert asyncio.run(talk()).status == "cancelled"


def test_a_letter_that_is_not_understood_is_left_out(store):
    """A newer Foveal may write kinds that this one does not know; the others are heard."""

    class Dance(msgspec.Struct, tag_field="is", tag="dance"):
        how: str

    async def talk():
        agent = agent_with(FakeModel(calls("look"), says("Done.")), look, approvals=ASKS)
        runs = Runs(store, [agent])
        await runs.wait(await runs.start(agent, "Go.", session="s"))
        post(store, "s", Dance("slowly"))  # type: ignore[arg-type]
        await runs.resume("s", UserAnswer("", "allow"))
        return await runs.wait("s")

    assert asyncio.run(talk()).text == "Done."


def test_one_damaged_session_keeps_no_other_from_its_recovery(store, monkeypatch, caplog):
    """It is told in the program's log, and the others are taken up."""

    async def talk():
        agent = agent_with(FakeModel(says("Done.")))
        for name in ("bad", "good"):
            await RunDriver(agent, store, name).begin("Go.")
        damage(store, monkeypatch, "bad")
        for card in store.cards():  # as if that process were dead
            store.acquire(card.id, takeover=True).release()
        runs = Runs(store, [agent])
        found = await runs.recover()
        return found, (await runs.wait("good")).text

    assert asyncio.run(talk()) == (["good#1"], "Done.")
    assert "session bad cannot be taken up" in caplog.text


def test_a_run_that_waited_for_the_user_is_not_failed_by_a_recovery(store):
    """`fail` is for runs whose process has died; one whose question is overdue has its stated answer."""
    agent = agent_with(
        FakeModel(calls("look"), says("Then not.")), look, approvals=ASKS, limits=Limits(question_s=1e-4)
    )

    async def talk():
        await agent.run("Go.", session="s", store=store)
        runs = Runs(store, [agent])
        found = await runs.recover("fail")
        await runs.drain()
        return found, runs.outcome("s")

    found, outcome = asyncio.run(talk())
    assert (found, outcome.status, outcome.text) == (["s#1"], "completed", "Then not.")


@pytest.mark.parametrize("status", ["cancelled", "paused"])
def test_a_run_that_was_stopped_stays_so_though_its_question_is_overdue(store, status: RunStatus):
    """Whoever waits for it gets its outcome, and does not set it going again."""
    limits = Limits(question_s=0.05)
    agent = agent_with(FakeModel(calls("look"), says("Then not.")), look, approvals=ASKS, limits=limits)

    async def talk():
        runs = Runs(store, [agent])
        await runs.wait(await runs.start(agent, "Go.", session="s"))
        runs._timers.by_session.popitem()[1].cancel()
        driver = RunDriver(agent, store, "s")
        await driver.go_on(wished_at=NOTHING_READ)
        await driver.journal.write(driver.journal.status_mark(status))
        await driver.let_go()
        await until(lambda: overdue_answers(runs.state("s"), now_ms()))
        return await runs.wait("s")

    outcome = asyncio.run(talk())
    assert (outcome.status, len(outcome.questions)) == (status, int(status == "paused"))


def test_a_deadline_is_kept_though_the_session_was_held_when_it_came(store, monkeypatch):
    """Somebody reads the session at that moment; the run goes on when it is free."""
    monkeypatch.setattr(supervision, "LETTING_GO_S", 0.02)
    agent = agent_with(
        FakeModel(calls("look"), says("Then not.")), look, approvals=ASKS, limits=Limits(question_s=0.05)
    )

    async def talk():
        runs = Runs(store, [agent])
        await runs.wait(await runs.start(agent, "Go.", session="s"))
        reader = store.acquire("s")
        first = runs._timers.by_session["s"]
        await until(lambda: runs._timers.by_session.get("s", first) is not first)
        reader.release()
        await until(lambda: runs.outcome("s").status == "completed")

    asyncio.run(talk())


def test_a_deadline_is_a_time_that_comes():
    """Without end is said by leaving it out; a tool may say it, too."""
    with pytest.raises(BadInput, match="question_s is inf"):
        Limits(question_s=inf)


def test_a_question_without_end_waits(store):
    """It has no deadline, and the run does not fail of it."""

    @tool
    def ask() -> str:
        raise AskUser("Which?", timeout_s=inf)

    outcome = asyncio.run(agent_with(FakeModel(calls("ask")), ask).run("Go.", session="s", store=store))
    assert (outcome.status, outcome.questions[0].until_ms) == ("awaiting_user", None)


def test_spawned_agents_of_one_reply_are_counted_one_by_one(store):
    """Eight may be at work, however many are asked for side by side."""

    async def talk():
        four = says("", *(("spawn", {"task": f"first {n}"}) for n in range(4)))
        eight = says("", *(("spawn", {"task": f"then {n}"}) for n in range(8)))
        bench = Background(four, eight, says("So many."), below=FakeModel(by=lambda request: calls("dig")))
        runs = bench.runs(store)
        await runs.start(bench.agent, "Go.", session="s")
        await runs.wait("s")
        await runs.drain(0)

    asyncio.run(talk())
    assert [status for status, _ in ended(store)] == ["ok"] * 8 + ["error"] * 4


@pytest.mark.parametrize("way", ["delegate", "spawn"])
def test_a_sub_agent_that_is_being_opened_when_its_run_is_paused_can_be_opened_again(store, monkeypatch, way):
    """The thread opens its session all the same: nobody would close it, and the call could never go on."""
    opening, go, whole = threading.Event(), threading.Event(), delegation._opened

    def slowly(*given, **more):
        opening.set()
        go.wait(30)
        return whole(*given, **more)

    async def talk():
        reader = named("reader", FakeModel(says(LONG), says(LONG)))
        kind: dict[str, Any] = {"agents" if way == "delegate" else "detached": [reader]}
        agent = agent_with(FakeModel(calls(way, task="Dig."), says("Done."), says("Done.")), **kind)
        runs = Runs(store, [agent])
        monkeypatch.setattr(delegation, "_opened", slowly)
        run = await runs.start(agent, "Go.", session="s")
        await asyncio.to_thread(opening.wait, 30)
        await runs.pause(run)
        await until(lambda: runs._live.by_session["s"][0]._stop is not None)
        go.set()
        assert (await runs.wait(run, 30)).status == "paused"
        assert held(store) == set()
        await runs.resume(run)
        outcome = await runs.wait(run, 30)
        await runs.drain()
        return outcome

    assert asyncio.run(talk()).text == "Done."
    assert [status for status, _ in ended(store)] == ["ok"]
    assert tree_problems(store) == []


def test_a_detached_run_that_is_taken_up_keeps_the_bounds_of_a_sub_agent(store):
    """In another process too, where it is a run like any other."""

    async def talk():
        bench = Background(calls("spawn", task="Dig."), says("It is under way."))
        runs = bench.runs(store)
        await runs.start(bench.agent, "Go.", session="s")
        await runs.wait("s")
        child = child_of(store)
        await until(lambda: runs.state(child).started)
        first = runs._live.by_session[child.partition("#")[0]][0].agent.limits
        await runs.leave()
        later = Runs(store, [bench.agent])
        assert await later.recover() == [child]
        driver = later._live.by_session[child.partition("#")[0]][0]
        await later.drain(0)
        return first, driver.agent.limits

    first, later = asyncio.run(talk())
    assert first == later
    assert later.max_steps == 20


def test_a_deleted_sub_agent_hides_nothing_of_the_run_above(store):
    """Its tree and its audit trail are read on; its cost is unknown, and not zero; the model hears that it has ended."""

    async def talk():
        bench = Background(calls("spawn", task="Dig."), says("It is under way."))
        bench.go.set()
        runs = bench.runs(store)
        await runs.start(bench.agent, "Go.", session="s")
        await runs.wait("s")
        child = child_of(store)
        await runs.wait(child)
        delete_sessions(store, [child.partition("#")[0]])
        above = runs.tree("s#1"), runs.cost("s#1"), len(list(audit_trail(store, "s#1")))
        bench.above.replies.append(says("Gone."))
        await runs.wait(await runs.start(bench.agent, "And?", session="s"))
        return child, *above, runs.state("s").spawned

    child, tree, cost, records, left = asyncio.run(talk())
    assert [(one.run, one.agent, one.status) for one in tree.children] == [(child, "reader", None)]
    assert (cost.calls, cost.total_usd, left) == (2, None, ())
    assert records > 3


def test_arguments_that_are_nested_too_deeply_are_refused(store):
    """Before anything is kept of them."""

    async def talk():
        agent = agent_with(FakeModel(calls("look")), look, approvals=ASKS)
        runs = Runs(store, [agent])
        await runs.wait(await runs.start(agent, "Go.", session="s"))
        deep: dict[str, object] = {}
        for _ in range(10_000):
            deep = {"a": deep}
        with pytest.raises(BadInput, match="nested too deeply"):
            await runs.approve("s", "edit", arguments=deep)

    asyncio.run(talk())
    assert letters(store, "s") == []


@pytest.mark.parametrize("verb", ["start", "resume"])
def test_whoever_has_waited_for_a_run_may_go_on_with_it_at_once(store, verb):
    """Also where another process has driven it, whose log says that the run rests before its session is free."""

    async def talk():
        model = SlowToClose(says("One.") if verb == "start" else calls("look"), says("Two."))
        agent = agent_with(model, look, approvals=ASKS)
        runs, others = Runs(store, [agent]), Runs(store, [agent])

        async def followed():
            await runs.wait("s", 20)
            await (runs.start(agent, "More.", session="s") if verb == "start" else runs.resume("s", ALLOWED))
            return await runs.wait("s", 20)

        await others.start(agent, "Go.", session="s")
        await model.closing.wait()
        following = asyncio.create_task(followed())
        await asyncio.wait({following}, timeout=0.3)
        model.go.set()
        return await following

    assert asyncio.run(talk()).text == "Two."


def test_a_wait_for_a_run_that_rests_has_its_outcome_though_its_session_is_open_elsewhere(store, monkeypatch):
    """Somebody reads it, for as long as he likes; and a waiter's own time is kept."""
    monkeypatch.setattr(supervision, "LETTING_GO_S", 0.05)

    async def talk():
        agent = agent_with(FakeModel(says("Done.")))
        await Runs(store, [agent]).start(agent, "Go.", session="s")
        runs = Runs(store)
        await runs.wait("s", 20)
        store.acquire("s")
        return [(await runs.wait("s", timeout_s)).text for timeout_s in (None, 0)]

    assert asyncio.run(talk()) == ["Done.", "Done."]


def test_a_wait_for_a_run_whose_task_is_cancelled_has_its_outcome(store):
    """Whoever waits is not cancelled himself."""

    async def talk():
        thinking = asyncio.Event()
        agent = agent_with(FakeModel([thinking]))
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await thinking.wait()
        waiting = asyncio.create_task(runs.wait(run, 20))
        await asyncio.sleep(0)
        runs._live.by_session["s"][1].cancel()
        return (await waiting).status

    assert asyncio.run(talk()) == "paused"
