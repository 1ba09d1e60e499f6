"""What became of one entry in one prompt: its line, its folds, its original and what stands for it."""

import msgspec

from foveal import log, recall
from foveal.core.entry import Entry, File, Fold, FoldItem, Image, Message, Part, PartFold, Text, Thinking, ToolCall
from foveal.core.entry import ToolResult as Result
from foveal.core.errors import NotFound
from foveal.core.prompt import Prompt
from foveal.core.trace import Line, lines_of
from foveal.core.view import Atom
from foveal.levels.reference import as_text
from foveal.stores.port import Store


class FoldStep(msgspec.Struct, frozen=True):
    """One fold that touched the entry."""

    call: int
    """The call whose prompt it was made for."""
    level: str
    policy: str
    because: str
    reason: str
    before: int
    after: int
    rebilled: int


class Fate(msgspec.Struct, frozen=True):
    session: str
    ref: str
    line: Line
    folds: tuple[FoldStep, ...]
    original: str
    stand_in: str | None
    """None if it is shown in full."""


def fate_of(store: Store, prompt: Prompt, entry: str, call: int | None) -> Fate:
    """The fate of the entry whose id begins with `entry`, in this prompt."""
    branch = [log.to_entry(row, prompt.session) for row in log.branch(store.rows(prompt.session))]
    places = {one.id: i for i, one in enumerate(branch)}
    found = store.find(prompt.session, entry)
    if len(found) != 1:
        many = "several entries begin" if found else "no entry begins"
        raise NotFound(f"{many} with {entry!r} in session {prompt.session!r}; `foveal why` lists them")
    name = found[0].id
    atom = next((atom for atom in prompt.atoms if _holds(atom, name, places)), None)
    if atom is None:
        raise NotFound(f"entry {name[:10]} is no part of the prompt of call {prompt.call}")
    line = next(line for line in lines_of((atom,)) if atom.gap or line.entry == name)
    folds = tuple(_steps(branch, places, name, call))
    stand_in = _stand_in(atom, name) if line.shown != "full" else None
    original = recall.read(store, prompt.session, f"{name}..{name}")
    return Fate(prompt.session, name[:10], line, folds, original, stand_in)


def _holds(atom: Atom, name: str, places: dict[str, int]) -> bool:
    if atom.gap:
        return places[atom.gap.first] <= places.get(name, -1) <= places[atom.gap.last]
    return any(item.id == name for item in atom.items)


def _steps(branch: list[Entry], places: dict[str, int], name: str, call: int | None) -> list[FoldStep]:
    steps: list[FoldStep] = []
    calls = 0
    for entry in branch:
        match entry.body:
            case Message("assistant"):
                calls += 1
                if calls == call:
                    break
            case Fold(items) as fold:
                for item in items:
                    if _touches(item, name, places):
                        steps.append(_step(calls + 1, item, fold))
            case _:
                pass
    return steps


def _step(call: int, item: FoldItem, fold: Fold) -> FoldStep:
    return FoldStep(call, item.level, item.policy, item.because, fold.reason, fold.before, fold.after, fold.rebilled)


def _touches(item: FoldItem, name: str, places: dict[str, int]) -> bool:
    if isinstance(item, PartFold):
        return item.entry == name
    return places[item.first] <= places[name] <= places[item.last]


def _stand_in(atom: Atom, name: str) -> str:
    if atom.gap:
        return atom.gap.text
    shown = next(item.shown for item in atom.items if item.id == name)
    return "\n".join(_text(one.part) for one in shown if one.part is not None)


def _text(part: Part) -> str:
    match part:
        case Result(_, content):
            return as_text(content)
        case Text(text) | Thinking(text):
            return text
        case ToolCall(_, tool, arguments):
            return f"{tool}({arguments})"
        case Image() | File():
            return as_text((part,))
        case _:
            return f"[{type(part).__name__}]"
