"""The calls of a stored session one after the other, each with what it sent and what that costs.

One walk over the log: the view is fed as the session fed it, and nothing is rendered, since no price depends on it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from foveal.analysis.complaints import complain
from foveal.analysis.inspect.stored import known_session, optics_of
from foveal.analysis.replay.cost import Bill, bill
from foveal.analysis.replay.replay import shared_tokens
from foveal.analysis.replay.whole import WholeHistory
from foveal.project.view import View
from foveal.recall.tools import NAMES
from foveal.session.model_setup import MessageLimits, ModelSetup
from foveal.session.rebuild import view_of
from foveal.stores import rows as log
from foveal.stores.port import Row, Store
from foveal.values.entry import Entry, Fold, Message, Setup, Usage
from foveal.values.errors import NotFound
from foveal.values.prompt import Prompt
from foveal.values.trace import PROMPT_TOKENS


class Unfolded(msgspec.Struct, frozen=True):
    """A fold, and what the call would have sent without it (the folds before it made)."""

    fold: Fold
    tokens: int
    shared: int


class Billed(msgspec.Struct, frozen=True):
    """One call of the session."""

    prompt: Prompt
    optics: ModelSetup
    view: View
    """As it was then. The walk goes on with it: to be read at once or not at all."""
    before: Setup | None
    """What the prompt before it was built for."""
    raw: Bill
    sent: Bill | None
    """None if there can have been no prompt: more was mandatory than the budget allows."""
    shared: int
    """Leading tokens that the prompt before it had sent as well, and that were not forgotten since."""
    is_cold: bool
    """Whether the provider had forgotten the prompt before it."""
    unfolded: tuple[Unfolded, ...]
    """The folds that were made for it, the newest first."""
    reply_tokens: int | None
    """None if nobody has answered yet."""
    usage: Usage | None = None

    @property
    def limits(self) -> MessageLimits:
        """What the messages might take, what stands beside them taken off."""
        return self.optics.limits(self.view, self.prompt.setup).beside(_beside_tokens(self.view))


def billed(store: Store, name: str) -> Iterator[Billed]:
    """Every call of the branch since the first prompt, and last the one that is not answered yet."""
    rows = log.branch(store.rows(known_session(store, name)))
    entries = [log.to_entry(row, name) for row in rows]
    first = next((one.body for one in entries if isinstance(one.body, Setup)), None)
    if first is None:
        raise NotFound(f"session {name!r} has no prompt yet: nothing was sent")
    walk, usages = _Walk(name, rows, first), _usages(entries)
    for place, entry in enumerate(entries):
        if isinstance(entry.body, Message) and entry.body.role == "assistant":
            if walk.view.facts.setup:
                yield walk.call(walk.view.projection.measure.message(entry.body), usages.get(walk.view.facts.calls + 1))
            walk.folds = []
        walk.feed(place, entry)
    yield walk.call(None, None)
    if walk.optics.renderers:
        complain("the host shows some results by renderers that are not known here; they are counted and billed whole")


class _Walk:
    """The state of one walk."""

    def __init__(self, name: str, rows: Sequence[Row], setup: Setup) -> None:
        self.name, self.rows, self.optics = name, rows, optics_of(setup)
        self.view = view_of((), name, self.optics)
        self.folds: list[tuple[Fold, Prompt]] = []
        """Those made for the next call, each with what would have been sent without it."""
        self._whole = WholeHistory()
        self._now_ms = 0
        self._before: Prompt | None = None

    def feed(self, place: int, entry: Entry) -> None:
        match entry.body:
            case Setup() as setup:
                self.optics = optics_of(setup)
                if self.optics.projection(self.view.projection.pins).key != self.view.projection.key:
                    self.view = view_of(self.rows[:place], self.name, self.optics)
            case Fold() as fold:
                self.folds.append((fold, self._prompt()))
            case _:
                pass
        if self.view.feed(self.rows[place].seq, entry):
            self.view = view_of(self.rows[: place + 1], self.name, self.optics)
        self._now_ms = entry.time_ms

    def call(self, reply_tokens: int | None, usage: Usage | None) -> Billed:
        prompt, before = self._prompt(), self._before
        is_cold = self.optics.is_cold(self.view, self._now_ms) or any(_is_cold(fold) for fold, _ in self.folds)
        known = None if is_cold else before
        is_sent = usage is not None or self._fits()
        shared = shared_tokens(known, prompt)
        facts = self.optics.facts
        raw = self._whole.bill(
            facts,
            self.view.facts.raw_tokens,
            prompt if is_sent else None,
            tools_tokens=prompt.setup.tools_tokens,
            is_cold=is_cold or (before is not None and before.setup.model != prompt.setup.model),
        )
        if is_sent:
            self._before = prompt
        return Billed(
            prompt=prompt,
            optics=self.optics,
            view=self.view,
            before=before.setup if before else None,
            raw=raw,
            sent=bill(facts, prompt.tokens, shared) if is_sent else None,
            shared=shared,
            is_cold=is_cold,
            unfolded=tuple(_unfolded(known, prompt, self.folds)) if is_sent else (),
            reply_tokens=reply_tokens,
            usage=usage,
        )

    def _prompt(self) -> Prompt:
        """What would be sent now, without the request itself."""
        view, fold = self.view, self.folds[-1][0] if self.folds else None
        setup = view.facts.setup or self.optics.setup(())
        tokens = view.size.tokens + setup.tools_tokens + PROMPT_TOKENS + _beside_tokens(view)
        return Prompt(self.name, view.facts.calls + 1, {}, [], tokens, fold, setup, tuple(view.atoms))

    def _fits(self) -> bool:
        limits = self.optics.limits(self.view, self.view.facts.setup or self.optics.setup(()))
        return self.view.size.within(limits.beside(_beside_tokens(self.view)).most)


def _unfolded(before: Prompt | None, prompt: Prompt, folds: Sequence[tuple[Fold, Prompt]]) -> Iterator[Unfolded]:
    tokens = prompt.tokens
    for fold, without in reversed(folds):
        setup = prompt.setup
        if before and _came_with_the_fold(before.setup, setup):
            tokens += before.setup.tools_tokens - setup.tools_tokens if fold is folds[-1][0] else 0
            setup = before.setup
        tokens += fold.saved
        yield Unfolded(fold, tokens, shared_tokens(before, msgspec.structs.replace(without, setup=setup)))


def _came_with_the_fold(old: Setup, new: Setup) -> bool:
    """Whether nothing but the recall tools was added, which are offered once something is folded."""
    if old.model != new.model or old.tools == new.tools:
        return False
    was, now = (msgspec.json.decode(setup.tools, type=list[dict[str, Any]]) for setup in (old, new))
    theirs = [tool for tool in now if tool.get("function", tool).get("name") not in NAMES]
    return all(tool in was for tool in theirs) and all(tool in now for tool in was)


def _is_cold(fold: Fold) -> bool:
    return fold.stake is not None and fold.stake.kind == "cold"


def _beside_tokens(view: View) -> int:
    return sum(block.tokens for block in view.facts.context.blocks) if view.facts.context else 0


def _usages(entries: Sequence[Entry]) -> dict[int, Usage]:
    """What the provider reported of each call: the first report after its reply."""
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
