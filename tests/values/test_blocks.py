"""Marks of what stands beside the conversation: small, and enough to build it again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.values.blocks import LOST, context_after, context_mark
from foveal.values.codec import decode, encode
from foveal.values.entry import Again, Block, PromptContext, ReminderLine


def block(name: str, text: str = "") -> Block:
    return Block(name, "fence", "user", "tail", text or name, 3)


A, B, C, D = map(block, "ABCD")


def after(*prompts: tuple[Block, ...]) -> tuple[list[PromptContext], PromptContext | None]:
    """The marks of these prompts, each as the log gives it back, and what stands after the last."""
    marks, now = list[PromptContext](), None
    for number, blocks in enumerate(prompts):
        mark = decode(encode(context_mark(now, blocks)))
        assert isinstance(mark, PromptContext)
        marks.append(mark)
        now = context_after(now, mark, f"e{number}")
    return marks, now


@pytest.mark.parametrize(
    ("prompt", "new", "again"),
    [
        ((A, B, D), (D,), (Again(0, 0, 2),)),
        ((D, A, B, C), (D,), (Again(1, 0, 3),)),
        ((A, D, C), (D,), (Again(0, 0, 1), Again(2, 2, 1))),
        ((B, C), (), (Again(0, 1, 2),)),
        ((C, A), (), (Again(0, 2, 1), Again(1, 0, 1))),
        ((D,), (D,), ()),
        ((), (), ()),
    ],
)
def test_a_mark_holds_what_is_new(prompt, new, again):
    """What stood there before is told by its place, what stood in a row as one."""
    marks, now = after((A, B, C), prompt)
    assert (marks[1].blocks, marks[1].again) == (new, again)
    assert (now.blocks if now else ()) == prompt


def test_what_is_the_same_needs_no_mark():
    """It is the very value that stands there."""
    _, now = after((A, B))
    assert context_mark(now, (A, block("B"))) is now


def test_a_mark_is_small():
    """Instructions of ten kilobytes are written once, however often a clock beside them changes."""
    rules = block("rules", "Be exact. " * 1_000)
    marks, _ = after(*((rules, A, block("clock", f"12:{n:02}")) for n in range(60)))
    assert len(encode(marks[0])) > 10_000
    assert all(len(encode(mark)) < 150 for mark in marks[1:])


BLOCKS = st.lists(st.sampled_from([A, B, C, D, block("A", "other"), block("E", "\ud800 \0")]), max_size=6).map(tuple)


@given(st.lists(BLOCKS, max_size=8))
def test_any_prompts_stand_again_as_they_were(prompts):
    """Whatever comes, goes, moves or is there twice."""
    now = None
    for number, blocks in enumerate(prompts):
        now = context_after(now, context_mark(now, blocks), f"e{number}")
        assert (now.blocks if now else ()) == blocks


def test_what_was_lost_is_seen():
    """Where the mark that a later one speaks of is not in the log, its blocks are not guessed."""
    marks, _ = after((A, B), (A, B, C), (A, B, D))
    without = context_after(context_after(None, marks[0], "e0"), marks[2], "e2")
    assert without is not None
    assert without.blocks == (LOST, D)
    whole = context_after(without, context_mark(without, (A, B, D)), "e3")
    assert whole is not None
    assert whole.blocks == (A, B, D)


NUMBERS = st.integers(-3, 9) | st.sampled_from([-(2**63), 2**63 - 1])


@given(BLOCKS, BLOCKS, st.lists(st.builds(Again, NUMBERS, NUMBERS, NUMBERS)).map(tuple))
def test_no_mark_stops_a_log_from_being_read(before, new, again):
    """Places that are no places give what is there, or say that it is lost; what is new is all there."""
    now = context_after(context_after(None, PromptContext(before), "a"), PromptContext(new, again, "a"), "b")
    shown = now.blocks if now else ()
    assert len(shown) <= len(new) + len(again) * max(1, len(before))
    assert all(shown.count(one) >= new.count(one) for one in new)


def test_reminders_go_through_the_log():
    """Their lines are kept with the block that holds them."""
    said = Block(
        "reminders",
        "reminder",
        "user",
        "tail",
        "…",
        9,
        said=(ReminderLine("clock", 5, "tail"), ReminderLine("todo", 4)),
    )
    assert decode(encode(PromptContext((said,)))) == PromptContext((said,))
