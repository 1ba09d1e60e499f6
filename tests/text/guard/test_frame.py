"""No live tag that we did not write: every sink, every level, every size, every dialect, every disguise.

`scripts/frame_attacks.py` runs a million of these cases; here are some of each level. `FOVEAL_ALL=1` runs forty times as many.
"""

import os
import random
from collections.abc import Callable

import pytest

from foveal.text.guard import neutralise, plain, tags
from foveal.text.shorten import choose, line_selection

from .attacks import attacks
from .frame_cases import LEVELS, FrameCase, cases, disguised, live_of

ATTACKS = tuple(attacks(3_000, seed=7))
ALL = tuple(cases())
BATCHES = 400 if os.environ.get("FOVEAL_ALL") == "1" else 10


def chosen(level: str, *, seed: int = 1) -> list[FrameCase]:
    """Some cases of a level, with one of each size at least."""
    rng = random.Random(f"{level} {seed}")
    of_level = [case for case in ALL if case.level == level]
    by_size = {size: [case for case in of_level if case.size == size] for size in {case.size for case in of_level}}
    return [rng.choice(some) for _, some in sorted(by_size.items())] + rng.sample(of_level, BATCHES)


@pytest.mark.parametrize("level", LEVELS)
def test_no_tag_is_live_that_we_did_not_write(level: str) -> None:
    """A reader that shares no code with the package finds nothing but our own lines and tags."""
    rng = random.Random(level)
    for case in chosen(level):
        some = disguised(rng.sample(ATTACKS, 12), rng)
        assert live_of(case, some) == [], case


def skipped(lines: str, _guard: Callable[[str], str]) -> str:
    """The second pass of old: left out if any line in the text is live, as a note of ours always is."""
    text = plain(lines)
    return text if tags(text) else neutralise(text)


def test_a_second_pass_that_is_skipped_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The property finds the fault that it is there for: what the cleaners put together is live again."""
    monkeypatch.setattr(line_selection, "unsealed", skipped)
    monkeypatch.setattr(choose, "unsealed", skipped)
    rng = random.Random(3)
    found = [
        case
        for case in chosen("summary", seed=2)
        if case.sink == "a result" and case.size > 10 and live_of(case, disguised(rng.sample(ATTACKS, 60), rng))
    ]
    assert found


def test_every_sink_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a guard that does nothing, attacks are live in each sink: none of them is out of reach of the reader."""
    monkeypatch.setattr("foveal.text.guard.protection.forms", lambda *_, **__: [])
    rng = random.Random(5)
    whole = {
        case.sink: case for case in ALL if case.level == "full" and case.size <= 1_000 and case.dialect == "gemini"
    }
    named_by_us = {"a tool's name", "a result's own line", "a file's name"}
    told = whole.keys() - named_by_us
    assert {sink for sink in told if live_of(whole[sink], rng.sample(ATTACKS, 30))} >= told - FILES_ON_THE_WIRE


FILES_ON_THE_WIRE = {"a text file", "a text file in a result", "a file in UTF-16"}
"""Gemini takes them as base64; `test_origins.py` opens them."""
