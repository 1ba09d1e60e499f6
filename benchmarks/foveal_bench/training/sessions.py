"""A recorded session for training: the names and lines of each message, and where they come up again.

A name or line was **needed** if it next comes up in a call that the agent wrote, more than FAR messages after it was last
seen. It was not if a result showed it again first, or if it never came back.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from foveal.summary.ledger.events import LedgerStep
from foveal.summary.relevance.names import names
from foveal.summary.relevance.reading import KnownCall, blocks, called, candidates
from foveal.values.entry import Message, Text, Thinking, ToolCall, ToolResult

FAR = 12
"""Messages back from which a use counts as far: nearer messages are shown in any case."""
HORIZON = 200
"""Messages after a fold within which a need counts."""
LEAST_LINE = 24
"""Shorter lines are written by habit, not remembered."""
COMMON = 0.1
"""Names and lines in more than this share of the sessions say nothing about one of them, and never count as needed."""
CHARS_PER_TOKEN = 3.5
MESSAGE_TOKENS = 4


class TrainingSession:
    """The places of all names and lines of a session."""

    def __init__(self, id_: str, messages: Sequence[Message]) -> None:
        self.id, self.messages = id_, messages
        self.tokens = [int(len(text_of(message)) / CHARS_PER_TOKEN) + MESSAGE_TOKENS for message in messages]
        self.places: dict[str, list[int]] = {}
        """The messages that hold each name and each line, in order."""
        self._used: list[set[str]] = []
        """The names and lines that the agent wrote in the calls of each message."""
        for number, (held, used) in enumerate(_held(messages)):
            self._used.append(used)
            for one in held:
                self.places.setdefault(one, []).append(number)

    def needed(self, what: str, now: int) -> bool:
        """Return whether it is needed at the message `now` or after it."""
        places = self.places.get(what, ())
        at = bisect_left(places, now)
        if at == len(places) or places[at] - now > HORIZON or what not in self._used[places[at]]:
            return False
        before = places[at - 1] if at else now
        return places[at] - before > FAR


def _held(messages: Sequence[Message]) -> Iterator[tuple[set[str], set[str]]]:
    """The names and lines of each message, and those of them that the agent wrote in a call."""
    calls: dict[str, KnownCall] = {}
    for number, message in enumerate(messages):
        calls.update({part.id: called(part) for part in message.parts if isinstance(part, ToolCall)})
        found, used = set[str](), set[str]()
        for block, text, first in blocks(LedgerStep("", message, number), calls):
            held = set[str]()
            for candidate in candidates(text, first):
                held.update(names(candidate.text))
                if len(line := candidate.text.strip()) >= LEAST_LINE:
                    held.add(line)
            found |= held
            if block.source in ("arguments", "replaced"):
                used |= held
        yield found, used


def common(sessions: Iterable[TrainingSession], most: float) -> frozenset[str]:
    """Return the names and lines that more than `most` sessions hold."""
    held_in = Counter(one for session in sessions for one in session.places)
    return frozenset(one for one, count in held_in.items() if count > most)


def text_of(message: Message) -> str:
    """Return all text of a message, its calls as they were written."""
    return "\n".join(text for part in message.parts for text in _texts(part))


def _texts(part: object) -> Iterator[str]:
    match part:
        case ToolResult():
            yield from (getattr(item, "text", "") for item in part.content)
        case Text(text) | Thinking(text):
            yield text
        case ToolCall():
            yield part.arguments
        case _:
            yield ""
