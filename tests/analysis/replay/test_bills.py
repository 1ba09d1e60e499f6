"""The shared beginning of two prompts, from which every bill follows."""

from hypothesis import given
from hypothesis import strategies as st

from foveal.analysis.replay.bills import equal_length

MEMBERS = st.lists(st.integers(0, 2), max_size=30).map(tuple)


@given(MEMBERS, MEMBERS, MEMBERS)
def test_the_shared_beginning_is_found_whatever_follows(start, one, other):
    """The search by halves finds the first member that differs, as a walk from the first would."""
    old, new = start + one, start + other
    pairs = list(zip(old, new, strict=False))
    walked = next((place for place, (a, b) in enumerate(pairs) if a != b), len(pairs))
    assert equal_length(old, new) == walked
