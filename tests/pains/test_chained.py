"""Fifty compactions in a row: what is pinned and quoted stays to the byte, what code carries stays complete, nothing grows.

The recorded sessions are not part of the repository; they are read from `../shared/data` where that is there.
"""

import os
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from heapq import nsmallest
from pathlib import Path

import pytest

from foveal.analysis.recordings import Recording, read
from foveal.summary.ledger import LedgerStep
from foveal.summary.relevance import RelevanceState, update
from foveal.values.entry import Message, assistant, result, user

from .chains import run
from .scenes import call, opened

DATA = Path(__file__).parents[3] / "shared" / "data"
RULES = (
    "Never touch `schema.sql`;   use migrations/ — always.",
    "From now on write dates as 2031-02-03 (ISO), not as 3/2/31.",
)
LIMIT = 2_500
SENTENCE = "the quick survey of every northern harbour found seven boats without lamps and nobody on watch there"


def _words(number: int, lines: int) -> str:
    """Text without names: what a fold takes time for."""
    words, step = SENTENCE.split(), 1 + number % 5
    places = ([number * 7 + line * 3 + at * step for at in range(24)] for line in range(lines))
    return "\n".join(" ".join(words[at % len(words)] for at in row) for row in places)


def _long_session() -> Iterator[Message]:
    """Three hundred calls on a dozen files, with rules, todos that change, and one account that is used throughout."""
    yield user("Port the importer of acct_91c2d to the new API, file by file, and keep the tests green.")
    yield assistant("I will go file by file and keep notes.")
    yield user(RULES[0])
    yield assistant("Understood.")
    yield user(RULES[1])
    for number in range(150):
        if number % 25 == 0:
            todos = [
                {"content": f"Port src/importer/mod{n}.py", "status": "completed" if n < number // 25 else "pending"}
                for n in range(6)
            ]
            yield assistant("", call(f"t{number}", "TodoWrite", todos=todos))
            yield result(f"t{number}", "Todos have been modified.")
        yield assistant("", call(f"r{number}", "Read", file_path=f"src/importer/mod{number % 6}.py", offset=number))
        yield result(f"r{number}", _words(number, 24))
        if number % 5 == 0:
            yield assistant("", call(f"s{number}", "bash", command="ordertool sync --account acct_91c2d --dry-run"))
            yield result(f"s{number}", "synced")


def test_fifty_compactions_of_one_session_lose_nothing() -> None:
    """Pins and the user's rules in every prompt, todos exact after every fold, prompt and summary bounded, and every
    identifier that is needed late and was known at the first compaction is still known."""
    with opened(LIMIT, name="chain") as session:
        chain = run(session, list(_long_session()), rules=RULES)
    assert chain.folds >= 50
    assert chain.refused == 0
    assert chain.lost == ()
    assert chain.most_tokens <= LIMIT
    assert chain.most_summary <= LIMIT * 0.5
    assert chain.todos_differ == 0
    assert chain.reworded == 0
    assert chain.known >= 3
    assert chain.gone == ()


def test_an_older_message_may_be_covered_later() -> None:
    """A request stays while newer messages are covered, and is covered after them: at no distance does that fail."""
    for distance in range(1, 64):
        newer = LedgerStep("a", assistant("look at lib/alpha.py and the rows of it"), 1_000)
        older = LedgerStep("b", user("an older word about lib/beta.py and its rows"), 1_000 - distance)
        assert update(update(RelevanceState(), [newer]), [older]).lines


LONG, LIMIT_OF_LONG = 800, 8_000
"""Messages of a session that is folded fifty times under this limit, and hardly of a shorter one."""
SETS = ("claude_code_cipher_box", "claude_code_entire_cli", "claude_code_entire_other", "codex_entire", "pi_sessions")


@cache
def _drawn() -> list[Recording]:
    """Three long sessions by the hash of their names: by nothing that has to do with how they fare."""
    long = (one for name in SETS for one in read(DATA / f"{name}.jsonl.gz") if len(one.steps) >= LONG)
    return nsmallest(3, long, key=lambda one: sha256(one.id.encode()).digest())


@pytest.mark.skipif(not DATA.is_dir(), reason=f"the recorded sessions are not at {DATA}")
@pytest.mark.parametrize("number", range(3 if os.environ.get("FOVEAL_ALL") == "1" else 1))
def test_fifty_compactions_of_a_recorded_session(number: int) -> None:
    """The same for long recorded sessions; of what is needed late, nine tenths are still known."""
    recording = _drawn()[number]
    with opened(LIMIT_OF_LONG, name="recorded") as session:
        chain = run(session, [one.message for one in recording.steps], most_folds=50)
    assert chain.folds >= 50
    assert chain.lost == ()
    assert chain.most_tokens <= LIMIT_OF_LONG
    assert chain.most_summary <= LIMIT_OF_LONG * 0.5
    assert chain.most_state <= 400_000
    assert chain.todos_differ == 0
    assert chain.reworded == 0
    assert chain.kept >= 0.9 * chain.known
