"""The inbox of a session that was deleted, or has stayed behind: what is said after that is heard all the same."""

import asyncio
import io

import pytest

from foveal.agent import AskUser, Runs, ToolContext, tool
from foveal.agent.inbox import inbox_of, letters
from foveal.agent.run_log import read_run
from foveal.agent.run_marks import InboxRead, to_note
from foveal.session.session import Session
from foveal.stores import open_store
from foveal.stores.portable import export_session, import_session
from foveal.values.errors import BadInput

from .conftest import FakeModel, agent_with, calls, says


@tool
def ask(ctx: ToolContext) -> str:
    """Ask the user."""
    if ctx.answer is None:
        raise AskUser("Which?")
    return f"said {ctx.answer.text}"


def asking(*replies):
    return agent_with(FakeModel(*replies), ask)


async def asked_again(store):
    """Begin a run that has had one answer, and waits for another one."""
    agent = asking(calls("ask"), calls("ask"))
    runs = Runs(store, [agent])
    run = await runs.start(agent, "Go.", session="s")
    await runs.wait(run)
    await runs.resume(run, "blue")
    assert (await runs.wait(run)).status == "awaiting_user"
    assert letters(store, "s", read_run(store, "s").inbox) == []


def moved(store):
    """Return another store with the session, exported and imported."""
    file, other = io.BytesIO(), open_store()
    export_session(store, "s", file)
    file.seek(0)
    import_session(other, file)
    return other


def without_inbox(store):
    """Return the store without the inbox, as `foveal expire` leaves it when that is old."""
    store.delete([inbox_of("s")])
    return store


@pytest.mark.parametrize("change", [moved, without_inbox])
def test_an_answer_is_heard_after_the_inbox_was_lost(store, change):
    """A new inbox begins where the old one had been read: its first message is new all the same."""

    async def talk():
        await asked_again(store)
        left, agent = change(store), asking(says("Done."))
        runs = Runs(left, [agent])
        run = await runs.resume("s", "red")
        return await runs.wait(run, 10), left

    outcome, left = asyncio.run(talk())
    assert (outcome.status, outcome.text) == ("completed", "Done.")
    assert any(b"said red" in row.payload for row in left.rows("s"))


def test_a_wish_is_heard_after_the_inbox_was_lost(store):
    """A run that waits is cancelled by the first message of the new inbox."""

    async def talk():
        await asked_again(store)
        store.delete([inbox_of("s")])
        runs = Runs(store)
        await runs.cancel("s")
        return runs.outcome("s").status

    assert asyncio.run(talk()) == "cancelled"


def test_messages_that_an_older_foveal_has_read_are_not_read_again(store):
    """Its marks have the place alone: it holds where the inbox is at least so long."""

    async def talk():
        await asked_again(store)

    asyncio.run(talk())
    place = read_run(store, "s").inbox.place
    with Session(store, "s", model="gpt-5") as session:
        session.append(to_note(InboxRead(place)))
    assert letters(store, "s", read_run(store, "s").inbox) == []


def waiting(store, agent):
    """Begin a run that waits for its first answer, and return its id."""

    async def begun():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await runs.wait(run)
        return run

    return asyncio.run(begun())


def test_a_question_that_has_an_answer_takes_no_other_one(store):
    """Also before the run has read the first one: whoever denies a call that somebody has allowed is told."""
    run = waiting(store, asking(calls("ask"), says("Done.")))

    async def talk():
        await Runs(store).answer(run, "blue")
        with pytest.raises(BadInput, match=r"has an answer to '.*' already: 'blue'"):
            await Runs(store).answer(run, "red")
        with pytest.raises(BadInput, match="already"):
            await Runs(store).approve(run, "deny")
        await Runs(store).answer(run, "blue")  # said again after an error, say

    asyncio.run(talk())
    assert len(letters(store, "s", read_run(store, "s").inbox)) == 1


def test_of_two_answers_at_once_one_is_refused(store):
    """Whoever comes second finds the first, whenever they looked."""
    run = waiting(store, asking(calls("ask"), says("Done.")))

    async def talk():
        said = await asyncio.gather(*(Runs(store).answer(run, one) for one in "ab"), return_exceptions=True)
        return [type(one) for one in said]

    assert sorted(map(str, asyncio.run(talk()))) == sorted(map(str, [type(None), BadInput]))
    assert len(letters(store, "s", read_run(store, "s").inbox)) == 1


def test_a_question_of_a_sub_agent_that_was_answered_there_takes_no_other_answer(store):
    """The run above shows the question until it goes on."""
    sub = agent_with(FakeModel(calls("ask")), ask, name="sub")
    run = waiting(store, agent_with(FakeModel(calls("delegate", task="Ask.")), agents=[sub]))

    async def talk():
        (below,) = read_run(store, "s").children.values()
        await Runs(store).answer(below, "blue")
        with pytest.raises(BadInput, match="already"):
            await Runs(store).answer(run, "red")

    asyncio.run(talk())
