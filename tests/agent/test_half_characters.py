"""Texts with half a character, which UTF-8 has not: streams cut emoji in two, and programs cut texts anywhere."""

import asyncio

import pytest

import foveal
from foveal.agent import AskUser, ModelChoice, Runs, ToolContext, UserAnswer, tool
from foveal.agent.inbox import FollowUp, QuestionReply, letters, post
from foveal.agent.run_files import posted_files, read_posted
from foveal.agent.run_log import read_run
from foveal.agent.run_marks import StatusSet, mark_in, to_note
from foveal.text.redaction import redact_secrets

from .conftest import FakeModel, agent_with, calls, says

HALF = "\ud83d"


@tool
async def ask(ctx: ToolContext) -> str:
    """Ask."""
    if ctx.answer is None:
        raise AskUser(f"Which {HALF}?", [HALF])
    return ctx.answer.text


def test_a_run_ends_with_an_answer_that_was_cut(store):
    """It is completed, and no error that nobody can mend."""
    outcome = asyncio.run(agent_with(FakeModel(says(f"Well {HALF}"))).run("Go.", session="s", store=store))
    assert outcome.status == read_run(store, "s").status == "completed"


def test_a_run_ends_with_a_reason_that_was_cut(store):
    """The error of a provider quotes anything."""
    model = FakeModel(ValueError(f"no {HALF}"))
    outcome = asyncio.run(agent_with(model).run("Go.", session="s", store=store))
    assert outcome.status == "failed"
    assert "no \ufffd" in outcome.reason


def test_questions_and_words_of_the_user_are_kept(store):
    """Also an answer, and the arguments of an edit."""

    async def talk():
        agent = agent_with(FakeModel(calls("ask"), says("Done."), says("Then.")), ask, redact=redact_secrets)
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        waiting = await runs.wait(run)
        await runs.follow_up(run, f"and {HALF}")
        await runs.resume(run, UserAnswer(HALF, arguments={HALF: [HALF]}))
        return waiting, await runs.wait(run)

    waiting, ended = asyncio.run(talk())
    assert [(one.text, one.options) for one in waiting.questions] == [("Which \ufffd?", ("\ufffd",))]
    assert (ended.status, ended.text) == ("completed", "Then.")


@pytest.mark.parametrize("redact", [None, redact_secrets])
def test_two_halves_are_one_character(store, redact):
    """A stream has told them one after the other."""
    note = to_note(StatusSet("completed", 1, "a", text="\ud83d\ude00"), redact)
    assert mark_in(note) == StatusSet("completed", 1, "a", text="\U0001f600")
    post(store, "s", FollowUp("\ud83d\ude00"), redact=redact)
    post(store, "s", QuestionReply(UserAnswer(arguments={"x": "\ud83d\ude00"})), redact=redact)
    said = [letter for _, letter in letters(store, "s")]
    assert said == [FollowUp("\U0001f600"), QuestionReply(UserAnswer(arguments={"x": "\U0001f600"}))]


def test_a_redactor_that_leaves_half_a_character_in_a_file(store):
    model = FakeModel(says("Done."))
    agent = agent_with(model, redact=lambda text: text.replace("secret", HALF))
    file = foveal.File("", "a.txt", b"secret words")
    assert asyncio.run(agent.run("Go.", files=[file], session="s", store=store)).text == "Done."
    assert "\ufffd words" in str(model.requests[-1])


def test_posted_files_are_kept_as_they_can_be_sent():
    written = posted_files([foveal.File("", "a.txt", b"secret words")], ModelChoice("gpt-5", "openai"), lambda _: HALF)
    assert "\ufffd" in str(read_posted(written)[0].file)
