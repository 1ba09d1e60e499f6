"""Sections keep track of their size while items are put, replaced and dropped."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from foveal.summary.ledger.items import LedgerQuestion
from foveal.summary.ledger.sections import Bound, Section, rank_by_use

_KEYS = st.sampled_from(["a", "bb", "ccc", "größe", "name_5", "name_6"])
_CHANGES = st.lists(st.lists(st.tuples(_KEYS, st.integers(0, 2_000)), max_size=8), max_size=6)


def section(known: tuple[LedgerQuestion, ...], size_bytes: int) -> Section[LedgerQuestion]:
    return Section(((one.text, one) for one in known), Bound(100, size_bytes), rank_by_use)


@given(_CHANGES)
def test_a_section_is_cut_where_a_new_one_of_the_same_items_would_be(messages: list[list[tuple[str, int]]]) -> None:
    """Its size, kept by what changed from message to message, is the size of what it holds. A number below 9 drops an item."""
    changed = section((LedgerQuestion(text="name_5"), LedgerQuestion(text="old", uses=3)), 120)
    for message in messages:
        for key, seq in message:
            if seq < 9:
                changed.drop(key)
            else:
                changed.put(key, LedgerQuestion(text=key, seq=seq))
        fresh = section(tuple(changed.items.values()), 120)
        changed.cut()
        fresh.cut()
        assert changed.items == fresh.items
        assert len(msgspec.json.encode(list(changed.items.values()))) <= 121


def test_the_least_useful_goes_first() -> None:
    """Items are dropped by rank, and no more than needed to be some way below the bound."""
    full = section(tuple(LedgerQuestion(text=f"name_{n}", seq=n) for n in range(40)), 400)
    full.cut()
    assert list(full.items) == [f"name_{n}" for n in range(40 - len(full.items), 40)]
    assert 200 < len(msgspec.json.encode(list(full.items.values()))) <= 320
