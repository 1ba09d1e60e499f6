"""Secrets of a run: an agent that redacts keeps none of them, in entries, marks, inboxes and artifacts."""

import asyncio
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize("redacts", ["one", "other"])
@pytest.mark.parametrize("kind", ["agents", "detached", "handoffs"])
def test_the_lines_about_other_agents_have_no_secret(store, kind, redacts):
    """Neither a description nor the beginning of instructions, also where the cut is inside of the secret."""
    own, others = (redact_secrets, None) if redacts == "one" else (None, redact_secrets)
    there = [
        agent_with(FakeModel(), name="told", description=f"Pays with {SECRET}.", redact=others),
        agent_with(FakeModel(), name="bare", instructions=f"You pay with {SECRET}.", redact=others),
        agent_with(FakeModel(), name="cut", instructions=f"{'x' * 90} {SECRET}", redact=others),
    ]
    model = FakeModel(says("Done."))
    others_of: dict[str, Any] = {kind: there}
    agent = agent_with(model, redact=own, **others_of)
    assert asyncio.run(agent.run("Go.", session="s", store=store)).status == "completed"
    kept = b"".join(row.payload for row in store.rows("s"))
    assert b"sk-live-" not in kept
    assert "sk-live-" not in str(model.requests)
    assert "You pay with [redacted: API key]" in str(model.requests)


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


def test_an_argument_is_redacted_by_its_name_as_well():
    """As in the arguments of a call, where name and value are one text; the names themselves too."""
    held = QuestionReply(UserAnswer("", "edit", {"password": "correct-horse", SECRET: 1, "n": [2, "two"]}))
    clean = redacted_words(held, redact_secrets).answer.arguments
    assert clean == {"password": "[redacted: secret]", "[redacted: API key]": 1, "n": [2, "two"]}


@pytest.mark.parametrize("redact", [redact_secrets, None], ids=["redacts", "keeps"])
def test_files_that_come_with_a_message_are_redacted(tmp_path, redact):
    """Their names, small texts, long ones that are kept beside the log, and the names in an archive."""
    held = BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr(f"{SECRET}.txt", "x")
    given = [
        foveal.File("", f"{SECRET}.txt", b"alpha"),
        foveal.File("", "small.txt", f"key {SECRET}".encode()),
        foveal.File("", "long.txt", "".join(f"line {n} {SECRET}\n" for n in range(40_000)).encode()),
        foveal.File("", "a.zip", held.getvalue()),
    ]
    model = FakeModel(says("Read."))
    with foveal.open_store(tmp_path / "runs.db") as store:
        asyncio.run(agent_with(model, redact=redact).run("Read.", files=given, session="s", store=store))
    assert (SECRET in str(model.requests)) is (redact is None)
    assert (SECRET.encode() in bytes_in(tmp_path)) is (redact is None)


def test_a_message_to_a_run_that_is_driven_here_is_redacted(tmp_path):
    """Although the agent was given with the first words alone, and not to `Runs`."""

    async def talk(store):
        begun = asyncio.Event()
        runs = Runs(store)
        run = await runs.start(agent_with(FakeModel([begun]), redact=redact_secrets), "Go.")
        await begun.wait()
        await runs.steer(run, f"with {SECRET}")
        await runs.cancel(run, f"no {SECRET}")
        await runs.wait(run)

    with foveal.open_store(tmp_path / "runs.db") as store:
        asyncio.run(talk(store))
    assert SECRET.encode() not in bytes_in(tmp_path)


def test_names_and_keys_are_not_redacted():
    """A run could not be resumed if the key of a call were another one in each mark."""
    started = CallStarted(SECRET, SECRET, SECRET)
    assert redacted_words(started, lambda text: "x") == started
