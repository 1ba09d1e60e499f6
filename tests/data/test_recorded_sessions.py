"""Real sessions, at every budget and in every dialect: no prompt is invalid, none is over its budget.

The recordings are not part of the repository; they are read from `../shared/data` where that is there. A deterministic sample
keeps this quick; `FOVEAL_ALL=1` takes all of them and prints how much was checked.
"""

import gzip
import os
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from foveal.analysis.recordings import Recording, read
from foveal.analysis.replay.replay import replay
from foveal.stores.memory import MemoryStore
from foveal.testing import oracles
from foveal.testing.builders import MODELS, sends_at_most
from foveal.values.prompt import Prompt

DATA = Path(__file__).parents[3] / "shared" / "data"
SETS = sorted(path.name for path in DATA.glob("*.jsonl.gz")) if DATA.is_dir() else []
ALL = os.environ.get("FOVEAL_ALL") == "1"
BUDGETS = (4_000, 16_000, 64_000, 200_000)
DIALECTS = sorted(MODELS)
SAMPLED = 360
"""One session in so many, besides the largest of each set; which budgets and dialects they meet goes round."""
CHECKED = 32

pytestmark = [
    pytest.mark.skipif(not SETS, reason=f"the recorded sessions are not at {DATA}"),
    pytest.mark.timeout(0 if ALL else 120),
]


@cache
def sizes(name: str) -> tuple[int, ...]:
    """How long each line of a set is."""
    with gzip.open(DATA / name) as file:
        return tuple(map(len, file))


def cases(name: str) -> Iterator[tuple[Recording, int, str]]:
    """The sessions of a set with the budgets and dialects that they are tried with."""
    lengths = sizes(name)
    largest, turn = max(lengths), SETS.index(name) * 5
    for number, (length, recording) in enumerate(zip(lengths, read(DATA / name), strict=True)):
        pairs = [(budget, dialect) for budget in BUDGETS for dialect in DIALECTS]
        if ALL:
            yield from ((recording, *pair) for pair in pairs)
        elif length == largest:
            yield recording, *pairs[turn % len(pairs)]
        elif number % SAMPLED == 1:
            yield from ((recording, *pair) for pair in pairs[(turn + number) % 8 :: 8])


class Judge:
    """Looks at every prompt of a replay."""

    def __init__(self, budget: int) -> None:
        self.budget, self.seen = budget, Counter[str]()
        self.found: list[str] = []
        self.last: Prompt | None = None

    def __call__(self, number: int, prompt: Prompt | None, refused: str) -> None:
        self.seen["calls"] += 1
        if prompt is None:
            self.seen[f"refused {refused.partition(':')[0]}"] += 1
            return
        self.last = prompt
        if prompt.tokens > self.budget:
            self.found.append(f"call {number}: {prompt.tokens} tokens")
        # The session has checked what is new in each prompt; the whole is looked at again where the prefix moved, and often.
        if prompt.fold or number % CHECKED == 0:
            self.check(number, prompt)

    def check(self, number: int, prompt: Prompt) -> None:
        self.seen["checked whole"] += 1
        if problems := oracles.problems(prompt):
            self.found.append(f"call {number}: {problems[0]}")

    def finish(self) -> None:
        """The recount takes as long as the prompt is, so only the last one of a session is recounted."""
        if self.last:
            self.check(self.last.call, self.last)
            if oracles.recount(self.last) > self.last.tokens:
                self.found.append(f"the last prompt has {oracles.recount(self.last)} tokens, not {self.last.tokens}")


@pytest.mark.parametrize("name", SETS)
def test_every_prompt_of_a_recorded_session_is_valid_and_fits(name: str) -> None:
    """0 invalid, 0 over budget; what cannot fit is refused."""
    total, found = Counter[str](), list[str]()
    for recording, budget, dialect in cases(name):
        judge = Judge(budget)
        replay(
            recording,
            model=MODELS[dialect],
            policy=sends_at_most(budget),
            dialect=dialect,
            store=MemoryStore(),
            on_prompt=judge,
        )
        judge.finish()
        total += judge.seen
        total["replays"] += 1
        found.extend(f"{recording.id} at {budget} in {dialect}: {what}" for what in judge.found)
    if ALL:
        with Path(os.environ.get("FOVEAL_FIGURES", os.devnull)).open("a", encoding="utf-8") as file:
            file.write(f"{name} {dict(total)} found {len(found)}\n")
    assert total["calls"] > 0
    assert found == []
