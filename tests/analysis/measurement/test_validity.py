"""A check of its own, which looks only at what is new."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.analysis.measurement.validity import problems

from .sessions import case

MESSAGES = list(case(turns=6).messages)


def test_what_was_right_need_not_be_looked_at_again():
    """Whatever is known to be right, a right prompt stays right."""
    assert [problems(MESSAGES, (), since=since) for since in range(len(MESSAGES) + 1)] == [[]] * (len(MESSAGES) + 1)


@given(st.data())
def test_a_message_that_is_taken_out_of_what_is_new_is_missed(data):
    """A result without its call or a call without its result is found, wherever the new part begins before it."""
    gone = data.draw(st.integers(2, len(MESSAGES) - 1))
    since = data.draw(st.integers(0, gone))
    assert problems([*MESSAGES[:gone], *MESSAGES[gone + 1 :]], (), since=since)


@pytest.mark.parametrize("since", [0, 1, 2])
def test_a_result_whose_call_stands_among_the_known_is_answered(since):
    """The new part may begin between a call and its result."""
    two = [*MESSAGES[:3], {**MESSAGES[3], "tool_call_id": "another"}]
    assert any("answers no call" in problem for problem in problems(two, (), since=since))
