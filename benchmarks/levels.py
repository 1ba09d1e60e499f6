"""The speed of the levels, the growth of their time with the input, and the details that they keep.

    python benchmarks/levels.py                # MB/s, and the time of twice the input over the time of the input
    python benchmarks/levels.py --fuzz 100000  # random texts through every level: none may raise or exceed its room
    python benchmarks/levels.py --quality      # what a stand-in keeps of what the agent used later; needs ../shared/data

Quality is a proxy: of the identifiers, paths and numbers in a large tool result that occur in the agent's later tool calls,
the share that still stands in the stand-in. A path also counts as shown where its folder and its name are.
"""

import argparse
import gzip
import json
import random
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from foveal.models.counters import counter_for
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.choose import LEVELS, trim
from foveal.text.shorten.head_tail import head_tail
from foveal.text.shorten.outline import outline
from level_inputs import INPUTS, random_text

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
REF = "k3v9x2m1qa"
LARGE_TOKENS = 1_500
ROOMS = (300, 1_000)
SEED = 7


def seconds(run: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def speed(size: int, repeats: int) -> None:
    count = counter_for("gpt-5").counter.count
    room = Allowance(1_000, count, REF)
    print(f"| input, {size / 1e6:g} MB | level | MB/s | time(2n)/time(n) | outline MB/s |\n|---|---|---|---|---|")
    for name, (make, hint) in INPUTS.items():
        once, twice = make(size), make(2 * size)
        found = trim(once, hint, room)
        first = seconds(lambda once=once, hint=hint: trim(once, hint, room), repeats)
        second = seconds(lambda twice=twice, hint=hint: trim(twice, hint, room), repeats)
        lined = seconds(lambda once=once, hint=hint: outline(once, hint, "text", room), 1)
        print(
            f"| {name} | {found[0] if found else 'none'} | {len(once) / first / 1e6:.0f} | {second / first:.2f}"
            f" | {len(once) / lined / 1e6:.0f} |",
            flush=True,
        )


def fuzz(texts: int, seed: int) -> int:
    rng = random.Random(seed)
    room_of = {
        "bytes": lambda text: len(text.encode("utf-8", "surrogatepass")),
        "quarter": lambda text: (len(text) + 3) // 4,
    }
    for number in range(texts):
        if number and number % 100_000 == 0:
            print(f"{number:,} texts so far", flush=True)
        text, count = random_text(rng), rng.choice(list(room_of.values()))
        room = Allowance(
            rng.randint(1, 500),
            count,
            REF,
            frozenset(rng.sample(("fn_", "17", "error", "日", "x.py"), rng.randint(0, 3))),
        )
        level = rng.choice(LEVELS)
        found = trim(text, rng.choice(("bash", "read x.py", "fetch", "")), room)
        for shown in (found[1] if found else None, level.shrink(text, room), outline(text, "bash", level.name, room)):
            bad = shown is not None and not (
                count(shown) <= room.tokens and count(shown) < count(text) and REF in shown
            )
            if bad or level.fits(text, "") not in (True, False):
                print(f"text {number} of seed {seed} breaks {level.name}: {text!r}")
                return 1
    print(f"{texts:,} texts through trim, one level and the outline: no error, none too long")
    return 0


ATOM = re.compile(r"[A-Za-z_0-9./\\:@-]{4,120}")


def atoms(text: str) -> frozenset[str]:
    """Paths, symbols and numbers; not plain words."""
    stripped = (found.strip(".:-/\\@") for found in ATOM.findall(text))
    return frozenset(a for a in stripped if len(a) >= 4 and not (a.isalpha() and (a.islower() or a.istitle())))


class Case:
    """One large result: its details that were used later, and those in use before and shortly after."""

    def __init__(self, source: str, hint: str, text: str, messages: list[dict[str, Any]], at: int) -> None:
        self.source, self.hint, self.text = source, hint, text
        later = [atoms(arguments(m)) for m in messages[at + 1 :] if m.get("tool_calls")]
        have = atoms(text)
        asked = [m["content"] for m in messages[:at] if m["role"] == "user" and isinstance(m["content"], str)]
        before = [atoms(arguments(m)) for m in messages[max(0, at - 12) : at]]
        self.before = frozenset().union(*before, atoms(asked[-1][:4_000]) if asked else frozenset())
        self.since = self.before.union(*later[:5])
        self.used = have.intersection(frozenset().union(*later))
        self.used_far = have.intersection(frozenset().union(*later[5:]))


def arguments(message: dict[str, Any]) -> str:
    texts = (call["function"]["arguments"] for call in message.get("tool_calls") or ())
    return " ".join(text.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"') for text in texts)


def cases(per_set: int, count: Callable[[str], int]) -> Iterator[Case]:
    for path in sorted(DATA.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            sessions = [json.loads(line)["messages"] for line in file]
        places = [(messages, at) for messages in sessions for at, m in enumerate(messages) if m["role"] == "tool"]
        random.Random(SEED).shuffle(places)
        taken = 0
        for messages, at in places:
            text = messages[at]["content"]
            if taken == per_set or not isinstance(text, str) or len(text) < LARGE_TOKENS or count(text) <= LARGE_TOKENS:
                continue
            call = messages[at]["tool_call_id"]
            calls = (c for m in reversed(messages[:at]) for c in m.get("tool_calls") or () if c["id"] == call)
            asked = next(calls, {"function": {"name": "?", "arguments": ""}})["function"]
            case = Case(path.name.split(".")[0], f"{asked['name']} {asked['arguments']}", text, messages, at)
            if case.used:
                taken += 1
                yield case


def shown(atom: str, text: str) -> bool:
    folder, _, name = atom.rpartition("/")
    return atom in text or (bool(folder) and len(name) > 3 and f"{folder}/" in text and name in text)


def quality(per_set: int) -> int:
    if not DATA.is_dir():
        print(f"no recordings at {DATA}: nothing to measure")
        return 0
    count = counter_for("gpt-5").counter.count
    sums: defaultdict[tuple[str, int, str], list[float]] = defaultdict(list)
    for case in cases(per_set, count):
        for tokens in ROOMS:
            measure(case, tokens, count, sums)
    columns = (
        "head and tail",
        "trim",
        "trim, focus before",
        "far: head and tail",
        "far: trim",
        "far: trim, focus since",
    )
    print(f"| set | room | n | {' | '.join(columns)} |\n|---|---|---|{'---|' * len(columns)}")
    for source, tokens in sorted({(source, tokens) for source, tokens, _ in sums}):
        means = (sums[source, tokens, column] for column in columns)
        cells = " | ".join(f"{sum(values) / len(values):.3f}" if values else "" for values in means)
        print(f"| {source} | {tokens} | {len(sums[source, tokens, columns[0]])} | {cells} |")
    return 0


def measure(
    case: Case, tokens: int, count: Callable[[str], int], sums: defaultdict[tuple[str, int, str], list[float]]
) -> None:
    plain = head_tail(case.text, tokens, count, REF) or ""
    trimmed = {
        name: trim(case.text, case.hint, Allowance(tokens, count, REF, focus))
        for name, focus in (("", frozenset[str]()), ("before", case.before), ("since", case.since))
    }
    texts = {name: found[1] if found else "" for name, found in trimmed.items()}
    level = trimmed[""][0] if trimmed[""] else "none"
    rows = (
        ("head and tail", plain, case.used),
        ("trim", texts[""], case.used),
        ("trim, focus before", texts["before"], case.used),
        ("far: head and tail", plain, case.used_far),
        ("far: trim", texts[""], case.used_far),
        ("far: trim, focus since", texts["since"], case.used_far),
    )
    for column, text, wanted in rows:
        if wanted:
            kept = sum(shown(atom, text) for atom in wanted) / len(wanted)
            for group in (case.source, "**all**", f"level {level}"):
                sums[group, tokens, column].append(kept)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quality", action="store_true")
    parser.add_argument("--fuzz", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--per-set", type=int, default=400, help="results of each set, for --quality")
    parser.add_argument("--size", type=int, default=2_000_000, help="characters of each input")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"levels: {', '.join(level.name for level in LEVELS)}\n")
    if options.fuzz:
        return fuzz(options.fuzz, options.seed)
    if options.quality:
        return quality(options.per_set)
    speed(options.size, options.repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
