"""The history of one entry in one prompt, and the explanation of a whole prompt: its trace, and its summary."""

from collections.abc import Iterator

import msgspec

from foveal import recall
from foveal.analysis.inspect.stored_session import branch_of, entry_id, stored_prompt
from foveal.project.facts import SUMMARISED
from foveal.stores.port import Store
from foveal.summary.prose import summary_in
from foveal.text.shorten.reference import as_text
from foveal.values.entry import (
    Entry,
    File,
    Fold,
    FoldItem,
    Image,
    Message,
    Part,
    PartFold,
    RangeFold,
    Text,
    Thinking,
    ToolCall,
)
from foveal.values.entry import ToolResult as Result
from foveal.values.errors import NotFound
from foveal.values.prompt import Prompt
from foveal.values.shown import Atom, range_ref
from foveal.values.trace import Trace, TraceLine, lines_of
from foveal.writers.summary_writer import CODE


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
    author: str = ""
    """The author of the summary's prose, if the fold is a summary with prose."""
    kind: str = ""
    """The cause of the fold: the budget, a hand, …"""


class PromptSummary(msgspec.Struct, frozen=True):
    """The summary of a prompt. There is only one, even where pins and requests split the messages it covers into ranges."""

    ranges: tuple[str, ...]
    """References of the covered ranges, oldest first."""
    covers: tuple[str, ...]
    """The ids of the covered messages."""
    raw_tokens: int
    tokens: int
    call: int
    """The call whose prompt it was written for."""
    author: str
    """The author of its prose; `code` if only the engine wrote it."""


class EntryHistory(msgspec.Struct, frozen=True):
    """One entry in one prompt: its line, its folds, its original and its stand-in."""

    session: str
    ref: str
    line: TraceLine
    folds: tuple[FoldStep, ...]
    original: str
    stand_in: str | None
    """None if the entry is shown in full."""


class PromptExplanation(msgspec.Struct, frozen=True):
    """The explanation of a prompt: one line an entry, the summary, and how its tokens were counted."""

    trace: Trace
    summary: PromptSummary | None
    counter: str
    """The name of the token counter."""
    counter_error: str
    """How far its counts may be off; empty if they are exact."""


def why(store: Store, session: str, call: int | None = None) -> PromptExplanation:
    """Return the explanation of a call's prompt; of the next one's, if `call` is None."""
    prompt, setup = stored_prompt(store, session, call)
    counter = setup.counter
    return PromptExplanation(
        trace=prompt.trace,
        summary=_summary_of(store, prompt, call),
        counter=counter.counter.name,
        counter_error="" if counter.exact else counter.error,
    )


def entry_history(store: Store, session: str, entry: str, call: int | None = None) -> EntryHistory:
    """Return the history of the entry whose id begins with `entry`, up to a call's prompt (the next one's, if None)."""
    prompt, _ = stored_prompt(store, session, call)
    branch = branch_of(store, session)
    places = {one.id: i for i, one in enumerate(branch)}
    name = entry_id(store, session, entry)
    atom = next((atom for atom in prompt.atoms if _holds(atom, name, places)), None)
    if atom is None:
        raise NotFound(f"entry {name[:10]} is no part of the prompt of call {prompt.call}")
    line = next(line for line in lines_of((atom,)) if atom.gap or line.entry == name)
    folds = tuple(_steps(branch, places, name, call))
    stand_in = _stand_in(atom, name) if line.shown != "full" else None
    original = recall.read(store, session, f"{name}..{name}")
    return EntryHistory(session, name[:10], line, folds, original, stand_in)


def _summary_of(store: Store, prompt: Prompt, call: int | None) -> PromptSummary | None:
    gaps = [(atom.gap, atom.size.tokens) for atom in prompt.atoms if atom.gap and atom.gap.policy == SUMMARISED]
    branch = branch_of(store, prompt.session) if gaps else []
    written = [(at, item) for at, fold in _folds(branch, call) if (item := summary_in(fold))]
    if not written:
        return None
    places = {one.id: i for i, one in enumerate(branch)}
    shown = {item.id for atom in prompt.atoms for item in atom.items}
    inside = {i for gap, _ in gaps for i in range(places[gap.first], places[gap.newest[1]] + 1)}
    covers = (branch[i] for i in sorted(inside))
    at, item = written[-1]
    return PromptSummary(
        ranges=tuple(range_ref(gap.first, gap.newest[1]) for gap, _ in gaps),
        covers=tuple(one.id for one in covers if isinstance(one.body, Message) and one.id not in shown),
        raw_tokens=sum(gap.raw_tokens for gap, _ in gaps),
        tokens=sum(tokens for _, tokens in gaps),
        call=at,
        author=item.author or CODE,
    )


def _holds(atom: Atom, name: str, places: dict[str, int]) -> bool:
    if atom.gap:
        return places[atom.gap.first] <= places.get(name, -1) <= places[atom.gap.last]
    return any(item.id == name for item in atom.items)


def _steps(branch: list[Entry], places: dict[str, int], name: str, call: int | None) -> list[FoldStep]:
    return [
        _step(at, item, fold)
        for at, fold in _folds(branch, call)
        for item in fold.items
        if _touches(item, name, places)
    ]


def _folds(branch: list[Entry], call: int | None) -> Iterator[tuple[int, Fold]]:
    """Yield the folds up to this call's prompt, each with the call that it was made for."""
    calls = 0
    for entry in branch:
        match entry.body:
            case Message("assistant"):
                calls += 1
                if calls == call:
                    return
            case Fold() as fold:
                yield calls + 1, fold
            case _:
                pass


def _step(call: int, item: FoldItem, fold: Fold) -> FoldStep:
    author = item.author if isinstance(item, RangeFold) else ""
    sizes = fold.before, fold.after, fold.rebilled
    kind = fold.stake.kind if fold.stake else ""
    return FoldStep(call, item.level, item.policy, item.because, fold.reason, *sizes, author, kind)


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
