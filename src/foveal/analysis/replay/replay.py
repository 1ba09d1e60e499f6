"""Replay of a recorded session: the prompt that Foveal would have sent for each model call, and its price.

For every assistant message of the recording the engine is asked for the prompt, then the recorded message is appended. Three
bills run side by side: `sent` is Foveal's, `raw` is that of the same session with its whole history sent each time, `recorded` is
by the counts of the provider when the session happened, where the recording has them.
"""

import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import msgspec

from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.analysis.replay.bills import Bill, RecordedBill, WholeHistory, bill, recorded_bill, shared_tokens
from foveal.analysis.replay.savings import Saving, Savings
from foveal.dialects.tools import is_offered_in, read_tools
from foveal.models.catalogue import ModelFacts, find
from foveal.models.counters import ModelCounter, counter_for
from foveal.session.model_setup import ModelSetup, UnknownModelWarning, setup_for
from foveal.session.options import Clock, Host, Model
from foveal.session.policy import Policy
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store
from foveal.values.entry import Usage
from foveal.values.errors import BadInput, OverBudget, Unrepresentable
from foveal.values.prompt import Prompt
from foveal.values.trace import PROMPT_TOKENS

DEFAULT_MODEL = "gpt-5"
"""The model of a recording that names none: its tokens are counted exactly, and its prices include cache reads."""

_NOTABLE = 0.25
"""The share by which the provider's count may be above ours before it is said: no counter is off by as much."""


class ReplayedFold(msgspec.Struct, frozen=True):
    """The figures of a fold, without its stand-ins."""

    items: int
    before: int
    after: int
    rebilled: int
    reason: str


class ReplayedCall(msgspec.Struct, frozen=True):
    """One model call of the recording."""

    number: int
    raw: Bill
    sent: Bill | None
    """None if the call was refused."""
    output_tokens: int = 0
    """Tokens of the recorded reply."""
    refused: str = ""
    moved: bool = False
    """Whether a part of the prompt before it is missing or changed."""
    fold: ReplayedFold | None = None
    recorded: RecordedBill | None = None
    """None if the recording has no usage of this call."""
    is_sendable_whole: bool = True
    """Whether the model takes the whole history: a raw prompt that nobody could have sent is not billed."""


class Replay(msgspec.Struct, frozen=True):
    """All calls of one recording under a policy, with their bills."""

    session: str
    source: str
    model: str
    dialect: str
    counter: str
    limit: int
    """The most that may be sent, in the counter's tokens."""
    calls: tuple[ReplayedCall, ...]
    price_output: float | None
    """USD for a million tokens of replies."""
    savings: tuple[Saving, ...]
    notes: tuple[str, ...] = ()


OnPrompt = Callable[[int, Prompt | None, str], None]
"""Called for each model call with its number and the prompt, or the reason why it was refused."""


def replay(
    recording: Recording,
    *,
    model: str | None = None,
    policy: Policy | None = None,
    dialect: str | None = None,
    counter: ModelCounter | None = None,
    store: Store | None = None,
    on_prompt: OnPrompt = lambda number, prompt, refused: None,
) -> Replay:
    """Replay a recording through a session of its own; as the recorded model, unless `model` is given or its price unknown, and
    in the recorded dialect, unless `dialect` is given."""
    policy = policy or Policy()
    dialect = dialect or recording.dialect
    name, notes = _model(recording, model, policy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownModelWarning)  # the notes say it
        spoken = Model(name, dialect, counter)
        setup = setup_for(spoken, policy)
        session = Session(
            store or MemoryStore(),
            recording.id,
            model=spoken,
            policy=policy,
            host=Host(author="replay"),
            clock=recorded_clock(recording.id),
        )
    with session:
        run = _Run(session, setup, recording, on_prompt)
        calls = tuple(run.calls())
    return Replay(
        session=recording.id,
        source=recording.source,
        model=name,
        dialect=setup.dialect.name,
        counter=setup.counter.counter.name,
        limit=int(setup.budget.sendable / setup.counter.factor),
        calls=calls,
        price_output=setup.facts.price_output,
        savings=run.savings.top(len(calls)),
        notes=(
            *recording.notes,
            *notes,
            *run.notes,
            *_counting_notes(setup),
            *_bill_notes(calls, setup.facts),
            *_usage_notes(calls),
        ),
    )


class _Run:
    """The state of one replay."""

    def __init__(self, session: Session, setup: ModelSetup, recording: Recording, on_prompt: OnPrompt) -> None:
        self.session, self.facts, self.recording, self.on_prompt = session, setup.facts, recording, on_prompt
        self.tools, self.notes = usable_tools(recording, setup.dialect.name)
        self.savings = Savings(session.view.projection.measure.message)
        self._before: Prompt | None = None
        self._whole = WholeHistory()
        self._models = setup.policy.models
        self._prices: dict[str, ModelFacts] = {}

    def calls(self) -> Iterator[ReplayedCall]:
        number = 0
        for step in self.recording.steps:
            if step.message.role == "assistant":
                number += 1
                yield self._call(number, step)
            entry = self.session.append(step.message)
            self.savings.append(entry.id, step.message, number)

    def _call(self, number: int, step: RecordedStep) -> ReplayedCall:
        output = self.session.view.projection.measure.message(step.message)
        recorded = self._recorded(step.usage)
        prompt, refused = None, ""
        try:
            prompt = self.session.prompt(self.tools)
        except (OverBudget, Unrepresentable) as error:
            refused = f"{type(error).__name__}: {error}"
        self.on_prompt(number, prompt, refused)
        raw = self._raw_bill(prompt)
        is_sendable = raw.tokens <= self.facts.max_input or not self.facts.known  # an assumed window refuses nothing
        if prompt is None:
            return ReplayedCall(number, raw, None, output, refused, recorded=recorded, is_sendable_whole=is_sendable)
        self.savings.send(prompt)
        shared, before = shared_tokens(self._before, prompt), self._before
        self._before = prompt
        moved = before is not None and shared < before.tokens - PROMPT_TOKENS
        fold = prompt.fold and ReplayedFold(
            len(prompt.fold.items), prompt.fold.before, prompt.fold.after, prompt.fold.rebilled, prompt.fold.reason
        )
        sent = bill(self.facts, prompt.tokens, shared)
        return ReplayedCall(
            number, raw, sent, output, moved=moved, fold=fold, recorded=recorded, is_sendable_whole=is_sendable
        )

    def _recorded(self, usage: Usage | None) -> RecordedBill | None:
        if usage is None:
            return None
        if usage.model not in self._prices:
            self._prices[usage.model] = find(usage.model, self._models)
        return recorded_bill(usage, self._prices[usage.model])

    def _raw_bill(self, prompt: Prompt | None) -> Bill:
        view = self.session.view
        tools_tokens = view.facts.setup.tools_tokens if view.facts.setup else 0
        return self._whole.bill(self.facts, view.facts.raw_tokens, prompt, tools_tokens=tools_tokens)


def _model(recording: Recording, model: str | None, policy: Policy) -> tuple[str, list[str]]:
    """Return the model to replay as, and notes on why it is not the recorded one."""
    name = model or recording.model or DEFAULT_MODEL
    facts = find(name, policy.models)
    if facts.known:
        same = model or recording.model
        return name, [] if same else [f"the recording names no model; replayed as {DEFAULT_MODEL}"]
    if model:
        return name, [f"{name}: {' '.join(facts.notes)}"]
    return DEFAULT_MODEL, [f"the recorded model {name} is not in the price table; replayed as {DEFAULT_MODEL}"]


def _counting_notes(setup: ModelSetup) -> list[str]:
    used, own = setup.counter, counter_for(setup.model)
    if own.exact and own.counter.name == used.counter.name:
        return []
    return [f"tokens and costs are by the count of {used.counter.name}, not by {setup.model}'s own: {own.error}"]


def _bill_notes(calls: Sequence[ReplayedCall], facts: ModelFacts) -> list[str]:
    """Return notes on calls that make the two bills hard to compare."""
    notes: list[str] = []
    if beyond := sum(not call.is_sendable_whole for call in calls):
        notes.append(
            f"{beyond} of {len(calls)} raw prompt(s) are larger than {facts.id} takes ({facts.max_input:,}): they could not "
            "have been sent and are not in the raw bill"
        )
    if refused := sum(call.sent is None for call in calls):
        notes.append(f"{refused} refused call(s) are part of the raw bill and not of the sent one")
    return notes


def _usage_notes(calls: Sequence[ReplayedCall]) -> list[str]:
    """Return notes on what the recorded figures are of."""
    counted = [call for call in calls if call.recorded]
    if not counted:
        return []  # the columns say it
    notes: list[str] = []
    if len(counted) < len(calls):
        notes.append(
            f"usage is recorded for {len(counted)} of {len(calls)} calls; the recorded columns are of these alone"
        )
    first = counted[0]
    if first.recorded and (more := first.recorded.tokens - first.raw.tokens) > first.raw.tokens * _NOTABLE:
        notes.append(
            f"the provider counted {more:,} tokens more in call {first.number} than the recording holds: a system prompt and "
            "tools that are not in the file, or another count; raw and sent are without them"
        )
    return notes


def usable_tools(recording: Recording, dialect: str | None = None) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the recorded tools that can be offered, in this dialect if one is given.

    Recorders list called tools, and models call tools that do not exist. A tool that one provider hosts is offered by no other.
    """
    tools, usable = msgspec.json.decode(recording.tools, type=list[dict[str, Any]]), list[dict[str, Any]]()
    foreign = 0
    for tool in tools:
        try:
            specs = read_tools([*usable, tool])
        except BadInput:
            continue
        if dialect and any(not is_offered_in(spec, dialect) for spec in specs):
            foreign += 1
        else:
            usable.append(tool)
    bad = len(tools) - len(usable) - foreign
    notes = [f"{bad} recorded tool(s) cannot be offered: their names are blank or doubled"] if bad else []
    notes += [f"{foreign} recorded tool(s) of another provider cannot be offered in {dialect}"] if foreign else []
    return usable, notes


def recorded_clock(seed: str) -> Clock:
    """Return a clock whose ids, times and secret are the same in every replay of the same recording."""
    numbers = count()

    def new_id() -> str:
        return digest(f"{seed}/{next(numbers)}").hex()[:26]

    def digest(text: str) -> bytes:
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    return Clock(new_id, count().__next__, lambda: digest(seed))
