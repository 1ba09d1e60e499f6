"""What content-aware retention is worth on recorded coding sessions, and whether what it folds can be had back.

    python benchmarks/retention.py                                  # all coding sets in ../shared/data, 32k and 64k
    python benchmarks/retention.py --sets codex_entire --sessions 2 --budgets 32000

(a) *before* (plain head and tail, identical calls only) against *after* (the default stages), per set and budget;
(b) the default stages with one level switched off at a time, at the smallest budget;
(c) every reference in the last prompt fetched window by window and compared with the recording, byte for byte.

Writes results/retention.md and results/retention.json. No model is asked: see ../shared/bench.md for what is measured and how.
"""

import argparse
import functools
import hashlib
import json
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from foveal import log
from foveal.bench import grounding
from foveal.bench.replay import Replay, replay
from foveal.core.entry import Message, Part, PartFold, Text, Thinking, ToolCall, ToolResult
from foveal.core.errors import FovealError
from foveal.core.prompt import Prompt
from foveal.core.view import entry_ref
from foveal.counters import counter_for
from foveal.formats import Recording, read
from foveal.levels import choose
from foveal.levels.choose import LEVELS, trim
from foveal.policies import DEFAULT_STAGES, Policy, Repeats, Shorten, Superseded
from foveal.recall import Fetch, fetch
from foveal.session import Session
from foveal.stores.memory import MemoryStore

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
RESULTS = Path(__file__).resolve().parent / "results"
SETS = (
    "claude_code_entire_cli",
    "claude_code_entire_other",
    "claude_code_oh_my_posh",
    "claude_code_cipher_box",
    "codex_entire",
    "pi_sessions",
    "polybench_iswe",
    "polybench_rovodev",
)
MODEL = "gpt-5"
"""Its tokens are counted exactly; the same counter and prices for every session and policy."""
LEAST_TOKENS = 45_000
COMMON_SESSIONS = 30
"""Of each set, to tell which clues too many sessions share."""
WRITE_DEARER = 1.25
"""Anthropic-like: writing the cache costs more than plain input; reading it a tenth."""

RESAMPLED = 1_000
"""Times that the sessions are drawn anew, to see how far a difference depends on which they are."""

Figures = Counter[str]
"""Sums over calls, actions and parts; shares are made of them at the end."""


def changed(**options: Any) -> tuple[Any, ...]:
    return tuple(
        msgspec.structs.replace(stage, **options) if isinstance(stage, Shorten) else stage for stage in DEFAULT_STAGES
    )


def with_superseded(*instead: Any) -> tuple[Any, ...]:
    stages = list[Any]()
    for stage in DEFAULT_STAGES:
        stages.extend(instead if isinstance(stage, Superseded) else (stage,))
    return tuple(stages)


PLAIN = tuple(Repeats() if isinstance(stage, Superseded) else stage for stage in changed(plain=True))
OFF: dict[str, tuple[Any, ...]] = {
    **{level.name: changed(without=(level.name,)) for level in LEVELS},
    "superseded": with_superseded(),
    "superseded, but for identical calls": with_superseded(Repeats()),
    "superseded by an edit": with_superseded(Superseded(edited=False)),
    "all levels": changed(plain=True),
}


# The sample


def by_hash(recordings: Iterable[Recording]) -> list[Recording]:
    return sorted(recordings, key=lambda one: hashlib.sha256(one.id.encode("utf-8", "surrogatepass")).digest())


def tokens_of(recording: Recording) -> int:
    count = counter_for(MODEL).counter.count
    return sum(count(text) for step in recording.steps for part in step.message.parts for text in (original(part),))


class Sample(msgspec.Struct):
    name: str
    recordings: list[Recording]
    long: int
    """Sessions of the set that are long enough."""
    whole: int
    """Sessions of the set."""


def load(names: Sequence[str], sessions: int) -> tuple[list[Sample], frozenset[str]]:
    samples, for_common = list[Sample](), list[Recording]()
    for name in SETS:  # whichever are asked for: what is common must not depend on it
        recordings = by_hash(read(DATA / f"{name}.jsonl.gz"))
        for_common.extend(recordings[:COMMON_SESSIONS])
        if name in names:
            long = [one for one in recordings if tokens_of(one) >= LEAST_TOKENS]
            samples.append(Sample(name, long[:sessions], len(long), len(recordings)))
    return samples, grounding.common_clues(for_common)


# One replay


class Run(msgspec.Struct):
    figures: Figures
    last: Prompt | None
    """The last prompt that was sent, and how many messages of the recording stand before it."""
    before: int
    levels: Counter[str]
    """Parts that were folded, by what made their stand-in."""
    notes: tuple[str, ...]


def run(recording: Recording, stages: tuple[Any, ...], budget: int, common: frozenset[str], store: MemoryStore) -> Run:
    policy = Policy(max_context_tokens=budget, stages=stages)
    figures, tally, kept = Figures(), grounding.Tally(), list[Replay]()
    raw_results, places = raw_result_tokens(recording)
    made, levels, folded = dict[str, str](), Counter[str](), set[tuple[str, str, int]]()
    last: tuple[Prompt | None, int] = None, 0

    def noting(*args: Any, **options: Any) -> tuple[str, str] | None:
        found = trim(*args, **options)
        if found:
            made[found[1]] = found[0]
        return found

    def look(number: int, prompt: Prompt | None) -> None:
        nonlocal last
        if prompt is None:
            return
        last = prompt, places[number - 1]
        figures["raw_results"] += raw_results[number - 1]
        figures["sent_results"] += sum(result_tokens(prompt))
        for item in prompt.fold.items if prompt.fold else ():
            name = source_of(item, made)
            if isinstance(item, PartFold) and (name, item.entry, item.part) not in folded:
                folded.add((name, item.entry, item.part))
                levels[name] += 1

    def watched(recording: Recording, *, on_prompt: Any, **options: Any) -> None:
        def both(number: int, prompt: Prompt | None, refused: str) -> None:
            look(number, prompt)
            on_prompt(number, prompt, refused)

        kept.append(replay(recording, on_prompt=both, store=store, **options))

    with patch.object(grounding, "replay", watched), patch.object(choose, "trim", noting):
        grounding.ground(recording, policy, model=MODEL, common=common, tally=tally)
    figures.update(msgspec.structs.asdict(tally))
    figures.update(billed(kept[0]))
    return Run(figures, *last, levels, kept[0].notes)


def source_of(item: object, made: dict[str, str]) -> str:
    if not isinstance(item, PartFold):
        return "gap"
    return made.get(item.text, "arguments") if item.policy == "shorten" else item.policy


def raw_result_tokens(recording: Recording) -> tuple[list[int], list[int]]:
    """For each call, the tokens of all results before it in full, and how many messages stand before it."""
    with Session(MemoryStore(), "measure", model=MODEL) as session:
        tokens, found, places = 0, list[int](), list[int]()
        for place, step in enumerate(recording.steps):
            if step.message.role == "assistant":
                found.append(tokens)
                places.append(place)
            elif step.message.role == "tool":
                tokens += session.view.measure(step.message)
    return found, places


def result_tokens(prompt: Prompt) -> Iterator[int]:
    for atom in prompt.atoms:
        for item in atom.items:
            yield from (shown.size.tokens for shown in item.shown if isinstance(shown.part, ToolResult))


def billed(done: Replay) -> Figures:
    figures = Figures(calls=len(done.calls))
    for call in done.calls:
        figures["moved"] += call.moved
        figures["folds"] += call.fold is not None
        if call.sent is None:
            figures["refused"] += 1
            continue
        figures["over"] += call.sent.tokens > done.limit
        for name, one in (("raw", call.raw), ("sent", call.sent)):
            figures[f"{name}_tokens"] += one.tokens
            figures[f"{name}_usd"] += one.cost_usd or 0.0  # pyright: ignore[reportArgumentType]
            figures[f"{name}_dearer"] += 0.1 * one.cached + WRITE_DEARER * (one.tokens - one.cached)  # pyright: ignore[reportArgumentType]
    return figures


def share(figures: Figures, part: str, whole: str) -> float:
    return figures[part] / figures[whole] if figures[whole] else 1.0


def shares(figures: Figures) -> dict[str, float]:
    return {
        "raw_result_share": share(figures, "raw_results", "raw_tokens"),
        "sent_result_share": share(figures, "sent_results", "sent_tokens"),
        "far_grounding": share(figures, "far_shown", "far"),
        "on_offer": share(figures, "far_offered", "far"),
        "short_range": share(figures, "near_shown", "near"),
        "complete": share(figures, "complete", "actions"),
        "cost": share(figures, "sent_usd", "raw_usd"),
        "cost_write_dearer": share(figures, "sent_dearer", "raw_dearer"),
    }


# The way back


def original(part: Part) -> str:
    """The text of a part as it was recorded, told without the code that is measured."""
    match part:
        case Text(text) | Thinking(text):
            return text
        case ToolCall(_, name, arguments):
            return f"{name}({arguments})"
        case ToolResult(_, content):
            return "\n".join(item.text if isinstance(item, Text) else "" for item in content)
        case _:
            return ""


def has_image(message: Message) -> bool:
    inside = [item for part in message.parts if isinstance(part, ToolResult) for item in part.content]
    return any(not isinstance(item, Text) for item in inside) or any(
        not isinstance(part, Text | Thinking | ToolCall | ToolResult) for part in message.parts
    )


def transcript(messages: Sequence[tuple[str, Message]]) -> str:
    return "\n\n".join(
        f"[{message.role} {entry[:10]}]\n" + "\n".join(original(part) for part in message.parts)
        for entry, message in messages
    )


_REF = re.compile(r"(?<![\w.])([0-9a-f]{10})(?:\.\.([0-9a-f]{10})|\.(\d+))?(?![\w])")


class Way:
    """The last prompt of one session, and the originals behind what it names."""

    def __init__(self, store: MemoryStore, recording: Recording, prompt: Prompt, before: int) -> None:
        self.store, self.prompt, self.session = store, prompt, recording.id
        entries = [log.to_entry(row, recording.id) for row in store.rows(recording.id)]
        ids = [entry.id for entry in entries if isinstance(entry.body, Message)]
        assert len(ids) == len(recording.steps)
        self.messages = list(zip(ids, (step.message for step in recording.steps), strict=True))[:before]
        self.place = {entry_ref(entry): at for at, (entry, _) in enumerate(self.messages)}
        self.figures = Figures(sessions=1)

    def check(self) -> Figures:
        back: set[tuple[str, int]] = set()
        for ref in sorted(self.named()):
            self.figures["references"] += 1
            back |= self.fetched(*ref)
        shown = {
            (item.id, i)
            for atom in self.prompt.atoms
            for item in atom.items
            for i, one in enumerate(item.shown)
            if one.level == "full"
        }
        hidden = {
            (item.id, i)
            for atom in self.prompt.atoms
            for item in atom.items
            for i, one in enumerate(item.shown)
            if one.policy == "dialect" and one.part is None
        }
        respaced = {
            (item.id, i)
            for atom in self.prompt.atoms
            for item in atom.items
            for i, one in enumerate(item.shown)
            if isinstance(one.part, ToolCall) and self.is_same_json(item.id, i, one.part)
        }
        for entry, message in self.messages:
            for i, part in enumerate(message.parts):
                size = len(original(part).encode("utf-8", "surrogatepass"))
                if (entry, i) in hidden:
                    self.figures["hidden_bytes"] += size
                elif (entry, i) not in shown:
                    if (entry, i) not in back and (entry, i) in respaced:
                        self.figures["respaced"] += 1
                        self.figures["respaced_bytes"] += size
                    self.figures["folded_parts"] += 1
                    self.figures["folded_bytes"] += size
                    self.figures["back_bytes"] += size * ((entry, i) in back)
                    self.figures["back_parts"] += (entry, i) in back
        return self.figures

    def is_same_json(self, entry: str, part: int, shown: ToolCall) -> bool:
        recorded = self.messages[self.place[entry_ref(entry)]][1].parts[part]
        try:
            return isinstance(recorded, ToolCall) and json.loads(recorded.arguments) == json.loads(shown.arguments)
        except ValueError:
            return False

    def named(self) -> set[tuple[str, str, int]]:
        """First entry, last entry (empty for a part), part: what any stand-in of the prompt names."""
        found: set[tuple[str, str, int]] = set()
        for atom in self.prompt.atoms:
            below = [one for item in atom.items for one in item.shown if one.level != "full"]
            if not atom.gap and not below:
                continue
            text = atom.gap.text if atom.gap else "\n".join(original(one.part) for one in below if one.part)
            for first, last, part in _REF.findall(text):
                if first in self.place and (not last or last in self.place):
                    found.add((first, last, int(part or 0)))
        return found

    def fetched(self, first: str, last: str, part: int) -> set[tuple[str, int]]:
        """The parts that came back whole."""
        if last:
            chosen = self.messages[self.place[first] : self.place[last] + 1]
            ref, wanted = f"{first}..{last}", transcript(chosen)
            parts = {(entry, i) for entry, message in chosen for i in range(len(message.parts))}
        else:
            entry, message = self.messages[self.place[first]]
            chosen = [(entry, message)]
            ref, wanted = f"{first}.{part}" if part else first, original(message.parts[part])
            parts = {(entry, part)}
        if any(has_image(message) for _, message in chosen):
            self.figures["with_images"] += 1  # as words in brackets: no text to compare
        pieces, following = list[str](), Fetch(ref)
        while following:
            self.figures["calls"] += 1
            try:
                window = fetch(self.store, self.session, following)
            except FovealError as error:
                self.figures["errors"] += 1
                print(f"{self.session}: {ref}: {error}", file=sys.stderr)
                return set()
            pieces.append(window.text)
            following = window.next
        self.figures["one_call"] += len(pieces) == 1
        same = "".join(pieces).encode("utf-8", "surrogatepass") == wanted.encode("utf-8", "surrogatepass")
        self.figures["same"] += same
        if not same:
            print(f"{self.session}: {ref}: came back different", file=sys.stderr)
        return parts if same else set()


# All of it


class Findings(msgspec.Struct):
    samples: dict[str, dict[str, int]] = {}
    compared: dict[str, dict[str, list[Figures]]] = {}
    """By `set budget`, then before and after, session by session."""
    off: dict[str, dict[str, list[Figures]]] = {}
    """By set, then what was off, session by session; `on` is the default."""
    touched: Counter[str] = msgspec.field(default_factory=Counter)
    touched_in: Counter[str] = msgspec.field(default_factory=Counter)
    reach: dict[str, Figures] = {}
    off_sessions: int = 0
    seconds: float = 0.0


def measure(sample: Sample, budgets: Sequence[int], common: frozenset[str], levels: int, found: Findings) -> None:
    compared = {budget: {"before": list[Figures](), "after": list[Figures]()} for budget in budgets}
    off: dict[str, list[Figures]] = defaultdict(list)
    reach = Figures()
    for number, recording in enumerate(sample.recordings):
        start = time.monotonic()
        with patch.object(grounding, "clues", functools.cache(grounding.clues)):
            for budget in budgets:
                compared[budget]["before"].append(run(recording, PLAIN, budget, common, MemoryStore()).figures)
                store = MemoryStore()
                after = run(recording, DEFAULT_STAGES, budget, common, store)
                compared[budget]["after"].append(after.figures)
                if budget != min(budgets):
                    continue
                found.touched.update(after.levels)
                found.touched_in.update(set(after.levels))
                if after.last:
                    reach.update(Way(store, recording, after.last, after.before).check())
                if number < levels:
                    switch_off(recording, budget, common, after, off)
                    found.off_sessions += 1
        print(f"{sample.name} {number + 1}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    found.samples[sample.name] = {"sampled": len(sample.recordings), "long": sample.long, "whole": sample.whole}
    found.compared.update({f"{sample.name} {budget}": figures for budget, figures in compared.items()})
    found.off[sample.name] = dict(off)
    found.reach[sample.name] = reach


def switch_off(
    recording: Recording, budget: int, common: frozenset[str], on: Run, off: dict[str, list[Figures]]
) -> None:
    off["on"].append(on.figures)
    for name, stages in OFF.items():
        # A level that made nothing in this session changes nothing by its absence: the replay would be the same.
        needed = name not in {level.name for level in LEVELS} or on.levels[name]
        figures = run(recording, stages, budget, common, MemoryStore()).figures if needed else on.figures
        off[name].append(figures)


def joined(rows: Iterable[dict[str, list[Figures]]]) -> dict[str, list[Figures]]:
    found: dict[str, list[Figures]] = defaultdict(list)
    for row in rows:
        for kind, sessions in row.items():
            found[kind].extend(sessions)
    return found


def pooled(figures: Iterable[Figures]) -> Figures:
    found = Figures()
    for one in figures:
        found.update(one)
    return found


def interval(on: Sequence[Figures], off: Sequence[Figures]) -> tuple[float, float]:
    """Of the difference in far grounding, the middle 95 % when the sessions are drawn anew."""
    pairs = [(a["far_shown"], b["far_shown"], a["far"]) for a, b in zip(on, off, strict=True)]
    draw, differences = random.Random(7), list[float]()
    for _ in range(RESAMPLED):
        drawn = draw.choices(pairs, k=len(pairs))
        differences.append(
            (sum(a for a, _, _ in drawn) - sum(b for _, b, _ in drawn)) / max(1, sum(n for *_, n in drawn))
        )
    differences.sort()
    return differences[RESAMPLED // 40], differences[-RESAMPLED // 40 - 1]


def gains(on: Sequence[Figures], off: Sequence[Figures]) -> list[float]:
    """The difference in far grounding, session by session, where there is something to ground."""
    return [(a["far_shown"] - b["far_shown"]) / a["far"] for a, b in zip(on, off, strict=True) if a["far"]]


# Words


def written(found: Findings, budgets: Sequence[int]) -> str:
    return "\n".join((*_head(found, budgets), *_compared(found, budgets), *_off(found, budgets), *_reach(found), ""))


def _head(found: Findings, budgets: Sequence[int]) -> Iterator[str]:
    yield "# Retention on recorded coding sessions\n"
    yield (
        f"Made by `benchmarks/retention.py` in {found.seconds / 60:.0f} minutes. Budgets (the one knob, reply included): "
        f"{', '.join(f'{budget:,}' for budget in budgets)}. Tokens, cache rules and prices of {MODEL} for every session. One run;"
        f" replays are deterministic.\n"
    )
    yield f"Sampled: the first by hash of the id among sessions of at least {LEAST_TOKENS:,} tokens.\n"
    yield "| set | sampled | long enough | in the set |\n|---|---|---|---|"
    for name, one in found.samples.items():
        yield f"| {name} | {one['sampled']} | {one['long']} | {one['whole']} |"


def _compared(found: Findings, budgets: Sequence[int]) -> Iterator[str]:
    yield "\n## Before and after\n"
    yield (
        "*Before*: head and tail only, results of identical calls folded. *After*: the default stages. *Results*: share of all "
        "tokens sent that stand in tool results, for the raw history and for what was sent. *Cost*: sent over raw, cache reads "
        "at a tenth and writes at 1; *dearer*: writes at 1.25. Refused calls ground nothing and are in neither bill.\n"
    )
    yield (
        "| set | budget | | results raw → sent | far grounding | on offer | short range | complete | cost | dearer |"
        " calls | refused | far clues |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    )
    for budget in budgets:
        rows = {name: found.compared[f"{name} {budget}"] for name in found.samples}
        for name, row in (*rows.items(), ("*pooled*", joined(rows.values()))):
            for kind, sessions in row.items():
                figures = pooled(sessions)
                s = shares(figures)
                yield (
                    f"| {name} | {budget // 1000}k | {kind} | {s['raw_result_share']:.2f} → {s['sent_result_share']:.2f}"
                    f" | {s['far_grounding']:.3f} | {s['on_offer']:.3f} | {s['short_range']:.3f} | {s['complete']:.3f}"
                    f" | {s['cost']:.3f} | {s['cost_write_dearer']:.3f} | {figures['calls']:,} | {figures['refused']}"
                    f" | {figures['far']:,} |"
                )
    worse = list(_worse(found, budgets))
    over = sum(one["over"] for row in found.compared.values() for sessions in row.values() for one in sessions)
    yield f"\nCalls over the limit: {over}."
    for budget in budgets:
        every = joined(found.compared[f"{name} {budget}"] for name in found.samples)
        (low, high), each = interval(every["after"], every["before"]), gains(every["after"], every["before"])
        yield (
            f"\nAfter less before at {budget // 1000}k, far grounding: pooled between {low:+.4f} and {high:+.4f} (95 %, sessions "
            f"drawn anew); mean over sessions {sum(each) / max(1, len(each)):+.4f}; better in {sum(one > 0 for one in each)} "
            f"sessions, worse in {sum(one < 0 for one in each)}, of {len(each)}."
        )
    yield "\nWhere plain is better: " + ("; ".join(worse) if worse else "nowhere in this sample") + "."


def _worse(found: Findings, budgets: Sequence[int]) -> Iterator[str]:
    for budget in budgets:
        for name in found.samples:
            before, after = (shares(pooled(found.compared[f"{name} {budget}"][kind])) for kind in ("before", "after"))
            for key, sign in (("far_grounding", 1), ("complete", 1), ("short_range", 1), ("cost", -1)):
                if sign * (after[key] - before[key]) < -0.0005:
                    words = key.replace("_", " ")
                    yield f"{name} at {budget // 1000}k: {words} {before[key]:.3f} before, {after[key]:.3f} after"


def _off(found: Findings, budgets: Sequence[int]) -> Iterator[str]:
    yield f"\n## What each level adds, at {min(budgets) // 1000}k\n"
    yield (
        f"The default stages less one level, over {found.off_sessions} of the sampled sessions: what is lost without it (on less "
        "off, so that a positive grounding and a negative cost are to the level's credit). *Touched*: results whose stand-in it "
        "made with everything on, in how many of all sampled sessions. Where a level is off, the next that suits takes its "
        "place, often prose or head and tail. *95 %*: of the pooled difference, sessions drawn anew. *Mean*: over sessions, each "
        "counting once. *Sessions*: in how many far grounding is better, and worse, with the level on.\n"
    )
    yield (
        "| off | results touched | in sessions | far grounding | 95 % | mean | complete | cost | sessions better / worse |"
        "\n|---|---|---|---|---|---|---|---|---|"
    )
    every = joined(found.off.values())
    on = pooled(every["on"])
    for name in OFF:
        a, b = shares(on), shares(pooled(every[name]))
        (low, high), each = interval(every["on"], every[name]), gains(every["on"], every[name])
        is_counted = name in found.touched or name in {level.name for level in LEVELS}
        touched = f"{found.touched[name]:,} | {found.touched_in[name]}" if is_counted else "– | –"
        yield (
            f"| {name} | {touched} | {a['far_grounding'] - b['far_grounding']:+.4f} | {low:+.4f} to {high:+.4f}"
            f" | {sum(each) / max(1, len(each)):+.4f} | {a['complete'] - b['complete']:+.4f} | {a['cost'] - b['cost']:+.4f}"
            f" | {sum(one > 0 for one in each)} / {sum(one < 0 for one in each)} |"
        )
    rest = {name: number for name, number in found.touched.most_common() if name not in OFF}
    yield (
        f"\nEverything on: far grounding {shares(on)['far_grounding']:.3f}, complete {shares(on)['complete']:.3f}, cost "
        f"{shares(on)['cost']:.3f} ({on['far']:,} far clues in {on['actions']:,} actions). Also folded: "
        + ", ".join(f"{name} {number:,}" for name, number in rest.items())
        + "."
    )


def _reach(found: Findings) -> Iterator[str]:
    yield "\n## The way back\n"
    yield (
        "The last prompt of each sampled session at the smallest budget: every reference that a stand-in names is fetched window "
        "by window (200 lines, at most 20,000 characters) and compared with the recording. *Folded*: all parts of the history "
        "before that prompt that it does not show in full. *Back*: those that a named reference gave back to the byte.\n"
    )
    yield (
        "| set | sessions | folded parts | folded bytes | bytes back | share | references | same | calls | whole in one call |"
        "\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for name, f in (*found.reach.items(), ("*all*", pooled(found.reach.values()))):
        yield (
            f"| {name} | {f['sessions']} | {f['folded_parts']:,} | {f['folded_bytes']:,} | {f['back_bytes']:,}"
            f" | {floored(share(f, 'back_bytes', 'folded_bytes'))} | {f['references']:,} | {f['same']:,} | {f['calls']:,}"
            f" | {f['one_call']:,} |"
        )
    every = pooled(found.reach.values())
    parts, size = (every[f"folded_{what}"] - every[f"back_{what}"] for what in ("parts", "bytes"))
    yield (
        f"\nErrors: {every['errors']}. Parts that did not come back: {parts:,} ({size:,} bytes), {every['respaced']} of them "
        f"({every['respaced_bytes']:,} bytes) calls that are shown as the same JSON without its spaces, for which no reference "
        f"is named. Bytes that the dialect hides and no reference names (another model's thinking): {every['hidden_bytes']:,}. "
        f"References with images or files behind them, of which only words in brackets come back: {every['with_images']}."
    )


def floored(share: float) -> str:
    """Never 100 % for less."""
    return "100 %" if share == 1 else f"{int(share * 100_000) / 1_000:.3f} %"


def as_json(found: Findings, budgets: Sequence[int]) -> str:
    sums = {
        part: {key: {kind: pooled(one) for kind, one in row.items()} for key, row in rows.items()}
        for part, rows in (("compared", found.compared), ("off", found.off))
    }
    every = joined(found.off.values())
    table = {
        **msgspec.to_builtins(found),
        **sums,
        "shares": {key: {kind: shares(one) for kind, one in row.items()} for key, row in sums["compared"].items()},
        "gains": {name: [round(one, 4) for one in gains(every["on"], every[name])] for name in OFF},
        "budgets": list(budgets),
        "model": MODEL,
    }
    return json.dumps(table, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--budgets", nargs="+", type=int, default=[32_000, 64_000])
    parser.add_argument("--sessions", type=int, default=8, help="of each set, at most")
    parser.add_argument("--levels", type=int, default=8, help="sessions of each set for which levels are switched off")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    missing = [name for name in SETS if not (DATA / f"{name}.jsonl.gz").exists()]
    if missing:
        sys.exit(f"{DATA} does not hold {', '.join(missing)}: nothing was measured")
    start, found = time.monotonic(), Findings()
    samples, common = load(given.sets, given.sessions)
    print(f"loaded in {time.monotonic() - start:.0f} s; {len(common):,} common clues", file=sys.stderr, flush=True)
    for sample in samples:
        measure(sample, given.budgets, common, given.levels, found)
        found.seconds = time.monotonic() - start
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / "retention.md").write_text(written(found, given.budgets), encoding="utf-8")
        (given.out / "retention.json").write_text(as_json(found, given.budgets), encoding="utf-8")
    print(written(found, given.budgets))


if __name__ == "__main__":
    main()
