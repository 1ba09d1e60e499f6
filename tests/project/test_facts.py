"""`after`: the facts of a branch after one more entry, by literals."""

import json
from typing import Any

import msgspec
import pytest

from foveal.project.facts import Effect, Facts, LatestSummary, after
from foveal.values.entry import (
    ATTACHED,
    Block,
    Body,
    Entry,
    Fence,
    Fold,
    LimitForgotten,
    Message,
    Note,
    Overflow,
    PromptContext,
    RangeFold,
    ReminderLine,
    Setup,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    result,
    user,
)
from foveal.values.own_tools import CHECKPOINT

KNOWN = Facts(
    seq=4, head="e4", first="e1", calls=2, called_ms=900, turns=1, first_user="e1", last_user="e1", raw_tokens=50
)
"""A branch of four entries: a request and two replies so far."""


def entry(body: Body, author: str = "agent") -> Entry:
    return Entry("e5", "e4", 1_000, author, body)


def changed(body: Body, effect: Effect = Effect(), *, facts: Facts = KNOWN, author: str = "agent") -> dict[str, Any]:  # noqa: B008 - a frozen value
    """The facts that an entry changes, besides its position and id."""
    found = after(facts, 5, entry(body, author), effect)
    assert (found.seq, found.head, found.first) == (5, "e5", "e1")
    names = [name for name in Facts.__struct_fields__ if name not in ("seq", "head", "first")]
    return {name: getattr(found, name) for name in names if getattr(found, name) != getattr(facts, name)}


def test_the_first_entry_begins_the_branch() -> None:
    """From nothing, one request gives these facts and no others."""
    asked = Entry("e1", None, 1_000, "agent", user("Go."))
    assert after(Facts(), 1, asked, Effect(raw_tokens=5, is_request=True)) == Facts(
        seq=1, head="e1", first="e1", turns=1, first_user="e1", last_user="e1", raw_tokens=5
    )


def test_a_note_changes_nothing_but_the_head() -> None:
    """A mark that prompts do not depend on only moves the branch on."""
    assert changed(Note("for people")) == {}


def test_a_request_is_the_latest_one_from_here_on() -> None:
    """A new turn begins with it; the first request stays the first."""
    assert changed(user("And now?"), Effect(is_request=True)) == {"turns": 2, "last_user": "e5"}


def test_a_file_or_a_harness_asks_for_nothing() -> None:
    """Attached content and text of a harness come in the user's role, and are no requests."""
    assert changed(user("notes.txt"), Effect(raw_tokens=3, is_request=True), author=ATTACHED) == {"raw_tokens": 53}
    assert changed(user("<system-reminder>…"), Effect(is_request=False)) == {}


def test_a_reply_is_a_call_and_ends_what_was_meant_for_it() -> None:
    """Refusals are over, and the fold that was made for this call is no longer the next call's."""
    waiting = msgspec.structs.replace(KNOWN, overflows=2, decided=Fold((), "too large", 9, 5, 5))
    assert changed(assistant("Done."), facts=waiting) == {
        "calls": 3,
        "called_ms": 1_000,
        "overflows": 0,
        "decided": None,
    }


def test_reminders_count_as_delivered_when_the_model_answers() -> None:
    """Each rule of the newest prompt is noted with the number of that call; what a host says once is not."""
    lines = (ReminderLine("clock", 5), ReminderLine("once:host", 5))
    context = PromptContext((Block("reminders", "reminder", "user", "tail", "…", 10, said=lines),))
    told = msgspec.structs.replace(KNOWN, context=context, reminded={"todos": 1})
    assert changed(assistant("Done."), facts=told)["reminded"] == {"todos": 1, "clock": 3}


def test_recalls_are_counted_until_the_next_fold() -> None:
    """A result that is fetched again and again is worth showing again."""
    often = msgspec.structs.replace(KNOWN, recalled={"e2": 1})
    call = ToolCall("c1", "recall_context", '{"ref": "e2"}')
    assert changed(assistant("", call), facts=often)["recalled"] == {"e2": 2}
    assert "recalled" not in changed(Message("assistant", (call,), stop="aborted"), facts=often)
    assert changed(Fold((), "too large", 9, 5, 5), facts=often)["recalled"] == {}


@pytest.mark.parametrize(
    ("tools", "arguments", "status", "kept"),
    [
        ([CHECKPOINT], '{"summary": "Read.", "next": "Mend."}', "ok", "## Summary\nRead.\n## Next\nMend."),
        ([CHECKPOINT], '{"summary": "Read.", "next": "Mend."}', "error", None),
        ([CHECKPOINT], '{"summary": 3}', "ok", None),
        ([], '{"summary": "Read.", "next": "Mend."}', "ok", None),
    ],
    ids=["kept", "refused", "malformed", "not offered"],
)
def test_a_checkpoint_counts_once_it_is_answered(
    tools: list[Any], arguments: str, status: Any, kept: str | None
) -> None:
    """The host may refuse it, the model may invent it: then there is none."""
    setup = Setup("gpt-5", "openai_chat", "o200k", "{}", json.dumps(tools), 0, 9)
    call, answer = ToolCall("k", "checkpoint_context", arguments), ToolResult("k", (Text("noted"),), status)
    facts = msgspec.structs.replace(KNOWN, setup=setup)
    assert changed(result("k", "noted"), Effect(answered=((call, answer),)), facts=facts).get("checkpoint") == kept


def test_a_fold_is_counted_and_its_summary_is_the_latest() -> None:
    """The state of the new summary replaces the one before; its growth is measured from here."""
    before = msgspec.structs.replace(KNOWN, summary=LatestSummary("old", "prose", "model", since=((1, 2),)))
    summary = RangeFold("e1", "e3", "summary", "…", 9, "summarise", "old", "new prose", "agent", state="new")
    fold = Fold((summary,), "too large", 90, 40, 30)
    assert changed(fold, Effect(is_reduced=True, covered=(3,)), facts=before) == {
        "folds": 1,
        "fold_seq": 5,
        "fold_calls": 2,
        "fold_tokens": 40,
        "is_folded": True,
        "is_reduced": True,
        "decided": Fold((), "too large", 90, 40, 30),
        "summary": LatestSummary("new", "new prose", "agent", since=((1, 2), (3,)), read=2),
    }


def test_a_fold_that_keeps_its_state_is_the_base_of_the_next_ones() -> None:
    """The messages that were covered before it need not be known any more, whether the state was fetched or not."""
    before = msgspec.structs.replace(KNOWN, summary=LatestSummary("old", "prose", "model", since=((1, 2),)))
    for state in ("new", ""):
        summary = RangeFold("e1", "e3", "summary", "…", 9, "summarise", "old", "prose", "agent", state=state)
        fold = Fold((summary,), "too large", 90, 40, 30, keeps_state=True)
        assert after(before, 5, entry(fold), Effect(covered=(3,))).summary == LatestSummary(state, "prose", "agent", 5)


def test_the_trail_leads_to_any_fold_in_few_steps() -> None:
    """At each place the newest fold whose number a higher power of two divides."""
    facts, fold = Facts(), Fold((), "too large", 90, 40, 30, layout=b"packed")
    for seq in range(1, 13):
        facts = after(facts, seq, entry(fold))
    assert facts.trail == ((12, 0), (12, 0), (12, 0), (8, 0))
    assert after(facts, 13, entry(fold)).trail == ((13, 0), (12, 0), (12, 0), (8, 0))


def test_a_summary_without_state_leaves_messages_unread() -> None:
    """Read from a log, a fold has no state: the next summary must read again what this one covers."""
    covered = RangeFold("e1", "e3", "summary", "…", 9, "summarise", "old", "prose", "agent")
    first = after(KNOWN, 5, entry(Fold((covered,), "too large", 90, 40, 30)), Effect(covered=(1, 2, 3)))
    second = after(first, 6, entry(Fold((covered,), "too large", 90, 40, 30)), Effect(covered=(5,)))
    assert second.summary == LatestSummary("", "prose", "agent", since=((1, 2, 3), (5,)))


def test_marks_that_hold_are_facts() -> None:
    """Usage, overflows, setups and fences change exactly their own facts."""
    assert changed(Usage("m", 120, 8, estimated=100)) == {"usage": ((100, 120),)}
    assert changed(Usage("m", 120, 8)) == {}
    learned = Overflow("m", 9_000, "refused")
    assert changed(learned) == {"ceilings": {"m": learned}, "overflows": 1}
    known = msgspec.structs.replace(KNOWN, ceilings={"m": learned})
    assert "ceilings" not in changed(Overflow("m", 9_500, "refused again"), facts=known)
    assert changed(Usage("m", 9_001, 8), facts=known) == changed(LimitForgotten("m"), facts=known) == {"ceilings": {}}
    assert changed(Usage("m", 9_000, 8), facts=known) == {}
    setup = Setup("m", "openai_chat", "words", "{}", "[]", 0, 9_000)
    assert changed(setup) == {"setup": setup, "setup_seq": 5}


def test_the_newest_fence_of_a_key_replaces_the_one_before() -> None:
    """Fences without a key are kept beside each other."""
    old, new, other = Fence("rules", "a", 1, 1, key="x"), Fence("rules", "b", 2, 1, key="x"), Fence("rules", "c", 2, 1)
    kept = msgspec.structs.replace(KNOWN, fences=(old, other))
    assert changed(new, facts=kept) == {"fences": (other, new)}
