"""Attack the frame of prompts: every sink, level, size, dialect and disguise, and a reader that shares no code with Foveal.

    python scripts/frame_attacks.py --cases 1000000 --jobs 2      # exit 1 and the forgeries, if any is live

A case is one attack in one place of one prompt. The part that runs in the tests is `tests/text/guard/test_frame.py`.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle, islice
from pathlib import Path

from foveal.values.errors import OverBudget

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "text"))

from guard.attacks import attacks  # pyright: ignore[reportMissingImports]
from guard.frame_cases import FrameCase, cases, disguised, live_of  # pyright: ignore[reportMissingImports]

BATCH = 200
REPORT_EVERY = 50_000
KINDS = 6_000
"""Different attacks that are made; each batch takes other ones, and puts other gaps into them."""


def run(work: tuple[int, FrameCase]) -> tuple[FrameCase, int, list[str]]:
    """Run one batch and return its case, its size, and the forgeries that were live."""
    number, case = work
    rng = random.Random(number)
    known = _known()
    some = disguised(rng.sample(known, BATCH), rng)
    while some:
        try:
            found = live_of(case, some)
        except OverBudget:  # so many do not fit into the window of this model
            some = some[: len(some) // 2]
        except Exception as error:
            return case, len(some), [f"{type(error).__name__}: {error}"]
        else:
            return case, len(some), [f"{text[:200]!r}: {forms[:3]}" for text, forms in found]
    return case, 0, []


_made: list[str] = []


def _known() -> list[str]:
    if not _made:
        _made.extend(attacks(KINDS, seed=23))
    return _made


def batches(count: int, seed: int) -> Iterator[tuple[int, FrameCase]]:
    """Return as many batches as the cases need, all combinations in a mixed order, again and again."""
    order = list(cases())
    random.Random(seed).shuffle(order)
    return enumerate(islice(cycle(order), -(-count // BATCH)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="stop after so long, and say how far it came"
    )
    given = parser.parse_args()
    done, bad, began = Counter[str](), 0, time.monotonic()
    with ProcessPoolExecutor(given.jobs) as pool:
        for case, count, forged in pool.map(run, batches(given.cases, given.seed), chunksize=4):
            done["cases"] += count
            done[f"{case.dialect}"] += count
            for one in forged[:2]:
                print(f"LIVE in {case}: {one}", flush=True)
            bad += bool(forged)
            if done["cases"] // REPORT_EVERY > (done["cases"] - count) // REPORT_EVERY:
                print(f"{done['cases']:,} cases, {time.monotonic() - began:,.0f} s", flush=True)
            if time.monotonic() - began > given.seconds:
                pool.shutdown(wait=False, cancel_futures=True)
                break
    print(f"{done['cases']:,} cases, {bad:,} batches with a live forgery ({time.monotonic() - began:,.0f} s)")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
