"""Hash every prompt that Foveal builds for recorded sessions, to prove that a refactoring changes no byte.

    python scripts/prompt_hashes.py --write tests/golden/prompt_hashes.json     # record the hashes of this code
    python scripts/prompt_hashes.py --check tests/golden/prompt_hashes.json     # compare: exit 1 and the places that differ

Fifty sessions of the recorded sets, three budgets, four dialects. The middle budget also has reminders and a clock, so that
context beside the conversation is part of the proof. A refused call is hashed by its error text.
"""

import argparse
import gzip
import hashlib
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec

from foveal.analysis.recordings import Recording, read
from foveal.analysis.replay.replay import replay
from foveal.session.policy import BudgetTable, Policy
from foveal.testing.builders import MODELS
from foveal.values.prompt import Prompt

DATA = Path(__file__).parents[2] / "shared" / "data"
BUDGETS = (4_000, 16_000, 64_000)
SESSIONS = 50
LONGEST_LINE = 1_500_000
"""Sessions above so many characters are left out: one of them would take as long as all others together."""


def chosen(data: Path) -> list[tuple[str, int]]:
    """Return file name and line number of the sessions: of every set the same share of small, middle and large ones."""
    by_set: list[list[tuple[str, int]]] = []
    for path in sorted(data.glob("*.jsonl.gz")):
        with gzip.open(path) as file:
            lengths = sorted((len(line), number) for number, line in enumerate(file) if len(line) <= LONGEST_LINE)
        ranked = [lengths[int(share * (len(lengths) - 1))] for share in (1.0, 0.5, 0.8, 0.2, 0.35)] if lengths else []
        by_set.append([(path.name, number) for _, number in dict.fromkeys(ranked)])
    in_turn = [one for rank in range(5) for found in by_set if rank < len(found) for one in (found[rank],)]
    return sorted(in_turn[:SESSIONS])


def policy_for(budget: int) -> Policy:
    """Return the default policy under a budget; the middle one has reminders and a clock."""
    table = BudgetTable(limit=budget, reserve=0)
    return Policy(budget=table, remind=True, clock="UTC") if budget == BUDGETS[1] else Policy(budget=table)


def hash_replay(recording: Recording, budget: int, dialect: str) -> tuple[str, int]:
    """Return one hash over all prompts of a replay, and how many calls it has."""
    digest, calls = hashlib.sha256(), 0

    def note(number: int, prompt: Prompt | None, refused: str) -> None:
        nonlocal calls
        calls += 1
        digest.update(f"{number}|{refused}|".encode())
        if prompt is not None:
            digest.update(f"{prompt.tokens}|".encode() + msgspec.json.encode(prompt.request))

    replay(recording, model=MODELS[dialect], dialect=dialect, policy=policy_for(budget), on_prompt=note)
    return digest.hexdigest()[:16], calls


def hash_session(data: Path, name: str, number: int) -> tuple[dict[str, str], int]:
    """Return the hashes of one session by budget and dialect, and the number of prompts behind them."""
    recording = next(one for at, one in enumerate(read(data / name)) if at == number)
    found, calls = dict[str, str](), 0
    for budget in BUDGETS:
        for dialect in sorted(MODELS):
            found[f"{name}:{number} {budget} {dialect}"], seen = hash_replay(recording, budget, dialect)
            calls += seen
    return found, calls


def hash_all(data: Path, jobs: int, every: int) -> Iterator[tuple[dict[str, str], int]]:
    """Yield the hashes of all chosen sessions, or of every n-th of them."""
    picked = chosen(data)[::every]
    with ProcessPoolExecutor(jobs) as pool:
        waiting = [pool.submit(hash_session, data, name, number) for name, number in picked]
        yield from (one.result() for one in waiting)


def main() -> int:
    """Record or compare the hashes; the exit status tells whether all of them are as recorded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--check", type=Path)
    parser.add_argument("--every", type=int, default=1, help="only every N-th session")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    hashes, calls = dict[str, str](), 0
    for found, seen in hash_all(given.data, given.jobs, given.every):
        hashes |= found
        calls += seen
    print(f"{calls} prompts in {len(hashes)} replays")
    if given.write:
        given.write.write_text(json.dumps(hashes, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    if given.check:
        known = json.loads(given.check.read_text(encoding="utf-8"))
        other = sorted(place for place, value in hashes.items() if known.get(place) != value)
        print(f"{len(other)} of {len(hashes)} replays differ" + "".join(f"\n  {place}" for place in other))
        return 1 if other else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
