"""Far grounding: does the prompt still hold the details that the agent's next action used?

An action uses identifiers, paths, numbers and code lines that the agent saw before. Those **clues** of a recorded action
whose last occurrence lies more than `FAR` messages back are looked up in the prompt that the policy would have sent: `shown`
if they occur in it verbatim, `on offer` if they occur in an original that the prompt names by reference. Recent clues are
counted apart.

Left out are clues that more than a tenth of all sessions share, plain words, and lines too short to be anybody's own.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import cast

import msgspec

from foveal.analysis.recordings.recording import Recording
from foveal.values.entry import Message, Part, Stored, Text, ToolCall, ToolResult

FAR = 12
"""Messages back from which a clue counts as far."""

COMMON = 0.1
"""A clue in more than this share of all sessions says nothing about one of them."""

_LINE_CHARS = 24
"""Shorter lines of code are written by habit (`return None`), not remembered."""

# A path or dotted name, a name with an underscore, digit or inner capital, a number of four digits or more.
_NAME = re.compile(
    r"[\w.-]*/[\w./-]{3,}|\w+(?:\.\w+)+|[A-Za-z]\w*_\w+|[A-Za-z]+\d\w*|[a-z]+[A-Z]\w+|[A-Z][a-z]+[A-Z]\w+|\d{4,}|\d+\.\d{2,}"
)
_RUN = re.compile(r"[\w./-]{4,}")
_LONGEST_NAME = 300
"""Every name lies within such a run, and most runs are repeated. Longer runs are data, and would take long to match."""


def clues(text: str) -> set[str]:
    """Return the details of a text that a model cannot know by itself: identifiers, paths, numbers and whole lines."""
    found = {clue for run in _RUN.findall(text) for clue in _names(run)}
    found |= {line for raw in text.splitlines() if len(line := raw.strip()) >= _LINE_CHARS and not line.isalpha()}
    return {clue for clue in found if len(clue) >= 4}


@lru_cache(65_536)
def _names(run: str) -> tuple[str, ...]:
    return () if len(run) > _LONGEST_NAME else tuple(name.strip("./-") for name in _NAME.findall(run))


def is_name(word: str) -> bool:
    """Return whether this word is one name and nothing else."""
    word = word.strip(",;:.()[]`'\"")
    return _names(word) == (word,)


def common_clues(recordings: Sequence[Recording]) -> frozenset[str]:
    """Return the clues that too many of these sessions share."""
    seen = Counter[str]()
    for recording in recordings:
        seen.update({clue for step in recording.steps for clue in clues(text_seen(step.message))})
    most = max(1, int(len(recordings) * COMMON))
    return frozenset(clue for clue, sessions in seen.items() if sessions > most)


class Need(msgspec.Struct, frozen=True):
    """The earlier clues that one action used: far ones with their age in messages, and recent ones."""

    far: tuple[tuple[str, int], ...] = ()
    near: tuple[str, ...] = ()


def needs_of(messages: Sequence[Message], common: frozenset[str]) -> Iterator[Need]:
    """Yield the need of each reply of the session, in order. A clue's age is counted from its last occurrence."""
    last: dict[str, int] = {}
    for at, message in enumerate(messages):
        if message.role == "assistant":
            used = {
                clue: at - last[clue] for clue in clues(action_text(message)) if clue in last and clue not in common
            }
            far = sorted((clue, age) for clue, age in used.items() if age > FAR)
            yield Need(tuple(far), tuple(sorted(clue for clue, age in used.items() if age <= FAR)))
        last.update(dict.fromkeys(clues(text_seen(message)), at))


def text_seen(message: Message) -> str:
    """Return the text of a message that later calls can see: everything but its thinking."""
    return "\n".join(text for part in message.parts for text in _texts(part))


def action_text(message: Message) -> str:
    """Return the text of a reply's action: the arguments of its calls, or its words if it calls nothing."""
    calls = [part.arguments for part in message.parts if isinstance(part, ToolCall)]
    return "\n".join(arguments_text(call) for call in calls) if calls else text_seen(message)


def _texts(part: Part) -> Iterator[str]:
    match part:
        case Text(text):
            yield text
        case ToolCall(_, name, arguments):
            yield name
            yield arguments_text(arguments)
        case ToolResult(_, content):
            yield from (text for item in content for text in _texts(item))
        case Stored(_, _, _, head, tail):
            yield from (head, tail)
        case _:
            pass


def arguments_text(arguments: str) -> str:
    """Return the strings inside JSON arguments as text, so that lines compare with lines."""
    try:
        return "\n".join(_strings(msgspec.json.decode(arguments)))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return arguments


def _strings(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for item in cast("dict[str, object]", value).values():
                yield from _strings(item)
        case list():
            for item in cast("list[object]", value):
                yield from _strings(item)
        case int() | float():
            yield str(value)
        case _:
            pass
