"""Check that every prompt of recorded sessions shows the newest results and the latest words of the user.

    python scripts/newest_test.py                         # a sample: every 20th session
    python scripts/newest_test.py --every 1 --jobs 2      # all of them

Each session is replayed under budgets of 8,000 to 64,000 tokens, with a system prompt of 1,000 to 12,000 tokens before it, as
real clients have one. Texts as a harness sends them follow some of the results. A prompt that shows nothing of a result that the
model has not seen yet is printed; exit 1 if there is one.
"""

import argparse
import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import cycle
from pathlib import Path

from foveal.analysis.recordings import Recording, read
from foveal.session.options import Model
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.testing import oracles
from foveal.testing.builders import MODELS, sends_at_most
from foveal.text.guard import neutralise
from foveal.text.user_words import user_words
from foveal.values.entry import Message, Text, system, user
from foveal.values.errors import FovealError

DATA = Path(__file__).parents[2] / "shared" / "data"
BUDGETS, FIXED = (8_000, 16_000, 32_000, 64_000), (1_000, 4_000, 12_000)
NOTICES = ("<system-reminder>The todo list is empty.</system-reminder>", "Tool loaded.", "")
LONGEST_LINE = 3_000_000


def check(recording: Recording, budget: int, fixed: int, dialect: str) -> tuple[Counter[str], list[str]]:
    """Replay one session under one budget; return counts, and each prompt that hides something new."""
    seen, found = Counter[str](), list[str]()
    session = Session(MemoryStore(), "s", model=Model(MODELS[dialect], dialect), policy=sends_at_most(budget))
    session.append(system("rule " * fixed))
    unseen, notices = list[Message](), cycle(NOTICES)
    tools = json.loads(recording.tools)
    for message in (step.message for step in recording.steps):
        if message.role == "assistant":
            seen["calls"] += 1
            try:
                prompt = session.prompt(tools)
            except FovealError as error:
                seen[f"refused: {type(error).__name__}"] += 1
            else:
                hidden = oracles.unseen_hidden(prompt, unseen=[_sent(one) for one in _newest(unseen)])
                found += [f"{recording.id} {budget} {fixed} {dialect} call {seen['calls']}: {one}" for one in hidden]
            unseen = []
        else:
            unseen.append(message)
        session.append(message)
        if message.role == "tool" and (notice := next(notices)):
            session.append(user(notice))
    return seen, found


def _newest(unseen: list[Message]) -> Iterator[Message]:
    """Yield the results, and the latest words of the user."""
    yield from (message for message in unseen if message.role == "tool")
    said = [message for message in unseen if message.role == "user" and _words(message)]
    yield from said[-1:]


def _words(message: Message) -> str:
    return "".join(user_words(part.text) for part in message.parts if isinstance(part, Text))


def _sent(message: Message) -> Message:
    """Return a message as the guard sends its texts."""
    parts = (Text(neutralise(part.text)) if isinstance(part, Text) else part for part in message.parts)
    return Message(message.role, tuple(parts))


def _instructions(message: Message) -> Iterator[Text]:
    """Yield the texts of a system message: they stay, and leave less room for all others."""
    yield from (part for part in message.parts if message.role == "system" and isinstance(part, Text))


def check_line(name: str, number: int) -> tuple[Counter[str], list[str]]:
    """Replay one session of a file under all budgets."""
    return check_budgets(next(one for at, one in enumerate(read(DATA / name)) if at == number))


def check_file(name: str, numbers: set[int]) -> list[str]:
    """Replay sessions of a file, which is read once, under all budgets; return each prompt that hides something new."""
    chosen = (one for at, one in enumerate(read(DATA / name)) if at in numbers)
    return [line for recording in chosen for line in check_budgets(recording)[1]]


def check_budgets(recording: Recording) -> tuple[Counter[str], list[str]]:
    """Replay a session under all budgets; return counts, and each prompt that hides something new."""
    seen, found = Counter[str](), list[str]()
    own = sum(len(part.text) // 4 for step in recording.steps for part in _instructions(step.message))
    pairs = [(budget, fixed) for budget in BUDGETS for fixed in FIXED if 1.5 * (fixed + own) + 4_000 <= budget]
    for (budget, fixed), dialect in zip(pairs, cycle(sorted(MODELS))):
        counts, hidden = check(recording, budget, fixed, dialect)
        seen += counts
        found += hidden
    return seen, found


def places_of(every: int) -> list[tuple[str, int]]:
    """Return the file and the number of every n-th recorded session."""
    places: list[tuple[str, int]] = []
    for path in sorted(DATA.glob("*.jsonl.gz")):
        with gzip.open(path) as file:
            places += [(path.name, number) for number, line in enumerate(file) if len(line) <= LONGEST_LINE]
    return places[::every]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=20, help="take every n-th session")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    places = places_of(given.every)
    seen, hidden = Counter[str](), 0
    with ProcessPoolExecutor(given.jobs) as pool:
        for counts, found in pool.map(check_line, *zip(*places, strict=True)):
            seen += counts
            hidden += len(found)
            for line in found:
                print(line, flush=True)
    print(f"{len(places):,} sessions: {dict(seen)}; {hidden:,} hidden")
    return 1 if hidden else 0


if __name__ == "__main__":
    sys.exit(main())
