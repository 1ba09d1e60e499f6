"""Replaying a recorded session: what would the engine have sent for each of its model calls, and at what price?

For every assistant message of the recording the engine is asked for the prompt, then the recorded message is appended. Two bills
run side by side: `sent` is Foveal's, `raw` is the same session with its whole history sent each time.
"""

import hashlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import msgspec

from foveal.bench.cost import Bill, bill
from foveal.core.entry import Fold, PartFold, RangeFold
from foveal.core.errors import BadInput, OverBudget, Unrepresentable
from foveal.core.prompt import Prompt
from foveal.core.trace import PROMPT_TOKENS
from foveal.dialects.tools import read_tools
from foveal.formats.recording import Recording
from foveal.optics import UnknownModelWarning
from foveal.policies import Policy
from foveal.prices import ModelFacts, cost_usd, find
from foveal.session import Session
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store

DEFAULT_MODEL = "gpt-5"
"""Counted exactly and priced with cache reads: what a recording without a model is replayed as."""


class Call(msgspec.Struct, frozen=True):
    """One model call of the recording."""

    number: int
    raw: Bill
    sent: Bill | None
    refused: str = ""
    fold: Fold | None = None


class Replay(msgspec.Struct, frozen=True):
    """What a policy makes of one recording."""

    session: str
    source: str
    model: str
    calls: tuple[Call, ...]
    output_tokens: int
    output_usd: float | None
    savings: tuple["Saving", ...]
    notes: tuple[str, ...] = ()


class Saving(msgspec.Struct, frozen=True):
    """One thing that was not sent again and again."""

    what: str
    because: str
    policy: str
    tokens: int
    """Tokens not sent, added up over the calls that followed."""
    calls: int


OnPrompt = Callable[[int, Prompt | None, str], None]
"""Told of each call: its number, the prompt, or why it was refused."""


def replay(
    recording: Recording,
    *,
    model: str | None = None,
    policy: Policy | None = None,
    dialect: str | None = None,
    store: Store | None = None,
    on_prompt: OnPrompt = lambda number, prompt, refused: None,
) -> Replay:
    """Replay one recording through a session of its own."""
    name = model or recording.model or DEFAULT_MODEL
    policy = policy or Policy()
    notes = list(recording.notes)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnknownModelWarning)
        session = Session(
            store or MemoryStore(),
            recording.id,
            model=name,
            policy=policy,
            dialect=dialect,
            author="replay",
            new_id=_ids(recording.id),
            clock_ms=count().__next__,
        )
    notes.extend(dict.fromkeys(str(warning.message) for warning in caught))
    with session:
        run = _Run(session, find(name, policy.models), recording, on_prompt)
        notes.extend(run.notes)
        calls = tuple(run.calls())
    output = run.output_tokens
    return Replay(
        session=recording.id,
        source=recording.source,
        model=name,
        calls=calls,
        output_tokens=output,
        output_usd=cost_usd(run.facts, 0, 0, output),
        savings=run.savings.top(len(calls)),
        notes=tuple(notes),
    )


class _Run:
    """The state of one replay."""

    def __init__(self, session: Session, facts: ModelFacts, recording: Recording, on_prompt: OnPrompt) -> None:
        self.session, self.facts, self.recording, self.on_prompt = session, facts, recording, on_prompt
        self.tools, self.notes = _usable_tools(recording)
        self.output_tokens = 0
        self.savings = _Savings()
        self._before: Prompt | None = None
        self._raw_before = 0

    def calls(self) -> Iterator[Call]:
        number = 0
        for step in self.recording.steps:
            if step.message.role == "assistant":
                number += 1
                yield self._call(number)
                self.output_tokens += self.session.measure(step.message)
            self.session.append(step.message)

    def _call(self, number: int) -> Call:
        prompt, refused = None, ""
        try:
            prompt = self.session.prompt(self.tools)
        except (OverBudget, Unrepresentable) as error:
            refused = f"{type(error).__name__}: {error}"
        self.on_prompt(number, prompt, refused)
        raw_tokens = self.session.raw_tokens + (prompt.setup.tools_tokens if prompt else 0) + PROMPT_TOKENS
        raw = bill(self.facts, raw_tokens, self._raw_before)
        self._raw_before = raw_tokens - PROMPT_TOKENS
        if prompt is None:
            return Call(number, raw, None, refused)
        sent = bill(self.facts, prompt.tokens, shared_tokens(self._before, prompt))
        self._before = prompt
        if prompt.fold:
            self.savings.take(number, prompt.fold, prompt)
        return Call(number, raw, sent, fold=prompt.fold)


def shared_tokens(before: Prompt | None, now: Prompt) -> int:
    """How many leading tokens two prompts have in common, atom by atom."""
    if before is None or before.setup.tools != now.setup.tools or before.setup.model != now.setup.model:
        return 0
    tokens = now.setup.tools_tokens
    for old, new in zip(before.atoms, now.atoms, strict=False):
        if old is not new and old != new:
            break
        tokens += new.size.tokens
    return tokens


class _Savings:
    """Which folds saved most: tokens that went, times the calls for which they stayed away."""

    def __init__(self) -> None:
        self._made: list[tuple[int, int, str, str, str]] = []

    def take(self, number: int, fold: Fold, prompt: Prompt) -> None:
        raw = {item.id: item for atom in prompt.atoms for item in atom.items}
        gaps = {atom.gap.first: atom.gap for atom in prompt.atoms if atom.gap}
        for item in fold.items:
            match item:
                case PartFold(entry, part):
                    saved = raw[entry].shown[part].raw_tokens - item.tokens if entry in raw else 0
                    self._made.append((number, saved, f"entry {entry[:10]}, {item.level}", item.because, item.policy))
                case RangeFold(first):
                    gap = gaps.get(first)
                    saved, entries = (gap.raw_tokens - item.tokens, gap.entries) if gap else (0, 0)
                    self._made.append((number, saved, f"{entries} oldest messages, covered", item.because, item.policy))

    def top(self, calls: int, most: int = 3) -> tuple[Saving, ...]:
        """The largest by policy: what kind of fold saved how much, with its largest single case."""
        tokens, spans, largest = Counter[str](), Counter[str](), dict[str, tuple[int, str, str]]()
        for number, saved, what, because, policy in self._made:
            worth = saved * (calls - number + 1)
            tokens[policy] += worth
            spans[policy] += 1
            if worth > largest.get(policy, (0, "", ""))[0]:
                largest[policy] = worth, what, because
        return tuple(
            Saving(largest[policy][1], largest[policy][2], policy, worth, spans[policy])
            for policy, worth in tokens.most_common(most)
            if policy in largest
        )


def _usable_tools(recording: Recording) -> tuple[list[dict[str, Any]], list[str]]:
    """The recorded tools that can be offered. Recorders list what was called, and models call what does not exist."""
    usable: list[dict[str, Any]] = []
    for tool in msgspec.json.decode(recording.tools, type=list[dict[str, Any]]):
        try:
            read_tools([*usable, tool])
        except BadInput:
            continue
        usable.append(tool)
    left_out = len(msgspec.json.decode(recording.tools)) - len(usable)
    return usable, [f"{left_out} recorded tool(s) cannot be offered: their names are refused or doubled"] * bool(
        left_out
    )


def _ids(seed: str) -> Callable[[], str]:
    """Ids that are the same in every replay of the same recording."""
    numbers = count()

    def new_id() -> str:
        text = f"{seed}/{next(numbers)}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:26]

    return new_id
