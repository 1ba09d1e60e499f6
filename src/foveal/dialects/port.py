"""The port of a dialect: messages to one provider's wire format, and its replies, requests and streams back to messages.

Rendering is done atom by atom so that its cost is that of the new messages: `chunk` renders one atom alone, `join` appends a
chunk to the earlier wire messages. `join` may replace the last wire message by a longer one but never changes a dict that was
handed out: earlier prompts hold on to them.

Reading is the other direction. A block that no part models is kept verbatim (`Opaque`) and is sent back to its provider as it
came.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec

from foveal.dialects.media import MediaLimits
from foveal.dialects.rules import RequestProblem
from foveal.dialects.sse import SseEvent
from foveal.dialects.wire_request import WireRequest
from foveal.values.entry import Message, Part, Stop, Usage

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


class WireReply(NamedTuple):
    """A reply as a message, and the tokens that the provider counted for the call."""

    message: Message
    usage: Usage | None


class ReplyStream(Protocol):
    """Assembles the events of one streamed reply. Pure: the caller decodes them and feeds them in order."""

    def feed(self, event: Mapping[str, Any]) -> None:
        """Take the next event. Unknown kinds are passed over."""
        ...

    @property
    def body(self) -> Wire:
        """The part of the reply that has arrived, in the form of an unstreamed one."""
        ...

    @property
    def stop(self) -> Stop:
        """`done` after the provider's last event, `error` after an error event, `aborted` before either."""
        ...

    def reply(self) -> WireReply:
        """Return the part of the reply that has arrived, with this stream's `stop`. A whole one equals the unstreamed reply."""
        ...


class CallFilter(Protocol):
    """Hides the calls to own tools in the replies of one exchange: in bodies, and in the events of a stream.

    `foveal.dialects.reply_filter` drives it, round by round.
    """

    tail: list[SseEvent]
    """End of the client's stream, held back while the model is asked again."""

    def hide(self, body: Wire) -> Wire:
        """Return a reply without own calls. One with nothing to hide is itself."""
        ...

    def join(self, earlier: Wire, later: Wire) -> Wire:
        """Return the replies of two rounds, without own calls, as one."""
        ...

    def asks_again(self, body: Wire) -> bool:
        """Return whether a whole reply waits for the answers to own calls, and for nothing else."""
        ...

    def begin_round(self, earlier: Wire) -> None:
        """Begin another round, after the rounds that are joined in `earlier`. Drop the tail."""
        ...

    def feed(self, event: SseEvent, data: Wire | None) -> list[SseEvent]:
        """Take the next event, with its JSON object if it has one, and return the events to send to the client now."""
        ...

    def release(self) -> list[SseEvent]:
        """Return the events that waited for others which will not come any more."""
        ...


class WireReader(NamedTuple):
    """Reads one provider's wire format."""

    reply: Callable[[Mapping[str, Any]], WireReply]
    """Returns an unstreamed reply (JSON, or an SDK object's dump) as a message, with nothing lost."""
    request: Callable[[Mapping[str, Any]], WireRequest]
    """Returns the conversation of a request body. Raises `BadInput` for a body of another format."""
    stream: Callable[[], ReplyStream]
    """Returns an assembler for the events of one reply."""
    calls: Callable[[frozenset[str], Mapping[str, Any]], CallFilter]
    """Returns a filter that hides the calls to tools of these names. The mapping is the body of the client's request."""


class Dialect(Protocol):
    """One provider's wire format. The readings of the other direction are in `reader`."""

    @property
    def name(self) -> str: ...

    @property
    def reader(self) -> WireReader: ...

    @property
    def media(self) -> MediaLimits:
        """The provider's limits for images and files."""
        ...

    def hides(self, part: Part, writer: str | None, model: str) -> str:
        """Return why this part, written by `writer`, is not sent to `model`; empty if it is."""
        ...

    def tool_name(self, name: str) -> str:
        """Return the name under which a tool of the host is offered: the host's own where the provider takes it."""
        ...

    def signs(self, part: Part) -> bool:
        """Return whether the signature of this part is sent along, so that the provider refuses other words."""
        ...

    def chunk(self, messages: Sequence[Message]) -> list[Wire]:
        """Return one atom on the wire. Raise `CannotSay` if the format has no words for it."""
        ...

    def join(self, wires: list[Wire], chunk: Sequence[Wire]) -> None:
        """Append a chunk to the earlier wire messages, keeping the roles in the order that the provider wants."""
        ...

    def request(
        self, ask: RequestOptions, lead: Sequence[Message], wires: list[Wire], tail: Sequence[Wire] = ()
    ) -> dict[str, Any]:
        """Return the keyword arguments for the provider's own SDK.

        `lead` are the system messages before the conversation; `tail` follows it, after the last cache mark.
        """
        ...

    def problems(self, request: Mapping[str, Any], since: int) -> list[RequestProblem]:
        """Return the reasons for which the provider would refuse the request, of wire messages from `since` on."""
        ...


class CannotSay(Exception):
    """The format has no words for a part; the caller knows which entry holds it."""
