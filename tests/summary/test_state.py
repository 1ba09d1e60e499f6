"""The state of a summary: encoded, decoded, and extended by newly covered messages."""

import pytest

from foveal.summary import ledger
from foveal.summary.ledger import LedgerStep
from foveal.summary.state import Summary, SummaryCoverage, decode_summary, encode_summary, extend, ledger_step
from foveal.values.entry import Message, Opaque, Text, Thinking, ToolCall, ToolResult, user


def ran(number: int) -> list[LedgerStep]:
    call = ToolCall(f"c{number}", "read_file", f'{{"path": "src/part_{number}.py"}}')
    return [
        ledger_step(f"a{number}", Message("assistant", (call,)), 2 * number),
        ledger_step(
            f"b{number}", Message("tool", (ToolResult(call.id, (Text(f"value_{number} = {number}"),)),)), 2 * number + 1
        ),
    ]


def test_a_summary_comes_back_as_it_was() -> None:
    """Written and read, with its ledger, lines and prose."""
    summary = extend(Summary(prose="## Goal\nx", author="me"), [*ran(1), *ran(2)], SummaryCoverage(4, 90, "a1..b2"))
    assert summary.ledger != ledger.EMPTY
    assert summary.relevance.lines
    assert decode_summary(encode_summary(summary)) == summary


@pytest.mark.parametrize("state", ["", "{", "[]", '{"ledger": 5}', '{"now": "late"}', "\ud800"])
def test_a_state_of_another_shape_is_a_new_summary(state: str) -> None:
    """Written by a newer or older version, or damaged: it is made again from the log, and nothing fails."""
    assert decode_summary(state) == Summary()


def test_steps_one_by_one_name_the_same_files() -> None:
    """The ledger is the same, however the messages were split into folds."""
    steps = [one for number in range(6) for one in ran(number)]
    whole, piecewise = Summary(), Summary()
    whole = extend(whole, steps, SummaryCoverage())
    for at in range(0, len(steps), 2):
        piecewise = extend(piecewise, steps[at : at + 2], SummaryCoverage())
    assert piecewise.ledger == whole.ledger
    assert piecewise.now == whole.now == 11


def test_prose_is_carried_until_it_is_replaced() -> None:
    """Prose about the older part is kept when code adds the newer part."""
    summary = extend(Summary(prose="old", author="me"), ran(1), SummaryCoverage(2))
    assert (summary.prose, summary.author, summary.covered) == ("old", "me", SummaryCoverage(2))


def test_nothing_new_changes_nothing_but_what_is_covered() -> None:
    """`now` stays where it was."""
    before = extend(Summary(), ran(3), SummaryCoverage(2))
    assert extend(before, [], SummaryCoverage(5)).now == before.now == 7


def test_thinking_and_opaque_parts_are_nobodys_to_repeat() -> None:
    """A summary never says what the model said to itself, nor what only its provider can read."""
    message = Message("assistant", (Thinking("secret"), Opaque("anthropic", '{"a": 1}'), Text("said")))
    assert ledger_step("a", message, 1).message.parts == (Text("said"),)


def test_text_that_cannot_be_sent_is_made_sendable() -> None:
    """A lone surrogate must not stop a summary from being written."""
    summary = extend(
        Summary(), [ledger_step("a", user("the file is src/\ud800x.py and no other"), 1)], SummaryCoverage(1)
    )
    assert encode_summary(summary).encode()
