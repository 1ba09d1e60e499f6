"""The transcript owns its atoms: which of them changed since a version, copies, and ids on the wire."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.project import transcript as transcripts
from foveal.project.measure import Measure
from foveal.project.projection import Projection
from foveal.project.transcript import Transcript
from foveal.values.entry import Entry, Message, PartFold, RangeFold, ToolCall, assistant, result, user

PLAIN = Projection("test", Measure(lambda text: len(text.split()), lambda _image: 1_600), omit=lambda _part, _model: "")


def transcript_of(*messages: Message) -> Transcript:
    """A transcript whose entries are called e1, e2, …"""
    transcript = Transcript(PLAIN)
    for seq, message in enumerate(messages, 1):
        take(transcript, seq, message)
    return transcript


def take(transcript: Transcript, seq: int, message: Message) -> None:
    transcript.take(seq, Entry(f"e{seq}", None, 0, "agent", message), message)


def test_a_new_atom_changes_none_before_it() -> None:
    """A renderer that has rendered all atoms may keep them when only new ones follow."""
    transcript = transcript_of(user("one"), assistant("two"))
    version = transcript.version
    take(transcript, 3, user("three"))
    assert transcript.changed_since(version) == 3 == len(transcript.atoms)


def test_a_result_changes_the_atom_of_its_call() -> None:
    """The call's atom now holds the result in place of a placeholder."""
    transcript = transcript_of(user("one"), assistant("", ToolCall("c1", "read", "{}")))
    version = transcript.version
    take(transcript, 3, result("c1", "x = 1"))
    assert transcript.changed_since(version) == 1
    assert transcript.changed_since(transcript.version) == 2


@given(st.lists(st.integers(0, 5), max_size=12), st.integers(0, 12))
def test_the_first_change_is_the_least_place_since_a_version(places: list[int], since: int) -> None:
    """Only as many changes are remembered as there are atoms, and the answer is that of a full record."""
    transcript = transcript_of(*(user(f"word {'x ' * 40}{n}") for n in range(6)))
    start, since = transcript.version, min(since, len(places))
    for place in places:
        transcript.apply((PartFold(f"e{place + 1}", 0, "trimmed", "short", 1, "test", "test"),))
    assert transcript.changed_since(start + since) == min(places[since:], default=6)
    assert len(transcript._changes) <= 6


def test_a_copy_is_folded_alone() -> None:
    """`fit` tries folds on a copy; the original keeps its atoms, its size and its version."""
    transcript = transcript_of(user("one"), assistant("two " * 30), user("three"))
    atoms, size, version = list(transcript.atoms), transcript.size, transcript.version
    twin = transcript.copy()
    assert twin.apply((RangeFold("e2", "e2", "covered", "[gap]", 1, "test", "test"),))
    assert (transcript.atoms, transcript.size, transcript.version) == (atoms, size, version)
    assert twin.size.tokens < size.tokens
    assert twin.changed_since(version) == 1


def test_ids_that_a_provider_would_refuse_are_replaced() -> None:
    """A reused or ill-formed id is replaced by one that follows from the entry, the same in every process."""
    calls = [assistant("", ToolCall(call_id, "read", "{}")) for call_id in ("c1", "c1", "not an id")]
    transcript = transcript_of(
        calls[0], result("c1", "x"), user("on"), calls[1], result("c1", "y"), user("on"), calls[2]
    )
    first, second, third = (atom.wire_ids[0] for atom in transcript.atoms if atom.kind == "tools")
    assert first == "c1"
    assert second.startswith("call_")
    assert third.startswith("call_")
    assert transcript.atoms[2].answers[0] is not None, "the result found its call by the recorded id"


def test_many_results_of_one_reply_cost_as_much_each_as_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls of a reply are listed once, however many results come for it."""
    listed: list[object] = []
    real = transcripts.calls_of
    monkeypatch.setattr(transcripts, "calls_of", lambda atom: listed.append(atom) or real(atom))
    calls = [ToolCall(f"c{i}", "read", "{}") for i in range(50)]
    results = [result(call.id, "x = 1") for call in calls]
    transcript = transcript_of(user("one"), assistant("", *calls), *results)
    assert None not in transcript.atoms[1].answers
    assert len(listed) == 1


def test_a_reply_that_is_continued_has_the_calls_of_both_halves() -> None:
    """Recorders split replies; results come in any order."""
    transcript = transcript_of(
        user("one"),
        assistant("", ToolCall("c1", "read", "{}")),
        assistant("", ToolCall("c2", "read", "{}")),
        result("c2", "x = 2"),
        result("c1", "x = 1"),
    )
    assert len(transcript.atoms) == 2
    assert None not in transcript.atoms[1].answers
