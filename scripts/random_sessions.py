"""Search for a log that bricks a session: random histories, each from one number, on as many processes as asked for.

    python scripts/random_sessions.py --histories 200000 --jobs 2
    python scripts/random_sessions.py --seed 4711             # one history again, with its traceback

Prints one line for each kind of finding, with the numbers that show it, and exits 1 if there is any.
"""

import argparse
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor

from foveal.testing.random_sessions import Finding, play

CHUNK = 250


def search(start: int) -> list[Finding]:
    """Play one chunk of histories."""
    return [finding for seed in range(start, start + CHUNK) if (finding := play(seed))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--seed", type=int)
    args = parser.parse_args()
    if args.seed is not None:
        finding = play(args.seed)
        print(finding or "kept")
        return 1 if finding else 0
    kinds: Counter[str] = Counter()
    shown: dict[str, list[int]] = defaultdict(list)
    played, began = 0, time.monotonic()
    with ProcessPoolExecutor(args.jobs) as pool:
        for findings in pool.map(search, range(args.first, args.first + args.histories, CHUNK)):
            played += CHUNK
            for finding in findings:
                kind = finding.what[:90]
                kinds[kind] += 1
                shown[kind].append(finding.seed)
            if played % 10_000 == 0:
                print(
                    f"{played:,} histories, {sum(kinds.values())} findings, {time.monotonic() - began:.0f} s",
                    flush=True,
                )
            if time.monotonic() - began > args.seconds:
                pool.shutdown(wait=False, cancel_futures=True)
                break
    for kind, times in kinds.most_common():
        print(f"{times:6} {kind}  {shown[kind][:5]}")
    print(f"{played:,} histories, {sum(kinds.values())} findings, {time.monotonic() - began:.0f} s")
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
