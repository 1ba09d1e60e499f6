"""The page: explanation, ranking, tables."""

import pytest

from foveal.analysis.measurement.outcome import Job
from foveal.analysis.measurement.suite import run
from foveal_bench.page import HOW_TO_READ, data, page
from foveal_bench.pooling import PRICE_MODELS
from foveal_bench.runners import own_runner
from foveal_bench.tables import rows_of

from ..analysis.measurement.sessions import case


@pytest.fixture(scope="module")
def outcomes():
    one = case(turns=30, uses={25: "secret_1_name"})
    return list(
        run([one], [Job(name, 2_500) for name in ("full history", "window, batched to 0.5", "foveal")], find=own_runner)
    )


def test_the_page_says_how_to_read_it_then_where_foveal_stands_then_the_figures(outcomes):
    """In this order, with a table of standing for each price list."""
    text = page(rows_of(outcomes), ["a note"], beside=["beside"])
    places = [
        text.index(part) for part in (HOW_TO_READ, "## Where Foveal stands", "beside", "## 2,500 tokens", "- a note")
    ]
    assert places == sorted(places)
    assert text.count("cheapest other that keeps as much") == len(PRICE_MODELS)


def test_without_foveal_or_others_there_is_nothing_to_compare(outcomes):
    """Then the page is the explanation and the tables."""
    for names in ({"foveal"}, {"full history", "window, batched to 0.5"}):
        rows = rows_of(outcome for outcome in outcomes if outcome.policy in names)
        assert "Where Foveal stands" not in page(rows)


def test_programs_are_given_the_comparisons_too(outcomes):
    """One for each price list; a set that is the only one is not compared twice."""
    assert len(data(outcomes, rows_of(outcomes))["standing"]) == len(PRICE_MODELS)
