"""The largest savings of a replay: parts that were folded, and the tokens that were not sent for them again.

A part's saving is its size in full, less the size of its stand-in, added up over the calls that followed. A part
may be folded more than once (cut, then one line, then covered with its neighbours); all of it is one saving.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from foveal.analysis.replay.bills import new_items
from foveal.values.entry import Fold, Message, Part, PartFold, RangeFold, Thinking, ToolCall, ToolResult
from foveal.values.prompt import Prompt
from foveal.values.shown import short_ref

_GIST_CHARS = 64
_TELLING = ("command", "cmd", "file_path", "path", "pattern", "query", "url", "name")
"""Arguments that describe a call best, in the order in which they are looked for."""

_WHY = {
    "shorten": "it is large: the lines that say most stay, the rest can be recalled",
    "superseded": "something newer says the same: the same call made again, or a later look at the same file",
    "expired": "its tool keeps results only for so many turns: one line stays, with the reference to recall it by",
    "retention": "its tool asks for no more than this of it; the rest can be recalled",
    "history": "it is from an earlier run of the tools: what stays can lead back to it",
    "images": "only the newest images stay; older ones can be recalled",
    "clear": "it is no longer new: one line stays, with the reference to recall it by",
    "repeats": "the same call was made again later: the newer result is shown, and this one can be recalled",
    "summarise": "it is among the oldest messages: a summary with their state and the lines that will be needed stands for them",
    "oldest": "it is among the oldest messages: one line stands for all of them, and they can be recalled",
    "thinking": "it is the thinking behind a step that is finished",
}


class Saving(msgspec.Struct, frozen=True):
    """One part that was folded and not sent in full again."""

    what: str
    how: str
    """Its folds, step by step."""
    why: str
    """The reason of the first step, for readers who do not know the policies."""
    ref: str
    tokens: int
    """Tokens not sent, added up over the calls that followed."""
    calls: int


class _PartHistory:
    """The history of one part since it was first folded."""

    __slots__ = ("raw", "saved", "shown", "since", "start", "steps")

    def __init__(self, raw: int, call: int) -> None:
        self.raw = self.shown = raw
        self.start = self.since = call
        self.saved = 0
        self.steps: list[tuple[int, str, str]] = []

    def turn(self, call: int, shown: int, step: tuple[str, str]) -> None:
        self.saved = self.saved_until(call)
        self.since, self.shown = call, shown
        self.steps.append((call, *step))

    def saved_until(self, call: int) -> int:
        return self.saved + (self.raw - self.shown) * (call - self.since)


class _Logged(NamedTuple):
    entry: str
    message: Message
    call: int
    """The call that it followed."""


class Savings:
    """Follows the parts of one session through its folds."""

    def __init__(self, measure: Callable[[Message], int]) -> None:
        self._measure = measure
        self._log: list[_Logged] = []
        self._place: dict[str, int] = {}
        self._sizes: dict[str, tuple[int, ...]] = {}
        self._histories: dict[tuple[str, int], _PartHistory] = {}

    def append(self, entry: str, message: Message, call: int) -> None:
        """Take a message that was appended after the given call."""
        self._place[entry] = len(self._log)
        self._log.append(_Logged(entry, message, call))

    def send(self, prompt: Prompt) -> None:
        """Take the next prompt, with the fold that was made for it."""
        for item in list(new_items(prompt, self._sizes)):
            self._sizes[item.id] = tuple(shown.raw_tokens for shown in item.shown)
        if prompt.fold:
            self._fold(prompt.call, prompt.fold)

    def top(self, calls: int, most: int = 3) -> tuple[Saving, ...]:
        """Return the largest savings, after this many calls."""
        worth = ((history.saved_until(calls + 1), key) for key, history in self._histories.items())
        best = sorted(((tokens, self._place[key[0]], key) for tokens, key in worth), key=lambda x: (-x[0], x[1]))
        return tuple(self._saving(key, tokens, calls) for tokens, _, key in best[:most] if tokens > 0)

    def _fold(self, call: int, fold: Fold) -> None:
        for item in fold.items:
            match item:
                case PartFold(entry, part, level, _, tokens, policy):
                    self._history(entry, part, call).turn(call, tokens, (_step(level, tokens), policy))
                case RangeFold(first, last, _, _, _, policy):
                    self._cover(call, self._place[first], self._place[last], policy)

    def _cover(self, call: int, first: int, last: int, policy: str) -> None:
        for entry, message, _ in self._log[first : last + 1]:
            for part in range(len(message.parts)):
                history = self._history(entry, part, call)
                if history.shown or not history.steps:
                    history.turn(call, 0, ("covered with the messages around it", policy))

    def _history(self, entry: str, part: int, call: int) -> _PartHistory:
        key = entry, part
        if key not in self._histories:
            self._histories[key] = _PartHistory(self._raw(entry, part), call)
        return self._histories[key]

    def _raw(self, entry: str, part: int) -> int:
        if entry in self._sizes:
            return self._sizes[entry][part]
        _, message, _ = self._log[self._place[entry]]  # folded before any prompt showed it
        return self._measure(msgspec.structs.replace(message, parts=(message.parts[part],)))

    def _saving(self, key: tuple[str, int], tokens: int, calls: int) -> Saving:
        history, place = self._histories[key], self._place[key[0]]
        _, message, call = self._log[place]
        what = f"the {history.raw:,}-token {_label(message, message.parts[key[1]], self._log[:place])} (call {call})"
        how = ", ".join(f"{step} at call {at}" for at, step, _ in history.steps)
        why = _WHY.get(history.steps[0][2], history.steps[0][2])
        return Saving(what, how, why, short_ref(*key), tokens, calls - history.start + 1)


def _step(level: str, tokens: int) -> str:
    match level:
        case "trimmed":
            return f"cut to {tokens:,} tokens"
        case "reference":
            return f"one line ({tokens:,} tokens)"
        case _:
            return level


def _label(message: Message, part: Part, before: Sequence[_Logged]) -> str:
    match part:
        case ToolResult(call_id):
            call = _call_of(call_id, before)
            return f"output of {_gist(call)}" if call else "output of a tool"
        case ToolCall():
            return f"call {_gist(part)}"
        case Thinking():
            return "thinking"
        case _:
            return {"user": "message of the user", "assistant": "reply"}.get(message.role, f"{message.role} message")


def _call_of(call_id: str, before: Sequence[_Logged]) -> ToolCall | None:
    for _, message, _ in reversed(before):
        for part in message.parts:
            if isinstance(part, ToolCall) and part.id == call_id:
                return part
    return None


def _gist(call: ToolCall) -> str:
    """Return the call as a person would write it down: `bash: python -m unittest`."""
    try:
        given = msgspec.json.decode(call.arguments, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        given = {"": call.arguments}
    texts = {key: value for key, value in given.items() if isinstance(value, str)}
    about = next((texts[key] for key in _TELLING if texts.get(key)), next(iter(texts.values()), ""))
    line = " ".join(about.split())
    short = line if len(line) <= _GIST_CHARS else line[: _GIST_CHARS - 1] + "…"
    return f"`{call.name}: {short}`" if short else f"`{call.name}`"
