"""What counts as needed again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.values.entry import Message, Text, Thinking, ToolCall, assistant, result, user
from foveal_bench.training.sessions import FAR, HORIZON, TrainingSession, common, message_text

NAME = "parse_header"
READ = result("c", f"def {NAME}(line): return line.split(':')")
USED = assistant("", ToolCall("d", "edit", f'{{"text": "{NAME}(x)"}}'))
IDLE = assistant("thinking about it")


def needed(messages, now):
    return TrainingSession("s", messages).needed(NAME, now)


def test_what_the_agent_writes_in_a_call_after_a_while_was_needed():
    """It was read, went out of sight, and was used."""
    assert needed([READ, *[IDLE] * FAR, USED], 1)


def test_what_was_seen_a_moment_ago_is_not_far():
    """It is still shown, whatever is folded."""
    assert not needed([READ, *[IDLE] * (FAR - 1), USED], 1)


def test_what_a_result_shows_again_first_was_not_needed():
    """The agent took it from there."""
    assert not needed([READ, *[IDLE] * FAR, READ, USED], 1)


def test_what_is_only_spoken_of_was_not_needed():
    """Words are free; calls must be right to the letter."""
    assert not needed([READ, *[IDLE] * FAR, assistant(f"I remember {NAME}")], 1)


def test_what_is_used_much_later_was_not_needed_now():
    """Other folds come before it."""
    assert not needed([READ, *[IDLE] * (HORIZON + 1), USED], 1)


def test_what_was_never_seen_is_not_needed():
    """Nor is what never comes back."""
    assert not TrainingSession("s", [READ, USED]).needed("other_name", 0)
    assert not needed([READ, *[IDLE] * FAR], 1)


def test_a_whole_line_can_be_needed():
    """If it is long enough to be remembered and not written by habit."""
    line = "return line.split(':', 1)[1].strip()"
    write = assistant("", ToolCall("d", "edit", f'{{"text": "{line}\\nbreak"}}'))
    made = TrainingSession("s", [result("c", f"x\n{line}\nbreak"), *[IDLE] * FAR, write])
    assert made.needed(line, 1)
    assert not made.needed("break", 1)


def test_what_most_sessions_hold_is_common():
    """It says nothing about one of them."""
    sessions = [TrainingSession(name, [user(f"see shared_name and {name}_name")]) for name in ("one", "two", "three")]
    assert "shared_name" in common(sessions, 2)
    assert "one_name" not in common(sessions, 2)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (assistant("a", ToolCall("c", "run", '{"x": 1}')), 'a\n{"x": 1}'),
        (result("c", "b"), "b"),
        (Message("assistant", (Thinking("hm"), Text("c"))), "hm\nc"),
    ],
)
def test_all_that_is_said_in_a_message_is_counted(message, said):
    """Its words, its thinking and its calls as they were written."""
    assert message_text(message) == said


@given(st.lists(st.text(max_size=30), max_size=5))
def test_any_text_can_be_looked_at(texts):
    """Lone surrogates and control characters as well."""
    made = TrainingSession(
        "\ud800", [*map(user, texts), assistant("", *(ToolCall(str(i), "x", t) for i, t in enumerate(texts)))]
    )
    assert len(made.tokens) == len(texts) + 1
