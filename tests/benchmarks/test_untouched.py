"""Sessions that fit."""

import msgspec

from foveal.analysis.measurement.outcome import measure
from foveal_bench.runners import RUNNERS
from foveal_bench.untouched import CHECK, FITS, that_fit, touched, untouched_table

from ..analysis.measurement.sessions import case, rereading


def test_only_sessions_that_fit_are_taken():
    """A session that outgrows the budget may be folded."""
    short, long = case(turns=3), rereading(turns=40)
    assert long.raw[-1] > FITS
    assert that_fit([short, long]) == [short]


def test_a_session_that_fits_is_sent_as_it_is():
    """No call differs from the whole history."""
    outcome = measure(case(turns=10), CHECK, RUNNERS[CHECK.policy])
    assert touched(outcome) == 0
    assert "| tests | 1 | 0 | 10 | 0 | 1.000 |" in untouched_table([outcome])


def test_a_call_that_sends_less_or_nothing_is_counted():
    """Fewer tokens than there were, and a refusal."""
    outcome = measure(case(turns=10), CHECK, RUNNERS[CHECK.policy])
    tokens, shared, raw, raw_shared = outcome.tokens[-1]
    less = msgspec.structs.replace(outcome, tokens=(*outcome.tokens[:-1], (tokens - 1, shared, raw, raw_shared)))
    less.figures.refused += 1
    assert touched(less) == 2
