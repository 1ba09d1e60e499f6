"""The user's words in a summary: said before pasted, in the order of a conversation."""

import pytest

from foveal.summary.compose import compose
from foveal.summary.ledger import EMPTY, Ledger, LedgerStep, render, update
from foveal.summary.ledger.items import Quote, Todo
from foveal.summary.ledger.quotations import render_quotes
from foveal.summary.state import Summary, extend, ledger_step
from foveal.text.shorten.message import is_pasted
from foveal.values.entry import user

PASTED = "Please sort these, only by name:\n" + "\n".join(
    f"Item {n}: only the value {n * n} is kept" for n in range(60)
)


def count(text: str) -> int:
    return len(text) // 4 + 1


def ledger(*texts: str) -> Ledger:
    return update(EMPTY, [LedgerStep(f"r{at}", user(text), at) for at, text in enumerate(texts)])


def said(found: Ledger, tokens: int, most: int = 0) -> str:
    return render_quotes(found.quotes, tokens, count, most=max(most, tokens))


def test_everything_that_was_said_is_kept_whatever_was_pasted_between() -> None:
    """Four hundred short messages between as many long ones are all there, without a word that sounds like a rule in them."""
    texts = [text for n in range(400) for text in (f"Cat number {n} is grey.", f"{PASTED}\n{n}")]
    shown = said(ledger(*texts), 300, 10_000)
    assert all(f"“Cat number {n} is grey.”" in shown for n in range(400))
    assert "Item 7" not in shown


def test_pasted_bulk_gives_way_to_sentences_and_these_to_short_messages() -> None:
    """Where not all of it fits, in this order, however old each is."""
    essay = "I think that the garden needs more light in the morning. " * 8
    found = ledger("My cat is grey.", essay, *(f"{PASTED}\n{n}" for n in range(8)))
    shown = [said(found, tokens) for tokens in (0, 40, 150, 500)]
    assert ["grey" in text for text in shown] == [False, True, True, True]
    assert ["garden" in text for text in shown] == [False, False, True, True]
    assert ["Item" in text for text in shown] == [False, False, False, True]


@pytest.mark.parametrize(
    ("text", "pasted"),
    [
        (PASTED, True),
        ("```\nx = 1\n```\n" * 9, True),
        ("Why is it slow? " * 20 + "\n\n" + "It was fast before. " * 20, False),
        ("我觉得这个花园早上需要更多的阳光，因为花都不开了。" * 12, False),
        ("", False),
    ],
)
def test_bulk_is_told_by_its_form(text: str, pasted: bool) -> None:
    """Lists, logs and code are pasted; paragraphs of any script are somebody's own."""
    assert is_pasted(text) is pasted


def test_a_conversation_is_shown_in_its_order() -> None:
    """What was said again stands in both places: it may undo what was said between."""
    shown = said(ledger(*(f"Step {n}." for n in range(12)), "Stop.", "Step 3.", "Go."), 2_000)
    lines = shown.splitlines()
    assert lines[0] == "## User said, oldest first"
    assert lines[4] == "- “Step 3.” (again below)"
    assert lines[-3:] == ["- “Stop.” [r12]", "- “Step 3.” [r13]", "- “Go.” [r14]"]


def test_what_is_said_again_and_again_is_counted() -> None:
    """It does not take the place of everything else."""
    shown = said(ledger(*(f"Step {n}." for n in range(12)), *["Go on."] * 30), 2_000)
    assert shown.count("“Go on.”") == 4
    assert shown.endswith("- “Go on.” [r41] ×30")


def test_the_newest_of_too_many_short_messages_are_shown() -> None:
    """And their number is told; cues of a language that is known buy some age and no more."""
    found = ledger("Always be brief.", *(f"Cat number {n} is grey." for n in range(300)))
    shown = said(found, 300)
    assert "number 299" in shown
    assert "number 9 " not in shown
    assert "Always" not in shown
    assert f"… and {301 - shown.count('“')} more messages" in shown
    assert count(shown) <= 300


def test_other_facts_keep_their_room_beside_many_words() -> None:
    """A long talk takes more than its share, and not that of the todos."""
    quotes = tuple(Quote(text=f"Cat number {n} is grey.", seq=n, ref=f"r{n}") for n in range(100))
    found = Ledger(quotes=quotes, todos=(Todo("feed the cats"),))
    assert "feed the cats" in render(found, 100, count, said=5_000)
    assert "number 0 " in render(found, 100, count, said=5_000)
    assert count(render(found, 100, count)) <= 100


@pytest.mark.parametrize("tokens", [300, 1_000, 4_000])
def test_a_summary_of_much_talk_keeps_to_its_tokens(tokens: int) -> None:
    """However much was said, and more of it is shown in more tokens."""
    steps = [
        ledger_step(f"r{n}", user(f"猫 number {n} is grey, and it lives at house {n * 7}."), n) for n in range(900)
    ]
    text = compose(extend(Summary(), steps, Summary().covered), tokens=tokens, count=count)
    assert count(text) <= tokens
    assert text.count("“猫") >= tokens * 0.5 / count("- “猫 number 100 is grey, and it lives at house 700.” [r100]")
