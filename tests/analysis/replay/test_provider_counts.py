"""A provider's counts beside ours."""

import pytest

from foveal.analysis.replay.bills import Bill
from foveal.analysis.replay.provider_counts import ProviderCounts, provider_counts
from foveal.models.catalogue import find


@pytest.mark.parametrize(("fixed", "ratio"), [(0, 1.0), (18_000, 1.0), (18_000, 1.4), (500, 0.9)])
def test_the_fixed_part_and_the_ratio_are_found(fixed, ratio):
    """From prompts that grow, what is in each of them and not in the log is told from another vocabulary."""
    ours = range(1_000, 60_000, 3_000)
    found = provider_counts([(tokens, fixed + round(ratio * tokens)) for tokens in ours])
    assert found.fixed == pytest.approx(fixed, abs=20)
    assert found.ratio == pytest.approx(ratio, rel=0.01)


@pytest.mark.parametrize(
    ("pairs", "fixed"),
    [
        ([], 0),
        ([(1_000, 9_000)], 8_000),
        ([(1_000, 700)], 0),
        ([(1_000 + i, 9_000 + 3 * i) for i in range(20)], 8_000),
        ([(1_000 * i, 50_000) for i in range(1, 20)], 31_000),
    ],
)
def test_counts_that_tell_nothing_are_not_believed(pairs, fixed):
    """Few prompts, prompts of one length, and ratios that no vocabulary has leave the counts as they are."""
    assert provider_counts(pairs) == ProviderCounts(fixed)


def test_a_bill_in_the_providers_counts_has_the_fixed_part():
    """It is written once and read with every later call; without one, the bill is the price of the same tokens."""
    facts, bill = find("claude-sonnet-4-5"), Bill(10_000, 8_000, None)
    plain = ProviderCounts().usd(bill, 100, facts, fixed_cached=0)
    first, later = (ProviderCounts(20_000).usd(bill, 100, facts, fixed_cached=cached) for cached in (0, 20_000))
    assert plain is not None
    assert first is not None
    assert later is not None
    assert plain < later < first
    assert later - plain == pytest.approx(20_000 * (facts.price_cache_read or 0) / 1e6)
