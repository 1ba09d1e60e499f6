"""What stands behind a reference, in a few words, and the ids under which references are given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal import Image, Text, ToolCall, assistant, keep_stream, result, user
from foveal.recall import describe, given_id
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.values.entry import Message, Thinking
from foveal.values.errors import NotFound

IDS = st.text("abcdefghijklmnopqrstuvwxyz234567", min_size=26, max_size=26)


@pytest.fixture
def session():
    return Session(MemoryStore(), "s", model="gpt-5")


def told(session, ref):
    return describe(session._journal.store, "s", ref)


def test_a_result_is_told_by_its_call(session):
    """The newest call of that id before it, with its arguments, also among several."""
    for path in ("old.py", "new.py"):
        session.append(assistant("", ToolCall("c1", "read", f'{{"path": "{path}"}}'), ToolCall("c2", "list", "{}")))
        session.append(result("c2", "b"))
        entry = session.append(result("c1", "a"))
    assert told(session, entry.id) == "result of read {'path': 'new.py'}"
    assert told(session, session.append(result("zzz", "late")).id) == "result of a tool"


def test_every_part_has_words(session):
    """By who said it and how it begins, or by what it is."""
    entry = session.append(
        Message("assistant", (Thinking("hm"), Text("\n\nI will.\nNow."), ToolCall("c1", "run", "[]")), "m")
    )
    said = session.append(user("Look:", Image("image/png", b"\x89PNG")))
    large = session.append(result("c1", keep_stream(session._journal.store, [b"HEAD of it"])))
    assert [told(session, f"{entry.id}.{n}") for n in range(3)] == ["thinking", "assistant: I will.", "call of run ()"]
    assert [told(session, f"{said.id}.{n}") for n in range(2)] == ["user: Look:", "[image image/png]"]
    assert told(session, large.id) == "result of run ()"
    assert told(session, f"{entry.id}..{large.id}") == "a part of the conversation"


@pytest.mark.parametrize("ref", ["", "zzz", "a..b", "\ud800", "x\0", "x" * 5_000, "zzz.0", "..", "given:"])
def test_what_is_no_reference_is_told_of_as_such(session, ref):
    session.append(user("hello"))
    with pytest.raises(NotFound):
        told(session, ref)


@given(IDS, IDS, st.integers(0, 99))
def test_a_reference_has_one_id_however_it_is_written(first, last, part):
    """By the whole id or by the ten letters that prompts show; other entries, parts and ranges have other ids."""
    assert given_id(first) == given_id(first[:10]) == given_id(f"{first}.0")
    assert given_id(f"{first}.{part}") == given_id(f"{first[:10]}.{part}")
    assert given_id(f"{first}..{last}") == given_id(f"{first[:10]}..{last[:10]}")
    kinds = {given_id(first), given_id(f"{first}.{part + 1}"), given_id(f"{first}..{last}"), given_id(first[:9])}
    assert len(kinds) == 4
