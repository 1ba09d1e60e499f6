"""Placement of fences in a prompt: which are shown, where, and at what size.

Theory of operation. For each call, `live_fences` leaves out expired fences, and `Placer` makes blocks of the rest:

    injected ──► replaced by a newer one of its key, or empty          no block, no tags
             ──► must be kept: whole, or the prompt is refused          `Placed.over`
             ──► others: whole, cut to the share of their kind, or left out

Fences that live as long as the session are served first, oldest first, so that a new one never changes bytes that were cached.
Among the others, the newest is served first. Each decision becomes a line of the trace.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import msgspec

from foveal.context.fences import (
    BUILT_IN_KINDS,
    STARTED,
    FenceKind,
    FenceRegistry,
    Formatters,
    Lifetime,
    Turns,
)
from foveal.context.frame import tag_attributes, tag_name
from foveal.project.view import View
from foveal.text import guard
from foveal.text.shorten.cut import boundary
from foveal.values.codec import sendable
from foveal.values.entry import Block, Fence
from foveal.values.errors import BadInput, BadPolicy, OverBudget
from foveal.values.events import Pressure
from foveal.values.shown import JOINT, MESSAGE_TOKENS
from foveal.values.trace import TraceLine, block_lines

Wrap: TypeAlias = Callable[[str, str, Mapping[str, str]], str]
"""Puts the frame of a kind around a text with these attributes, and neutralises tags in the text."""

_MOVES = "moves the prefix when it comes and goes"
_LEAST_CHARS = 40
"""Fewer characters of a cut text tell nothing."""
_ATTEMPTS = 6
_ADVICE = "Raise the limit or the share of these fences, shorten them, or let them be cut (must_keep = false)."
_REMEMBERED = 1_024


class Placed(NamedTuple):
    """The fences of one call: blocks in the order of the prompt, and lines of the trace for fences that are not shown."""

    blocks: tuple[Block, ...]
    hidden: tuple[TraceLine, ...]
    over: tuple[int, dict[str, int]] | None = None
    """The limit and the sizes of mandatory fences that do not fit."""


class ShownFences(NamedTuple):
    """The fences of one call as blocks, with a line of the trace for each fence."""

    blocks: tuple[Block, ...] = ()
    lines: tuple[TraceLine, ...] = ()
    mandatory: int = 0
    """Tokens of the blocks that may not be cut."""
    expired: tuple[Fence, ...] = ()
    """Fences whose time has passed; their lines say so, and the view need not keep them."""


class PromptFences:
    """The fences of one session as its prompts show them."""

    def __init__(
        self,
        kinds: Iterable[FenceKind],
        formatters: Formatters,
        *,
        count: Callable[[str], int],
        wrap: Wrap,
        last: Iterable[FenceKind] = (),
    ) -> None:
        for kind in kinds:
            _check(kind)
        self.registry = FenceRegistry((*BUILT_IN_KINDS, *kinds, STARTED, *last), formatters)
        self._lasting = {name for name, kind in self.registry.kinds.items() if kind.lifetime == "session"}
        self._placer = Placer(self.registry, count=count, wrap=wrap)

    def fence(self, view: View, kind: str, text: str, *, key: str | None, attributes: Mapping[str, str]) -> Fence:
        """Return a fence of a kind for the next call. Raise an error now if no tag can hold its attributes."""
        guard.wrap("fence", ".", nonce="", attributes=tag_attributes(attributes))
        return self.registry.fence(kind, text, attributes, call=view.facts.calls + 1, turn=next_turn(view), key=key)

    def shown(self, view: View, pressure: Pressure, share: float) -> ShownFences:
        """Return the fences of the next call. Optional fences take at most this share of the room."""
        alive, lines, expired = view.facts.fences, list[TraceLine](), tuple[Fence, ...]()
        if any(fence.kind not in self._lasting for fence in alive):
            known = [fence for fence in alive if fence.kind in self.registry.kinds]
            strange = [fence for fence in alive if fence.kind not in self.registry.kinds]
            alive, gone = live_fences(known, self.registry, call=view.facts.calls + 1, turn=next_turn(view))
            lines = [_hidden(fence, because) for fence, because in gone]
            lines += [_hidden(fence, "the policy has no such kind") for fence in strange]
            expired = tuple(fence for fence, _ in gone)
        if not alive:
            return ShownFences(lines=tuple(lines), expired=expired)
        placed = self._placer.place(alive, budget_tokens=pressure.limit)
        if placed.over:
            raise OverBudget(*placed.over, advice=_ADVICE)
        mandatory = [block for block in placed.blocks if self.registry.kind(block.name.partition(":")[0]).must_keep]
        if share < 1:
            least = sum(block.tokens - MESSAGE_TOKENS for block in mandatory)
            budget = least + int((pressure.limit - least) * share)
            placed = self._placer.place(alive, budget_tokens=budget)
        blocks = _with_places(view, placed.blocks)
        shown = (*block_lines(blocks), *placed.hidden, *lines)
        return ShownFences(blocks, shown, sum(block.tokens for block in mandatory), expired)


def next_turn(view: View) -> int:
    """Return the number of the turn the next call belongs to.

    A new turn starts if the last one was answered and no user message followed.
    """
    request = view.place(view.facts.last_user)
    for at in range(len(view.atoms) - 1, -1, -1):
        if at == request:
            return view.facts.turns
        if view.atoms[at].kind != "user":  # a file, or a result that came late, is no request
            return view.facts.turns + (view.atoms[at].kind in ("assistant", "system"))
    return view.facts.turns + 1


def live_fences(
    fences: Iterable[Fence], registry: FenceRegistry, *, call: int, turn: int
) -> tuple[tuple[Fence, ...], list[tuple[Fence, str]]]:
    """Return the fences that are still live, and those that have expired, each with the reason."""
    alive, gone = list[Fence](), list[tuple[Fence, str]]()
    for fence in fences:
        if because := _expired(fence, registry.kind(fence.kind).lifetime, call, turn):
            gone.append((fence, because))
        else:
            alive.append(fence)
    return tuple(alive), gone


def _expired(fence: Fence, lifetime: Lifetime, call: int, turn: int) -> str:
    match lifetime:
        case "session":
            return ""
        case "call":
            return f"for call {fence.call} only" if call > fence.call else ""
        case "turn":
            return f"for turn {fence.turn} only" if turn > fence.turn else ""
        case Turns(turns):
            return f"for {turns:,} turns from turn {fence.turn}" if turn - fence.turn >= turns else ""


class _Framed(NamedTuple):
    """A text in its frame, as it is sent."""

    text: str
    tokens: int


class _Case(NamedTuple):
    """One fence that may be shown: its place in the order of injection, its kind, and its whole text in the frame."""

    at: int
    fence: Fence
    kind: FenceKind
    whole: _Framed


class Placer:
    """Makes blocks of fences, and remembers them: a fence that stays is framed and counted once."""

    def __init__(self, registry: FenceRegistry, *, count: Callable[[str], int], wrap: Wrap) -> None:
        self._registry, self._count, self._wrap = registry, count, wrap
        self._framed = lru_cache(_REMEMBERED)(self._frame)
        self._cut = lru_cache(_REMEMBERED)(self._beginning)
        self._last: tuple[tuple[Fence, ...], int, Placed] = (), 0, Placed((), ())

    def place(self, fences: Sequence[Fence], *, budget_tokens: int) -> Placed:
        """Return blocks for these fences, which are given in the order in which they were injected."""
        # Within a turn, most calls have the fences of the call before.
        if self._last[:2] != (given := (tuple(fences), budget_tokens)):
            self._last = *given, self._place(*given)
        return self._last[2]

    def _place(self, fences: tuple[Fence, ...], budget_tokens: int) -> Placed:
        hidden, kept = dict[int, TraceLine](), list[tuple[_Case, Block]]()
        shown = [(i, fence, self._registry.kind(fence.kind)) for i, fence in _newest(fences, hidden)]
        cases = [_Case(i, fence, kind, self._framed(fence, fence.text)) for i, fence, kind in shown]
        mandatory = [case for case in cases if case.kind.must_keep]
        kept += [(case, _block(case, case.whole, "must be kept")) for case in mandatory]
        left = budget_tokens - sum(case.whole.tokens for case in mandatory)
        taken = dict[str, int]()
        # The others get the room that mandatory fences leave, no kind more than its share.
        for case in sorted((case for case in cases if not case.kind.must_keep), key=_priority):
            own = int(case.kind.share * budget_tokens) - taken.get(case.kind.name, 0)
            room, whose = (own, f"the share of {case.kind.name}") if own <= left else (left, "the budget")
            framed = case.whole if case.whole.tokens <= room else self._cut(case.fence, room)
            because = "" if framed is case.whole else f"{whose} leaves {max(0, room):,} tokens"
            if framed is None:
                because = "; ".join(filter(None, (because, case.fence.note)))
                hidden[case.at] = _hidden(case.fence, because, case.whole.tokens)
                continue
            kept.append((case, _block(case, framed, because)))
            left -= framed.tokens
            taken[case.kind.name] = taken.get(case.kind.name, 0) + framed.tokens
        kept.sort(key=lambda pair: (*self._registry.place_of(pair[0].kind), pair[0].at))
        lines = tuple(hidden[i] for i in sorted(hidden))
        return Placed(tuple(block for _, block in kept), lines, _overflow(mandatory, budget_tokens))

    def _beginning(self, fence: Fence, room: int) -> _Framed | None:
        """Return as much of the text as there is room for, in a whole frame, with a note of how much is missing."""
        text = fence.text
        chars = len(text) * max(0, room) // self._framed(fence, fence.text).tokens
        for _ in range(_ATTEMPTS):
            at = boundary(text, chars)
            if at < _LEAST_CHARS:
                return None
            note = f"[… {len(text) - at:,} of {len(text):,} characters left out]"
            framed = self._frame(fence, f"{text[:at].rstrip()}\n{note}")
            if framed.tokens <= room:
                return framed
            chars = int(chars * room / framed.tokens * 0.95) - 8
        return None

    def _frame(self, fence: Fence, text: str) -> _Framed:
        sent = sendable(self._wrap(fence.kind, text, dict(fence.attributes)))
        return _Framed(sent, self._count(sent) + JOINT.tokens)


def _newest(fences: Sequence[Fence], hidden: dict[int, TraceLine]) -> Iterator[tuple[int, Fence]]:
    """Yield the fences that have something to show, with their places. Lines for the others are added to `hidden`."""
    identities = [fence.identity for fence in fences]
    last = {identity: i for i, identity in enumerate(identities)}
    for i, (fence, identity) in enumerate(zip(fences, identities, strict=True)):
        if last[identity] != i:
            hidden[i] = _hidden(fence, "a newer one took its place")
        elif not fence.text.strip():
            hidden[i] = _hidden(fence, "it has no text")
        else:
            yield i, fence


def _hidden(fence: Fence, because: str, raw_tokens: int = 0) -> TraceLine:
    return TraceLine(fence.name, "fence", "hidden", "fence", because, 0, raw_tokens)


def _block(case: _Case, framed: _Framed, because: str) -> Block:
    """Return the block of a fence, counted as a message of its own: some formats join it to another, others do not."""
    kind, moves = case.kind, _MOVES if case.kind.moves_prefix else ""
    reason = "; ".join(filter(None, (_describe(kind), because, case.fence.note, moves)))
    tokens, raw_tokens = framed.tokens + MESSAGE_TOKENS, case.whole.tokens + MESSAGE_TOKENS
    return Block(case.fence.name, "fence", kind.role, kind.placement, framed.text, tokens, reason, raw_tokens)


def _overflow(mandatory: Sequence[_Case], budget: int) -> tuple[int, dict[str, int]] | None:
    """Return the limit and the sizes of mandatory fences that exceed the budget, or else the share of their kind."""
    sizes = dict[FenceKind, int]()
    for case in mandatory:
        sizes[case.kind] = sizes.get(case.kind, 0) + case.whole.tokens
    if sum(sizes.values()) > budget:
        return budget, {f"fences {kind.name}": tokens for kind, tokens in sizes.items()}
    for kind, tokens in sizes.items():
        if tokens > (most := int(kind.share * budget)):
            return most, {f"fences {kind.name}": tokens}
    return None


def _priority(case: _Case) -> tuple[bool, int]:
    """Return the sort key of a fence in the order of service."""
    lasts = case.kind.lifetime == "session"
    return not lasts, case.at if lasts else -case.at


def _with_places(view: View, blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """Return the blocks, those moved to the tail whose placement has no request or result in the view."""
    if view.facts.last_user:
        return blocks
    absent = {"before_conversation", "before_request", "after_request"}
    if not any(atom.kind == "tools" for atom in view.atoms):
        absent.add("after_result")
    if not any(block.placement in absent for block in blocks):
        return blocks
    return tuple(
        msgspec.structs.replace(block, placement="tail") if block.placement in absent else block for block in blocks
    )


def _check(kind: FenceKind) -> None:
    """Raise `BadPolicy` if no tag or no prompt can hold fences of this kind."""
    try:
        guard.fence_kind(tag_name(kind.name))
    except BadInput as error:
        raise BadPolicy(f"fences.{kind.name}: {error}") from None
    if kind.placement == "after_system" and kind.role != "system":
        raise BadPolicy(
            f"fences.{kind.name} stands after the system prompt, which is the host's own word; "
            'say role = "system" if its content may be that, or place it elsewhere'
        )


def _describe(kind: FenceKind) -> str:
    """Return the reason that the trace gives for every fence of a kind."""
    match kind.lifetime:
        case Turns(turns):
            lasts = f"{turns:,} turns"
        case "session":
            lasts = "the session"
        case passing:
            lasts = f"this {passing}"
    share = f", at most {kind.share:.0%} of the budget" if kind.share < 1 else ""
    return f"{kind.placement}, as {kind.role}, for {lasts}{share}"
