"""Fetching: every byte comes back, in bounded pieces, and nothing of another session."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foveal
from foveal.recall import MOST_CHARACTERS, Fetch, Fetched, fetch, read
from foveal.stores import rows as log
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store
from foveal.testing.builders import Asks, Move, Player, open_session
from foveal.testing.strategies import histories
from foveal.values.entry import Message, Text, ToolCall, ToolResult
from foveal.values.errors import BadInput, NotFound, StoreCorrupt
from foveal.values.shown import range_ref, short_ref

HOSTILE = "a\r\nb\rc\x0bd\x0ce\x85f\u2028g\n\0\ud800\n\n" + "汉😀e\u0301" * 40 + "\n\udfff end"
HUGE = "".join(f"{n}: {HOSTILE[n % 20 : n % 20 + 30]}\r\n" for n in range(8_000))


def followed(store: Store, session: str, wanted: Fetch | None, most: int = MOST_CHARACTERS) -> str:
    """All windows in a row."""
    texts: list[str] = []
    while wanted:
        got = fetch(store, session, wanted, most=most)
        assert len(got.text) <= most
        assert got.more is (got.next is not None)
        texts.append(got.text)
        wanted = got.next
    return "".join(texts)


def original(part: object) -> str:
    """What was appended, by the plainest reading of a part."""
    match part:
        case ToolCall(_, name, arguments):
            return f"{name}({arguments})"
        case ToolResult(_, content) if all(isinstance(item, Text) for item in content):
            return "\n".join(item.text for item in content if isinstance(item, Text))
        case _:
            return getattr(part, "text", "")


@settings(max_examples=25, deadline=None)
@given(histories(size=6), st.integers(1, 300), st.integers(40, 30_000))
def test_every_part_of_any_history_comes_back(moves: list[Move], limit: int, most: int) -> None:
    """For every part of every entry, on every branch: windows in lines and in characters give the original again."""
    player = Player(MemoryStore()).play(move for move in moves if not isinstance(move, Asks))
    for row in player.store.rows(player.name):
        body = log.to_entry(row, player.name).body
        for number, part in enumerate(body.parts if isinstance(body, Message) else ()):
            ref = short_ref(row.id, number)
            whole = read(player.store, player.name, ref)
            assert original(part) in whole
            step = max(limit, len(whole) // 50)  # a long text in steps of one character takes long
            assert followed(player.store, player.name, Fetch(ref, limit=step), max(most, step)) == whole
            assert (
                followed(player.store, player.name, Fetch(ref, limit=step, unit="characters"), max(most, step)) == whole
            )


@pytest.mark.parametrize("unit", ["lines", "characters"])
def test_hostile_text_comes_back_from_log_and_artifact(store: Store, unit: Any) -> None:
    """Surrogates, NULs and line breaks of all kinds, small in the log and large in an artifact, are as they were."""
    with open_session(store) as session:
        session.append(foveal.assistant("", ToolCall("a", "run", "{}"), ToolCall("b", "run", "{}")))
        small = session.append(foveal.result("a", HOSTILE, "second item\n"))
        large = session.append(foveal.result("b", "head\n", HUGE, "tail"))
    assert followed(store, "test", Fetch(small.id, limit=3, unit=unit)) == f"{HOSTILE}\nsecond item\n"
    assert followed(store, "test", Fetch(large.id, limit=9_999, unit=unit)) == f"head\n\n{HUGE}\ntail"
    ref = range_ref(small.id, large.id)
    assert followed(store, "test", Fetch(ref, limit=20_000, unit=unit)) == read(store, "test", ref)


def test_a_window_says_where_it_stands(store: Store) -> None:
    """Numbers count from 1, the total is of the whole, and the next fetch goes on."""
    with open_session(store) as session:
        entry = session.append(foveal.user("one\ntwo\nthree\nfour"))
    ref = entry.id[:10]
    got = fetch(store, "test", Fetch(ref, offset=1, limit=2))
    assert got == Fetched("two\nthree\n", "lines", 4, 2, 3, Fetch(ref, offset=3, limit=2))
    assert got.next is not None
    assert fetch(store, "test", got.next) == Fetched("four", "lines", 4, 4, 4, None)
    assert fetch(store, "test", Fetch(ref, 4, 3, "characters")).text == "two"


def test_nothing_is_a_text_as_well(store: Store) -> None:
    """An empty part has no lines, and asking for it is no mistake."""
    with open_session(store) as session:
        entry = session.append(foveal.user(""))
    assert fetch(store, "test", Fetch(entry.id)) == Fetched("", "lines", 0, 1, 0, None)
    assert fetch(store, "test", Fetch(entry.id, pattern="x")) == Fetched("", "lines", 0, 1, 0, None, 0)


def test_one_fetch_is_bounded_whatever_is_asked_for(store: Store) -> None:
    """Whole lines where they fit; a line that does not is cut, and what follows is in characters."""
    with open_session(store) as session:
        many = session.append(foveal.user("0123456789\n" * 9_000))
        one = session.append(foveal.user("x" * 50_000 + "\nend"))
    got = fetch(store, "test", Fetch(many.id, limit=10**9))
    assert len(got.text) <= MOST_CHARACTERS
    assert got.text.endswith("\n")
    assert got.next == Fetch(many.id, offset=got.last, limit=10**9)
    cut = fetch(store, "test", Fetch(one.id))
    assert (cut.text, cut.first, cut.last, cut.total) == ("x" * MOST_CHARACTERS, 1, 1, 2)
    assert cut.next == Fetch(one.id, MOST_CHARACTERS, MOST_CHARACTERS, "characters")
    assert len(fetch(store, "test", Fetch(many.id, pattern="5", limit=10**9)).text) <= MOST_CHARACTERS


def test_a_pattern_gives_numbered_lines(store: Store) -> None:
    """As `grep -n` shows them, with the number of all matches and a way to the next ones."""
    with open_session(store) as session:
        entry = session.append(foveal.user("\n".join(f"line {n}" for n in range(1, 101))))
    got = fetch(store, "test", Fetch(entry.id, pattern=r" \d?7$", context=1, limit=5))
    assert got.text == "6-line 6\n7:line 7\n8-line 8\n--\n16-line 16\n17:line 17\n"
    assert (got.matches, got.total, got.first, got.last) == (10, 100, 6, 17)
    assert got.next is not None
    assert fetch(store, "test", got.next).text.startswith("18-line 18\n--\n26-line 26\n27:line 27\n")


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"limit": 0}, "limit 0"),
        ({"limit": -5}, "limit -5"),
        ({"limit": True}, "limit True"),
        ({"limit": 1.5}, "limit 1.5"),
        ({"offset": -1}, "offset -1"),
        ({"offset": 4}, "has 4 lines"),
        ({"offset": 99, "unit": "characters"}, "beyond the end"),
        ({"offset": 99, "pattern": "a"}, "beyond the end"),
        ({"unit": "words"}, "lines or characters"),
        ({"pattern": "(a"}, "never closed"),
        ({"pattern": "a", "unit": "characters"}, "line by line"),
        ({"pattern": "a", "context": -1}, "context -1"),
        ({"pattern": "a", "context": 10**6}, "too large"),
    ],
)
def test_what_cannot_be_fetched_is_refused(store: Store, wanted: dict[str, Any], words: str) -> None:
    """Each mistake is named, with what would be right."""
    with open_session(store) as session:
        entry = session.append(foveal.user("a\nb\nc\nd\n"))
    with pytest.raises(BadInput) as refusal:
        fetch(store, "test", Fetch(entry.id, **wanted))
    assert words in str(refusal.value)


def test_absent_malformed_and_foreign_references_look_the_same(store: Store) -> None:
    """Nobody learns from the answer whether another session has such an entry."""
    with open_session(store, "mine") as mine, open_session(store, "theirs") as theirs:
        own = [mine.append(foveal.user(f"m{n}")).id for n in range(3)]
        foreign = [theirs.append(foveal.user(f"t{n}")).id for n in range(3)]
    odd = ["", ".", "..", "...", "\0", "\ud800", "%", "a" * 5_000, "." * 5_000, f"{own[0]}.7", f"{own[2]}..{own[0]}"]
    for ref in (*odd, "zzzzzzzzzz", foreign[0], f"{foreign[0]}.0", range_ref(*foreign[:2]), f"{own[0]}..{foreign[1]}"):
        for wanted in (Fetch(ref), Fetch(ref, pattern="x")):
            with pytest.raises(NotFound) as refusal:
                fetch(store, "mine", wanted)
            said, _, near = str(refusal.value).partition("; near it: ")
            assert said == f"session 'mine' has nothing under the reference {ref[:120]!r}"
            assert set(near.split(", ")) <= {"", *(entry[:10] for entry in own)}


def test_a_range_is_the_branch_that_leads_to_its_end(store: Store) -> None:
    """Entries that were rewound are no part of it."""
    with open_session(store) as session:
        first = session.append(foveal.user("one"))
        session.append(foveal.user("left behind"))
        session.branches.rewind(first.id)
        last = session.append(foveal.user("two"))
    text = read(store, "test", range_ref(first.id, last.id))
    assert text == f"[user {first.id[:10]}]\none\n\n[user {last.id[:10]}]\ntwo"


def test_a_lost_or_damaged_artifact_is_damage_and_not_absence(tmp_path: Path) -> None:
    """The place is named; no part of a damaged artifact is given, not even its sound beginning."""
    store = foveal.open_store(tmp_path / "store.db")
    with open_session(store) as session:
        session.append(foveal.assistant("", ToolCall("a", "run", "{}")))
        entry = session.append(foveal.result("a", HUGE))
    (file,) = (path for path in (tmp_path / "store.db.artifacts").rglob("*") if path.is_file())
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    with pytest.raises(StoreCorrupt):
        fetch(store, "test", Fetch(entry.id, limit=1))
    shutil.rmtree(tmp_path / "store.db.artifacts")
    with pytest.raises(StoreCorrupt, match="entry 2"):
        fetch(store, "test", Fetch(entry.id))
    store.close()


def test_a_mistyped_reference_is_answered_with_near_ones() -> None:
    """The beginning is right and the end is not: the error names what begins alike, in this session only."""
    session = open_session()
    entry = session.append(foveal.user("hello"))
    wrong = entry.id[:8] + "zz"
    with pytest.raises(NotFound, match=rf"nothing under the reference '{wrong}'; near it: {entry.id[:10]}$"):
        session.recall(wrong)
