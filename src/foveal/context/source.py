"""The protocol of everything that a host gives to a session: instructions, a toolbox, skills, files."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from foveal.context.mentions import KnownNames, Mentioned
from foveal.project.view import View
from foveal.values.entry import Message, ToolCall

NO_NAMES = KnownNames()


class SourceFence(NamedTuple):
    """The text of a source for a fence of a built-in kind."""

    kind: str
    text: str


class ContextSource(Protocol):
    """One thing that the host gave, following one session. A source overrides the methods that concern it."""

    def follow(self, view: View, mentioned: Mentioned) -> None:
        """Begin anew with the state of a session that exists already, and the mentions of its newest request."""

    def observe(self, message: Message) -> None:
        """Take a message of the model or of a tool into account."""

    @property
    def names(self) -> KnownNames:
        """The names that a user can mention."""
        return NO_NAMES

    def tools(self, limit: int, mentioned: Mentioned) -> Sequence[Mapping[str, Any]]:
        """Return the tools that the next prompt offers; `limit` is the token limit of the whole prompt."""
        return ()

    def news(self, view: View) -> Mapping[str, tuple[str, ...]]:
        """Read changes from disk and return them by the field of a `Situation`."""
        return {}

    def fences(self, view: View) -> Iterator[SourceFence]:
        """Yield the texts that every prompt shows after the system prompt."""
        yield from ()

    def answer(self, call: ToolCall) -> Message | None:
        """Return the result of a call to a tool of this source; None for other calls."""
        return None

    def attached(self, name: str, media_type: str) -> Mapping[str, tuple[str, ...]]:
        """Take a newly attached file into account; return news by the field of a `Situation`."""
        return {}

    @property
    def situation(self) -> Mapping[str, str]:
        """The fields of a `Situation` that this source knows."""
        return {}
