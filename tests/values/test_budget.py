"""Budgets: which of them are accepted, and what is left of one for a provider that takes less."""

from typing import Any

import pytest

from foveal.values.budget import Budget, one_knob, sent_limit
from foveal.values.errors import BadPolicy
from foveal.values.shown import Size

WRONG: tuple[tuple[str, dict[str, Any]], ...] = (
    ("budget.limit is 0; it must be a positive number", {"limit": 0}),
    ("budget.target is 0; it must be a positive number", {"target": 0}),
    ("budget.max_bytes is 0; it must be a positive number", {"max_bytes": 0}),
    ("budget.reserve is -1; it cannot be negative", {"reserve": -1}),
    ("budget.max_images is -1; it cannot be negative", {"max_images": -1}),
    ("budget.target is 0.0; it is a share between 0 and 1", {"target": 0.0}),
    ("budget.target is 1.0; it is a share between 0 and 1", {"target": 1.0}),
    ("budget.trigger is 0.0; it is a share between 0 and 1", {"trigger": 0.0}),
    ("budget.trigger is 1.0; it is a share between 0 and 1", {"trigger": 1.0}),
    ("budget.reserve is 1,000, which leaves nothing of the limit 1,000", {"reserve": 1_000}),
    ("budget.target is 901; it must not be above limit - reserve = 900", {"reserve": 100, "target": 901}),
    ("budget.trigger is 500; it must be above the target 500", {"target": 500, "trigger": 500}),
    ("budget.trigger is 901; .* not above limit - reserve = 900", {"reserve": 100, "trigger": 901}),
)


@pytest.mark.parametrize(("said", "given"), WRONG)
def test_a_budget_that_cannot_be_kept_is_refused(said: str, given: dict[str, Any]) -> None:
    """A number that is too small or too large by one is refused by its name, with the bound that it broke."""
    with pytest.raises(BadPolicy, match=said):
        Budget(**{"limit": 1_000, **given})


@pytest.mark.parametrize(
    "given",
    [
        {"limit": 1},
        {"limit": 1_000, "target": 1},
        {"limit": 1_000, "reserve": 999},
        {"limit": 1_000, "max_bytes": 1, "max_images": 0},
        {"limit": 1_000, "reserve": 100, "target": 900},
        {"limit": 1_000, "reserve": 100, "target": 899, "trigger": 900},
        {"limit": 1_000, "target": 500, "trigger": 501},
    ],
)
def test_a_budget_at_its_bounds_is_accepted(given: dict[str, Any]) -> None:
    """The last number that can be kept is no error."""
    assert Budget(**given).sendable >= 1


def test_the_reserve_is_what_a_request_leaves_of_the_limit() -> None:
    """A budget that names no reserve may send its whole limit."""
    assert Budget(1_000).sendable == 1_000
    assert Budget(1_000, reserve=1).sendable == 999


@pytest.mark.parametrize(
    ("context", "reserve"), [(1, 0), (9, 0), (10, 1), (81_919, 8_191), (81_920, 8_192), (10**6, 8_192)]
)
def test_one_knob_reserves_a_tenth_for_the_reply(context: int, reserve: int) -> None:
    """A context of any size is shared by request and reply: a tenth is the reply's, and no more than the documented 8,192."""
    budget = one_knob(context)
    assert (budget.limit, budget.reserve) == (context, reserve)


def test_a_limit_of_what_is_sent_is_sent_whole() -> None:
    """The reserve comes on top of it, and there is none by default."""
    assert sent_limit(1) == Budget(1)
    assert sent_limit(100, 20) == Budget(120, reserve=20)


def test_no_tokens_are_no_budget() -> None:
    """Nothing can be sent in them: the error names what was given."""
    with pytest.raises(BadPolicy, match="max_context_tokens is 0; it must be a positive number"):
        one_knob(0)
    with pytest.raises(BadPolicy, match="the budget is 0 tokens; it must be a positive number"):
        sent_limit(0)


@pytest.mark.parametrize(
    ("ceiling", "sendable"),
    [(1_001, 900), (1_000, 900), (999, 899), (202, 102), (200, 100), (198, 99), (3, 1), (1, 1), (0, 1)],
)
def test_a_provider_that_takes_less_leaves_room_for_the_reply(ceiling: int, sendable: int) -> None:
    """Of what it takes, the reserve is the reply's; where that is more than a half, a half."""
    assert Budget(1_000, reserve=100).below(ceiling).sendable == sendable


def test_a_room_that_is_large_enough_changes_nothing() -> None:
    """Requests of just as many tokens as may be sent are no reason for another target."""
    budget = Budget(1_000, target=900)
    assert budget.sending_at_most(1_000) is budget


def test_a_smaller_room_has_its_target_and_trigger_inside() -> None:
    """Tokens that the room still holds stay as they are; others come down with it. Shares are of the room, and stay."""
    assert Budget(1_000, target=400).sending_at_most(900) == Budget(900, target=400)
    assert Budget(1_000, target=400).sending_at_most(500) == Budget(500, target=300)
    assert Budget(1_000, target=400, trigger=700).sending_at_most(800) == Budget(800, target=400, trigger=700)
    assert Budget(1_000, target=400, trigger=700).sending_at_most(600) == Budget(600, target=360, trigger=600)
    assert Budget(1_000, target=0.5, trigger=0.8).sending_at_most(600) == Budget(600, target=0.5, trigger=0.8)
    assert Budget(1_000, target=1, trigger=2).sending_at_most(999) == Budget(999, target=1, trigger=2)


@pytest.mark.parametrize("trigger", [None, 0.01, 0.5, 0.99, 2, 401, 1_000])
@pytest.mark.parametrize("target", [0.01, 0.6, 1, 400])
def test_a_room_of_any_size_has_a_budget(target: int | float, trigger: int | float | None) -> None:
    """However little a provider takes, a session goes on with it: tokens and shares that name target and trigger still agree."""
    try:
        budget = Budget(1_000, target=target, trigger=trigger)
    except BadPolicy:
        return  # refused from the start
    assert [budget.sending_at_most(room).sendable for room in range(1, 1_000)] == list(range(1, 1_000))


def test_messages_have_what_is_left_beside_them() -> None:
    """Tokens are of the whole prompt: what is fixed comes off each of them. A fold is due at the limit, without a trigger."""
    whole = Budget(1_000, target=500, reserve=100).for_messages(1.0, 50, 30)
    assert [size.tokens for size in whole] == [850, 850, 450]
    early = Budget(1_000, target=500, reserve=100, trigger=600).for_messages(1.0, 50, 30)
    assert [size.tokens for size in early] == [850, 550, 450]


def test_shares_are_of_the_room_that_can_be_folded() -> None:
    """System messages stay whatever is folded, so that a share is of the tokens beside them."""
    limits = Budget(1_000, target=0.5, trigger=0.8).for_messages(1.0, 100, 200)
    assert [size.tokens for size in limits] == [900, 760, 480]


def test_a_provider_that_counts_more_leaves_fewer_of_our_tokens() -> None:
    """Limits in tokens are the provider's; what is fixed is in ours."""
    limits = Budget(1_000, target=500).for_messages(2.0, 50, 0)
    assert [size.tokens for size in limits] == [450, 450, 200]


def test_bytes_and_images_come_down_with_the_tokens() -> None:
    """Until a fold is due, all that is allowed may be sent; it aims at the same share of each."""
    limits = Budget(1_000, target=500, max_bytes=2_000, max_images=20).for_messages(1.0, 0, 0)
    assert limits.most == limits.due == Size(1_000, 2_000, 20)
    assert limits.aim == Size(500, 1_000, 10)
