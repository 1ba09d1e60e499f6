"""Workers: runs that one process starts and others drive, by the store alone or by a queue of DBOS."""

import asyncio
import json
import logging
import sqlite3
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from foveal.agent import ApprovalRule, Limits, Runs, tool
from foveal.agent import dbos_queue as dbos
from foveal.agent.abandoned_runs import QUIET_LOOKS, AbandonedRuns
from foveal.agent.dbos_queue import DbosQueue
from foveal.agent.driver import RunDriver
from foveal.agent.inbox import FollowUp, QuestionReply, StopRequest, letters, post
from foveal.agent.run_events import AnswerGiven, StatusChanged, is_kept
from foveal.agent.run_log import read_events, read_run
from foveal.agent.run_queue import StoreQueue
from foveal.agent.tools import UserAnswer
from foveal.stores.lease import pack, this_process, unpack
from foveal.testing.run_checks import run_problems
from foveal.values.errors import BadInput, MissingExtra, SessionHeld, StoreCorrupt, StoreUnavailable

from .conftest import FakeModel, agent_with, calls, collect, damage, says


@tool
def look() -> str:
    """Look."""
    return "seen"


def guarded(*replies):
    return agent_with(FakeModel(*replies), look, approvals=[ApprovalRule("look")])


def statuses(store, session="s"):
    return [one.status for one in read_events(store, session) if isinstance(one, StatusChanged)]


@asynccontextmanager
async def worker(runs, **options):
    task = asyncio.create_task(runs.work(**options))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture(params=["store", "dbos"])
def queue(request, tmp_path):
    if request.param == "store":
        yield StoreQueue()
        return
    made = DbosQueue(f"sqlite:///{tmp_path}/queue.db")
    yield made
    made.close()


def test_a_worker_drives_what_others_started(store, queue):
    """Start, answer, resume, wait, tree and cost are the same, and the one who calls them drives nothing."""

    async def talk():
        agent = guarded(calls("look"), says("Done."))
        asker = Runs(store, [agent], queue=queue if isinstance(queue, DbosQueue) else StoreQueue())
        run = await asker.start(agent, "Go.", session="s")
        assert (statuses(store), store.cards("s")[0].holder) == (["pending"], None)
        async with worker(Runs(store, [agent], queue=queue)):
            assert (await asker.wait(run, 30)).status == "awaiting_user"
            await asker.approve(run)
            await asker.resume(run)
            assert (await asker.wait(run, 30)).text == "Done."
            assert asker.tree(run).status == "completed"
            assert asker.cost(run).calls == 2

    asyncio.run(talk())
    assert statuses(store) == ["pending", "running", "awaiting_user", "running", "completed"]
    assert run_problems(read_events(store, "s")) == []


def test_a_run_that_waits_for_a_worker_is_paused_resumed_and_cancelled(store):
    """By its log alone; a worker leaves it alone then."""

    async def talk():
        agent = guarded(says("Never."))
        asker = Runs(store, [agent], queue=StoreQueue())
        run = await asker.start(agent, "Go.", session="s")
        await asker.pause(run)
        assert AbandonedRuns(store).look() == []
        await asker.resume(run)
        assert [one.run for one in AbandonedRuns(store).look()] == [run]
        await asker.cancel(run, "not needed")
        assert AbandonedRuns(store).look() == []

    asyncio.run(talk())
    assert statuses(store) == ["pending", "paused", "running", "cancelled"]


@pytest.mark.parametrize(("question_s", "found"), [(0.0001, ["s#1"]), (3_600, [])])
def test_a_question_that_is_overdue_is_minded_by_workers(store, question_s, found):
    """The process that asked may be dead: a worker takes the run up once its deadline is over, and not before."""
    model = FakeModel(calls("look"), says("Then not."))
    agent = agent_with(model, look, approvals=[ApprovalRule("look")], limits=Limits(question_s=question_s))

    async def talk():
        asked = Runs(store, [agent])
        assert (await asked.wait(await asked.start(agent, "Go.", session="s"), 30)).status == "awaiting_user"
        asked._timers.by_session.popitem()[1].cancel()  # as if that process were dead
        looked = AbandonedRuns(store)
        looked.look()
        return [one.run for one in looked.look()]

    assert asyncio.run(talk()) == found

    async def work():
        async with worker(Runs(store, [agent])), asyncio.timeout(30):
            while read_run(store, "s").status != "completed":  # noqa: ASYNC110 - the worker tells nobody here
                await asyncio.sleep(0.02)

    if found:
        asyncio.run(work())
        assert read_run(store, "s").answer == "Then not."


def test_a_wish_to_stop_before_the_resumption_is_void(store):
    """Also for the worker that takes the run up."""

    async def talk():
        agent = agent_with(FakeModel(says("Done.")))
        asker = Runs(store, [agent], queue=StoreQueue())
        run = await asker.start(agent, "Go.", session="s")
        await asker.pause(run)
        post(store, "s", StopRequest("paused"))
        await asker.resume(run)
        async with worker(Runs(store, [agent])):
            return await asker.wait(run, 30)

    assert asyncio.run(talk()).text == "Done."


def test_a_worker_that_ends_leaves_its_runs_to_others(store):
    """They stay under way, are free at once, and go on without the call that was given up."""

    async def talk():
        begun = asyncio.Event()
        agent = agent_with(FakeModel([begun], says("Done.")))
        asker = Runs(store, [agent], queue=StoreQueue())
        run = await asker.start(agent, "Go.", session="s")
        async with worker(Runs(store, [agent])):
            await begun.wait()
        assert (statuses(store), store.cards("s")[0].holder) == (["pending", "running"], None)
        async with worker(Runs(store, [agent])):
            return await asker.wait(run, 30)

    assert asyncio.run(talk()).text == "Done."
    assert statuses(store) == ["pending", "running", "completed"]


def test_a_run_whose_task_is_cancelled_rests(store):
    """With the call that was under way given up."""

    async def talk():
        begun = asyncio.Event()
        agent = agent_with(FakeModel([begun]))
        runs = Runs(store, [agent])
        await runs.start(agent, "Go.", session="s")
        await begun.wait()
        task = runs._live.by_session["s"][1]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(talk())
    assert statuses(store) == ["pending", "running", "paused"]


def test_a_worker_that_is_drained_waits_for_its_runs(store, monkeypatch):
    """And takes up nothing more."""
    monkeypatch.setattr("foveal.agent.runs._SEARCH_S", 0.0)

    async def talk():
        begun, may_end = asyncio.Event(), asyncio.Event()

        @tool
        async def begin() -> str:
            begun.set()
            await may_end.wait()
            return "begun"

        agent = agent_with(FakeModel(calls("begin"), says("Done."), says("Never.")), begin)
        asker, runs = Runs(store, [agent], queue=StoreQueue()), Runs(store, [agent])
        run = await asker.start(agent, "Go.", session="s")
        working = asyncio.create_task(runs.work())
        await begun.wait()
        draining = asyncio.create_task(runs.drain())
        await asyncio.wait([working], timeout=0.2)
        may_end.set()
        await asyncio.gather(working, draining)
        await asker.start(agent, "Go.", session="later")
        assert await runs._take_up("later#1", agent.name) is None
        return await asker.wait(run, 0)

    assert asyncio.run(talk()).text == "Done."
    assert statuses(store, "later") == ["pending"]


def test_whoever_watches_a_run_that_is_left_sees_the_rest_of_it(store):
    """From the process that drove it: the log is followed from there on."""

    async def talk():
        begun = asyncio.Event()
        agent = agent_with(FakeModel([begun], says("Done.")))
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        watching = asyncio.create_task(collect(runs.observe(run)))
        await begun.wait()
        await runs.leave()
        async with worker(Runs(store, [agent])):
            return await watching

    told = [one for one in asyncio.run(talk()) if is_kept(one)]
    assert told == list(read_events(store, "s"))
    assert statuses(store) == ["pending", "running", "completed"]


def test_a_wish_that_was_granted_meanwhile_is_not_granted_again(store):
    """A worker paused the run between the wish and the look at it: it rests, and is not driven by the one who wished."""

    async def talk():
        agent = guarded(says("Never."))
        runs = Runs(store, [agent], queue=StoreQueue())
        run = await runs.start(agent, "Go.", session="s")
        await runs.pause(run)
        await runs._settle(runs.state(run))
        await runs.cancel(run)
        post(store, "s", FollowUp("Later."))
        post(store, "s", StopRequest("cancelled"))
        await runs._settle(runs.state(run))

    asyncio.run(talk())
    assert statuses(store) == ["pending", "paused", "cancelled"]
    assert len(letters(store, "s", read_run(store, "s").inbox)) == 2


def test_a_worker_drives_so_many_at_once(store):
    """Others wait for a place."""

    async def talk():
        begun = [asyncio.Event() for _ in range(3)]
        agent = agent_with(FakeModel(*([one] for one in begun)))
        asker = Runs(store, [agent], queue=StoreQueue())
        for number in range(3):
            await asker.start(agent, "Go.", session=f"s{number}")
        async with worker(Runs(store, [agent]), at_once=2):
            await begun[1].wait()
            assert [card.run for card in asker.list(status="pending")] == ["s2#1"]

    asyncio.run(talk())


def test_an_answer_that_comes_while_the_run_goes_to_rest_is_heard(store, monkeypatch):
    """Whoever answers a run that is still under way counts on it to look into its inbox before it rests."""

    async def talk():
        agent = guarded(calls("look"), says("Done."))
        runs = Runs(store, [agent])
        whole = RunDriver._unasked

        def answered_meanwhile(driver, questions):
            asked = whole(driver, questions)
            for one in asked:
                post(store, "s", QuestionReply(UserAnswer("", "allow", None, one.id)))
            return asked

        monkeypatch.setattr(RunDriver, "_unasked", answered_meanwhile)
        return await runs.wait(await runs.start(agent, "Go.", session="s"))

    assert asyncio.run(talk()).text == "Done."
    assert sum(isinstance(one, AnswerGiven) for one in read_events(store, "s")) == 1


def test_a_resumption_waits_for_the_worker_that_lets_go(store, monkeypatch):
    """The run rests by its log some moments before its session is free."""
    whole = RunDriver.go_on

    async def talk():
        agent = guarded(calls("look"), says("Done."))
        first = Runs(store, [agent])
        await first.wait(await first.start(agent, "Go.", session="s"))
        held = store.acquire("s")

        async def go_on(driver, **options):
            try:
                return await whole(driver, **options)
            finally:
                held.release()

        monkeypatch.setattr(RunDriver, "go_on", go_on)
        asker = Runs(store, [agent], queue=StoreQueue())
        await asker.approve("s")
        await asker.resume("s")

    asyncio.run(talk())
    assert statuses(store)[-2:] == ["awaiting_user", "running"]


def test_a_run_that_rests_when_it_is_brought_is_left_alone(store):
    """Somebody paused it on its way: the log says so, whatever the queue says."""

    async def talk():
        agent, queue = guarded(says("Never.")), StoreQueue()
        runs = Runs(store, [agent], queue=queue)
        run = await runs.start(agent, "Go.", session="s")
        await runs.pause(run)
        async with queue.serving([agent.name], runs._take_up, 2):
            await queue.put(run, agent.name)
            await queue.put("of-another-store#1", agent.name)
            assert not runs._live.by_session

    asyncio.run(talk())
    assert statuses(store) == ["pending", "paused"]
    assert {card.id for card in store.cards() if card.holder} == set()
    assert store.cards("of-another-store") == []


def test_without_a_queue_a_held_session_is_told(store, monkeypatch):
    """To somebody who would have to drive the run here, when whoever drove it should have let go."""
    monkeypatch.setattr("foveal.agent.runs.LETTING_GO_S", 0.05)

    async def talk():
        agent = guarded(calls("look"))
        runs = Runs(store, [agent])
        await runs.wait(await runs.start(agent, "Go.", session="s"))
        store.acquire("s")
        with pytest.raises(SessionHeld):
            await runs.resume("s", UserAnswer("", "allow"))

    asyncio.run(talk())


def test_a_worker_that_lost_a_run_writes_nothing_and_waits_for_the_other(store, caplog):
    """Another one took it over while this one slept: the run is not failed, and whoever waits here sees its end."""

    async def talk():
        begun = asyncio.Event()
        agent = agent_with(FakeModel([begun], says("Done.")))
        slow = Runs(store, [agent])
        run = await slow.start(agent, "Go.", session="s")
        await begun.wait()
        store.acquire("s", takeover=True).release()
        waiting = asyncio.create_task(slow.wait(run, 30))
        await Runs(store, [agent], queue=StoreQueue()).steer(run, "Go on.")
        other = Runs(store, [agent])
        assert await other.recover() == [run]
        slow._live.by_session["s"][0].stop("paused")
        return await waiting

    with caplog.at_level(logging.WARNING, "foveal.runs"):
        assert asyncio.run(talk()).text == "Done."
    assert statuses(store) == ["pending", "running", "completed"]
    assert "no longer driven here" in caplog.text


class Counted:
    """A store that counts the logs that are read."""

    def __init__(self, store):
        self._store, self.read = store, []

    def __getattr__(self, name):
        return getattr(self._store, name)

    def rows(self, session, **options):
        self.read.append(session)
        return self._store.rows(session, **options)


def test_a_search_reads_only_logs_that_have_grown(store):
    """And finds the runs that nobody has, the one that waits longest first; held ones are tried now and then."""

    async def started():
        agent = guarded(says("Never."))
        asker = Runs(store, [agent], queue=StoreQueue())
        for name in ("a", "b", "c"):
            await asker.start(agent, "Go.", session=name)

    asyncio.run(started())
    counted: Any = Counted(store)
    search = AbandonedRuns(counted)
    held = store.acquire("b")
    assert [one.run for one in search.look()] == ["a#1", "c#1"]
    assert sorted(counted.read) == ["a", "b", "c"]
    assert [one.run for one in search.look()] == ["a#1", "c#1"]
    assert len(counted.read) == 3
    held.release()
    assert [one.run for one in search.look()] == ["a#1", "b#1", "c#1"]


def test_a_quiet_holder_is_tried_now_and_then(store, monkeypatch):
    """At the first look and at each fifth one; a holder whose log grows is alive."""

    async def started():
        agent = guarded(says("Never."))
        await Runs(store, [agent], queue=StoreQueue()).start(agent, "Go.", session="s")

    asyncio.run(started())
    held, tried = store.acquire("s"), []
    search, acquire = AbandonedRuns(store), store.acquire
    monkeypatch.setattr(store, "acquire", lambda name: (tried.append(name), acquire(name))[1])
    assert [(search.look(), len(tried)) for _ in range(2 + QUIET_LOOKS)] == [
        *[([], 1)] * QUIET_LOOKS,
        *[([], 2)] * 2,
    ]
    held.release()


def test_a_damaged_session_keeps_no_other_waiting(store, monkeypatch, caplog):
    """It is told in the program's log, and left alone."""

    async def started():
        agent = guarded(says("Never."))
        asker = Runs(store, [agent], queue=StoreQueue())
        for name in ("bad", "good"):
            await asker.start(agent, "Go.", session=name)

    asyncio.run(started())
    damage(store, monkeypatch, "bad")
    assert [one.run for one in AbandonedRuns(store).look()] == ["good#1"]
    assert "session bad cannot be read" in caplog.text


@pytest.mark.parametrize(
    "error",
    [StoreCorrupt("session bad", "entry 2 is damaged", "memory"), KeyError("session bad")],
    ids=["ours", "else"],
)
def test_a_run_that_cannot_be_opened_keeps_no_other_waiting(store, monkeypatch, caplog, error):
    """A worker tells it and takes up the next one."""
    whole = RunDriver.take_up

    async def take_up(driver):
        if driver.session == "bad":
            raise error
        return await whole(driver)

    monkeypatch.setattr(RunDriver, "take_up", take_up)

    async def talk():
        agent = agent_with(FakeModel(says("Done.")))
        asker = Runs(store, [agent], queue=StoreQueue())
        for name in ("bad", "good"):
            await asker.start(agent, "Go.", session=name)
        async with worker(Runs(store, [agent])):
            return await asker.wait("good", 30)

    assert asyncio.run(talk()).text == "Done."
    assert "run bad#1 cannot be taken up: " in caplog.text
    assert "session bad" in caplog.text


def test_a_worker_outlives_a_store_that_is_away(store, monkeypatch, caplog):
    """It goes on with the search when the store is there again."""
    monkeypatch.setattr("foveal.agent.runs._SEARCH_S", 0.0)

    async def talk():
        agent = agent_with(FakeModel(says("Done.")))
        asker = Runs(store, [agent], queue=StoreQueue())
        run = await asker.start(agent, "Go.", session="s")
        whole, away = store.cards, [StoreUnavailable("the server is being restarted")]

        def cards(*session):
            if away and not session:
                raise away.pop()
            return whole(*session)

        monkeypatch.setattr(store, "cards", cards)
        async with worker(Runs(store, [agent])):
            return await asker.wait(run, 30)

    assert asyncio.run(talk()).text == "Done."
    assert "the server is being restarted" in caplog.text


# The queue of DBOS


def workflows(folder):
    """The workflows of a queue: status, executor, arguments and their form."""
    with sqlite3.connect(folder / "queue.db") as database:
        query = (
            "SELECT s.status, s.executor_id, i.inputs, s.serialization FROM workflow_status s JOIN workflow_input i"
            " USING (workflow_uuid) ORDER BY s.created_at, s.rowid"
        )
        return database.execute(query).fetchall()


@pytest.fixture
def in_database(tmp_path):
    made = DbosQueue(f"sqlite:///{tmp_path}/queue.db")
    yield made
    made.close()


def test_a_run_is_put_once_and_as_json(in_database, tmp_path):
    """The names of the run and of its agent, and nothing that was said; a second time it is on its way already."""

    async def put():
        await in_database.put("s#1", "agent")
        await in_database.put("s#1", "agent")

    asyncio.run(put())
    ((status, _, inputs, form),) = workflows(tmp_path)
    assert (status, form) == ("ENQUEUED", "portable_json")
    assert json.loads(inputs) == {"namedArgs": {}, "positionalArgs": ["s#1", "agent"]}


@pytest.mark.parametrize("case", [(False, 0, "put again"), (None, 0, "left"), (None, 60, "put again")])
def test_a_run_of_a_dead_worker_is_put_again(in_database, tmp_path, monkeypatch, case):
    """At once if it is seen to be dead; after a while if it cannot be seen. Two who notice it put it once."""
    lives, age_s, then = case

    async def put():
        await in_database.put("s#1", "agent")
        now_ms = 1_000_000_000_000
        executor = pack(this_process(now_ms))
        with sqlite3.connect(tmp_path / "queue.db") as database:
            update = "UPDATE workflow_status SET status = 'PENDING', executor_id = ?, started_at_epoch_ms = ?"
            database.execute(update, (executor, now_ms - age_s * 1000))
        monkeypatch.setattr(type(unpack(executor)), "lives", lambda _: lives)
        monkeypatch.setattr(dbos.time, "time", lambda: now_ms / 1000)
        await in_database.put("s#1", "agent")
        await in_database.put("s#1", "agent")

    asyncio.run(put())
    found = [status for status, *_ in workflows(tmp_path)]
    assert found == {"put again": ["CANCELLED", "ENQUEUED"], "left": ["PENDING"]}[then]


def test_a_place_that_is_no_database_is_refused():
    """With the form that it should have."""
    with pytest.raises(BadInput, match="sqlite:///FILE"):
        DbosQueue("agent.db")


def test_without_dbos_it_is_said_what_to_install(monkeypatch):
    """The extra is called `durable`."""
    monkeypatch.setattr(dbos, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"\.\[durable\]"):
        DbosQueue("sqlite:///queue.db")


def test_a_worker_that_starts_runs_itself_drives_no_more_than_it_has_places_for(store):
    """Also if it starts them all at once; the others wait in the store."""

    async def talk():
        begun = [asyncio.Event() for _ in range(3)]
        agent, queue = agent_with(FakeModel(*([one] for one in begun))), StoreQueue()
        runs = Runs(store, [agent], queue=queue)
        async with queue.serving([agent.name], runs._take_up, 1):
            await asyncio.gather(*(runs.start(agent, "Go.", session=f"s{n}") for n in range(3)))
            driven = len(runs._live.by_session)
            await runs.leave()
        return driven

    assert asyncio.run(talk()) == 1
