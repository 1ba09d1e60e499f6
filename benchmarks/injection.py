"""What it costs to put something beside the conversation: time for each call, and the provider's cache.

    python benchmarks/injection.py                                   # 3 sessions of 3 sets in ../shared/data, 32k
    python benchmarks/injection.py --sets codex_entire --sessions 1 --out /tmp/try

(a) CPU time of a call with 20 fences and 20 reminder rules, less that of the same call without any: with rules as they usually
    are, most of them silent, and with 20 that all have something new to say with each call;
(b) the share of all input that the provider's cache serves, on recorded sessions replayed with a time, todos, files and
    reminders beside every call, and without them;
(c) what the log grows by, beside the conversation itself, when large instructions stay and reminders change with each call.

Writes results/injection.md and results/injection.json. No model is asked.
"""

import argparse
import hashlib
import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from foveal import Policy, ToolCall, assistant, result, system, user
from foveal.analysis.recordings import Recording, read
from foveal.analysis.replay.bills import bill
from foveal.analysis.replay.replay import recorded_clock, usable_tools
from foveal.context.fences import FenceKind
from foveal.context.injection import NextCall
from foveal.context.reminders import ReminderRule
from foveal.models.catalogue import find
from foveal.models.counters import encoding
from foveal.session.options import Model
from foveal.session.policy import BudgetTable
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.values.errors import OverBudget, Unrepresentable

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
RESULTS = Path(__file__).resolve().parent / "results"
SETS = ("codex_entire", "claude_code_entire_cli", "pi_sessions")
MODEL = "gpt-5"
BUDGET = 32_000
CALLS = 300
ROUNDS = 5
TARGET_MS = 0.2
TARGET_POINTS = 1.0
GROWN = 200
"""Calls over which the growth of the log is averaged."""
LONGEST = 400
"""Messages of a session that is replayed: enough for a dozen folds."""

TODOS = json.dumps(
    {"todos": [{"content": "Find it", "status": "in_progress"}, {"content": "Mend it", "status": "pending"}]}
)


# (a) Time.


def usual(fences: int) -> Session:
    """Twenty rules: those that are built in, and two of the host's."""
    rules = (
        ReminderRule("clock", "fact:time", "It is {time}."),
        ReminderRule("branch", "fact:branch", "The branch is {branch}."),
    )
    return _session(fences, rules)


def loud(fences: int) -> Session:
    """Twenty rules beside those that are built in, each with a new text for each call."""
    return _session(
        fences, tuple(ReminderRule(f"rule_{n}", "always", f"Rule {n} in call {{call}}.") for n in range(20))
    )


def _session(fences: int, rules: tuple[ReminderRule, ...]) -> Session:
    kinds = tuple(FenceKind(f"kind-{n}", lifetime="session") for n in range(fences))
    policy = Policy(max_context_tokens=100_000, fences=kinds, remind=bool(fences), reminders=rules)
    session = Session(MemoryStore(), "timed", model=Model(MODEL, "openai_chat"), policy=policy)
    session.extend([system("Be brief."), user("Mend it.")])
    session.extend([assistant("", ToolCall("t", "TodoWrite", TODOS)), result("t", "ok")])
    for kind in kinds:
        session.context.inject(kind.name, "Something that a host knows and the model should. " * 3, key="")
    return session


def timed_ms(make: Callable[[int], Session], fences: int) -> float:
    """The median of a call's CPU time over a loop of small calls."""
    session, spent = make(fences), list[int]()
    for n in range(CALLS):
        session.extend([assistant("", ToolCall(f"c{n}", "run", f'{{"n": {n}}}')), result(f"c{n}", f"done {n}")])
        next_call = NextCall(steps_left=3, facts={"time": f"12:{n % 60:02}", "branch": "main"})
        begun = time.process_time_ns()
        session.prompt(next_call=next_call)
        spent.append(time.process_time_ns() - begun)
    return statistics.median(spent) / 1e6


def times() -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for name, make in (("usual", usual), ("loud", loud)):
        # In turns, and the best of some rounds: other work on the machine only ever adds.
        rounds = [(timed_ms(make, 0), timed_ms(make, 20)) for _ in range(ROUNDS)]
        without, beside = (min(column) for column in zip(*rounds, strict=True))
        found[name] = {"without_ms": without, "with_ms": beside, "added_ms": beside - without}
    return found


# (b) The cache.


class Share(msgspec.Struct):
    """Input of a replay, in tokens."""

    calls: int = 0
    refused: int = 0
    sent: int = 0
    cached: int = 0
    tail: int = 0
    folds: int = 0

    @property
    def share(self) -> float:
        return 100 * self.cached / self.sent if self.sent else 0.0

    def add(self, other: "Share") -> None:
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


KINDS = (
    FenceKind("rules", role="system", placement="after_system", lifetime="session", must_keep=True),
    FenceKind("files", lifetime="call"),
)
RULES = (
    ReminderRule("clock", "fact:time", "It is {time}."),
    ReminderRule("todo", "fact:todo", 'Todos: 3 open. Now: "{todo}".'),
)


def replayed(recording: Recording, *, is_beside: bool) -> Share:
    policy = Policy(
        budget=BudgetTable(limit=BUDGET, reserve=0),
        fences=KINDS if is_beside else (),
        remind=is_beside,
        reminders=RULES if is_beside else (),
    )
    session = Session(
        MemoryStore(),
        recording.id,
        model=Model(MODEL, "openai_chat"),
        policy=policy,
        clock=recorded_clock(recording.id),
    )
    tools, _ = usable_tools(recording)
    share, before, sizes = Share(), list[dict[str, Any]](), dict[bytes, int]()
    for step in recording.steps[:LONGEST]:
        if step.message.role == "assistant":
            before = _call(session, tools, share, before, sizes, is_beside=is_beside)
        session.append(step.message)
    return share


def _call(
    session: Session,
    tools: Any,
    share: Share,
    before: list[dict[str, Any]],
    sizes: dict[bytes, int],
    *,
    is_beside: bool,
) -> list[dict[str, Any]]:
    """One call; what it sent, for the next to compare with."""
    number, next_call = share.calls + share.refused + 1, NextCall()
    if is_beside:
        if number == 1:
            session.context.inject("rules", "Run the tests before you say that it works. " * 5, key="")
        session.context.inject("files", f"Changed on disk: src/part_{number}.py, tests/test_part_{number}.py")
        next_call = NextCall(
            steps_left=2 + number % 4,
            facts={"time": f"{number // 60 % 24:02}:{number % 60:02}", "todo": f"step {number} of the plan"},
        )
    try:
        prompt = session.prompt(tools, next_call=next_call)
    except (OverBudget, Unrepresentable):
        share.refused += 1
        return before
    messages: list[dict[str, Any]] = prompt.request["messages"]
    share.calls += 1
    share.folds += prompt.fold is not None
    fixed = prompt.setup.tools_tokens
    tokens = [_tokens(message, sizes) for message in messages]
    share.tail += sum(size for message, size in zip(messages, tokens, strict=True) if _is_tail(message))
    same = next((i for i, pair in enumerate(zip(before, messages, strict=False)) if pair[0] != pair[1]), len(before))
    shared = fixed + sum(tokens[: min(same, len(messages))]) if before else 0
    billed = bill(find(MODEL), fixed + sum(tokens), shared)
    share.sent += billed.tokens
    share.cached += billed.cached
    return messages


def _is_tail(message: dict[str, Any]) -> bool:
    content = message["content"]
    return isinstance(content, str) and content.startswith(("<foveal:files ", "<foveal:reminder "))


def _tokens(message: dict[str, Any], sizes: dict[bytes, int]) -> int:
    text = msgspec.json.encode(message)
    if text not in sizes:
        sizes[text] = encoding("o200k_base").count(text.decode())
    return sizes[text]


def chosen(name: str, sessions: int) -> list[Recording]:
    """The first of a set's long sessions, in an order that depends on nothing but their names."""
    recordings = sorted(read(DATA / f"{name}.jsonl.gz"), key=lambda one: hashlib.sha256(one.id.encode()).digest())
    return [one for one in recordings if len(one.steps) >= 120][:sessions]


def shares(names: Sequence[str], sessions: int) -> dict[str, dict[str, Share]]:
    found: dict[str, dict[str, Share]] = {}
    for name in names:
        found[name] = {"without": Share(), "with": Share()}
        for recording in chosen(name, sessions):
            for key, is_beside in (("without", False), ("with", True)):
                found[name][key].add(replayed(recording, is_beside=is_beside))
        print(name, {key: round(one.share, 2) for key, one in found[name].items()}, flush=True)
    return found


# (c) The log.


def growth() -> dict[str, float]:
    """Bytes that a call adds to the log: those of the conversation, and those of the marks of what stood beside it."""
    rules = (ReminderRule("clock", "fact:time", "It is {time}."),)
    store, policy = MemoryStore(), Policy(max_context_tokens=200_000, fences=KINDS, remind=True, reminders=rules)
    session = Session(store, "grown", model=Model(MODEL, "openai_chat"), policy=policy)
    session.extend([system("Be brief."), user("Mend it.")])
    session.context.inject("rules", "Run the tests before you say that it works. " * 233, key="")
    for n in range(GROWN):
        todos = [{"content": f"Step {n + i}", "status": status} for i, status in enumerate(("in_progress", "pending"))]
        session.extend(
            [assistant("", ToolCall(f"c{n}", "TodoWrite", json.dumps({"todos": todos}))), result(f"c{n}", "ok")]
        )
        session.prompt(next_call=NextCall(steps_left=3, facts={"time": f"12:{n % 60:02}"}))
    rows = [row.payload for row in store.rows("grown")]
    marks = sum(len(row) for row in rows if row.startswith(b'={"is":"beside"'))
    return {"marks_bytes": marks / GROWN, "log_bytes": sum(map(len, rows)) / GROWN}


# The report.


def report(
    timed: dict[str, dict[str, float]], found: dict[str, dict[str, Share]], grown: dict[str, float], sessions: int
) -> str:
    worst = max(pair["without"].share - pair["with"].share for pair in found.values())
    lines = [
        "# What stands beside the conversation, and what it costs",
        "",
        f"`python benchmarks/injection.py`, Python {platform.python_version()}, {sessions} sessions of each set.",
        "",
        "## Time",
        "",
        f"CPU time of `session.prompt()` in a loop of {CALLS} small calls, median of the calls, best of {ROUNDS} rounds, in ms.",
        f"Aim: 20 fences and 20 rules add less than {TARGET_MS} ms.",
        "",
        "| rules | without | with 20 fences and 20 rules | added |",
        "|---|---:|---:|---:|",
    ]
    names = {
        "usual": "18 built in and 2 of the host's; 4 speak",
        "loud": "20 of the host's, each with a new text each call",
    }
    lines += [
        f"| {names[key]} | {one['without_ms']:.3f} | {one['with_ms']:.3f} | {one['added_ms']:.3f} |"
        for key, one in timed.items()
    ]
    lines += [
        "",
        "## The cache",
        "",
        f"Recorded sessions (their first {LONGEST} messages) under {BUDGET:,} tokens, as {MODEL}. Beside every call: rules",
        "after the system prompt, and at the tail the time, a todo, steps left and the files that changed, all new with each",
        "call, with whatever the built-in rules have to say. The share of the input that the provider's cache serves, in per",
        f"cent. Aim: within {TARGET_POINTS:.0f} point. *Own weight*: what the tail takes of the input, never cached.",
        "",
        "| set | calls | tail, tokens a call | folds without / with | cached without | cached with | points | own weight |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, pair in found.items():
        plain, beside = pair["without"], pair["with"]
        per_call = beside.tail / beside.calls if beside.calls else 0
        weight = 100 * beside.tail / beside.sent if beside.sent else 0
        lines.append(
            f"| {name} | {beside.calls:,} | {per_call:.0f} | {plain.folds} / {beside.folds} | {plain.share:.2f} "
            f"| {beside.share:.2f} | {beside.share - plain.share:+.2f} | {weight:.2f} |"
        )
    lines += ["", f"The largest loss is {worst:.2f} points.", "", *_log_lines(grown)]
    return "\n".join(lines)


def _log_lines(grown: dict[str, float]) -> list[str]:
    return [
        "## The log",
        "",
        f"10 KB of instructions that stay, and todos, time and steps left that change with each call; mean of {GROWN} calls.",
        "",
        "| | bytes a call |",
        "|---|---:|",
        f"| marks of what stood beside the prompts | {grown['marks_bytes']:,.0f} |",
        f"| the whole log | {grown['log_bytes']:,.0f} |",
        "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=SETS, help="names of files in ../shared/data")
    parser.add_argument("--sessions", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    timed = times()
    print(json.dumps(timed, indent=1), flush=True)
    grown = growth()
    print(json.dumps(grown, indent=1), flush=True)
    found = shares(args.sets, args.sessions)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "injection.md").write_text(report(timed, found, grown, args.sessions), encoding="utf-8")
    plain = {name: {key: msgspec.to_builtins(one) for key, one in pair.items()} for name, pair in found.items()}
    (args.out / "injection.json").write_text(
        json.dumps({"times": timed, "cache": plain, "log": grown}, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
