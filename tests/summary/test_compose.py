"""A summary as text: what comes first, and that it never takes more than it may."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.models.counters import encoding
from foveal.summary.compose import compose
from foveal.summary.state import Summary, SummaryCoverage, extend, ledger_step
from foveal.values.entry import Message, Text, ToolCall, ToolResult, user

HEAD = "[Summary of 42 earlier messages (12,345 tokens); ref a1..b9]"


def count(text: str) -> int:
    return encoding("o200k_base").count(text)


def known(steps: int = 12, prose: str = "") -> Summary:
    """A summary of so many reads."""
    read = [ledger_step("u", user("Never write to src/generated; ask before you delete."), 0)]
    for n in range(1, steps + 1):
        call = ToolCall(f"c{n}", "read_file", f'{{"path": "src/part_{n}.py"}}')
        lines = "\n".join(f"def handler_{n}_{i}(request): return route_{i * 7 % 11}({n})" for i in range(15))
        read.append(ledger_step(f"a{n}", Message("assistant", (call,)), 2 * n))
        read.append(ledger_step(f"b{n}", Message("tool", (ToolResult(call.id, (Text(lines),)),)), 2 * n + 1))
    return extend(Summary(prose=prose, author="me" if prose else ""), read, SummaryCoverage(42, 12_345, "a1..b9"))


SUMMARY = known()


@settings(max_examples=40, deadline=None)
@given(tokens=st.integers(20, 2_000), prose=st.sampled_from(("", "## Goal\nShip it.\n" * 6)))
def test_it_is_never_larger_than_it_may_be(tokens: int, prose: str) -> None:
    """The text fits its tokens for any state, and always names the range that it covers."""
    text = compose(known(prose=prose) if prose else SUMMARY, tokens=tokens, count=count)
    assert text.startswith(HEAD)
    assert count(text) <= max(tokens, count(HEAD))


def test_it_says_first_what_it_stands_for_then_prose_then_facts_then_lines() -> None:
    """The order is the order of worth."""
    text = compose(known(prose="## Goal\nShip the parts."), tokens=1_500, count=count)
    places = [text.index(part) for part in (HEAD, "Ship the parts.", "## User said", "## Files read", "def handler_")]
    assert places == sorted(places)


def test_the_users_words_are_quoted() -> None:
    """A sentence of the user is quoted as it was said, with its reference, and not paraphrased."""
    assert "“Never write to src/generated; ask before you delete.”" in compose(SUMMARY, tokens=600, count=count)


def test_without_prose_there_is_no_hole() -> None:
    """Code alone makes a whole summary."""
    assert "\n\n\n" not in compose(SUMMARY, tokens=800, count=count)


def test_what_the_prompt_shows_is_not_said_twice() -> None:
    """Lines that the prompt shows beside the summary leave their tokens to others."""
    alone = compose(SUMMARY, tokens=900, count=count)
    line = next(line for line in reversed(alone.splitlines()) if "def handler_" in line).partition("def ")[2]
    assert line not in compose(SUMMARY, tokens=900, count=count, shown=[f"def {line}"])


def test_what_was_fetched_again_and_again_is_part_of_it() -> None:
    """A text that was fetched again and again is included if it fits: the model has shown that it needs it."""
    text = compose(SUMMARY, tokens=900, count=count, fetched={"b3": "the answer is 7"})
    assert "[ref b3, fetched again and again]\nthe answer is 7" in text


@pytest.mark.parametrize("size", [500, 5_000])
def test_what_was_fetched_takes_no_more_than_half(size: int) -> None:
    """One huge original does not push the state out."""
    text = compose(SUMMARY, tokens=600, count=count, fetched={"b3": "word " * size})
    assert "word word" not in text
    assert "## Files read" in text


def test_prose_that_is_too_long_keeps_its_ends_and_leaves_room_for_the_facts() -> None:
    """A long checkpoint does not push the state out, and is not lost without a word."""
    prose = "## Summary\n" + "".join(f"Finding {n} of many.\n" for n in range(300)) + "## Next\nMend the third."
    text = compose(known(prose=prose), tokens=1_200, count=count)
    assert "Finding 0 of many." in text
    assert "Mend the third." in text
    assert "lines left out; ref a1..b9]" in text
    assert "## Files read" in text


def test_the_same_summary_gives_the_same_text() -> None:
    """Nothing depends on order or time."""
    assert compose(known(), tokens=700, count=count) == compose(SUMMARY, tokens=700, count=count)
