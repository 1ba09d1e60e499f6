"""What a dialect must do: turn settled messages into one provider's wire format and replies back into messages.

Rendering is done atom by atom so that it costs what is new: `chunk` renders one atom alone, `join` appends a chunk to the
wire messages so far. `join` may replace the last wire message by a longer one but never changes a dict that was handed out:
earlier prompts hold on to them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from foveal.dialects.rules import RequestProblem
from foveal.values.entry import Message, Part, Usage

Wire: TypeAlias = dict[str, Any]


class RequestOptions(msgspec.Struct, frozen=True):
    """Everything of a request that is not conversation."""

    model: str
    tools: tuple["ToolSpec", ...]
    reply_tokens: int
    cache_key: str | None = None


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool that the model may call. `hosted` is a provider's own tool definition, sent as it is."""

    name: str
    description: str
    parameters: dict[str, Any]
    hosted: dict[str, Any] | None = None
    strict: bool = False
    """Whether the provider must hold the model to the schema; not every provider can."""


class Dialect(Protocol):
    @property
    def name(self) -> str: ...

    def hides(self, part: Part, writer: str | None, model: str) -> str:
        """Why this part, written by `writer`, is not sent to `model`; empty if it is."""
        ...

    def chunk(self, messages: Sequence[Message]) -> list[Wire]:
        """One atom on the wire. `CannotSay` if the format has no words for it."""
        ...

    def join(self, wires: list[Wire], chunk: Sequence[Wire]) -> None:
        """Append a chunk to the wire messages so far, keeping the roles in the order that the provider wants."""
        ...

    def request(
        self, ask: RequestOptions, lead: Sequence[Message], wires: list[Wire], tail: Sequence[Wire] = ()
    ) -> dict[str, Any]:
        """The keyword arguments for the provider's own SDK.

        `lead` are the system messages before the conversation; `tail` stands after it, and after the last cache mark.
        """
        ...

    def parse(self, reply: Mapping[str, Any]) -> tuple[Message, Usage | None]:
        """The provider's reply as a message, with nothing lost, and what it counted."""
        ...

    def problems(self, request: Mapping[str, Any], since: int) -> list[RequestProblem]:
        """What the provider would refuse, looking only at wire messages from `since` on."""
        ...


class CannotSay(Exception):
    """The format has no words for this; the caller knows which entry it was."""


Problems: TypeAlias = Callable[[Mapping[str, Any], int], list[RequestProblem]]
