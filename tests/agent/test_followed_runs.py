"""Runs in a session that follows a client's list, where words and replies may stand on a branch that was left."""

import asyncio

import pytest

import foveal
from foveal.agent import Runs
from foveal.agent.run_events import UserSpoke
from foveal.agent.run_log import read_events
from foveal.testing.commit_faults import CommitFaults
from foveal.testing.crash_points import cut_log
from foveal.testing.run_checks import run_problems

from .conftest import FakeModel, agent_with, collect, says

SAID = [foveal.user("Hi."), foveal.assistant("Hello.")]


@pytest.fixture
def left(store):
    """A session whose client has taken back a question and its answer."""
    with foveal.Session(store, "s", model="gpt-5") as session:
        session.follow([*SAID, foveal.user("Read it."), foveal.assistant("No.")])
        assert session.follow(SAID).outcome == "branched"
    return store


def agent(model):
    return agent_with(model, instructions="")


@pytest.mark.parametrize("answer", ["Yes.", "No."], ids=["another answer", "the same answer"])
def test_words_that_stand_on_a_left_branch_are_answered_anew(left, answer):
    """And a replay of the log tells the same as the run did."""
    begun, model = len(list(left.rows("s"))), FakeModel(says(answer))
    told = asyncio.run(collect(agent(model).stream("Read it.", session="s", store=left)))
    assert [one["content"] for one in model.requests[0]["messages"]] == ["Hi.", "Hello.", "Read it."]
    kept = [one for one in told if one.id in {event.id for event in read_events(left, "s")}]
    assert [type(one) for one in kept] == [type(one) for one in read_events(left, "s", run="s#1")]
    assert run_problems(read_events(left, "s")) == []
    assert [one.text for one in read_events(left, "s", run="s#1") if isinstance(one, UserSpoke)] == ["Read it."]
    asked = next(row.seq for row in left.rows("s") if row.seq > begun and b'"setup"' in row.payload)
    for entries in range(begun + 2, asked + 1):
        cut, again = cut_log(left, "s", entries), FakeModel(says("Once more."))

        async def go_on(cut=cut, again=again):
            runs = Runs(cut, [agent(again)])
            assert await runs.recover() == ["s#1"]
            return await runs.wait("s#1", 30)

        assert asyncio.run(go_on()).text == "Once more.", entries


def test_a_run_that_says_words_again_begins_with_one_commit(left):
    """A process that ends between two would leave a run without its words."""
    faults = CommitFaults(left)
    asyncio.run(agent(FakeModel(says("Yes."))).run("Read it.", session="s", store=left))
    assert len(faults.commits[0]) == 2  # the mark of the run, and the words


def test_a_client_goes_on_behind_words_that_were_said_again(left):
    asyncio.run(agent(FakeModel(says("Yes."))).run("Read it.", session="s", store=left))
    with foveal.Session(left, "s", model="gpt-5") as session:
        answered = [*SAID, foveal.user("Read it."), foveal.assistant("Yes.")]
        followed = session.follow([*answered, foveal.user("And?")])
        assert (followed.outcome, followed.written) == ("grown", 1)


def parts_of(request):
    """The texts of a request, of whichever parts."""
    contents = [one["content"] for one in request["messages"]]
    return [part["text"] for one in contents for part in ([{"text": one}] if isinstance(one, str) else one)]


def test_a_new_file_is_shown_with_words_that_were_said_again(left, tmp_path):
    """The words stand on a branch that was left, and so does the answer: the next run sees the file as well."""
    (tmp_path / "new.txt").write_text("the number is 4711")
    model = FakeModel(says("No."), says("4711."))

    async def ask():
        runs = Runs(left, [agent(model)])
        run = await runs.start("agent", "Read it.", session="s", files=[tmp_path / "new.txt"])
        assert (await runs.wait(run, 30)).text == "No."
        again = await runs.start("agent", "Which one?", session="s")
        return await runs.wait(again, 30)

    assert asyncio.run(ask()).text == "4711."
    for request in model.requests:
        shown = parts_of(request)
        assert "Read it." in shown
        assert sum("the number is 4711" in text for text in shown) == 1
    assert run_problems(read_events(left, "s")) == []


def test_queued_words_that_were_said_before_bring_their_new_file(left, tmp_path):
    (tmp_path / "new.txt").write_text("the number is 4711")
    with foveal.Session(left, "s", model="gpt-5") as session:
        session.follow([*SAID, foveal.user("Read it."), foveal.assistant("Yes."), foveal.user("Hm?")])
        assert session.follow(SAID).outcome == "branched"

    async def ask():
        is_queued = asyncio.Event()

        class Waits(FakeModel):
            async def complete(self, request):
                await is_queued.wait()
                async for event in super().complete(request):
                    yield event

        model = Waits(says("Yes."), says("4711."))
        runs = Runs(left, [agent(model)])
        run = await runs.start("agent", "Read it.", session="s")
        await runs.follow_up(run, "Hm?", files=[tmp_path / "new.txt"])
        is_queued.set()
        return await runs.wait(run, 30), model

    outcome, model = asyncio.run(ask())
    assert outcome.text == "4711."
    assert any("the number is 4711" in text for text in parts_of(model.requests[-1]))
    assert run_problems(read_events(left, "s")) == []
