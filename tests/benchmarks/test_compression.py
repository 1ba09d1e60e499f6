"""Conditional compression on texts whose answer is known, and as a column of the tables."""

import random

import pytest

from foveal.analysis.measurement.case import text_of
from foveal.analysis.measurement.outcome import Figures, Job, PolicyOutcome, measure
from foveal_bench import compression
from foveal_bench.compression import gauge, near, size
from foveal_bench.pooling import row_of
from foveal_bench.runners import own_runner
from foveal_bench.tables import HEAD, cells, table

from ..analysis.measurement.sessions import case

needs_zstd = pytest.mark.skipif(not compression.is_installed(), reason="zstd is not installed")
NOISE = bytes(random.Random(7).choices(b"abcdefghijklmnopqrstuvwxyz0123456789_", k=4_000))


@needs_zstd
def test_a_text_that_is_known_costs_nothing_and_an_unknown_one_all():
    """An action out of the dictionary is a reference to it, however far back; an unrelated dictionary does not help."""
    action = NOISE[:600]
    alone = size(action, b"")
    assert alone > 300
    assert size(action, NOISE[1_000:]) > 0.95 * alone
    assert size(action, NOISE) < 40
    far = NOISE + bytes(random.Random(8).choices(range(256), k=2_000_000))
    assert size(action, far) < 60


@needs_zstd
def test_a_line_that_explains_is_worth_more_than_the_bare_names_in_it():
    """The names alone are worth something; the line that holds them is worth more. Far grounding counts both in full."""
    action = b"assert parse_cookie(header, max_age=3600, path=root).signed_by(secret_key)\n" * 2
    names = b"names: parse_cookie header max_age 3600 path root signed_by secret_key"
    line = b"def check(): assert parse_cookie(header, max_age=3600, path=root).signed_by(secret_key)\n"
    assert size(action, line) + 10 < size(action, names) + 5 < size(action, NOISE)


@needs_zstd
def test_nothing_to_say_has_no_size():
    """An action without text, and a text that is too short for a dictionary."""
    assert size(b"", NOISE) == 0
    assert size(b"abc", b"abc") == size(b"abc", b"")


def test_near_is_the_system_prompt_and_the_newest_twelve():
    """No message is in it twice."""
    messages = [{"role": "system", "content": "s"}, *({"role": "user", "content": str(i)} for i in range(20))]
    assert [text_of(message) for message in near(messages)] == ["s", *map(str, range(8, 20))]
    assert near(messages[:5]) == messages[:5]


@needs_zstd
def test_everything_explains_everything_and_a_window_only_a_part():
    """The action of turn 25 takes a line over from turn 1: the whole history has it, a window of the newest messages has not."""
    line = "def secret_1_name(): " + "".join(random.Random(3).choices("abcdefghij_", k=300))
    made = case(turns=30, uses={1: line, 25: line})
    policies = ("full history", "window, batched to 0.5", "foveal")
    outcomes = [measure(made, Job(name, 3_000), own_runner(name), gauge=gauge) for name in policies]
    everything, window, foveal = (row_of([outcome], "tests").explained for outcome in outcomes)
    assert everything == 1
    assert window is not None
    assert foveal is not None
    assert window < 0.3
    assert foveal > window


def test_what_was_not_measured_is_not_shown_as_a_figure():
    """Without a gauge the column is empty; with one it is the share of the sums, not the mean of shares."""
    column = HEAD.index("explained")

    def outcome(**figures):
        return PolicyOutcome("mine", 32_000, "set", "session", Figures(calls=1, **figures), ((10, 0, 10, 0),))

    bare = row_of([outcome()], "set")
    assert cells(bare)[column] == "–"
    assert "explained" not in table([bare], 32_000, "set")
    rows = [
        outcome(near_bytes=1_000, prompt_bytes=100, everything_bytes=0),
        outcome(near_bytes=10, prompt_bytes=10, everything_bytes=0),
    ]
    gauged = row_of(rows, "set")
    assert cells(gauged)[column] == f"{900 / 1010:.3f}"
    assert "| explained |" in table([gauged, bare], 32_000, "set")
