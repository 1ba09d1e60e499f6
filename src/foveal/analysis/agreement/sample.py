"""The sample: recorded calls whose prompt Foveal would fold, drawn by seed, evenly over files and their sessions.

Each recording runs through two sessions side by side: one under the policy that is asked about, one that shows everything. A
call is worth asking about where the first folded something and the model takes the whole prompt of the second.
"""

import hashlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from foveal.analysis.inspect.stored_session import copy_session
from foveal.analysis.measurement.case import EVERYTHING
from foveal.analysis.recordings import Recording, read
from foveal.analysis.replay.replay import recorded_clock, usable_tools
from foveal.analysis.replay.report import counted
from foveal.context.injection import NextCall
from foveal.session.model_setup import UnknownModelWarning
from foveal.session.options import Model
from foveal.session.policy import Policy
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.text.repair import json_object
from foveal.values.entry import ToolCall
from foveal.values.errors import BadRecording, FovealError, OverBudget, Unrepresentable
from foveal.values.prompt import Prompt

T = TypeVar("T")


class AskTerms(msgspec.Struct, frozen=True):
    """The terms of an experiment: who is asked, and under which policy prompts are folded."""

    model: str
    dialect: str
    policy: Policy
    reply_tokens: int
    """The most tokens of a reply."""

    @property
    def spoken(self) -> Model:
        """The model, in the dialect that its endpoint speaks."""
        return Model(self.model, self.dialect)


class SampledCall(msgspec.Struct, frozen=True):
    """A recorded call that is asked about. Tokens are in our own count."""

    session: str
    call: int
    whole_tokens: int
    folded_tokens: int
    recorded_tokens: int
    """Tokens of the recorded reply."""
    digest: str
    """Hash of both requests: answers to other requests are no answers to these."""

    @property
    def left(self) -> float:
        """The share of the whole prompt's tokens that the folded one has."""
        return min(1.0, self.folded_tokens / self.whole_tokens)


class Survey(msgspec.Struct, frozen=True):
    """The calls that were looked at, and the sample of them."""

    calls: int = 0
    folded: int = 0
    beyond_window: int = 0
    """Folded calls whose whole prompt the model does not take."""
    refused: int = 0
    """Calls that the policy refuses: what must stay is more than its budget."""
    sample: tuple[SampledCall, ...] = ()
    notes: tuple[str, ...] = ()


class PromptPair(msgspec.Struct, frozen=True, eq=False):
    """The two prompts of a call that is worth asking about."""

    sampled: SampledCall
    whole: Prompt
    folded: Prompt


class Askable(msgspec.Struct, frozen=True, eq=False):
    """A pair with everything that its trials need, so that they can be made in any thread."""

    pair: PromptPair
    store: MemoryStore
    """A copy of the session as it was when the folded prompt was made."""
    tools: Sequence[Mapping[str, Any]]


class PairedReplay:
    """One recording, run through a folding session and one that shows everything."""

    def __init__(self, recording: Recording, terms: AskTerms) -> None:
        self.recording, self.terms = recording, terms
        self.tools, self.notes = offered_tools(recording, terms.dialect)
        self.calls = self.folded = self.beyond_window = self.refused = 0
        self._is_full = False
        everything = msgspec.structs.replace(EVERYTHING, models=terms.policy.models)
        self._store = MemoryStore()
        self._folding = self._session(self._store, terms.policy)
        self._whole = self._session(MemoryStore(), everything)

    def pairs(self) -> Iterator[PromptPair]:
        """Yield both prompts of each folded call. The same recording gives the same pairs."""
        with self._folding, self._whole:
            for step in self.recording.steps:
                if step.message.role == "assistant":
                    self.calls += 1
                    measure = self._folding.view.projection.measure
                    if prompts := self._prompts():
                        yield self._pair(*prompts, recorded_tokens=measure.message(step.message))
                self._folding.append(step.message)
                self._whole.append(step.message)

    def askable(self, pair: PromptPair) -> Askable:
        """Return the newest pair with a copy of its session."""
        return Askable(pair, copied(self._store, self.recording.id), self.tools)

    def _session(self, store: MemoryStore, policy: Policy) -> Session:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownModelWarning)  # the estimate says that its price is unknown
            name = self.recording.id
            return Session(store, name, model=self.terms.spoken, policy=policy, clock=recorded_clock(name))

    def _prompts(self) -> tuple[Prompt, Prompt] | None:
        next_call = NextCall(reply_tokens=self.terms.reply_tokens)
        try:
            folded = self._folding.prompt(self.tools, next_call=next_call)
        except (OverBudget, Unrepresentable):
            self.refused += 1
            return None
        if not _is_folded(folded):
            return None
        self.folded += 1
        whole = None if self._is_full else self._whole_prompt(next_call)
        if whole is None:
            self._is_full = True  # a history only grows
            self.beyond_window += 1
            return None
        return whole, folded

    def _whole_prompt(self, next_call: NextCall) -> Prompt | None:
        """Return the prompt that shows everything; None if the model does not take it."""
        try:
            prompt = self._whole.prompt(self.tools, next_call=next_call)
        except (OverBudget, Unrepresentable):
            return None
        return None if _is_folded(prompt) else prompt  # the newest results are cut rather than refused

    def _pair(self, whole: Prompt, folded: Prompt, *, recorded_tokens: int) -> PromptPair:
        requests = msgspec.json.encode([whole.request, folded.request], order="deterministic")
        digest = hashlib.sha256(requests).hexdigest()[:24]
        sampled = SampledCall(self.recording.id, self.calls, whole.tokens, folded.tokens, recorded_tokens, digest)
        return PromptPair(sampled, whole, folded)


def survey(
    files: Iterable[Path], terms: AskTerms, *, calls: int, seed: int, tick: Callable[[int], None] = lambda done: None
) -> Survey:
    """Look through the recordings, in an order that the seed gives, and draw so many calls.

    Of a file with many sessions, no more are replayed than can have a call in the sample. A larger sample of the same files
    holds the smaller one.
    """
    found, told, strata = Survey(), Counter[str](), list[list[SampledCall]]()
    errors: list[str] = []
    for file in sorted(files, key=lambda file: _draw(seed, file.name)):
        if len(strata) == calls:
            break
        try:
            recordings = sorted(read(file), key=lambda one: _draw(seed, one.id))
        except BadRecording as error:
            errors.append(str(error))
            continue
        sessions = list[list[SampledCall]]()
        for recording in recordings:
            if len(sessions) == calls:
                break
            run = PairedReplay(recording, terms)
            try:
                drawn = [pair.sampled for pair in run.pairs()]
            except FovealError as error:
                errors.append(f"{recording.source}: left out. {error}")
                continue
            told.update(run.notes)
            found = _added(found, run)
            tick(run.calls)
            if drawn:
                sessions.append(sorted(drawn, key=lambda one: _draw(seed, one.session, one.call)))
        if sessions:
            strata.append(dealt(sessions))
    notes = (f"{counted(sessions, 'session')}: {note}" for note, sessions in told.items())
    unique = list(dict.fromkeys(dealt(strata)))  # a session may be in two files
    return msgspec.structs.replace(found, sample=tuple(unique[:calls]), notes=(*errors, *notes))


def askable_pairs(files: Iterable[Path], terms: AskTerms, wanted: Mapping[str, str]) -> Iterator[Askable]:
    """Yield the wanted pairs, which are named by digest and session, one session after the other."""
    missing = dict(wanted)
    for file in files:
        if not missing:
            return
        with suppress(BadRecording):  # the survey said so
            for recording in read(file):
                if recording.id in missing.values():
                    yield from _askable_in(PairedReplay(recording, terms), missing)


def _askable_in(run: PairedReplay, missing: dict[str, str]) -> Iterator[Askable]:
    for pair in run.pairs():
        if missing.pop(pair.sampled.digest, None):
            yield run.askable(pair)
        if run.recording.id not in missing.values():
            return


def copied(store: MemoryStore, session: str) -> MemoryStore:
    """Return a store with a copy of the session, for a trial to write to."""
    target = MemoryStore()
    copy_session(store, target, session)
    return target


def dealt(strata: Sequence[Sequence[T]]) -> list[T]:
    """Return the items of all strata as cards are dealt: the first of each, then the second of each."""
    rounds = zip_longest(*([(item,) for item in stratum] for stratum in strata), fillvalue=())
    return list(chain.from_iterable(chain.from_iterable(rounds)))


def offered_tools(recording: Recording, dialect: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the recorded tools that can be offered in this dialect; without any, the called ones with the arguments seen."""
    tools, notes = usable_tools(recording, dialect)
    if tools:
        return tools, notes
    seen: dict[str, dict[str, Any]] = {}
    for step in recording.steps:
        for part in step.message.parts:
            if isinstance(part, ToolCall):
                fields = seen.setdefault(part.name, {})
                fields.update({name: _schema(value) for name, value in (json_object(part.arguments) or {}).items()})
    made = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": fields}}}
        for name, fields in seen.items()
    ]
    guessed = msgspec.structs.replace(recording, tools=msgspec.json.encode(made).decode())
    usable, more = usable_tools(guessed, dialect)
    if usable:
        notes.append("the file does not hold the tools; those that were called are offered, with the arguments seen")
    return usable, [*notes, *more]


def _schema(value: object) -> dict[str, str]:
    match value:
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case float():
            return {"type": "number"}
        case list():
            return {}
        case dict():
            return {"type": "object"}
        case _:
            return {"type": "string"}


def _is_folded(prompt: Prompt) -> bool:
    """Return whether anything in this prompt is not shown in full, beyond parts that its format cannot send."""
    return any(
        atom.gap or any(shown.level not in ("full", "hidden") for item in atom.items for shown in item.shown)
        for atom in prompt.atoms
    )


def _draw(seed: int, *names: object) -> bytes:
    """Return a number to order by that the seed chooses, and that says nothing about the thing itself."""
    text = "/".join(map(str, (seed, *names)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _added(found: Survey, run: PairedReplay) -> Survey:
    return msgspec.structs.replace(
        found,
        calls=found.calls + run.calls,
        folded=found.folded + run.folded,
        beyond_window=found.beyond_window + run.beyond_window,
        refused=found.refused + run.refused,
    )
