"""Fences: what a host puts beside the conversation, in a frame of its own.

Theory of operation. A *kind* says what every fence of it has in common: who speaks, where it stands, how long it lives, whether
it may be cut. It is data, read from a policy file or registered by code. A *fence* is content of a kind. It is formatted when it
is injected, so that the text kept of it is the text that is sent, and a past prompt can be built again without the host's code.

For each call, `live` tells what has had its time, and `place` makes blocks of the rest:

    injected ──► replaced by a newer one of its key, or empty          no block, no tags
             ──► must be kept: whole, or the prompt is refused          `Placed.over`
             ──► others: whole, cut to the share of their kind, or left out

What lives as long as the session is served first, oldest first, so that a newcomer never changes bytes that were cached. Of what
passes, the newest is served first. Each decision is a `FenceOutcome`, and becomes a line of the trace.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias, TypeVar, get_args

import msgspec

from foveal.context.reminders.templates import compiled, is_name, nearest
from foveal.text.display import one_line
from foveal.text.shorten.cut import boundary
from foveal.values.codec import sendable
from foveal.values.entry import Block, Fence, Placement
from foveal.values.errors import BadInput, BadPolicy, OverBudget
from foveal.values.shown import JOINT
from foveal.values.trace import TraceLine

FenceRole: TypeAlias = Literal["user", "system"]
Wrap: TypeAlias = Callable[[str, str, Mapping[str, str]], str]
"""The frame around a text of this kind, with its attributes; makes whatever could be taken for a frame harmless."""
Formatter: TypeAlias = Callable[[str, Mapping[str, str]], str]
"""The host's own way to write a text, given with its attributes."""
Formatters: TypeAlias = Mapping[str, Formatter]

NO_FORMATTERS: Formatters = MappingProxyType({})

PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
"""In the order of a prompt."""
_PLACE = {placement: i for i, placement in enumerate(PLACEMENTS)}

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,63}\Z")
_MOVES = "moves the prefix when it comes and goes"
_LEAST_CHARS = 40
"""Less than that of a cut text tells nothing."""
_ERROR_CHARS = 200
"""Of what a formatter said when it failed: enough to find the line."""
_ATTEMPTS = 6
_REMEMBERED = 1_024


class Turns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """So many turns of the user, the one that it was injected for included."""

    turns: int

    def __post_init__(self) -> None:
        if self.turns <= 0:
            raise BadPolicy(f"lifetime.turns is {self.turns}; it is a positive number of turns")


Lifetime: TypeAlias = Literal["call", "turn", "session"] | Turns


class FenceKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the fences of one kind have in common."""

    name: str
    role: FenceRole = "user"
    placement: Placement = "tail"
    lifetime: Lifetime = "turn"
    must_keep: bool = False
    """Never cut, never left out: if it does not fit its share, the prompt is refused."""
    share: float = 1.0
    """The most that all fences of the kind may take of the budget."""
    formatter: str = "{text}"
    """The template of their text, with `{text}` in it and attributes where they are wanted; or, without braces, the name of
    a function that the host gives to the session."""

    def __post_init__(self) -> None:
        if not _KIND.match(self.name):
            raise BadPolicy(f"the fence {self.name!r} needs a name of small letters, digits, - and _, a letter first")
        for field, known in (("role", get_args(FenceRole)), ("placement", PLACEMENTS)):
            if (value := getattr(self, field)) not in known:
                raise BadPolicy(f"fences.{self.name}.{field} is {value!r}{nearest(str(value), known)}")
        if not isinstance(self.lifetime, Turns) and self.lifetime not in _LASTING:
            known = ", ".join(_LASTING)
            raise BadPolicy(f"fences.{self.name}.lifetime is {self.lifetime!r}; it is one of {known}, or {{turns = 3}}")
        if not 0 < self.share <= 1:
            raise BadPolicy(f"fences.{self.name}.share is {self.share}; it is a share above 0 and up to 1")
        if not self.is_formatted_by_host and "text" not in compiled(self.formatter, self._formatter_key).names:
            raise BadPolicy(f"{self._formatter_key} has no {{text}}: the content would be lost")

    @property
    def is_formatted_by_host(self) -> bool:
        """Whether `formatter` names a function: a template has braces, and a name has none."""
        return _KIND.match(self.formatter) is not None

    @property
    def _formatter_key(self) -> str:
        return f"fences.{self.name}.formatter"

    @property
    def moves_prefix(self) -> bool:
        """Whether cached bytes change when it comes, goes or moves on: only the tail, and what stays for good, do not."""
        return self.placement != "tail" and not (self.placement == "after_system" and self.lifetime == "session")


_LASTING = ("session", "turn", "call")


class Registry:
    """The kinds of fences that a session knows, in the order in which those that stay stand after the system prompt."""

    def __init__(self, kinds: Iterable[FenceKind] = (), formatters: Formatters = NO_FORMATTERS) -> None:
        self._kinds: dict[str, FenceKind] = {}
        self._formatters = formatters
        for kind in kinds:  # the same again is fine; another of the same name is not
            if self._kinds.setdefault(kind.name, kind) != kind:
                raise BadPolicy(f"fences.{kind.name} is there already, and not as this; give one of them another name")
        self._ranks = {name: rank for rank, name in enumerate(self._kinds)}

    def kind(self, name: str) -> FenceKind:
        found = self._kinds.get(name)
        if found is None:
            raise BadInput(f"no fence {name!r} is registered{nearest(name, self._kinds)}")
        return found

    def place_of(self, kind: FenceKind) -> tuple[int, int, int]:
        """Where a kind stands: in the order of the prompt; at one place, what stays longest first, so that the rest moves as
        little as it can. What is there for good has its place by its kind: if it changes, nothing else moves."""
        lifetime = "turn" if isinstance(kind.lifetime, Turns) else kind.lifetime
        is_static = kind.placement == "after_system" and lifetime == "session"
        return _PLACE[kind.placement], _LASTING.index(lifetime), self._ranks[kind.name] if is_static else 0

    def fence(
        self,
        kind: str,
        text: str,
        attributes: Mapping[str, str] | None = None,
        *,
        call: int,
        turn: int,
        key: str | None = None,
    ) -> Fence:
        """Content of a kind, formatted as the kind says. Blank content gives a fence that is not shown."""
        known = self.kind(kind)
        attributes = dict(sorted((attributes or {}).items()))
        for name in attributes:
            if not is_name(name) or name == "text":
                raise BadInput(
                    f"the fence {kind} has an attribute {name!r}; one is small letters, digits and _, not `text`"
                )
        text, failed = self._formatted(known, text, attributes) if text.strip() else (text, "")
        return Fence(kind, text, call, turn, tuple(attributes.items()), key, failed)

    def _formatted(self, kind: FenceKind, text: str, attributes: Mapping[str, str]) -> tuple[str, str]:
        """The text as its kind writes it; or as it came, and why."""
        if not kind.is_formatted_by_host:
            return _filled(kind, text, attributes), ""
        name = kind.formatter
        if name not in self._formatters:
            raise BadPolicy(
                f"fences.{kind.name}.formatter: there is no formatter {name!r}{nearest(name, self._formatters)}. "
                "Give it to the session with Environment(formatters=…)"
            )
        try:
            made = self._formatters[name](text, dict(attributes))
        except Exception as error:  # the content is what the model needs; how it is laid out comes second
            return text, one_line(f"the formatter {name} failed ({type(error).__name__}: {error})", _ERROR_CHARS)
        if not isinstance(made, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            return text, f"the formatter {name} gave {type(made).__name__} where text belongs"
        return (made, "") if made.strip() else (text, f"the formatter {name} gave no text")


def _filled(kind: FenceKind, text: str, attributes: Mapping[str, str]) -> str:
    try:
        return compiled(kind.formatter, f"fences.{kind.name}.formatter").fill({**attributes, "text": text})
    except BadInput as error:
        raise BadInput(f"the fence {kind.name}: {error}; its formatter is {kind.formatter!r}") from None


FenceStatus: TypeAlias = Literal["shown", "cut", "left_out", "replaced", "expired", "empty"]


class FenceOutcome(msgspec.Struct, frozen=True):
    """What became of one fence in one call."""

    fence: str
    outcome: FenceStatus
    because: str = ""
    tokens: int = 0
    """What is sent of it."""
    raw_tokens: int = 0
    """What it would have taken whole."""

    def line(self) -> TraceLine:
        """Its line of the trace."""
        shown = {"shown": "full", "cut": "trimmed"}.get(self.outcome, "hidden")
        return TraceLine(self.fence, "fence", shown, "fence", self.because, self.tokens, self.raw_tokens)


class Over(msgspec.Struct, frozen=True):
    """What must be kept and does not fit."""

    limit: int
    parts: dict[str, int]

    def error(self) -> OverBudget:
        advice = "Raise the limit or the share of these fences, shorten them, or let them be cut (must_keep = false)."
        return OverBudget(self.limit, self.parts, advice=advice)


class Placed(msgspec.Struct, frozen=True):
    """The fences of one call, in the order of the prompt."""

    blocks: tuple[Block, ...]
    fates: tuple[FenceOutcome, ...]
    over: Over | None = None

    @property
    def tokens(self) -> int:
        return sum(block.tokens for block in self.blocks)

    def at(self, placement: Placement) -> tuple[Block, ...]:
        return tuple(block for block in self.blocks if block.placement == placement)


def live(
    fences: Iterable[Fence], registry: Registry, *, call: int, turn: int
) -> tuple[tuple[Fence, ...], tuple[FenceOutcome, ...]]:
    """The fences that still live, and the fates of those that do not."""
    alive, gone = list[Fence](), list[FenceOutcome]()
    for fence in fences:
        if because := _expired(fence, registry.kind(fence.kind).lifetime, call, turn):
            gone.append(FenceOutcome(fence.name, "expired", because))
        else:
            alive.append(fence)
    return tuple(alive), tuple(gone)


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


_F = TypeVar("_F", _Framed, _Framed | None)


class _Case(NamedTuple):
    """One fence that may be shown: its place in the order of injection, its kind, and itself whole."""

    at: int
    fence: Fence
    kind: FenceKind
    whole: _Framed


class Placer:
    """Places fences, and remembers what they came to: a fence that stays is framed and counted once."""

    def __init__(self, registry: Registry, *, count: Callable[[str], int], wrap: Wrap) -> None:
        self._registry, self._count, self._wrap = registry, count, wrap
        self._known: dict[tuple[Fence, int | None], _Framed | None] = {}
        self._last: tuple[tuple[Fence, ...], int, Placed] = (), 0, Placed((), ())

    def place(self, fences: Sequence[Fence], *, budget_tokens: int) -> Placed:
        """Blocks for these fences, which are given in the order in which they were injected."""
        # Within a turn, most calls have the fences of the call before.
        if self._last[:2] != (given := (tuple(fences), budget_tokens)):
            self._last = *given, self._place(*given)
        return self._last[2]

    def _place(self, fences: tuple[Fence, ...], budget_tokens: int) -> Placed:
        kept, fates = dict[int, tuple[_Case, _Framed]](), dict[int, FenceOutcome]()
        shown = [(i, fence, self._registry.kind(fence.kind)) for i, fence in _newest(fences, fates)]
        cases = [_Case(i, fence, kind, self._whole(fence)) for i, fence, kind in shown]
        mandatory = [case for case in cases if case.kind.must_keep]
        for case in mandatory:
            kept[case.at] = case, case.whole
            fates[case.at] = _fate(case, case.whole, "must be kept")
        self._serve([case for case in cases if not case.kind.must_keep], budget_tokens, kept, fates)
        order = sorted(kept.values(), key=lambda pair: (*self._registry.place_of(pair[0].kind), pair[0].at))
        blocks = tuple(
            Block(case.fence.name, "fence", case.kind.role, case.kind.placement, framed.text, framed.tokens)
            for case, framed in order
        )
        return Placed(blocks, tuple(fates[i] for i in sorted(fates)), _over(mandatory, budget_tokens))

    def _serve(
        self, cases: list[_Case], budget: int, kept: dict[int, tuple[_Case, _Framed]], fates: dict[int, FenceOutcome]
    ) -> None:
        """Give out what the mandatory ones leave, no kind more than its share."""
        left = budget - sum(framed.tokens for _, framed in kept.values())
        taken = dict[str, int]()
        for case in sorted(cases, key=_turn_of):
            own = int(case.kind.share * budget) - taken.get(case.kind.name, 0)
            room, whose = (own, f"the share of {case.kind.name}") if own <= left else (left, "the budget")
            framed = case.whole if case.whole.tokens <= room else self._cut(case, room)
            because = "" if framed is case.whole else f"{whose} leaves {max(0, room):,} tokens"
            fates[case.at] = _fate(case, framed, because)
            if framed:
                kept[case.at] = case, framed
                left -= framed.tokens
                taken[case.kind.name] = taken.get(case.kind.name, 0) + framed.tokens

    def _whole(self, fence: Fence) -> _Framed:
        known = self._known.get((fence, None))
        return known or self._remember((fence, None), self._framed(fence, fence.text))

    def _cut(self, case: _Case, room: int) -> _Framed | None:
        key = case.fence, room
        return self._known[key] if key in self._known else self._remember(key, self._beginning(case, room))

    def _beginning(self, case: _Case, room: int) -> _Framed | None:
        """As much of the text as there is room for, in a whole frame, with a note of what is missing."""
        text = case.fence.text
        chars = len(text) * max(0, room) // case.whole.tokens
        for _ in range(_ATTEMPTS):
            at = boundary(text, chars)
            if at < _LEAST_CHARS:
                return None
            note = f"[… {len(text) - at:,} of {len(text):,} characters left out]"
            framed = self._framed(case.fence, f"{text[:at].rstrip()}\n{note}")
            if framed.tokens <= room:
                return framed
            chars = int(chars * room / framed.tokens * 0.95) - 8
        return None

    def _framed(self, fence: Fence, text: str) -> _Framed:
        sent = sendable(self._wrap(fence.kind, text, dict(fence.attributes)))
        return _Framed(sent, self._count(sent) + JOINT.tokens)

    def _remember(self, key: tuple[Fence, int | None], framed: _F) -> _F:
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[key] = framed
        return framed


def place(
    fences: Sequence[Fence], registry: Registry, *, budget_tokens: int, count: Callable[[str], int], wrap: Wrap
) -> Placed:
    """Blocks for these fences, which are given in the order in which they were injected."""
    return Placer(registry, count=count, wrap=wrap).place(fences, budget_tokens=budget_tokens)


def _newest(fences: Sequence[Fence], fates: dict[int, FenceOutcome]) -> Iterator[tuple[int, Fence]]:
    """The fences that have something to show, with their places. What became of the others goes to `fates`."""
    identities = [fence.identity for fence in fences]
    last = {identity: i for i, identity in enumerate(identities)}
    for i, (fence, identity) in enumerate(zip(fences, identities, strict=True)):
        if last[identity] != i:
            fates[i] = FenceOutcome(fence.name, "replaced", "a newer one took its place")
        elif not fence.text.strip():
            fates[i] = FenceOutcome(fence.name, "empty", "it has no text")
        else:
            yield i, fence


def _fate(case: _Case, framed: _Framed | None, because: str) -> FenceOutcome:
    raw = case.whole.tokens
    moves = _MOVES if framed and case.kind.moves_prefix else ""
    because = "; ".join(filter(None, (because, case.fence.note, moves)))
    if framed is None:
        return FenceOutcome(case.fence.name, "left_out", because, 0, raw)
    return FenceOutcome(case.fence.name, "shown" if framed is case.whole else "cut", because, framed.tokens, raw)


def _over(mandatory: Sequence[_Case], budget: int) -> Over | None:
    """What must be kept and exceeds the budget, or else the share of its kind."""
    sizes = dict[FenceKind, int]()
    for case in mandatory:
        sizes[case.kind] = sizes.get(case.kind, 0) + case.whole.tokens
    if sum(sizes.values()) > budget:
        return Over(budget, {f"fences {kind.name}": tokens for kind, tokens in sizes.items()})
    for kind, tokens in sizes.items():
        if tokens > (most := int(kind.share * budget)):
            return Over(most, {f"fences {kind.name}": tokens})
    return None


def _turn_of(case: _Case) -> tuple[bool, int]:
    """Who is served first."""
    lasts = case.kind.lifetime == "session"
    return not lasts, case.at if lasts else -case.at
