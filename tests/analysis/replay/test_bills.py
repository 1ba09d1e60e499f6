"""The shared beginning of two prompts, and the bills that follow from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.analysis.replay.bills import bill, bill_costs, equal_length
from foveal.models.catalogue import find

MEMBERS = st.lists(st.integers(0, 2), max_size=30).map(tuple)


@given(MEMBERS, MEMBERS, MEMBERS)
def test_the_shared_beginning_is_found_whatever_follows(start, one, other):
    """The search by halves finds the first member that differs, as a walk from the first would."""
    old, new = start + one, start + other
    pairs = list(zip(old, new, strict=False))
    walked = next((place for place, (a, b) in enumerate(pairs) if a != b), len(pairs))
    assert equal_length(old, new) == walked


@pytest.mark.parametrize("model", ["gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro", "deepseek-chat", "nobody-knows-it"])
@given(sizes=st.lists(st.tuples(st.integers(0, 400_000), st.floats(0, 1)), max_size=5))
def test_many_costs_are_those_of_their_bills(model, sizes):
    """Minimum, steps of the cache and prices of long prompts are the same for many bills as for one."""
    facts, pairs = find(model), [(tokens, int(tokens * share)) for tokens, share in sizes]
    assert list(bill_costs(facts, pairs)) == [bill(facts, *pair).cost_usd for pair in pairs]
