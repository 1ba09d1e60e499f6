"""Replies that a provider ended early: at its limit of tokens, by a filter, or with a connection that broke for good."""

import asyncio
import json
from functools import partial

import pytest

from foveal.agent import Limits, ModelChoice, Runs, tool
from foveal.agent.model_calls import ModelCall
from foveal.agent.run_log import read_events
from foveal.testing.run_checks import run_problems

from .conftest import FakeModel, agent_with, calls, says

RAN: list[str] = []


@tool
def remove(path: str = "everything") -> str:
    """Remove a file."""
    RAN.append(path)
    return "removed"


@pytest.fixture(autouse=True)
def nothing_ran():
    RAN.clear()


def ended(reply, reason):
    """The reply, ended for this reason."""
    choice = reply["choices"][0]
    return {**reply, "choices": [{**choice, "finish_reason": reason}]}


def run(store, agent, session="s"):
    async def talk():
        runs = Runs(store, [agent])
        return await runs.wait(await runs.start(agent, "Go.", session=session), 20)

    outcome = asyncio.run(talk())
    assert run_problems(read_events(store, session)) == []
    return outcome


def test_an_answer_cut_at_its_limit_is_gone_on_with(store):
    """The run completes with all of its words, not with the first half of them."""
    model = FakeModel(ended(says("The first half, "), "length"), says("and the second."))
    outcome = run(store, agent_with(model))
    assert (outcome.status, outcome.text) == ("completed", "The first half, and the second.")
    assert "cut off" in json.dumps(model.requests[1]["messages"])


def test_thinking_that_is_cut_off_again_and_again_is_told_as_such(store):
    """Other words would not help: the reason names the limit of tokens, and what to allow."""
    outcome = run(store, agent_with(FakeModel(*[ended(says(""), "length")] * 3)))
    assert "3 replies in a row said nothing; all of them were cut off at the limit of tokens" in outcome.reason
    assert "Allow the model longer replies" in outcome.reason
    outcome = run(store, agent_with(FakeModel(says(""), ended(says(""), "length"), says(" "))), "t")
    assert "3 replies in a row said nothing; 1 of them" in outcome.reason


def test_an_answer_that_never_ends_fails_with_its_words(store):
    """A model that is cut off each time cannot go on for ever."""
    model = FakeModel(*[ended(says("more "), "length")] * 9)
    outcome = run(store, agent_with(model, limits=Limits(cut_replies=2)))
    assert (outcome.status, outcome.text, len(model.requests)) == ("failed", "more more more ", 3)
    assert "cut off 3 times" in outcome.reason


def test_a_call_in_which_the_reply_was_cut_is_not_run(store):
    """Its arguments may be all that had come of more, although they can be read."""
    model = FakeModel(
        ended(says("", ("remove", {"path": "a"}), ("remove", {})), "length"), says("I see."), says("Done.")
    )
    outcome = run(store, agent_with(model, remove))
    assert (outcome.text, RAN) == ("I see.", ["a"])
    assert "limit of tokens" in model.requests[1]["messages"][-1]["content"]


def test_calls_that_are_cut_again_and_again_end_the_run(store):
    """They are as malformed as any that no tool can take."""
    model = FakeModel(*[ended(calls("remove"), "length")] * 9)
    outcome = run(store, agent_with(model, remove, limits=Limits(malformed_calls=3)))
    assert (outcome.status, len(model.requests), RAN) == ("failed", 3, [])


def test_a_filtered_reply_is_no_answer(store):
    """The run fails and says whose doing it is; the words that came are kept, and the calls are not run."""
    model = FakeModel(ended(says("As I was say", ("remove", {"path": "a"})), "content_filter"))
    outcome = run(store, agent_with(model, remove))
    assert (outcome.status, outcome.text, RAN) == ("failed", "As I was say", [])
    assert "filtered" in outcome.reason
    assert outcome.usage["gpt-5"].calls == 1


def test_the_next_model_goes_on_where_a_filter_ended_the_reply(store):
    """A fallback is there for that."""
    model = FakeModel(ended(says("Half "), "content_filter"), says("and half."))
    outcome = run(store, agent_with(model, fallbacks=[ModelChoice("gpt-5-mini", "openai")]))
    assert (outcome.status, outcome.text) == ("completed", "Half and half.")


@pytest.mark.parametrize("reason", ["error", "insufficient_system_resource", "network_error", "abort"])
def test_a_reply_that_the_provider_broke_off_is_asked_for_again(store, monkeypatch, reason):
    """Half an answer is none, and a call beside it is not run; the tokens are billed."""

    async def no_pause(_):
        """Wait for nothing between two attempts."""

    monkeypatch.setattr("foveal.agent.model_step.ModelCall", partial(ModelCall, sleep=no_pause))
    model = FakeModel(ended(says("Half an", ("remove", {"path": "a"})), reason), says("A whole answer."))
    outcome = run(store, agent_with(model, remove))
    assert (outcome.status, outcome.text, RAN) == ("completed", "A whole answer.", [])
    assert outcome.usage["gpt-5"].calls == 2


def test_words_of_a_stream_that_broke_for_good_are_kept(store, monkeypatch):
    """Whoever has read them finds them in the log, and the run goes on from there."""
    monkeypatch.setattr("foveal.agent.model_step.ModelCall", partial(ModelCall, attempts=0))
    half = ended(says("Half "), None)
    model = FakeModel([half, ConnectionError("gone")], says("and half."))
    agent = agent_with(model)

    async def talk():
        runs = Runs(store, [agent])
        failed = await runs.wait(await runs.start(agent, "Go.", session="s"), 20)
        return failed, await runs.wait(await runs.resume("s"), 20)

    failed, outcome = asyncio.run(talk())
    assert (failed.status, failed.text) == ("failed", "Half ")
    assert (outcome.status, outcome.text) == ("completed", "Half and half.")


def test_a_paused_reply_is_the_first_half_of_its_answer(store):
    """Whoever resumes the run is given the whole of it."""
    begun = asyncio.Event()
    model = FakeModel([ended(says("The thr"), None), begun], says("ee bears."))
    agent = agent_with(model)

    async def talk():
        runs = Runs(store, [agent])
        name = await runs.start(agent, "Go.", session="s")
        await begun.wait()
        await runs.pause(name)
        assert (await runs.wait(name, 20)).status == "paused"
        return await runs.wait(await runs.resume(name), 20)

    assert asyncio.run(talk()).text == "The three bears."


def test_a_filtered_reply_that_was_paused_at_its_end_is_no_answer(store):
    """The stream had told its end, and was still open: whoever stops it there does not make an answer of it."""
    begun = asyncio.Event()
    model = FakeModel([ended(says("As I was say"), "content_filter"), begun], says("ing."))
    agent = agent_with(model)

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await begun.wait()
        await runs.pause(run)
        await runs.wait(run, 20)
        await runs.resume(run)
        return await runs.wait(run, 20)

    outcome = asyncio.run(talk())
    assert (outcome.text, len(model.requests)) == ("As I was saying.", 2)


@pytest.mark.parametrize(
    "raised",
    [asyncio.CancelledError("by a library"), BaseExceptionGroup("many", [asyncio.CancelledError()]), GeneratorExit()],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize("come", [0, 1], ids=["before its first word", "after it"])
def test_a_model_that_is_cancelled_by_a_library_is_asked_again(store, monkeypatch, raised, come):
    """Nobody has stopped the run; a connection that a library gave up is one that broke."""

    async def no_pause(_):
        """Wait for nothing between two attempts."""

    monkeypatch.setattr("foveal.agent.model_step.ModelCall", partial(ModelCall, sleep=no_pause))
    half = ended(says("Do"), None)
    outcome = run(store, agent_with(FakeModel([*[half] * come, raised], says("Done."))))
    assert (outcome.status, outcome.text) == ("completed", "Done.")
