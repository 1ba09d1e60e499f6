"""The verb *project*, in ten examples: entries in, atoms and facts out.

Tokens are words here, so that sizes can be checked by eye; a message takes four more for its framing.
"""

from foveal.project.measure import Measure
from foveal.project.projection import Arrival, Projection
from foveal.project.snapshot import ViewSnapshot
from foveal.project.view import View
from foveal.text.repair import settle
from foveal.values.entry import (
    Body,
    Entry,
    Fold,
    Message,
    PartFold,
    Pin,
    RangeFold,
    Rewind,
    Text,
    Thinking,
    ToolCall,
    assistant,
    result,
    system,
    user,
)
from foveal.values.pins import Pins

PLAIN = Projection("test", Measure(lambda text: len(text.split()), lambda _image: 1_600), omit=lambda _part, _model: "")


def entries(*bodies: Body) -> list[tuple[int, Entry]]:
    """A branch whose entries are called e1, e2, …"""
    return [
        (n, Entry(f"e{n}", f"e{n - 1}" if n > 1 else None, 1_000 * n, "agent", body))
        for n, body in enumerate(bodies, 1)
    ]


def view_of(*bodies: Body, projection: Projection = PLAIN) -> View:
    view = View(projection)
    for seq, entry in entries(*bodies):
        view.feed(seq, entry)
    return view


def shown(view: View) -> list[str]:
    """The text of every atom; of a gap, its stand-in."""
    return [
        atom.gap.text if atom.gap else " | ".join(_text(s.part) for item in atom.items for s in item.shown)
        for atom in view.atoms
    ]


def _text(part: object) -> str:
    match part:
        case Text(text) | Thinking(text):
            return text
        case ToolCall(_, name):
            return f"{name}()"
        case None:
            return "-"
        case _:
            return " ".join(item.text for item in getattr(part, "content", ()))


def test_a_message_is_an_atom() -> None:
    """Each message is one atom, and the view knows its place and the size of all."""
    view = view_of(system("Be brief."), user("Read the parts."), assistant("I will."))
    assert [atom.kind for atom in view.atoms] == ["system", "user", "assistant"]
    assert shown(view) == ["Be brief.", "Read the parts.", "I will."]
    assert view.place("e2") == 1
    assert view.size.tokens == sum(atom.size.tokens for atom in view.atoms) == (2 + 4) + (3 + 4) + (2 + 4)


def test_a_call_and_its_results_are_one_atom() -> None:
    """No fold can separate a call from its result, because an atom is folded as a whole."""
    reply = assistant("", ToolCall("c1", "read", "{}"), ToolCall("c2", "list", "{}"))
    view = view_of(user("Go."), reply, result("c2", "a.py"), result("c1", "x = 1"))
    assert [atom.kind for atom in view.atoms] == ["user", "tools"]
    assert shown(view)[1] == "read() | list() | a.py | x = 1"
    assert view.place("e2") == view.place("e3") == view.place("e4") == 1


def test_a_late_result_becomes_a_note() -> None:
    """A result for no open call is shown as a note of its own, and the item says why."""
    call = assistant("", ToolCall("c1", "read", "{}"))
    view = view_of(user("Go."), call, user("Never mind."), assistant("Fine."), result("c1", "x"))
    assert [atom.kind for atom in view.atoms] == ["user", "tools", "user", "assistant", "user"]
    assert view.atoms[4].items[0].repair == "no open call has this id; shown as a note"


def test_a_reply_that_failed_is_hidden() -> None:
    """The log keeps a broken reply; the prompt shows nothing of it."""
    view = view_of(user("Go."), Message("assistant", (Text("I was about to"),), stop="error"))
    assert shown(view) == ["Go.", "-"]
    assert view.atoms[1].items[0].shown[0].because == "the reply ended with error"


def test_an_aborted_reply_keeps_its_text_and_loses_its_calls() -> None:
    """The user has seen the text; a call that was cut off was not made, and a result of it is hidden with it."""
    cut = (Text("I was about to"), ToolCall("c1", "read", '{"pa'))
    view = view_of(user("Go."), Message("assistant", cut, stop="aborted"), result("c1", "x"), user("Go on."))
    assert [atom.kind for atom in view.atoms] == ["user", "assistant", "user"]
    reply, late = view.atoms[1].items
    assert [one.part for one in reply.shown] == [Text("I was about to"), None]
    assert reply.repair == "the reply ended with aborted"
    assert late.shown[0].because == "the reply that asked for it ended early"
    assert settle(view.atoms[1]) == (assistant("I was about to"),)


def test_an_aborted_reply_without_text_is_hidden() -> None:
    """Nothing of it was seen."""
    view = view_of(user("Go."), Message("assistant", (ToolCall("c1", "read", "{"),), stop="aborted"), result("c1", "x"))
    assert [atom.kind for atom in view.atoms] == ["user", "hidden"]
    assert view.size == view_of(user("Go.")).size


def test_retention_shows_a_result_smaller_on_arrival() -> None:
    """A projection may show a result by a stand-in before its first prompt; that is no fold."""
    short = Projection(
        "test", PLAIN.measure, PLAIN.omit, on_arrival=lambda _result, _call, ref: Arrival(f"[ref {ref}]", "reference")
    )
    view = view_of(
        user("Go."), assistant("", ToolCall("c1", "read", "{}")), result("c1", "word " * 99), projection=short
    )
    assert shown(view)[1] == "read() | [ref e3]"
    assert view.facts.is_reduced
    assert view.facts.folds == 0


def test_a_fold_shows_a_part_by_its_stand_in() -> None:
    """Only the shown part changes, and the transcript names the first place that did."""
    view = view_of(user("Go."), assistant("", ToolCall("c1", "read", "{}")), result("c1", "word " * 99))
    before, version = view.size, view.transcript.version
    fold = Fold((PartFold("e3", 0, "reference", "[99 words]", 2, "clear", "old"),), "too large", 0, 0, 0)
    view.feed(4, Entry("e4", "e3", 0, "agent", fold))
    assert shown(view) == ["Go.", "read() | [99 words]"]
    assert view.size.tokens == before.tokens - 97
    assert view.transcript.changed_since(version) == 1


def test_a_fold_covers_a_range() -> None:
    """The atoms of a range become one gap, which counts the entries that it covers."""
    fold = Fold((RangeFold("e2", "e4", "covered", "[3 messages]", 2, "history", "old"),), "too large", 0, 0, 0)
    view = view_of(user("one"), assistant("two"), user("three"), assistant("four"), user("five"), fold)
    assert shown(view) == ["one", "[3 messages]", "five"]
    assert view.atoms[1].gap
    assert view.atoms[1].gap.entries == 3
    assert view.place("e2") == view.place("e4") == 1


def test_a_pinned_entry_outlives_the_fold_of_its_range() -> None:
    """The range is folded around the pin; one stand-in speaks for both sides."""
    pinned = Projection("test", PLAIN.measure, PLAIN.omit, Pins(frozenset({"e3"})))
    fold = Fold((RangeFold("e2", "e4", "covered", "[2 messages]", 2, "history", "old"),), "too large", 0, 0, 0)
    view = view_of(user("one"), assistant("two"), user("keep me"), assistant("four"), fold, projection=pinned)
    assert shown(view) == ["one", "[2 messages]", "keep me", ""]


def test_a_pin_or_a_rewind_makes_the_view_stale() -> None:
    """`feed` says so, and its caller builds a new view: the old one was projected without them."""
    view = view_of(user("one"), assistant("two"))
    assert not view.feed(3, Entry("e3", "e2", 0, "agent", user("three")))
    assert view.feed(4, Entry("e4", "e3", 0, "agent", Pin("e1")))
    assert view.feed(5, Entry("e5", "e1", 0, "agent", Rewind()))


def test_a_snapshot_resumes_as_the_same_view() -> None:
    """Facts and atoms survive; parts that are shown in full are read from the log again."""
    fold = Fold((RangeFold("e2", "e2", "covered", "…", 1, "history", "old"),), "too large", 0, 0, 0)
    bodies = (user("one"), assistant("two " * 20), user("three"), fold, assistant("", ToolCall("c1", "read", "{}")))
    payload = ViewSnapshot.of(view := view_of(*bodies)).encode()
    assert payload
    assert b"three" not in payload
    found = ViewSnapshot.decode(payload)
    again = found and found.restore(PLAIN, lambda seqs: {seq: dict(entries(*bodies))[seq] for seq in seqs})
    assert again
    for one in (view, again):
        one.feed(6, Entry("e6", "e5", 0, "agent", result("c1", "x = 1")))
    assert (again.facts, again.atoms, again.size) == (view.facts, view.atoms, view.size)


def test_a_snapshot_of_another_projection_is_ignored() -> None:
    """A snapshot is a cache: with another key, other pins or another encoding, the log is read instead."""
    payload = ViewSnapshot.of(view_of(user("one"))).encode()
    assert payload
    found = ViewSnapshot.decode(payload)
    assert found
    assert found.restore(Projection("other", PLAIN.measure, PLAIN.omit), lambda _seqs: {}) is None
    assert found.restore(Projection("test", PLAIN.measure, PLAIN.omit, Pins(frozenset({"e1"}))), lambda _: {}) is None
    assert ViewSnapshot.decode(b"no snapshot at all") is None
