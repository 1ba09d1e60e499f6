"""No log bricks a session: whatever `append` accepted, there is a valid prompt, or an error that says what to do, and that works.

`scripts/random_sessions.py` plays as many of these histories as there is time for.
"""

import os

import pytest

from foveal.dialects import admission
from foveal.testing import oracles
from foveal.testing.builders import MODELS, open_session
from foveal.testing.random_sessions import play, poisons
from foveal.values.entry import (
    Image,
    Overflow,
    PromptContext,
    Setup,
    ToolCall,
    Usage,
    assistant,
    result,
    user,
)
from foveal.values.errors import BadEntry

DIALECTS = sorted(MODELS)
HISTORIES = 12_000 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 400
BATCH = 50


@pytest.mark.parametrize("first", range(0, HISTORIES, BATCH))
def test_random_histories_leave_a_session_that_works(first: int) -> None:
    """Media, invented calls, odd usage, refusals, model switches, rewinds, checkpoints and lying summarisers, in any order."""
    assert [finding for seed in range(first, first + BATCH) if (finding := play(seed))] == []


@pytest.mark.parametrize("seed", [66_385, 88_824])
def test_histories_that_once_broke_a_session(seed: int) -> None:
    """A gap that moved before a running loop and was covered there; a message brought back beside a reply with the same ids."""
    assert play(seed) is None


def test_an_unchecked_image_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search finds a session that one image bricks: a planted fault, within the default number of histories."""
    monkeypatch.setattr(admission, "fit_media", lambda item, _limits, _role: (item, ""))
    assert any(play(seed) for seed in range(BATCH))


def test_an_unchecked_block_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search finds a session that one odd block of a reply bricks."""
    monkeypatch.setattr(admission.Admission, "_refusal", lambda _self, _part: "")
    assert any(play(seed) for seed in range(HISTORIES))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_after_one_poisoned_entry_the_next_prompts_are_valid(dialect: str) -> None:
    """Alone, beside good words, done or cut off: the next prompt is valid, and the one after it too."""
    for poison in poisons(MODELS[dialect]):
        session = open_session(dialect=dialect)
        session.append(user("Go."))
        session.append(assistant("", ToolCall("c0", "read", "{}"), model=MODELS[dialect]))
        session.append(poison)
        session.append(result("c0", "x"))
        assert oracles.problems(session.prompt()) == [], poison
        session.append(assistant("Fine.", model=MODELS[dialect]))
        session.append(user("On."))
        assert oracles.problems(session.prompt()) == [], poison


@pytest.mark.parametrize("mark", [Setup("m", "openai_chat", "c", "{}", "no json", 1, 1), PromptContext(())])
def test_marks_that_only_the_session_writes_are_refused(mark: Setup | PromptContext) -> None:
    """A recorded setup says what was sent; nobody else can know it."""
    session = open_session()
    with pytest.raises(BadEntry, match="recorded by the session itself"):
        session.append(mark)


@pytest.mark.parametrize("number", [-1, 0, 1, 10**18])
def test_odd_numbers_of_a_provider_leave_a_session_that_works(number: int) -> None:
    """Usage and limits that cannot be true: the prompt fits what is left, or the error says where the limit came from."""
    session = open_session(limit=16_000)
    session.append(user("Go."))
    session.append(Usage("gpt-5", number, number, number, number, number))
    session.append(Overflow("gpt-5", number, "said so"))
    session.append(user("look", Image("image/bmp", b"BM")))
    session.compaction.forget_limit()
    assert oracles.problems(session.prompt()) == []
