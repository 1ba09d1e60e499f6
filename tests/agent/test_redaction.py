"""Secrets of a run: an agent that redacts keeps none of them, in entries, marks, inboxes and artifacts."""

import asyncio
from pathlib import Path

import pytest

import foveal
from foveal.agent import AskUser, Runs, ToolContext, UserAnswer, tool
from foveal.agent.inbox import FollowUp, QuestionReply, Steering, StopRequest
from foveal.agent.run_log import read_events
from foveal.agent.run_marks import (
    CallStarted,
    HandoffAsked,
    ModelSwitched,
    SpawnedBy,
    StatusSet,
    UserAsked,
    redacted_words,
)
from foveal.agent.tools import UserQuestion
from foveal.testing.run_checks import run_problems
from foveal.text.redaction import redact_secrets

from .conftest import FakeModel, agent_with, calls, says

SECRET = "sk-live-abcdefghij0123456789abcdefghij"


@tool
async def send(ctx: ToolContext, key: str) -> str:
    """Send."""
    if ctx.answer is None:
        raise AskUser(f"May {SECRET} be used?", [SECRET, "no"], timeout_s=900, otherwise=SECRET)
    return f"sent with {SECRET}"


def bytes_in(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize("redact", [redact_secrets, None], ids=["redacts", "keeps"])
def test_no_file_of_the_store_has_the_secret(tmp_path, redact):
    """Arguments, a question, its choices, the answer, a result, words of the user, a reason, a sub-agent's task and question have
    it. Without `redact` it is found there, so that this test finds what it looks for."""

    async def talk(store):
        child = agent_with(
            FakeModel(calls("send", key=SECRET), says(f"Done: {SECRET}. " * 20)), send, name="low", redact=redact
        )
        model = FakeModel(
            calls("send", key=SECRET),
            calls("delegate", task=f"use {SECRET}"),
            says("First."),
            says("Second."),
            says(f"Used {SECRET}."),
        )
        agent = agent_with(model, send, agents=[child], redact=redact)
        runs = Runs(store, [agent])
        run = await runs.start(agent, f"Take {SECRET}.", session="s")
        for _ in range(2):
            waiting = await runs.wait(run)
            assert waiting.status == "awaiting_user", waiting
            await runs.follow_up(run, f"and {SECRET}")
            await runs.resume(run, UserAnswer(f"with {SECRET}"))
        ended = await runs.wait(run)
        again = await runs.start(agent_with(FakeModel(calls("send", key="x")), send, redact=redact), "Hi.", session="t")
        await runs.wait(again)
        await runs.steer(again, f"stop {SECRET}")
        await runs.cancel(again, f"no {SECRET}")
        return ended

    with foveal.open_store(tmp_path / "runs.db") as store:
        ended = asyncio.run(talk(store))
        problems = [one for card in store.cards() for one in run_problems(read_events(store, card.id))]
    assert (ended.status, problems) == ("completed", [])
    assert (SECRET.encode() in bytes_in(tmp_path)) is (redact is None)


@pytest.mark.parametrize(
    "held",
    [
        StatusSet("failed", 1, "a", f"because {SECRET}", f"text {SECRET}"),
        UserAsked(UserQuestion("k", "question", SECRET, (SECRET,), "t", f'{{"key":"{SECRET}"}}', otherwise=SECRET)),
        ModelSwitched(1, "m", f"refused {SECRET}"),
        HandoffAsked("a", SECRET),
        SpawnedBy("s#1", {"note": SECRET}),
        Steering(SECRET),
        FollowUp(SECRET),
        QuestionReply(UserAnswer(SECRET, "edit", {"deep": [{"key": SECRET}], "n": 1})),
        StopRequest("paused", SECRET),
    ],
    ids=lambda one: type(one).__name__,
)
def test_the_words_of_a_mark_and_of_a_message_are_redacted(held):
    """Wherever they are in it; the value keeps its kind."""
    clean = redacted_words(held, redact_secrets)
    assert type(clean) is type(held)
    assert SECRET not in str(clean)
    assert "[redacted: API key]" in str(clean)


def test_names_and_keys_are_not_redacted():
    """A run could not be resumed if the key of a call were another one in each mark."""
    started = CallStarted(SECRET, SECRET, SECRET)
    assert redacted_words(started, lambda text: "x") == started
