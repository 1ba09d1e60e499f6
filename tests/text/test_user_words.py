"""The user's words told from a harness's, and the messages that a view takes for requests."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foveal.testing.builders import open_session
from foveal.text.user_words import user_words
from foveal.values.entry import Image, user

INJECTED = [
    "<environment_context>\n  <cwd>/srv</cwd>\n</environment_context>",
    "<user_instructions>\nalways be brief\n</user_instructions>",
    "# AGENTS.md instructions for /srv\n\n<INSTRUCTIONS>\nalways be brief\n</INSTRUCTIONS>",
    "<system-reminder>\na\n</system-reminder>\n\n<system-reminder>\nb\n</system-reminder>\n",
    "<system-reminder> never closed",
    "<command-name>/clear</command-name>\n            <command-args></command-args>",
    "<task-notification>\n<task-id>a1</task-id>\n<status>completed</status>\n</task-notification>",
    "[Request interrupted by user for tool use]",
    "This session is being continued from a previous conversation that ran out of context.",
    "<local-command-caveat>…</local-command-caveat>\n<local-command-stdout></local-command-stdout>",
]


@pytest.mark.parametrize("text", INJECTED)
def test_a_message_of_frames_alone_says_nothing(text: str) -> None:
    """Whichever harness it comes from."""
    assert user_words(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "<system-reminder>a</system-reminder>\nPort it.",
        "Port it.\n<system-reminder>a</system-reminder>\n<environment_details>b</environment_details>\n",
        "<ide_selection>x = 1</ide_selection>\nPort it.\n\n<system-reminder>a</system-reminder>",
        "[Image: source: /tmp/a.png] Port it.",
        "<command-message>go</command-message>\n<command-name>/go</command-name>\n<command-args>Port it.</command-args>",
    ],
)
def test_words_among_frames_are_found(text: str) -> None:
    """Before, after and between them, and as the arguments of a command."""
    assert user_words(text) == "Port it."


@pytest.mark.parametrize(
    "text",
    [
        "<task>Port it.</task>",
        "<instructions>\nPort it.",
        "# Port it",
        "Caveat: it is slow. Port it.",
        "[wip] Port it.",
    ],
)
def test_markup_of_the_users_own_is_the_users_word(text: str) -> None:
    """A request that is wrapped in a tag is still the request."""
    assert user_words(text) == text


@given(st.text(st.characters(exclude_characters="<[#-BCT")))
@example("\ud800 \x00")
def test_plain_words_stay_as_they_are(text: str) -> None:
    """But for blanks around them."""
    assert user_words(text) == text.strip()


@pytest.mark.parametrize(
    "piece", ["<skill></skill>", "</skill>", "<skill>", "[Image: a]", " ", "<bash-a>", "<skill></skill>" + " " * 30]
)
def test_hostile_texts_take_linear_time(piece: str) -> None:
    """Megabytes of frames, open, closed or neither; the test's own time limit is the judge."""
    text = piece * (3_000_000 // len(piece))
    assert len(user_words(text)) <= len(text)
    assert len(user_words(f"x{text}")) <= len(text) + 1


@pytest.mark.parametrize("text", INJECTED)
def test_an_injected_message_is_no_request_and_no_turn(text: str) -> None:
    """Neither before the first request nor after the last."""
    session = open_session()
    session.append(user(text))
    assert (session.view.facts.first_user, session.view.facts.last_user, session.view.facts.turns) == (None, None, 0)
    request = session.append(user("Port it."))
    session.append(user(text))
    assert (session.view.facts.first_user, session.view.facts.last_user, session.view.facts.turns) == (
        request.id,
        request.id,
        1,
    )


def test_an_image_beside_a_frame_is_a_request() -> None:
    """A frame says nothing, but what is shown may be what is asked about."""
    session = open_session()
    entry = session.append(user("<system-reminder>a</system-reminder>", Image("image/png", b"hello")))
    assert session.view.facts.first_user == entry.id
