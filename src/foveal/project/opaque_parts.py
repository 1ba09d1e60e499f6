"""Parts that are not modelled, and which of them a transcript has already: providers refuse the same one twice."""

import hashlib
from collections.abc import Collection, Iterator, Mapping

from foveal.text.repair import json_object
from foveal.values.entry import Message, Opaque


class OpaqueParts:
    """The parts of a transcript that are not modelled, whether the dialect shows them or not. Folded parts are none of them."""

    def __init__(self, known: Mapping[tuple[str, int], str] | None = None) -> None:
        self._known = dict(known or {})
        """What makes two parts the same, by entry and number."""
        self._same = set(self._known.values())

    def __iter__(self) -> Iterator[tuple[str, int, str]]:
        return ((entry, part, same) for (entry, part), same in self._known.items())

    def copy(self) -> "OpaqueParts":
        return OpaqueParts(self._known)

    def take(self, entry_id: str, message: Message) -> tuple[int, ...]:
        """Add the parts of a message. Return the numbers of those that were there already, written by the same model."""
        if message.role != "assistant":  # nobody else has such parts
            return ()
        repeated: list[int] = []
        for i, part in enumerate(message.parts):
            if isinstance(part, Opaque):
                same = hashlib.sha256(repr((_identity(part), message.model)).encode()).hexdigest()[:24]
                if same in self._same:
                    repeated.append(i)
                else:
                    self._known[entry_id, i] = same
                    self._same.add(same)
        return tuple(repeated)

    def drop(self, entry_id: str, part: int) -> None:
        """Forget a part."""
        self._same.discard(self._known.pop((entry_id, part), ""))

    def of(self, entries: Collection[str]) -> "OpaqueParts":
        """Return the parts of these entries."""
        return OpaqueParts({at: same for at, same in self._known.items() if at[0] in entries})


def _identity(part: Opaque) -> str:
    """Return the id that the provider gave a part of its own; the whole part if it has none."""
    named = (json_object(part.json) or {}).get("id")
    return f"{part.provider} {named}" if isinstance(named, str) and named else part.json
