"""How fast the levels are, whether their time grows with the input alone, and what they keep.

    python benchmarks/levels.py                # MB/s, and the time of twice the input over the time of the input
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

from foveal.counters import counter_for
from foveal.levels.choose import LEVELS, trim
from foveal.levels.head_tail import head_tail
from foveal.levels.outline import outline
from foveal.levels.room import Room

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
REF = "k3v9x2m1qa"
LARGE_TOKENS = 1_500
ROOMS = (300, 1_000)
SEED = 7


def log_text(size: int) -> str:
    rng = random.Random(SEED)
    words = ("request", "worker", "cache", "index", "shard", "replica", "commit", "queue", "reader", "writer")
    lines: list[str] = []
    total = 0
    while total < size:
        level = rng.choices(("INFO", "DEBUG", "WARN", "ERROR"), (80, 15, 4, 1))[0]
        at = f"2026-01-{rng.randint(1, 28):02} 10:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"
        who, what, whom = rng.choices(words, k=3)
        line = f"{at} {level} [{who}-{rng.randint(1, 64)}] {what} of the {whom} took {rng.randint(1, 9999)} ms"
        lines.append(line)
        total += len(line) + 1
    return "\n".join(lines)[:size]


def json_text(size: int) -> str:
    rng = random.Random(SEED)
    items: list[dict[str, Any]] = []
    total = 0
    while total < size:
        item = {
            "id": f"{rng.getrandbits(64):016x}",
            "name": f"user {rng.randint(1, 10**6)}",
            "score": rng.random(),
            "age": rng.randint(1, 99),
            "status": rng.choices(("active", "idle", "failed"), (900, 99, 1))[0],
            "tags": [rng.choice("abcdef") for _ in range(3)],
        }
        items.append(item)
        total += 130
    return json.dumps(items)


def code_text(size: int) -> str:
    rng = random.Random(SEED)
    body: list[str] = []
    total = 0
    while total < size:
        name = f"fn_{rng.getrandbits(24):x}"
        piece = f"def {name}(a, b):\n    value_{rng.getrandbits(16)} = a + b\n    if a > b:\n        return {name}(b, a)\n\n"
        body.append(piece)
        total += len(piece)
    return "".join(body)[:size]


def repeated(unit: str) -> Callable[[int], str]:
    return lambda size: (unit * (size // len(unit) + 1))[:size]


INPUTS: dict[str, tuple[Callable[[int], str], str]] = {
    "logs": (log_text, "bash"),
    "json": (json_text, "api"),
    "json lines": (lambda size: "\n".join(json.dumps(item) for item in json.loads(json_text(size))), "api"),
    "code": (code_text, "read x.py"),
    "diff": (
        repeated("diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n a = 1\n-b = 2\n+b = 3\n"),
        "git diff",
    ),
    "csv": (repeated("id,name,amount\n17,anna,12.5\n18,bert,13.25\n"), "cat x.csv"),
    "html": (repeated("<div><p>Some <b>text</b> of the page</p><ul><li>one</li></ul></div>\n"), "fetch"),
    "search": (repeated("src/a/file.py:12:def connect(host):\nsrc/b/other.py:7:    connect(x)\n"), "rg connect"),
    "paths": (repeated("./src/app/main.py\n./src/app/util/text.ts\n./docs/index.md\n"), "find ."),
    "stack": (
        repeated('Traceback (most recent call last):\n  File "/app/x.py", line 3, in f\n    g()\nValueError: bad\n'),
        "bash",
    ),
    "prose": (
        repeated("# Heading\n\nA paragraph about the Engine and its max_tokens setting, in plain words.\n\n"),
        "read a.md",
    ),
    "one line": (repeated("abcdefghij klmnop "), "cat"),
    "base64": (repeated("QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo"), "cat"),
    "'<' × n": (repeated("<"), "fetch"),
    "'<a ' × n": (repeated("<a "), "fetch x.html"),
    "'[' × n": (repeated("["), "api"),
    "'[{\"a\":' × n": (repeated('[{"a":'), "api"),
    "ESC × n": (repeated("\x1b"), "bash"),
    "ESC[1; × n": (repeated("\x1b[1;"), "bash"),
    "colours": (repeated("\x1b[31mred\x1b[0m text\n"), "bash"),
    "CR × n": (repeated("\r"), "bash"),
    "progress": (repeated("downloading 12 %\r"), "bash"),
    "blank lines": (repeated("\n"), "bash"),
    "spaces": (repeated(" "), "bash"),
    "spaces and breaks": (repeated(" " * 200 + "\n"), "bash"),
    "'a/' × n": (repeated("a/"), "find ."),
    "combining": (repeated("e\u0301"), "cat"),
    "error × n": (repeated("error\n"), "bash"),
}


def seconds(run: Callable[[], object], repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


def speed(size: int, repeats: int) -> None:
    count = counter_for("gpt-5").counter.count
    room = Room(1_000, count, REF)
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


ATOM = re.compile(r"[A-Za-z_0-9./\\:@-]{4,120}")


def atoms(text: str) -> frozenset[str]:
    """Paths, symbols and numbers; not plain words."""
    stripped = (found.strip(".:-/\\@") for found in ATOM.findall(text))
    return frozenset(a for a in stripped if len(a) >= 4 and not (a.isalpha() and (a.islower() or a.istitle())))


class Case:
    """One large result: what of it was used later, and what was in use before and shortly after."""

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
        name: trim(case.text, case.hint, Room(tokens, count, REF, focus))
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
    parser.add_argument("--per-set", type=int, default=400, help="results of each set, for --quality")
    parser.add_argument("--size", type=int, default=2_000_000, help="characters of each input")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"levels: {', '.join(level.name for level in LEVELS)}\n")
    if options.quality:
        return quality(options.per_set)
    speed(options.size, options.repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
