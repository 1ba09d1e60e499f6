"""Changes to the cached prefix between two calls, their causes and their price.

A provider bills the part that a prompt shares with the one before it, from the first byte on, at a fraction of the price. A
changed byte makes everything behind it be billed anew. The log records every cause of such a change: folds with their price,
other tools or another model, fences that came or went among the messages, pins and rewinds.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache

import msgspec

from foveal.analysis.inspect.stored_session import tool_name
from foveal.analysis.replay.bills import equal_length
from foveal.models.catalogue import ModelFacts, cost_usd
from foveal.values.entry import Block, Body, Fold, Pin, Rewind, Setup, Unpin
from foveal.values.prompt import Prompt
from foveal.values.shown import Atom


class PrefixMove(msgspec.Struct, frozen=True):
    """One change to the cached prefix, and how many already sent tokens follow it."""

    who: str
    """`fold`, `tools`, `model`, `setup`, `fence`, `pin`, `rewind` or `repair`."""
    what: str
    tokens: int
    usd: float | None = None


class PrefixMoves(msgspec.Struct, frozen=True):
    """All changes to the prefix of one call. Everything behind the first change is billed anew, once."""

    session: str
    call: int
    movers: tuple[PrefixMove, ...]
    tokens: int
    usd: float | None
    """The price less that of the same tokens from the provider's cache; None where a price is not known."""
    sent: int


class PromptState(msgspec.Struct, frozen=True):
    """A prompt, the blocks of its side context, and the marks that were logged for it since the last reply."""

    prompt: Prompt
    blocks: tuple[Block, ...]
    marks: tuple[Body, ...]
    request: int
    """The position of the current request among the atoms."""

    @classmethod
    def of(
        cls, prompt: Prompt, blocks: tuple[Block, ...], marks: Sequence[Body], attached: Collection[str]
    ) -> "PromptState":
        """Return the state of a prompt. Entries whose id is in `attached` are files, not requests of the user."""
        atoms = prompt.atoms
        last = range(len(atoms) - 1, -1, -1)
        request = next((i for i in last if atoms[i].kind == "user" and atoms[i].first not in attached), 0)
        return cls(prompt, blocks, tuple(marks), request)


_KnownIds = Callable[[], set[str]]
"""Returns the ids of all entries that the call before had sent. Called only where something moved: the set is large."""


def priced(prompt: Prompt, moves: Sequence[PrefixMove], facts: ModelFacts) -> PrefixMoves:
    """Return the moves of a prompt with their prices for the model."""
    with_usd = tuple(msgspec.structs.replace(one, usd=_usd(facts, one.tokens)) for one in moves)
    tokens = max((one.tokens for one in moves), default=0)
    return PrefixMoves(prompt.session, prompt.call, with_usd, tokens, _usd(facts, tokens), prompt.tokens)


def moves_between(before: PromptState, now: PromptState) -> Iterator[PrefixMove]:
    """Yield the changes to the prefix from one prompt to the next, without prices."""

    @cache
    def known() -> set[str]:
        return {item.id for atom in before.prompt.atoms for item in atom.items}

    place = _first_change(before.prompt.atoms, now.prompt.atoms)
    found = [
        *_setup_moves(before.prompt.setup, now.prompt, known),
        *_mark_moves(now, place, known),
        *_fence_moves(before, now, known),
    ]
    yield from found
    if place is not None and not any(one.who in ("fold", "model", "setup", "pin") for one in found):
        what = f"entry {now.prompt.atoms[place].first[:10]} is shown in another way: more of it came later"
        yield PrefixMove("repair", what, _behind(now.prompt.atoms, place, known))


def _setup_moves(old: Setup, now: Prompt, known: _KnownIds) -> Iterator[PrefixMove]:
    new = now.setup
    if (old.model, old.dialect) != (new.model, new.dialect):
        what = f"{old.model} ({old.dialect}) became {new.model} ({new.dialect})"
        yield PrefixMove("model", what, new.tools_tokens + _behind(now.atoms, 0, known))
    elif old.tools != new.tools:
        yield PrefixMove("tools", _tool_changes(old.tools, new.tools), new.tools_tokens + _behind(now.atoms, 0, known))
    elif (old.policy, old.retention) != (new.policy, new.retention):
        what = "the policy was changed" if old.policy != new.policy else "the retention of tools was changed"
        yield PrefixMove("setup", what, 0)


def _tool_changes(old: str, new: str) -> str:
    tables = [{tool_name(tool): tool for tool in msgspec.json.decode(text)} for text in (old, new)]
    was, now = tables
    changes = {
        "came": sorted(now.keys() - was.keys()),
        "went": sorted(was.keys() - now.keys()),
        "changed": sorted(name for name in was.keys() & now.keys() if was[name] != now[name]),
    }
    return "; ".join(f"{verb}: {', '.join(names)}" for verb, names in changes.items() if names) or "another order"


def _mark_moves(now: PromptState, place: int | None, known: _KnownIds) -> Iterator[PrefixMove]:
    for mark in now.marks:
        match mark:
            case Fold():
                policies = ", ".join(dict.fromkeys(item.policy for item in mark.items))
                yield PrefixMove("fold", f"{mark.reason} ({policies})", mark.rebilled)
            case Pin() | Unpin() if place is not None:
                verb = "pinned" if isinstance(mark, Pin) else "unpinned"
                behind = _behind(now.prompt.atoms, place, known)
                yield PrefixMove("pin", f"{mark.tool or mark.entry[:10]} was {verb}", behind)
            case Rewind(reason):
                yield PrefixMove("rewind", reason or "what came after it is another branch now", 0)
            case _:
                pass


def _fence_moves(before: PromptState, now: PromptState, known: _KnownIds) -> Iterator[PrefixMove]:
    """Yield the fences among already sent messages that came, went, changed or moved on. Those at the tail move nothing."""
    was, new = (_homes(state) for state in (before, now))
    if was == new:
        return
    atoms = now.prompt.atoms
    places = {atom.first: i for i, atom in enumerate(atoms)}
    for key in dict.fromkeys((*was, *new)):
        old, this = was.get(key), new.get(key)
        if old == this:
            continue
        block = (this or old or ("", now.blocks[0]))[1]
        verb = "came" if old is None else "went" if this is None else "moved on" if old[1] == this[1] else "changed"
        first = min(places.get(home[0], 0) for home in (old, this) if home)
        # A fence in front of nothing but new entries moves nothing that was sent before.
        if tokens := _behind(atoms, first, known):
            yield PrefixMove("fence", f"{block.name} {verb} ({block.placement})", tokens)


def _homes(state: PromptState) -> dict[tuple[str, int], tuple[str, Block]]:
    """Return each fence that is placed at a message, by its name and number, with the first entry of that atom."""
    if not state.blocks:
        return {}
    kinds = [atom.kind for atom in state.prompt.atoms]
    results = max((i for i, kind in enumerate(kinds) if kind == "tools"), default=state.request)
    homes = {
        "after_system": kinds.count("system"),
        "before_conversation": next((i for i, kind in enumerate(kinds) if kind == "user"), len(kinds)),
        "before_request": state.request,
        "after_request": state.request,
        "after_result": results,
    }
    found: dict[tuple[str, int], tuple[str, Block]] = {}
    for block in state.blocks:
        place = homes.get(block.placement, len(kinds))
        if place < len(kinds):
            number = sum(name == block.name for name, _ in found)
            found[block.name, number] = state.prompt.atoms[place].first, block
    return found


def _first_change(before: tuple[Atom, ...], now: tuple[Atom, ...]) -> int | None:
    """Return the position of the first atom that differs; None if `now` only has more atoms."""
    for place in range(equal_length(before, now), min(len(before), len(now))):
        if before[place] is not now[place] and _sent(before[place]) != _sent(now[place]):
            return place
    return None


def _sent(atom: Atom) -> object:
    """Return the part of an atom that reaches the provider."""
    parts = [(item.role, [shown.part for shown in item.shown]) for item in atom.items]
    return atom.gap.text if atom.gap else (parts, atom.wire_ids, [answer is None for answer in atom.answers])


def _behind(atoms: Sequence[Atom], place: int, known: _KnownIds) -> int:
    """Return the tokens of all atoms from this place on that were sent before, in any form."""
    ids = known()
    old = (atom for atom in atoms[place:] if atom.gap or any(item.id in ids for item in atom.items))
    return sum(atom.size.tokens for atom in old)


def _usd(facts: ModelFacts, tokens: int) -> float | None:
    anew, cached = (cost_usd(facts, *split, 0) for split in ((0, tokens), (tokens, 0)))
    return None if anew is None or cached is None else anew - cached
