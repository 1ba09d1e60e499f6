"""Train the score of the digest: how likely a name or a line that is folded will be needed again.

    python3 -m venv /tmp/training && /tmp/training/bin/pip install lightgbm numpy msgspec
    PYTHONPATH=src /tmp/training/bin/python scripts/train_digest.py ../shared/data/*.jsonl.gz

Recorded sessions are folded as a session would be, at several limits: the oldest messages go into the digest until the rest fits.
After each fold, every name and every line of the digest that the rest does not show is one row. It was needed if it next comes
up in what the agent itself wrote in a call, more than FAR messages after it was last seen; it was not if a result showed it
again first, or if it never came back. Names that more than a tenth of the sessions share are never counted as needed.

Sessions are split by the hash of their id: the half with the lower hashes is for measuring and is never read here. Seeded; the
same sessions give the same weights. Writes src/foveal/digest/weights.json and says how good the score is on a tenth held aside.
"""

import argparse
import hashlib
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np

from foveal.core.entry import Message, ToolCall, ToolResult
from foveal.digest.features import LINE_FEATURES, NAME_FEATURES, Facts, Shown
from foveal.digest.names import names
from foveal.digest.reading import blocks, called, candidates
from foveal.digest.state import Digest
from foveal.digest.updating import update
from foveal.formats import read
from foveal.ledger import Step

FAR = 12
"""Messages back from which something counts as far: what is nearer is still shown whatever is folded."""
HORIZON = 200
"""Messages after a fold within which a need counts."""
LEAST_LINE = 24
"""Shorter lines are written by habit, not remembered."""
COMMON = 0.1
ONE_IN = 4.0
LIMITS = (16_000, 32_000, 48_000)
AIM = 0.35
"""What is left of the limit after a fold, without the digest."""
CHARS_PER_TOKEN = 3.5
TREES = {
    "objective": "binary", "num_leaves": 10, "learning_rate": 0.25, "min_data_in_leaf": 200, "lambda_l2": 5.0,
    "feature_fraction": 0.7, "bagging_fraction": 0.7, "bagging_freq": 1, "seed": 7, "deterministic": True,
    "num_threads": 1, "verbose": -1,
}  # fmt: skip
ROUNDS = 16
OUT = Path(__file__).resolve().parents[1] / "src" / "foveal" / "digest" / "weights.json"


class Seen:
    """One session: what each message holds, and where each of it comes up."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self.all: list[set[str]] = []
        self.used: list[set[str]] = []
        self.tokens = [int(len(text_of(message)) / CHARS_PER_TOKEN) + 4 for message in messages]
        calls: dict[str, Any] = {}
        for number, message in enumerate(messages):
            calls.update({part.id: called(part) for part in message.parts if isinstance(part, ToolCall)})
            found, used = set[str](), set[str]()
            for block, text, first in blocks(Step("", message, number), calls):
                held = set[str]()
                for candidate in candidates(text, first):
                    held.update(names(candidate.text))
                    if len(line := candidate.text.strip()) >= LEAST_LINE:
                        held.add(line)
                found |= held
                if block.source in ("arguments", "replaced"):
                    used |= held
            self.all.append(found)
            self.used.append(used)
        self.places: dict[str, list[int]] = {}
        for number, found in enumerate(self.all):
            for one in found:
                self.places.setdefault(one, []).append(number)

    def needed(self, what: str, now: int) -> bool:
        places = self.places.get(what, [])
        after = next((place for place in places if place >= now), None)
        if after is None or after - now > HORIZON or what not in self.used[after]:
            return False
        before = max((place for place in places if place < now), default=now)
        return after - before > FAR


def text_of(message: Message) -> str:
    found = list[str]()
    for part in message.parts:
        if isinstance(part, ToolResult):
            found.extend(getattr(item, "text", "") for item in part.content)
        else:
            found.append(getattr(part, "text", "") or getattr(part, "arguments", ""))
    return "\n".join(found)


def folds(session: Seen, limit: int) -> Iterator[tuple[Digest, Shown, int, int]]:
    """The digest after each fold under this limit, what is still shown, the newest that is folded, the next message."""
    digest, start, tokens = Digest(), 0, 0
    for now, message in enumerate(session.messages):
        if message.role == "assistant" and tokens > limit:
            first = start
            while start < now and (tokens > limit * AIM or session.messages[start].role == "tool"):
                tokens -= session.tokens[start]
                start += 1
            steps = [Step(f"{i:010x}", session.messages[i], i) for i in range(first, start)]
            digest = update(digest, steps)
            yield digest, Shown(text_of(one) for one in session.messages[start:now]), start - 1, now
        tokens += session.tokens[now]


class Rows:
    """Features, whether it was needed, and how much the row counts: of what was not needed, one in ONE_IN is taken."""

    def __init__(self) -> None:
        self.x: list[tuple[float, ...]] = []
        self.y: list[bool] = []
        self.weight: list[float] = []
        self._draw = random.Random(7)

    def append(self, of: Callable[[Any], tuple[float, ...]], what: object, needed: bool) -> None:
        if needed or self._draw.random() * ONE_IN < 1:
            self.x.append(of(what))
            self.y.append(needed)
            self.weight.append(1.0 if needed else ONE_IN)

    def extend(self, other: "Rows") -> None:
        self.x.extend(other.x)
        self.y.extend(other.y)
        self.weight.extend(other.weight)


def rows(session: Seen, common: frozenset[str], limit: int) -> tuple[Rows, Rows]:
    of_names, of_lines = Rows(), Rows()
    for digest, shown, newest, now in folds(session, limit):
        facts = Facts(digest, shown, newest)
        for name in facts.all_names():
            if name not in shown.names:
                of_names.append(facts.of_name, name, name not in common and session.needed(name, now))
        for i, line in enumerate(digest.lines):
            if (text := line.text.strip()) not in shown.lines:
                is_needed = len(text) >= LEAST_LINE and text not in common and session.needed(text, now)
                of_lines.append(facts.of_line, i, is_needed)
    return of_names, of_lines


def trained(data: Rows, held: Rows, features: Sequence[str], what: str) -> list[Any]:
    x, y = np.array(data.x, dtype=float), np.array(data.y, dtype=float)
    table = lightgbm.Dataset(x, y, weight=np.array(data.weight), feature_name=list(features))
    model = lightgbm.train(TREES, table, ROUNDS)
    guess = np.asarray(model.predict(np.array(held.x, dtype=float)))
    print(
        f"{what}: {len(y):,} rows, {np.average(y, weights=data.weight):.4f} needed; held aside: {quality(guess, held)}"
    )
    gains = model.feature_importance("gain")
    ranked = sorted(zip(gains / gains.sum(), features, strict=True), reverse=True)
    print("   " + ", ".join(f"{name} {gain:.2f}" for gain, name in ranked if gain >= 0.01))
    return [flat(tree["tree_structure"]) for tree in model.dump_model()["tree_info"]]


def quality(guess: Any, held: Rows) -> str:
    """Of all that was needed, how much is among the best twentieth, tenth and fifth."""
    order = np.argsort(-guess, kind="stable")
    needed, weight = np.array(held.y)[order], np.cumsum(np.array(held.weight)[order])
    shares = {part: needed[weight <= weight[-1] * part].sum() / max(1, needed.sum()) for part in (0.05, 0.1, 0.2)}
    return ", ".join(f"{share:.3f} in the best {part:.0%}" for part, share in shares.items())


def flat(root: dict[str, Any]) -> list[Any]:
    """A tree as the package reads it: nodes (feature, threshold, next up to it, next above it) and leaves, from -1 on."""
    nodes, leaves = list[list[float]](), list[float]()

    def place(node: dict[str, Any]) -> int:
        if "leaf_value" in node:
            leaves.append(round(node["leaf_value"], 4))
            return -len(leaves)
        at = len(nodes)
        nodes.append([node["split_feature"], round(node["threshold"], 3)])
        nodes[at] += [place(node["left_child"]), place(node["right_child"])]
        return at

    place(root)
    return [nodes, leaves]


def is_for_training(session: str) -> bool:
    return hashlib.sha256(session.encode("utf-8", "surrogatepass")).digest()[0] >= 128


def joined(many: Iterable[Rows]) -> Rows:
    found = Rows()
    for one in many:
        found.extend(one)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    sessions = list[tuple[str, Seen]]()
    for file in given.files:
        found = [one for one in read(file) if is_for_training(one.id)]
        sessions.extend((one.id, Seen([step.message for step in one.steps])) for one in found)
        print(f"{file.name}: {len(found)} sessions", file=sys.stderr, flush=True)
    held_in = Counter(one for _, session in sessions for one in session.places)
    common = frozenset(one for one, count in held_in.items() if count > len(sessions) * COMMON)
    kept: dict[bool, list[tuple[Rows, Rows]]] = {False: [], True: []}
    for id_, session in sessions:
        is_held = hashlib.sha256(id_.encode("utf-8", "surrogatepass")).digest()[1] < 26
        kept[is_held].extend(rows(session, common, limit) for limit in LIMITS if sum(session.tokens) > limit)
    weights = {
        what: trained(joined(one[i] for one in kept[False]), joined(one[i] for one in kept[True]), features, what)
        for i, (what, features) in enumerate((("names", NAME_FEATURES), ("lines", LINE_FEATURES)))
    }
    given.out.write_text(json.dumps(weights, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{given.out}: {given.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
