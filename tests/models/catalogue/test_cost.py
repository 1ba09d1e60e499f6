"""What calls cost, and how providers cache."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.models.catalogue import LongPrices, ModelFacts, cache_rules, cost_usd, find

FACTS = ModelFacts(id="m", price_input=2.0, price_output=10.0, price_cache_read=0.2, price_cache_write=2.5, known=True)
COUNT = st.integers(0, 10**7)


def test_each_kind_of_token_has_its_price() -> None:
    """A million of each costs the sum of the four prices."""
    assert cost_usd(FACTS, 10**6, 10**6, 10**6, fresh=10**6) == pytest.approx(0.2 + 2.5 + 10.0 + 2.0)


def test_long_input_is_billed_at_the_long_prices() -> None:
    """One token above the threshold, all tokens cost more; a price that the tier does not name stays."""
    tier = LongPrices(above=200_000, input=4.0, cache_read=0.4)
    facts = ModelFacts(
        id="m", price_input=2.0, price_output=10.0, price_cache_read=0.2, price_cache_write=2.5, long_prices=tier
    )
    assert cost_usd(facts, 200_000, 0, 1_000) == pytest.approx(0.04 + 0.01)
    assert cost_usd(facts, 200_001, 0, 1_000) == pytest.approx(0.0800004 + 0.01)
    assert cost_usd(facts, 0, 300_000, 0) == pytest.approx(0.75)


def test_an_unknown_price_makes_the_cost_unknown() -> None:
    """Never zero: nothing known gives None as soon as a token of that kind was used."""
    assert cost_usd(find("no-such-model"), 0, 10, 0) is None
    assert cost_usd(ModelFacts(id="m", price_input=1.0, price_cache_write=1.0), 0, 10, 5) is None
    assert cost_usd(ModelFacts(id="m", price_input=1.0, price_cache_write=1.0), 0, 10, 0) == pytest.approx(1e-5)


@given(COUNT, COUNT, COUNT, COUNT)
def test_cost_grows_with_every_token(cached: int, written: int, output: int, fresh: int) -> None:
    """No kind of token is free, so one more of it is never cheaper."""
    cost = cost_usd(FACTS, cached, written, output, fresh=fresh)
    more = cost_usd(FACTS, cached + 1, written + 1, output + 1, fresh=fresh + 1)
    assert cost is not None
    assert more is not None
    assert 0 <= cost < more


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        ("anthropic", "claude-opus-4-5", (4_096, 1, 0.1, 1.25, 300)),
        ("anthropic", "claude-sonnet-4-5", (1_024, 1, 0.1, 1.25, 300)),
        ("anthropic", "claude-sonnet-4-6", (2_048, 1, 0.1, 1.25, 300)),
        ("openai", "gpt-4o", (1_024, 128, 1.0, 1.0, 300)),
        ("openai", "gpt-5-2025-08-07", (1_024, 128, 1.0, 1.0, 300)),
        ("openai", "gpt-5.6-sol", (1_024, 128, 1.0, 1.25, 1_800)),
        ("openai", "gpt-6-sol", (1_024, 128, 1.0, 1.25, 1_800)),
        ("openai", "o3", (1_024, 128, 1.0, 1.0, 300)),
        ("google", "gemini-2.5-pro", (4_096, 1, 0.1, 1.0, None)),
        ("google", "gemini-2.0-flash", (4_096, 1, 0.25, 1.0, None)),
        ("deepseek", "deepseek-chat", (64, 64, 0.1, 1.0, None)),
        ("somebody", "else", (1_024, 1, 1.0, 1.0, None)),
    ],
)
def test_caching_rules_by_provider_and_model(provider: str, model: str, expected: tuple[object, ...]) -> None:
    """The published rules (minimum, block, read, write, lifetime), and for the unknown no promise of a discount."""
    rules = cache_rules(provider, model)
    found = (rules.minimum_tokens, rules.block_tokens, rules.read_multiplier, rules.write_multiplier, rules.ttl_s)
    assert found == expected


def test_a_model_without_a_cache_price_is_not_given_a_discount_it_may_not_have() -> None:
    """The "pro" models bill cached input as fresh, and the note says that this was assumed."""
    facts = find("gpt-5.4-pro")
    assert facts.price_cache_read == facts.price_input == facts.price_cache_write
    assert "no cache price in the data" in facts.notes[1]
