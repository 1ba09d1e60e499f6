"""A planned summary and its prose: the question, and the fold with the answer in it."""

import msgspec
import pytest

from foveal.models.counters import encoding
from foveal.summary.compose import compose
from foveal.summary.prose import PROSE_SHARE, TRANSCRIPT_TOKENS, question_for, summary_in, with_prose
from foveal.summary.state import Summary, SummaryCoverage, decode_summary, encode_summary, extend, ledger_step
from foveal.values.entry import Fold, Message, PartFold, RangeFold, Text, ToolCall, ToolResult

PROSE = "## Goal\nFind the slow handler.\n## Next\nLook at handler_9_2."


def count(text: str) -> int:
    return encoding("o200k_base").count(text)


def reads(steps: int = 10, lines: int = 12):
    found = []
    for n in range(1, steps + 1):
        call = ToolCall(f"c{n}", "read_file", f'{{"path": "src/part_{n}.py"}}')
        text = "\n".join(f"def handler_{n}_{i}(request): return route_{i * 7 % 11}({n})" for i in range(lines))
        found.append(ledger_step(f"a{n}", Message("assistant", (call,)), 2 * n))
        found.append(ledger_step(f"b{n}", Message("tool", (ToolResult(call.id, (Text(text),)),)), 2 * n + 1))
    return found


def planned(tokens: int = 900, prose: str = "") -> Fold:
    summary = extend(Summary(prose=prose), reads(), SummaryCoverage(20, 4_000, "a1..b10"))
    text = compose(summary, tokens=tokens, count=count)
    item = RangeFold(
        "a1", "b10", "summary", text, count(text), "summarise", "because", prose, "", encode_summary(summary)
    )
    line = RangeFold("x", "y", "covered", "[a line]", 4, "summarise", "because")
    return Fold((PartFold("z", 0, "cleared", "", 0, "clear", "b"), line, item), "too much", 5_000, 1_500, 1_400)


def test_the_summary_of_a_fold_is_found() -> None:
    """The one range whose level says so; a fold may have none."""
    fold = planned()
    assert summary_in(fold) is fold.items[2]
    assert summary_in(msgspec.structs.replace(fold, items=fold.items[:2])) is None


def test_the_question_holds_the_messages_and_what_is_known() -> None:
    """The transcript of what is newly covered, the prose so far, and the ledger's facts to rely on."""
    item = summary_in(planned(prose="## Goal\nOld goal."))
    assert item
    question = question_for(item, reads(), count, instructions="names of handlers")
    assert "def handler_10_0" in question.transcript
    assert (question.previous, question.instructions) == ("## Goal\nOld goal.", "names of handlers")
    assert "src/" in question.facts
    assert "part_3.py" in question.facts


def test_the_question_names_what_may_be_used_again_in_the_tokens_that_are_left() -> None:
    """Names come after the ledger, each once, and only as many as fit."""
    item = summary_in(planned(tokens=900))
    assert item
    question = question_for(item, reads(), count)
    facts, _, names = question.facts.partition("\n## Names\n")
    assert "route_0" in names
    assert not any(name in facts for name in names.split(", "))
    assert count(question.facts) <= question.tokens


def test_prose_may_take_its_share_of_the_summary() -> None:
    """Prose has a limited share of the summary, so that tokens are left for state and lines."""
    item = summary_in(planned(tokens=900))
    assert item
    assert question_for(item, reads(), count).tokens == int(item.tokens * PROSE_SHARE)
    small = msgspec.structs.replace(item, tokens=10)
    assert question_for(small, reads(), count).tokens == 64


def test_what_is_given_to_read_is_bounded() -> None:
    """However much is covered, a small model can read it."""
    item = summary_in(planned())
    assert item
    assert count(question_for(item, reads(60, 200), count).transcript) <= TRANSCRIPT_TOKENS


@pytest.mark.parametrize("tokens", [200, 900, 3_000])
def test_prose_takes_the_place_of_lines(tokens: int) -> None:
    """The summary is no larger than code's own, holds the prose, and says who wrote it."""
    fold = planned(tokens)
    item, written = summary_in(fold), summary_in(with_prose(fold, PROSE, "me", count=count, shown=()))
    assert item
    assert written
    assert PROSE in written.text
    assert written.tokens == count(written.text) <= item.tokens
    assert (written.prose, written.author, written.first, written.last) == (PROSE, "me", "a1", "b10")


def test_the_fold_adds_up_with_it() -> None:
    """Tokens after the fold are those with the prose; everything else of the fold stays."""
    fold = planned()
    done = with_prose(fold, PROSE, "me", count=count, shown=())
    item, written = summary_in(fold), summary_in(done)
    assert item
    assert written
    assert done.after == fold.after - item.tokens + written.tokens
    assert (done.items[:2], done.before, done.reason) == (fold.items[:2], fold.before, fold.reason)


def test_the_next_summary_knows_the_prose() -> None:
    """The prose is part of the state, so that a later answer can build upon it."""
    written = summary_in(with_prose(planned(), PROSE, "me", count=count, shown=()))
    assert written
    state = decode_summary(written.state)
    assert (state.prose, state.author, state.covered.entries) == (PROSE, "me", 20)
    assert question_for(written, reads(), count).previous == PROSE


def test_what_was_fetched_again_and_again_stays_beside_the_prose() -> None:
    """Somebody else's words are no reason to take away what the model asked for twice."""
    written = summary_in(with_prose(planned(), PROSE, "me", count=count, shown=(), fetched={"b3": "the answer is 7"}))
    assert written
    assert PROSE in written.text
    assert "[ref b3, fetched again and again]\nthe answer is 7" in written.text


def test_a_fold_without_a_summary_stays_as_it_is() -> None:
    """There is nowhere to put the prose."""
    fold = msgspec.structs.replace(planned(), items=planned().items[:1])
    assert with_prose(fold, PROSE, "me", count=count, shown=()) is fold
