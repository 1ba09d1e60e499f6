"""Who moved the prefix between two calls, and what that cost.

A provider bills what a prompt shares with the one before it, from the first byte on, at a fraction. Whatever changes a byte
makes everything behind it be billed anew. The log holds every such change: folds with their price, other tools or another
model, fences that came or went among the messages, pins and rewinds.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from foveal.analysis.inspect.stored import stored_prompt
from foveal.models.catalogue import cost_usd
from foveal.session.model_setup import ModelSetup
from foveal.stores import rows as log
from foveal.stores.port import Store
from foveal.values.blocks import blocks_after
from foveal.values.entry import ATTACHED, Block, Body, Entry, Fold, Message, Pin, Rewind, Setup, Unpin
from foveal.values.prompt import Prompt
from foveal.values.shown import Atom


class Mover(msgspec.Struct, frozen=True):
    """One change of what was sent before, and the tokens behind it that were sent before as well."""

    who: str
    """`fold`, `tools`, `model`, `setup`, `fence`, `pin`, `rewind` or `repair`."""
    what: str
    tokens: int
    usd: float | None = None


class Moved(msgspec.Struct, frozen=True):
    """What moved the prefix of a call. Behind the first change everything is billed anew, and that once."""

    session: str
    call: int
    movers: tuple[Mover, ...]
    tokens: int
    usd: float | None
    """More than if the tokens had come from the provider's cache; None where a price is not known."""
    sent: int


class _Call(msgspec.Struct, frozen=True):
    """A prompt, what stood beside it, and what was logged for it since the reply before."""

    prompt: Prompt
    blocks: tuple[Block, ...]
    marks: tuple[Body, ...]
    request: int
    """Which atom is the current request."""


def moved(store: Store, name: str, call: int | None) -> Moved:
    """What moved the prefix between this call and the one before it."""
    prompt, optics = stored_prompt(store, name, call)
    branch = [log.to_entry(row, name) for row in log.branch(store.rows(name))]
    movers: list[Mover] = []
    if prompt.call > 1:
        before, _ = stored_prompt(store, name, prompt.call - 1)
        movers = list(_movers(_of(before, branch), _of(prompt, branch)))
    priced = tuple(msgspec.structs.replace(one, usd=_usd(optics, one.tokens)) for one in movers)
    tokens = max((one.tokens for one in movers), default=0)
    return Moved(prompt.session, prompt.call, priced, tokens, _usd(optics, tokens), prompt.tokens)


def _of(prompt: Prompt, branch: Sequence[Entry]) -> _Call:
    replies = [i for i, one in enumerate(branch) if isinstance(one.body, Message) and one.body.role == "assistant"]
    start = replies[prompt.call - 2] if prompt.call > 1 else 0
    end = replies[prompt.call - 1] if prompt.call <= len(replies) else len(branch)
    attached = {one.id for one in branch if one.author == ATTACHED}
    asks = (i for i, atom in enumerate(prompt.atoms) if atom.kind == "user" and atom.first not in attached)
    marks = tuple(one.body for one in branch[start:end])
    return _Call(prompt, blocks_after(branch[:end]), marks, max(asks, default=0))


def _movers(before: _Call, now: _Call) -> Iterator[Mover]:
    known = {item.id for atom in before.prompt.atoms for item in atom.items}
    found = [
        *_setups(before.prompt.setup, now.prompt, known),
        *_marks(now, before, known),
        *_fences(before, now, known),
    ]
    yield from found
    place = _first_change(before.prompt.atoms, now.prompt.atoms)
    if place is not None and not any(one.who in ("fold", "model", "setup", "pin") for one in found):
        what = f"entry {now.prompt.atoms[place].first[:10]} is shown in another way: more of it came later"
        yield Mover("repair", what, _behind(now.prompt.atoms, place, known))


def _setups(old: Setup, now: Prompt, known: set[str]) -> Iterator[Mover]:
    new, everything = now.setup, now.setup.tools_tokens + _behind(now.atoms, 0, known)
    if (old.model, old.dialect) != (new.model, new.dialect):
        what = f"{old.model} ({old.dialect}) became {new.model} ({new.dialect})"
        yield Mover("model", what, everything)
    elif old.tools != new.tools:
        yield Mover("tools", _tools(old.tools, new.tools), everything)
    elif (old.policy, old.retention) != (new.policy, new.retention):
        what = "the policy was changed" if old.policy != new.policy else "the retention of tools was changed"
        yield Mover("setup", what, 0)


def _tools(old: str, new: str) -> str:
    tables = [{_name(tool): tool for tool in msgspec.json.decode(text)} for text in (old, new)]
    was, now = tables
    changes = {
        "came": sorted(now.keys() - was.keys()),
        "went": sorted(was.keys() - now.keys()),
        "changed": sorted(name for name in was.keys() & now.keys() if was[name] != now[name]),
    }
    return "; ".join(f"{verb}: {', '.join(names)}" for verb, names in changes.items() if names) or "another order"


def _name(tool: dict[str, Any]) -> str:
    return str(tool.get("function", tool).get("name") or tool.get("type"))


def _marks(now: _Call, before: _Call, known: set[str]) -> Iterator[Mover]:
    atoms, place = now.prompt.atoms, _first_change(before.prompt.atoms, now.prompt.atoms)
    for mark in now.marks:
        match mark:
            case Fold():
                policies = ", ".join(dict.fromkeys(item.policy for item in mark.items))
                yield Mover("fold", f"{mark.reason} ({policies})", mark.rebilled)
            case Pin() | Unpin() if place is not None:
                verb = "pinned" if isinstance(mark, Pin) else "unpinned"
                yield Mover("pin", f"{mark.tool or mark.entry[:10]} was {verb}", _behind(atoms, place, known))
            case Rewind(reason):
                yield Mover("rewind", reason or "what came after it is another branch now", 0)
            case _:
                pass


def _fences(before: _Call, now: _Call, known: set[str]) -> Iterator[Mover]:
    """Fences among what was sent before that came, went, changed or moved on. The tail moves nothing."""
    was, new = (_homes(call) for call in (before, now))
    atoms = now.prompt.atoms
    places = {atom.first: i for i, atom in enumerate(atoms)}
    for key in dict.fromkeys((*was, *new)):
        old, this = was.get(key), new.get(key)
        if old == this:
            continue
        block = (this or old or ("", now.blocks[0]))[1]
        verb = "came" if old is None else "went" if this is None else "moved on" if old[1] == this[1] else "changed"
        first = min(places.get(home[0], 0) for home in (old, this) if home)
        # What was not sent before cannot be moved by what comes with it.
        if tokens := _behind(atoms, first, known):
            yield Mover("fence", f"{block.name} {verb} ({block.placement})", tokens)


def _homes(call: _Call) -> dict[tuple[str, int], tuple[str, Block]]:
    """Each fence beside a message, by its name and number, with the first entry of the atom that it stands beside."""
    kinds = [atom.kind for atom in call.prompt.atoms]
    results = max((i for i, kind in enumerate(kinds) if kind == "tools"), default=call.request)
    homes = {
        "after_system": kinds.count("system"),
        "before_request": call.request,
        "after_request": call.request,
        "after_result": results,
    }
    found: dict[tuple[str, int], tuple[str, Block]] = {}
    for block in call.blocks:
        place = homes.get(block.placement, len(kinds))
        if place < len(kinds):
            number = sum(name == block.name for name, _ in found)
            found[block.name, number] = call.prompt.atoms[place].first, block
    return found


def _first_change(before: Sequence[Atom], now: Sequence[Atom]) -> int | None:
    """The first atom of `now` that is not what stood in its place before; None if there are only more of them."""
    for place, (old, new) in enumerate(zip(before, now, strict=False)):
        if _sent(old) != _sent(new):
            return place
    return None


def _sent(atom: Atom) -> object:
    """What of an atom reaches the provider."""
    parts = [(item.role, [shown.part for shown in item.shown]) for item in atom.items]
    return atom.gap.text if atom.gap else (parts, atom.wire_ids, [answer is None for answer in atom.answers])


def _behind(atoms: Sequence[Atom], place: int, known: set[str]) -> int:
    """The tokens from this place on that were sent before, in whatever form."""
    old = (atom for atom in atoms[place:] if atom.gap or any(item.id in known for item in atom.items))
    return sum(atom.size.tokens for atom in old)


def _usd(optics: ModelSetup, tokens: int) -> float | None:
    anew, cached = (cost_usd(optics.facts, *split, 0) for split in ((0, tokens), (tokens, 0)))
    return None if anew is None or cached is None else anew - cached
