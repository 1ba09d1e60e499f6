"""What is appended is kept once, whole, or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.stores.memory import MemoryStore, MemoryWriter
from foveal.testing import oracles
from foveal.testing.builders import Asks, Move, Player, open_session
from foveal.testing.strategies import ODD_TEXTS, histories
from foveal.values import codec
from foveal.values.entry import Message, Text, user
from foveal.values.errors import BadEntry, StoreFull


def bodies(moves: list[Move]) -> list[Message]:
    return [move for move in moves if isinstance(move, Message)]


@given(moves=histories(unsendable=True, size=6))
def test_a_body_round_trips_through_the_log(moves: list[Move]) -> None:
    """Whatever was said comes back as it was, lone surrogates and NULs included."""
    for body in bodies(moves):
        assert codec.decode(codec.encode(body)) == body


@given(moves=histories(size=6), again=st.integers(0, 50))
def test_a_retry_under_the_same_id_changes_nothing(moves: list[Move], again: int) -> None:
    """The same body under the same id is acknowledged with its first place; another body is refused; nothing moves."""
    player = Player(limit=20_000)
    player.append(user("Begin."))
    messages = bodies(moves)
    for number, body in enumerate(messages):
        player.session.append(body, id=f"mine.{number}")
    before, rows = player.ask(), list(player.store.rows(player.name))
    if messages:
        number = again % len(messages)
        first = next(row for row in rows if row.id == f"mine.{number}")
        entry = player.session.append(messages[number], id=f"mine.{number}")
        assert (entry.id, entry.parent, entry.time_ms) == (first.id, first.parent, first.time_ms)
        with pytest.raises(BadEntry, match="other content"):
            player.session.append(user("something else"), id=f"mine.{number}")
    assert list(player.store.rows(player.name)) == rows
    after = player.ask()
    assert (before and oracles.body(before)) == (after and oracles.body(after))


@given(moves=histories(size=5), fails=st.sets(st.integers(0, 30), max_size=6))
def test_a_full_store_leaves_view_and_log_in_step(moves: list[Move], fails: set[int]) -> None:
    """An append that failed left nothing behind: the next one works, and the prompt is that of the log."""
    store = MemoryStore()
    player = Player(store, limit=3_000)
    attempts = 0
    real = MemoryWriter.append

    def append(self: MemoryWriter, drafts: list, *, snapshot: bytes | None = None) -> list[int]:  # type: ignore[type-arg]
        nonlocal attempts
        attempts += 1
        if attempts in fails:
            raise StoreFull("no space")
        return real(self, drafts, snapshot=snapshot)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryWriter, "append", append)
        for move in [user("Begin."), *moves]:
            for _ in range(8):
                try:
                    player.make(move)
                except StoreFull:
                    continue
                break
    kept = player.ask()
    player.reopen()
    opened = player.ask()
    assert (kept and oracles.body(kept)) == (opened and oracles.body(opened))


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_odd_texts_are_kept_and_can_be_read_again(text: str) -> None:
    """Text that no provider takes is in the log as it came."""
    session = open_session()
    entry = session.append(Message("user", (Text("x"), Text(text))))
    assert session.recall(f"{entry.id}.1") == text


@given(moves=histories(size=8), limit=st.sampled_from((800, 5_000)))
def test_what_was_appended_is_not_changed(moves: list[Move], limit: int) -> None:
    """Building prompts leaves the caller's messages alone, and so does every later prompt with the requests before it."""
    copies = [codec.encode(body) for body in bodies(moves)]
    player = Player(limit=limit)
    player.append(user("Begin."))
    bytes_of: list[bytes] = []
    for move in moves:
        player.make(move)
        if isinstance(move, Asks) and len(player.prompts) > len(bytes_of):
            bytes_of.append(oracles.body(player.prompts[-1]))
    assert [codec.encode(body) for body in bodies(moves)] == copies
    assert [oracles.body(prompt) for prompt in player.prompts] == bytes_of
