"""The calls of a stored session in order, each with its prompt, its bill and the changes to its prefix.

One pass over the log: entries are fed to a view in the order in which the session fed them. Nothing is rendered, because no
count and no price depends on the rendered bytes.
"""

import warnings
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from itertools import takewhile
from typing import Any

import msgspec

from foveal.analysis.inspect.prefix_moves import PrefixMove, PromptState, moves_between
from foveal.analysis.inspect.stored_session import AbsentRendererWarning, known_session, recorded_setup
from foveal.analysis.replay.bills import Bill, WholeHistory, bill, shared_tokens
from foveal.project.view import View
from foveal.recall.tools import NAMES
from foveal.session.model_setup import ModelSetup
from foveal.session.rebuild import view_of
from foveal.stores import rows as log
from foveal.stores.large_results import read_artifacts
from foveal.stores.port import Artifacts, Row, Store
from foveal.values.budget import MessageLimits
from foveal.values.entry import ATTACHED, Body, Entry, Fold, Message, Setup, Usage
from foveal.values.errors import NotFound
from foveal.values.prompt import Prompt
from foveal.values.trace import PROMPT_TOKENS


class Unfolded(msgspec.Struct, frozen=True):
    """A fold, and the size of its call's prompt without this fold (but with the folds before it)."""

    fold: Fold
    tokens: int
    shared: int


class StoredCall(msgspec.Struct, frozen=True):
    """One call of the session."""

    prompt: Prompt
    """Without the request itself, which is not rendered."""
    model_setup: ModelSetup
    view: View
    """The view at this call. The pass goes on with the same object: read it before the next call is asked for."""
    previous_setup: Setup | None
    """The setup of the last prompt that was sent before."""
    raw: Bill
    """The bill if the whole history were sent for every call."""
    sent: Bill | None
    """None if no prompt can have been sent: the mandatory content was larger than the budget."""
    shared: int
    """Leading tokens that the last prompt had sent as well, and that the provider had not forgotten since."""
    is_cold: bool
    """Whether the provider's cache had forgotten the last prompt."""
    unfolded: tuple[Unfolded, ...]
    """The folds that were made for this call, newest first."""
    moves: tuple[PrefixMove, ...]
    """Changes to the prefix since the call before, without prices."""
    reply_tokens: int | None
    """None if the call has no reply yet."""
    time_ms: int
    """When its newest entry was recorded."""
    usage: Usage | None = None

    @property
    def limits(self) -> MessageLimits:
        """The limits of the messages, less the tokens of the side context."""
        return self.model_setup.limits(self.view, self.prompt.setup, _context_tokens(self.view))


def stored_calls(store: Store, session: str) -> Iterator[StoredCall]:
    """Yield every call of the branch since the first prompt, and at the end the call that has no reply yet."""
    reader = CallReader(store, known_session(store, session))
    reader.take()
    yield from reader.calls()
    yield reader.next_call()
    if reader.has_unknown_renderers:
        text = "the host shows some results by renderers that are not known here; they are counted and billed whole"
        warnings.warn(AbsentRendererWarning(text), stacklevel=3)


class CallReader:
    """Reads the calls of a stored session in their order, and reads on where it was when the log has grown."""

    def __init__(self, store: Store, session: str, refused: Collection[int] | None = None) -> None:
        """Make a reader. `refused` are the calls for which there was no prompt, if that is known; else it is reckoned."""
        self.session, self._store, self._refused = session, store, refused
        self._rows: list[Row] = []
        self._new: deque[Entry] = deque()
        """Entries that were taken and not yet walked."""
        self._walk: _Walk | None = None
        self._usages: dict[int, Usage] = {}
        self._replies = 0

    @property
    def has_unknown_renderers(self) -> bool:
        return self._walk is not None and bool(self._walk.model_setup.renderers)

    def take(self) -> list[Entry] | None:
        """Take the entries that were recorded since, and return them; None if they change what was read: begin anew then."""
        if not self._rows:
            rows = log.branch(self._store.rows(self.session))
        else:
            rows = list(self._store.rows(self.session, after=self._rows[-1].seq))
            ids = (self._rows[-1].id, *(row.id for row in rows))
            if any(row.parent != before for before, row in zip(ids, rows, strict=False)):
                return None
        entries = [log.to_entry(row, self.session) for row in rows]
        if self._is_late(entries):
            return None
        self._count(entries)
        self._rows += rows
        self._new += entries
        return entries

    def calls(self) -> Iterator[StoredCall]:
        """Yield the calls whose replies are among the entries that were taken; `NotFound` if there was no prompt yet."""
        walk = self._begun()
        place = len(self._rows) - len(self._new)
        while self._new:
            entry = self._new.popleft()
            if isinstance(entry.body, Message) and entry.body.role == "assistant":
                if walk.view.facts.setup:
                    usage = self._usages.get(walk.view.facts.calls + 1)
                    yield walk.call(walk.view.projection.measure.message(entry.body), usage)
                walk.folds, walk.marks = [], []
            walk.feed(place, entry)
            place += 1

    def next_call(self) -> StoredCall:
        """Return the call that has no reply yet. The reader stays as it is."""
        return copy(self._begun()).call(None, None)

    def _begun(self) -> "_Walk":
        if self._walk is None:
            first = next((one.body for one in self._new if isinstance(one.body, Setup)), None)
            if first is None:
                raise NotFound(f"session {self.session!r} has no prompt yet: nothing was sent")
            self._walk = _Walk(self.session, self._rows, first, self._store.artifacts_for(self.session))
            self._walk.refused = self._refused
        return self._walk

    def _is_late(self, entries: Sequence[Entry]) -> bool:
        """Return whether a provider's report among the entries is of a call that was read without one."""
        bodies = (entry.body for entry in entries)
        before = takewhile(lambda body: not (isinstance(body, Message) and body.role == "assistant"), bodies)
        return 0 < self._replies not in self._usages and any(isinstance(body, Usage) for body in before)

    def _count(self, entries: Sequence[Entry]) -> None:
        """Note the provider's report of each call: the first one after the call's reply."""
        for entry in entries:
            match entry.body:
                case Message("assistant"):
                    self._replies += 1
                case Usage() as usage if self._replies:
                    self._usages.setdefault(self._replies, usage)
                case _:
                    pass


class _Walk:
    """The state of one pass."""

    def __init__(self, session: str, rows: list[Row], setup: Setup, artifacts: Artifacts) -> None:
        self.session, self.rows, self.model_setup = session, rows, recorded_setup(setup)
        self._artifacts = artifacts
        self.view = view_of((), session, self.model_setup, artifacts)
        self.folds: list[tuple[Fold, Prompt]] = []
        """The folds of the next call, each with the prompt as it was before the fold."""
        self.marks: list[Body] = []
        """All bodies since the last reply."""
        self.refused: Collection[int] | None = None
        self._attached: set[str] = set()
        self._whole = WholeHistory()
        self._now_ms = 0
        self._last_sent: Prompt | None = None
        self._last_state: PromptState | None = None

    def __copy__(self) -> "_Walk":
        """Return a walk for a call that may yet change. Views are shared: asking for a call does not change them."""
        other = object.__new__(_Walk)
        other.__dict__ = {**self.__dict__, "_whole": copy(self._whole)}
        return other

    def feed(self, place: int, entry: Entry) -> None:
        match entry.body:
            case Setup() as setup:
                self.model_setup = recorded_setup(setup)
                if self.model_setup.projection(self.view.projection.pins).key != self.view.projection.key:
                    self.view = view_of(self.rows[:place], self.session, self.model_setup, self._artifacts)
            case Fold() as fold:
                self.folds.append((fold, self._prompt()))
            case _:
                pass
        self.marks.append(entry.body)
        if entry.author == ATTACHED:
            self._attached.add(entry.id)
        if self.view.feed(self.rows[place].seq, read_artifacts(self._artifacts, entry)):
            self.view = view_of(self.rows[: place + 1], self.session, self.model_setup, self._artifacts)
        self._now_ms = entry.time_ms

    def call(self, reply_tokens: int | None, usage: Usage | None) -> StoredCall:
        prompt, last = self._prompt(), self._last_sent
        is_cold = self.model_setup.is_cold(self.view, self._now_ms) or any(_is_cold(fold) for fold, _ in self.folds)
        cached = None if is_cold else last
        is_sent = usage is not None or (self._fits() if self.refused is None else prompt.call not in self.refused)
        shared = shared_tokens(cached, prompt)
        facts = self.model_setup.facts
        raw = self._whole.bill(
            facts,
            self.view.facts.raw_tokens,
            prompt if is_sent else None,
            tools_tokens=prompt.setup.tools_tokens,
            is_cold=is_cold or (last is not None and last.setup.model != prompt.setup.model),
        )
        if is_sent:
            self._last_sent = prompt
        return StoredCall(
            prompt=prompt,
            model_setup=self.model_setup,
            view=self.view,
            previous_setup=last.setup if last else None,
            raw=raw,
            sent=bill(facts, prompt.tokens, shared) if is_sent else None,
            shared=shared,
            is_cold=is_cold,
            unfolded=tuple(_unfolded(cached, prompt, self.folds)) if is_sent else (),
            moves=self._moves(prompt),
            reply_tokens=reply_tokens,
            time_ms=self._now_ms,
            usage=usage,
        )

    def _moves(self, prompt: Prompt) -> tuple[PrefixMove, ...]:
        blocks = self.view.facts.context.blocks if self.view.facts.context else ()
        last, now = self._last_state, PromptState.of(prompt, blocks, self.marks, self._attached)
        self._last_state = now
        return tuple(moves_between(last, now)) if last else ()

    def _prompt(self) -> Prompt:
        """Return the prompt that would be sent now, without the request."""
        view, fold = self.view, self.folds[-1][0] if self.folds else None
        setup = view.facts.setup or self.model_setup.setup(())
        tokens = view.size.tokens + setup.tools_tokens + PROMPT_TOKENS + _context_tokens(view)
        return Prompt(
            self.session,
            view.facts.calls + 1,
            {},
            [],
            tokens,
            fold,
            setup,
            tuple(view.atoms),
            decided=view.facts.decided,
        )

    def _fits(self) -> bool:
        setup = self.view.facts.setup or self.model_setup.setup(())
        return self.view.size.within(self.model_setup.limits(self.view, setup, _context_tokens(self.view)).most)


def _unfolded(before: Prompt | None, prompt: Prompt, folds: Sequence[tuple[Fold, Prompt]]) -> Iterator[Unfolded]:
    tokens = prompt.tokens
    for fold, without in reversed(folds):
        setup = prompt.setup
        if before and _adds_recall_tools_only(before.setup, setup):
            tokens += before.setup.tools_tokens - setup.tools_tokens if fold is folds[-1][0] else 0
            setup = before.setup
        tokens += fold.saved
        yield Unfolded(fold, tokens, shared_tokens(before, msgspec.structs.replace(without, setup=setup)))


def _adds_recall_tools_only(old: Setup, new: Setup) -> bool:
    """Return whether the recall tools, which are offered once something is folded, are the only difference."""
    if old.model != new.model or old.tools == new.tools:
        return False
    was, now = (msgspec.json.decode(setup.tools, type=list[dict[str, Any]]) for setup in (old, new))
    theirs = [tool for tool in now if tool.get("function", tool).get("name") not in NAMES]
    return all(tool in was for tool in theirs) and all(tool in now for tool in was)


def _is_cold(fold: Fold) -> bool:
    return fold.stake is not None and fold.stake.kind == "cold"


def _context_tokens(view: View) -> int:
    return sum(block.tokens for block in view.facts.context.blocks) if view.facts.context else 0
