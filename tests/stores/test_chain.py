"""The hashes of a log: the same for the same rows, and other ones for everything that damage could make of them."""

from typing import Any

import msgspec
import pytest

from foveal.stores.chain import by_name, link, seal, seed, seeds, snapshot_seal
from foveal.stores.port import Row, Tombstone

ROW = Row(1, "a", None, 0, "user", b"hello")


def stone(session: str, created_ms: int = 0) -> Tombstone:
    """The proof that a session of this name was deleted."""
    return Tombstone(seed(session).hex(), created_ms, created_ms + 1, 1, "00")


@pytest.mark.parametrize(
    "change",
    [
        {"seq": 2},
        {"id": "b"},
        {"parent": "a"},
        {"parent": ""},
        {"time_ms": 1},
        {"author": "tool"},
        {"payload": b"hellp"},
    ],
)
def test_a_changed_row_has_another_hash(change: dict[str, Any]) -> None:
    """Every field of a row is covered; no parent is not the same as one without a name."""
    assert link(seed("s"), ROW) == link(seed("s"), msgspec.structs.replace(ROW))
    assert link(seed("s"), ROW) != link(seed("s"), msgspec.structs.replace(ROW, **change))


def test_what_moves_from_one_field_into_the_next_shows() -> None:
    """Two rows whose fields give the same bytes one after the other have different hashes."""
    one, other = (msgspec.structs.replace(ROW, id=name, parent=parent) for name, parent in (("ab", "c"), ("a", "bc")))
    assert link(seed("s"), one) != link(seed("s"), other)
    assert seal("ab", "c") != seal("a", "bc")


def test_a_row_of_another_session_or_place_shows() -> None:
    """The hash of a row covers all rows before it, and the session's name."""
    first = link(seed("s"), ROW)
    assert link(seed("t"), ROW) != first
    assert link(first, ROW) != first


@pytest.mark.parametrize(
    "changed", [("t", 1, b"a", b"p"), ("s", 2, b"a", b"p"), ("s", 1, b"b", b"p"), ("s", 1, b"a", b"q")]
)
def test_a_snapshot_is_of_one_place_of_one_log(changed: tuple[str, int, bytes, bytes]) -> None:
    """One of another session or row, after other rows, or with another content has another hash."""
    assert snapshot_seal("s", 1, b"a", b"p") == snapshot_seal("s", 1, b"a", b"p")
    assert snapshot_seal(*changed) != snapshot_seal("s", 1, b"a", b"p")


@pytest.mark.parametrize("half", [0xD800, 0xDABC, 0xDFFF])
def test_a_name_that_cannot_be_written_has_no_hash(half: int) -> None:
    """Half a character is in no name of a session: to ask about such a name is no error."""
    assert seeds(["s", f"a{chr(half)}b"]) == {seed("s").hex(): "s"}


@pytest.mark.parametrize("sign", ["\ud7ff", "\ue000", "😀", "é", "\0"])
def test_any_other_name_has_a_hash(sign: str) -> None:
    """Also one next to those of half characters."""
    assert seeds([f"a{sign}b"]) == {seed(f"a{sign}b").hex(): f"a{sign}b"}


def test_tombstones_are_found_by_the_names_that_they_do_not_hold() -> None:
    """All of one session in their order, one for each time that it was deleted; none of a session that nobody asked about."""
    stones = [stone("s", 1), stone("secret"), stone("t"), stone("s", 2)]
    assert by_name(stones, ["s", "t", "never deleted"]) == {"s": [stones[0], stones[3]], "t": [stones[2]]}
    assert by_name(stones, []) == {}
