"""The savings that are named after a replay, and its notes."""

import re

import msgspec
import pytest

from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.analysis.replay.replay import replay
from foveal.analysis.replay.report import HEAD, cells, note_lines, others, totals
from foveal.session.policy import BudgetTable, Policy
from foveal.values.entry import Message, Text, Thinking, ToolCall, assistant, result, system, user


def recording(*messages, name="made", model=None):
    return Recording(name, "test:1", model, "[]", tuple(RecordedStep(message) for message in messages))


def looked(call_id, path, text):
    return assistant("", ToolCall(call_id, "read", f'{{"path": "{path}"}}')), result(call_id, text)


def under(limit, *messages, **options):
    return replay(recording(*messages, **options), policy=Policy(budget=BudgetTable(limit=limit, reserve=0)))


@pytest.fixture
def folded():
    big = "\n".join(f"row {i} of the table" for i in range(900))
    small = [message for i in range(30) for message in looked(f"s{i}", f"small_{i}", f"value {i} " * 60)]
    return under(4_000, system("Be brief."), user("Go."), *looked("big", "big.csv", big), *small, assistant("Done."))


def test_the_largest_saving_is_named_as_a_person_would(folded):
    """What it was, where it came from, what became of it, what that was worth."""
    first = folded.savings[0]
    assert re.fullmatch(r"the [\d,]+-token output of `read: big\.csv` \(call 1\)", first.what)
    cut = re.match(r"cut to (\d+) tokens at call 2", first.how)
    assert cut
    assert "can be recalled" in first.why
    raw = int(first.what.split()[1].removesuffix("-token").replace(",", ""))
    assert first.calls == len(folded.calls) - 1
    assert (raw - int(cut[1])) * first.calls <= first.tokens < raw * first.calls


def test_the_savings_and_the_rest_are_the_difference(folded):
    """Nothing is counted twice: what is named and what is not named add up to what was not sent."""
    sums = totals([folded])
    named = sum(saving.tokens for saving in folded.savings)
    assert len(folded.savings) == 3
    assert named + others(folded, sums) == sums.raw_tokens - sums.sent_tokens


def test_without_a_fold_there_is_no_saving():
    done = under(8_000, user("Go."), assistant("Done."))
    assert done.savings == ()
    assert [call.raw for call in done.calls] == [call.sent for call in done.calls]


def test_what_nobody_could_send_is_no_saving():
    """Another model's thinking has no place in this dialect: it is in neither bill."""
    thought = Message("assistant", (Thinking("hm " * 500), Text("Yes.")), model="another")
    done = replay(recording(user("Go."), thought, user("And?"), assistant("No."), model="gpt-5"), dialect="openai_chat")
    assert done.calls[1].raw == done.calls[1].sent


def test_a_repeated_call_gives_way_to_the_newer_one():
    text = "\n".join(f"line {i}" for i in range(400))
    done = under(2_500, user("Go."), *looked("a", "f", text), *looked("b", "f", text), assistant("Done."))
    assert any("the same call made again" in saving.why for saving in done.savings)


def test_notes_that_differ_in_a_number_are_one():
    """A hundred sessions do not take a hundred lines to say one thing: a number that differs is the range of its values."""
    made = under(1_000, user("Go."))
    replays = [msgspec.structs.replace(made, notes=(f"{n:,} parts of gpt-5.1 left out", "same")) for n in (7, 1_234)]
    assert note_lines(replays) == ["2 sessions: 7–1,234 parts of gpt-5.1 left out", "2 sessions: same"]
    calls = [
        msgspec.structs.replace(made, notes=(f"in call {n}, {m:,} tokens more",)) for n, m in ((3, 90), (3, 1_500))
    ]
    assert note_lines(calls) == ["2 sessions: in call 3, 90–1,500 tokens more"]
    assert note_lines(replays[:1]) == ["7 parts of gpt-5.1 left out", "same"]


def test_a_raw_bill_of_fewer_calls_says_of_how_many():
    """A history that the model does not take is not billed: the cells say so, else raw would pass for the cheaper way."""
    done = under(1_000, *(one for n in range(4) for one in (user(f"Go {n}."), assistant("Done."))))
    first, *others = done.calls
    cut = msgspec.structs.replace(
        done, calls=(first, *(msgspec.structs.replace(call, is_sendable_whole=False) for call in others))
    )
    row = dict(zip(HEAD, cells("x", totals([cut])), strict=True))
    assert row["$ raw"].endswith(" (1 of 4 calls)")
    assert row["raw"].endswith(" (1 of 4 calls)")
    assert "calls" not in "".join(cells("x", totals([done])))
