"""The calls of a stored session in order, each with its prompt, its bill and the changes to its prefix.

One pass over the log: entries are fed to a view in the order in which the session fed them. Nothing is rendered, because no
count and no price depends on the rendered bytes.
"""

import warnings
from collections.abc import Iterator, Sequence
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
    usage: Usage | None = None

    @property
    def limits(self) -> MessageLimits:
        """The limits of the messages, less the tokens of the side context."""
        return self.model_setup.limits(self.view, self.prompt.setup, _context_tokens(self.view))


def stored_calls(store: Store, session: str) -> Iterator[StoredCall]:
    """Yield every call of the branch since the first prompt, and at the end the call that has no reply yet."""
    rows = log.branch(store.rows(known_session(store, session)))
    entries = [log.to_entry(row, session) for row in rows]
    first = next((one.body for one in entries if isinstance(one.body, Setup)), None)
    if first is None:
        raise NotFound(f"session {session!r} has no prompt yet: nothing was sent")
    walk, usages = _Walk(session, rows, first, store.artifacts), _usages(entries)
    for place, entry in enumerate(entries):
        if isinstance(entry.body, Message) and entry.body.role == "assistant":
            if walk.view.facts.setup:
                yield walk.call(walk.view.projection.measure.message(entry.body), usages.get(walk.view.facts.calls + 1))
            walk.folds, walk.marks = [], []
        walk.feed(place, entry)
    yield walk.call(None, None)
    if walk.model_setup.renderers:
        text = "the host shows some results by renderers that are not known here; they are counted and billed whole"
        warnings.warn(AbsentRendererWarning(text), stacklevel=3)


class _Walk:
    """The state of one pass."""

    def __init__(self, session: str, rows: Sequence[Row], setup: Setup, artifacts: Artifacts) -> None:
        self.session, self.rows, self.model_setup = session, rows, recorded_setup(setup)
        self._artifacts = artifacts
        self.view = view_of((), session, self.model_setup, artifacts)
        self.folds: list[tuple[Fold, Prompt]] = []
        """The folds of the next call, each with the prompt as it was before the fold."""
        self.marks: list[Body] = []
        """All bodies since the last reply."""
        self._attached: set[str] = set()
        self._whole = WholeHistory()
        self._now_ms = 0
        self._last_sent: Prompt | None = None
        self._last_state: PromptState | None = None

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
        is_sent = usage is not None or self._fits()
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


def _usages(entries: Sequence[Entry]) -> dict[int, Usage]:
    """Return the provider's usage report of each call: the first report after the call's reply."""
    found: dict[int, Usage] = {}
    call = 0
    for entry in entries:
        match entry.body:
            case Message("assistant"):
                call += 1
            case Usage() as usage if call:
                found.setdefault(call, usage)
            case _:
                pass
    return found
