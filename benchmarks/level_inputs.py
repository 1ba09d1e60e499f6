"""Inputs for `levels.py`: ordinary texts of each kind, texts made to take long, and random ones."""

import json
import random
from collections.abc import Callable
from typing import Any

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


_SIGNS = "ab {}[]\",:;<>/\\|&=+-#@.\n\r\t\x1b\x000123456789éß日👍\u0301\u200d\ud800🇩'`*_~^$%()"


def random_text(rng: random.Random) -> str:
    """Signs at random, or pieces of the inputs above, repeated, damaged and mixed."""
    if rng.random() < 0.25:
        return "".join(rng.choices(_SIGNS, k=rng.randint(0, 600)))
    pieces: list[str] = []
    for _ in range(rng.randint(1, 12)):
        make, _ = rng.choice(list(INPUTS.values()))
        piece = make(rng.choice((20, 100, 400)))
        at = rng.randint(0, len(piece))
        damage = rng.choice(_SIGNS) * rng.choice((0, 0, 1, 5))
        pieces += [piece[:at] + damage + piece[at + rng.randint(0, 3) :]] * rng.choice((1, 1, 1, 2, 10))
    return rng.choice(("\n", "\n", "", "\r\n")).join(pieces)
