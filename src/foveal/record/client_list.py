"""A client's whole list of messages, read as it comes again and again: only what changed since the last time is read.

A list is cut into stretches that can be read alone: a reply begins one, and its results belong to it. Those that are the same as
last time, byte for byte, are taken over.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import msgspec

from foveal.dialects import find_dialect
from foveal.dialects.json_values import elements, fields
from foveal.dialects.port import Dialect
from foveal.record.fingerprint import fingerprint
from foveal.values.entry import Message, ToolResult
from foveal.values.errors import BadInput

LISTS = {"openai_chat": "messages", "openai_responses": "input", "anthropic": "messages", "gemini": "contents"}
"""The field of a request that holds the messages, by dialect."""

_WITHOUT_IDS = frozenset({"gemini"})
"""The dialects whose calls a client names, if anybody does."""

ListedMessage: TypeAlias = Mapping[str, Any] | Message
"""A message of a list: as its provider's format has it, or a neutral one."""


class HeardMessage(NamedTuple):
    """A message of a client's list."""

    told: Message | None
    """The message; None in a lean list, where the log has it."""
    fingerprint: bytes
    span: tuple[int, int]
    """The number of the first element of the list that it was read from, and of the next one."""
    answers: str | None
    """The call that it answers, if it is one result and nothing else."""

    @staticmethod
    def of(message: Message, mark: bytes, span: tuple[int, int]) -> "HeardMessage":
        """Return a message with its fingerprint."""
        part = message.parts[0] if len(message.parts) == 1 else None
        return HeardMessage(message, mark, span, part.call if isinstance(part, ToolResult) else None)

    def settled(self) -> "HeardMessage":
        """Return it without the message."""
        return self if self.told is None else self._replace(told=None)

    @property
    def message(self) -> Message:
        """The message. For those of a lean list that are new."""
        if self.told is None:
            raise AssertionError
        return self.told


class HeardList(NamedTuple):
    """A client's list, read."""

    system: tuple[Message, ...]
    """The system messages before the conversation."""
    messages: Sequence[HeardMessage]
    unchanged: int
    """The number of messages that begin this list and began the last one too."""


class _Stretch(NamedTuple):
    start: int
    end: int
    system: tuple[Message, ...]
    heard: tuple[HeardMessage, ...]


class ClientList:
    """Reads the lists of one client, and remembers the last one. A lean one forgets messages as soon as they are settled."""

    def __init__(self, dialect: Dialect, model: str, *, is_lean: bool = False) -> None:
        self.is_lean = is_lean
        self.dialect, self._model = dialect, model
        self.has_ids = has_call_ids(dialect.name)
        self.keys: list[object] = []
        """The keys of the last list."""
        self._known: list[_Stretch] = []

    def read(self, given: Sequence[ListedMessage], keys: Sequence[object] | None = None) -> HeardList:
        """Read a list. `keys` are equal for equal elements: their bytes, if the caller has them."""
        new = [_key(one) for one in given] if keys is None else list(keys)
        same = _common(self.keys, new)
        is_end = same == len(given) or _begins(given, same)
        kept = self._known[: bisect_right(self._known, same if is_end else same - 1, key=attrgetter("end"))]
        begin = kept[-1].end if kept else 0
        starts = [i for i in range(begin, len(given)) if i == begin or _begins(given, i)]
        read = [self._read(given[a:b], a) for a, b in pairwise([*starts, len(given)])]
        self.keys, self._known = new, [*kept, *read]
        messages = list(chain.from_iterable(stretch.heard for stretch in self._known))
        system = self._known[0].system if self._known else ()
        return HeardList(system, messages, sum(len(stretch.heard) for stretch in kept))

    def settle(self) -> None:
        """Take note that the log holds the last list: of the messages of a lean one, only the fingerprints are kept."""
        for place in range(len(self._known) - 1 if self.is_lean else -1, -1, -1):
            stretch = self._known[place]
            if stretch.heard and stretch.heard[0].told is None:
                break  # those before it were settled with the last list
            self._known[place] = stretch._replace(heard=tuple(map(HeardMessage.settled, stretch.heard)))

    def _read(self, given: Sequence[ListedMessage], start: int) -> _Stretch:
        end = start + len(given)
        if all(isinstance(one, Message) for one in given):
            plain = [one for one in given if isinstance(one, Message)]
            lead = 0 if start else next((i for i, one in enumerate(plain) if one.role != "system"), len(plain))
            heard = [self._heard(one, (start + i, start + i + 1)) for i, one in enumerate(plain) if i >= lead]
            return _Stretch(start, end, tuple(plain[:lead]), tuple(heard))
        if any(isinstance(one, Message) for one in given):
            raise BadInput("a list holds neutral messages, or those of one provider's format; this one holds both")
        request = self.dialect.reader.request({LISTS[self.dialect.name]: list(given), "model": self._model})
        # A system message that begins a later stretch is one among the others.
        late, system = (request.system, ()) if start else ((), request.system)
        messages, spans = (*late, *request.messages), [*((i, i + 1) for i in range(len(late))), *request.spans]
        heard = [self._heard(one, (start + a, start + b)) for one, (a, b) in zip(messages, spans, strict=True)]
        return _Stretch(start, end, system, tuple(heard))

    def _heard(self, message: Message, span: tuple[int, int]) -> HeardMessage:
        return HeardMessage.of(message, fingerprint(message, has_ids=self.has_ids), span)


def has_call_ids(dialect: str) -> bool:
    """Return whether the provider names the calls of this dialect."""
    return dialect not in _WITHOUT_IDS


def dialect_of(given: Sequence[ListedMessage], own: Dialect) -> Dialect:
    """Return the dialect of a list: `own`, unless its elements have a form that only another one has."""
    for one in given:
        if isinstance(one, Message):
            continue
        told = fields(one)
        kinds = {str(fields(block).get("type")) for block in elements(told.get("content"))}
        for name, (keys, types) in _FORMS.items():
            if (
                keys & told.keys()
                or types & (kinds | {str(told.get("type"))})
                or (name == "openai_chat" and told.get("role") == "tool")
            ):
                return find_dialect(name)
    return own


_FORMS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "gemini": (frozenset({"parts"}), frozenset()),
    "openai_responses": (
        frozenset({"call_id", "encrypted_content"}),
        frozenset({"function_call", "reasoning", "input_text", "output_text", "input_image"}),
    ),
    "openai_chat": (frozenset({"tool_calls", "tool_call_id", "function_call"}), frozenset({"image_url"})),
    "anthropic": (frozenset(), frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking"})),
}
"""Keys of a message, and types of a message or of its blocks, by which a dialect is known."""


def _common(old: list[object], new: list[object]) -> int:
    """Return the number of elements that begin both lists."""
    if old == new[: len(old)]:
        return len(old)
    return next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _begins(given: Sequence[ListedMessage], at: int) -> bool:
    """Return whether a reply begins at this place of a list."""
    return at > 0 and is_reply(given[at]) and not is_reply(given[at - 1])


def is_reply(one: ListedMessage) -> bool:
    """Return whether a model wrote an element of a list."""
    if isinstance(one, Message):
        return one.role == "assistant"
    told = fields(one)  # nothing of an element that is no object: whoever reads it refuses it
    role, kind = told.get("role"), str(told.get("type") or "message")
    return role in ("assistant", "model") or (role is None and not kind.endswith("_output") and kind != "message")


def _key(one: ListedMessage) -> object:
    """Return a value that changes with the element: a client may change one in place."""
    if isinstance(one, Message):
        return one
    try:
        return msgspec.json.encode(one)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadInput(f"a message of the list is no plain JSON ({type(error).__name__}: {error})") from error
