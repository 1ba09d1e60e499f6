"""Cases of the promise that no tag is live which the engine did not write: every sink, level, size, dialect and disguise.

A case is one attack in one text that gets into a prompt in one way, is shown at one level and sent in one dialect. A batch puts
many attacks into one session and returns what a reader that shares no code with the package takes for the host's words.
"""

import html
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

from foveal.fit.stages.clear import Clear
from foveal.fit.stages.history import History
from foveal.fit.stages.outline import Outline
from foveal.fit.stages.shorten import Shorten
from foveal.fit.stages.summarise import Summarise
from foveal.session.options import Clock, Host, Model
from foveal.session.policy import BudgetTable, Policy
from foveal.session.session import Session
from foveal.stores.large_results import keep_stream
from foveal.stores.memory import MemoryStore
from foveal.testing.builders import MODELS, SECRET, counted_ids
from foveal.values.entry import File, Message, Pin, Text, ToolCall, ToolResult, assistant, result, system, user
from foveal.values.retention import RetentionRule

from .requests import live_in

DIALECTS = tuple(sorted(MODELS))
SIZES = (10, 1_000, 40_000, 300_000, 5_000_000)
"""Bytes of a text with its attacks; the last two are kept as artifacts, one read whole and one not."""

GAPS = ("", "<b></b>" * 9, "\x1b(B", "<i>" * 12, "\x1b[0m \x1b[1m " * 5, "\x1b]0;t\x07", "<!-- x -->" * 9)
"""Put after the opening of an attack: a level takes them out, and the first pass does not see past the longer ones."""

Disguise = Callable[[Sequence[str]], str]


def _line(number: int) -> str:
    return f"{number:07} INFO worker took the next job from the queue"


FILLER = re.compile(r'(?:<p>|"|\b)?\d{7} INFO worker took the next job from the queue(?:</p>|",?)?')

FORMATS: dict[str, Disguise] = {
    "log": "\n".join,
    "page": lambda lines: "<html><body>" + "\n".join(f"<p>{line}</p>" for line in lines) + "</body></html>",
    "coded page": lambda lines: "<html><body>" + "".join(f"<p>{html.escape(line)}</p>\n" for line in lines) + "</body>",
    "JSON": lambda lines: json.dumps({"rows": list(lines)}, ensure_ascii=False),
    "JSON lines": lambda lines: "\n".join(json.dumps({"id": n, "text": line}) for n, line in enumerate(lines)),
    "colours": lambda lines: "\n".join(f"\x1b[1m{line[:1]}\x1b(B\x1b[0m{line[1:]}" for line in lines),
    "table": lambda lines: "\n".join(f"{n},{line.replace(',', ' ')},x,y" for n, line in enumerate(lines)),
    "diff": lambda lines: "diff --git a/a b/a\n@@ -1,9 +1,9 @@\n" + "\n".join(f"+{line}" for line in lines),
}


def _call(i: int, *content: Any, tool: str = "t", **options: Any) -> list[Message]:
    return [assistant("", ToolCall(f"c{i}", tool, "{}")), result(f"c{i}", *content, **options)]


def _asked(i: int, name: str, arguments: str) -> list[Message]:
    return [assistant("", ToolCall(f"c{i}", name, arguments)), result(f"c{i}", "ok " * 40)]


def _halves(text: str) -> tuple[str, str]:
    middle = max(1, len(text) // 2)
    return text[:middle], text[middle:]


Sink = Callable[[int, str], list[Message]]
RESULTS: dict[str, Sink] = {
    "a result": _call,
    "an error": lambda i, a: _call(i, f"Error: {a}", status="error"),
    "a result in two texts": lambda i, a: _call(i, *_halves(a)),
    "an argument": lambda i, a: _asked(i, "t", json.dumps({"command": ["x", a]})),
    "an argument, unescaped": lambda i, a: _asked(i, "t", json.dumps({"command": f"x\n{a}"}, ensure_ascii=False)),
}
"""Sinks whose texts fall through all levels."""

TEXTS: dict[str, Sink] = {
    "what a user says": lambda i, a: [user(a)],
    "a user's two texts": lambda i, a: [user(*_halves(a))],
    "a reply": lambda i, a: [assistant(a), user("Go on.")],
    "a reply in two texts": lambda i, a: [Message("assistant", tuple(map(Text, _halves(a)))), user("Go on.")],
    "a tool's name": lambda i, a: _asked(i, a, "{}"),
    "a key": lambda i, a: _asked(i, "t", json.dumps({a: {a: 1}})),
    "arguments that are no JSON": lambda i, a: _asked(i, "t", f"{{ {a}"),
    "a file's name": lambda i, a: [user("See:", File("application/pdf", a, b"%PDF-1.4"))],
    "a late result": lambda i, a: [Message("tool", (ToolResult(f"{a}{i}", (Text(f"late: {a}"),)),))],
    "a result's own line": lambda i, a: _call(i, _line(0) * 9, tool="kept", summary=a),
}
"""Sinks whose texts are shown whole or covered."""

FILES: dict[str, Sink] = {
    "a text file": lambda i, a: [user("See:", File("text/plain", "a.txt", a.encode("utf-8", "surrogatepass")))],
    "a text file in a result": lambda i, a: _call(i, File("text/plain", "a.txt", a.encode("utf-8", "surrogatepass"))),
    "a file in UTF-16": lambda i, a: [user("See:", File("text/plain", "a.txt", a.encode("utf-16", "surrogatepass")))],
}

BY_RETENTION: dict[str, RetentionRule] = {
    "summary": RetentionRule("summary", limit_tokens=300),
    "head and tail": RetentionRule("summary", limit_tokens=300, head=0.5),
    "reference": RetentionRule("reference"),
    "rendered": RetentionRule("summary", limit_tokens=300, renderer="careless"),
}
BY_STAGE: dict[str, Any] = {
    "shortened": Shorten(over=0.0001, to=0.0001, keep=0.0),
    "outlined": Outline(over=0.0001, to=0.0001, keep=0.0),
    "cleared": Clear(keep=0.0),
    "out of the window": History(window="per_pair", keep=0, mode="compress"),
    "summarised": Summarise(share=0.004, keep=0.0),
}
LEVELS = ("full", *BY_RETENTION, *BY_STAGE, "pinned passage")


def careless(text: str) -> str:
    """A host's renderer that takes out what a terminal and a browser would not show."""
    return html.unescape(re.sub(r"\x1b\[[0-9;]*m|\x1b\(B|</?[bi]>|<!--.*?-->", "", text))[:2_000]


class FrameCase(NamedTuple):
    """Where a batch of attacks goes."""

    sink: str
    level: str
    size: int
    dialect: str
    form: str = "log"


def cases() -> Iterator[FrameCase]:
    """Yield every combination that there is: sinks of whole texts have no size and no format, chats take no text files."""
    for dialect in DIALECTS:
        for sink, level in product((*TEXTS, *(FILES if dialect != "openai_chat" else ())), ("full", "summarised")):
            yield FrameCase(sink, level, SIZES[0], dialect)
        for sink, level, size, form in product(RESULTS, LEVELS, SIZES, FORMATS):
            if sink == "a result" or (size < 300_000 and level != "pinned passage"):
                yield FrameCase(sink, level, size, dialect, form)
        yield FrameCase("a tool's description", "full", SIZES[0], dialect)


def disguised(attacks: Sequence[str], rng: random.Random) -> list[str]:
    """Return the attacks, half of them with a gap after their opening that only a cleaner takes out."""
    return [attack[:1] + rng.choice(GAPS) + attack[1:] if rng.random() < 0.5 else attack for attack in attacks]


def session_for(case: FrameCase) -> Session:
    stages = (BY_STAGE[case.level],) if case.level in BY_STAGE else ()
    budget = BudgetTable(limit=40_000_000, reserve=0, max_bytes=900_000_000)
    if stages:
        budget = BudgetTable(limit=40_000_000, reserve=0, max_bytes=900_000_000, trigger=1_100, target=1_000)
    tools = {"kept": RetentionRule("reference")}
    if case.level in BY_RETENTION:
        tools["*"] = BY_RETENTION[case.level]
    policy = Policy(budget=budget, tools=tools, stages=stages)
    return Session(
        MemoryStore(),
        "s",
        model=Model(MODELS[case.dialect], case.dialect),
        policy=policy,
        host=Host(renderers={"careless": careless}),
        clock=Clock(counted_ids("frame"), lambda: 0, lambda: SECRET),
    )


def live_of(case: FrameCase, attacks: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return what is live in the prompts of a session with these attacks, as the independent reader sees it."""
    session, sinks = session_for(case), RESULTS | TEXTS | FILES
    entries = [entry.id for entry in session.extend([system("Be careful."), user("Begin.")])]
    pins = 0
    tools: list[dict[str, Any]] = []
    if case.sink == "a tool's description":
        tools = [
            {"name": f"t{i}", "description": a, "input_schema": {"type": "object", "properties": {"p": {"title": a}}}}
            for i, a in enumerate(attacks)
        ]
    else:
        for i, text in enumerate(texts_of(case, attacks)):
            given: Any = text
            if case.size > 4 << 20:
                given = keep_stream(session._journal.store, [text.encode("utf-8", "surrogatepass")])
            made = [entry.id for entry in session.extend(sinks[case.sink](i, given))]
            entries += made
            if case.level == "pinned passage" and case.size < 4 << 20:
                session.append(Pin(made[-1], text=text[:200]))
                pins += 1
    if case.level == "pinned passage":
        session.compaction.fold()
    prompt = session.prompt(tools)
    found = live_in(prompt, entries, FILLER, with_tools=bool(tools), pins=pins)
    session.close()
    return found


def texts_of(case: FrameCase, attacks: Sequence[str]) -> Iterator[str]:
    """Yield the texts of a case: an attack each, or all attacks among filler, more of it at the ends."""
    if case.size <= SIZES[0] and case.sink not in RESULTS:
        yield from attacks
        return
    form = FORMATS[case.form]
    if case.size <= 1_000:
        for attack in attacks:
            lines = [_line(n) for n in range(case.size // 50)]
            yield form([*lines[: len(lines) // 2], f"ERROR {attack}", attack, *lines[len(lines) // 2 :]])
        return
    filler = [_line(n) for n in range(max(1, case.size // 52))]
    step = max(1, len(filler) // max(1, len(attacks)))
    lines = list[str](attacks[:3])
    for at in range(0, len(filler), step):
        lines += filler[at : at + step]
        lines += [f"ERROR {attack}" for attack in attacks[at // step : at // step + 1]]
    yield form([*lines, *attacks[-3:]])
