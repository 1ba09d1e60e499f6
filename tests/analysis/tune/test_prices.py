"""Whose prices are tuned for."""

import pytest

from foveal.analysis.tune import price_list, tune
from foveal.values.errors import BadInput

from .traffic import BUDGET, cases_of, written


def test_a_model_has_its_prices_without_the_surcharge():
    """As the benchmark counts: long input is what the whole history has, and few pay for it."""
    facts = price_list("claude-sonnet-4-5")
    assert facts.price_cache_read is not None
    assert facts.price_cache_write == pytest.approx(12.5 * facts.price_cache_read)
    assert facts.long_prices is None


def test_prices_can_be_two_numbers():
    """Of a token that the cache holds and one that it does not."""
    facts = price_list("0.3,3.75")
    assert (facts.price_cache_read, facts.price_cache_write) == (0.3, 3.75)


@pytest.mark.parametrize("text", ["no-such-model", "0,0", "2,1", "-1,1", "1,nan", "1,inf", "a,b", "1,", ""])
def test_prices_that_nobody_knows_are_refused(text):
    """With an example of what to write."""
    with pytest.raises(BadInput, match=r"0\.3,3\.75"):
        price_list(text)


def test_only_the_ratio_of_prices_matters(tmp_path):
    """Cost is a ratio itself."""
    cases = cases_of(written(tmp_path / "made.jsonl", "alpha"))
    one, thousand = (
        tune(cases, budget=BUDGET, prices=price_list(text), variants=()) for text in ("1,10", "1000,10000")
    )
    assert one.default.point.cost == pytest.approx(thousand.default.point.cost)


def test_a_cheap_cache_makes_folding_worth_less(tmp_path):
    """What reads the whole history for nothing has little to save."""
    cases = cases_of(written(tmp_path / "made.jsonl", "alpha"))
    free, dear = (tune(cases, budget=BUDGET, prices=price_list(text), variants=()) for text in ("0,1", "1,1"))
    assert free.default.point.cost > dear.default.point.cost
