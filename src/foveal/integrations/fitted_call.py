"""One model call of a framework, fitted: its list of messages is followed, and the messages to send are its own objects.

    call = fitted_call(turn, told, system="You are careful.", tools=[…])    # pairs of a message and an object
    send(call.shown)                     # the framework's objects where they are shown whole, messages of ours elsewhere
    call.keep(reply, usage)
    call.end()

The framework registers Foveal's own tools (`TOOLS`) among its own and runs them (`own_answer`), so that its streams and traces
show them; only those in `call.own` are offered. Its list then holds these calls like any others.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from foveal.context.injection import NextCall
from foveal.dialects.port import WireReply
from foveal.integrations.assembly import has_own_ids, is_whole, pieces_of, shows_less
from foveal.integrations.followed_sessions import CallTurn, tell, tell_of_edits
from foveal.recall import tools as recall_tools
from foveal.session import own_tools
from foveal.session.client_session import ClientSession
from foveal.stores.port import Store
from foveal.text.shorten.reference import as_text
from foveal.values.entry import Message, ToolCall, ToolResult, Usage
from foveal.values.own_tools import CHECKPOINT, is_offered
from foveal.values.prompt import Prompt

N = TypeVar("N")

TOOLS: tuple[Mapping[str, Any], ...] = tuple(tool["function"] for tool in (*recall_tools.TOOLS, CHECKPOINT))
"""Name, description and parameters of the tools that a framework registers."""

OWN = frozenset(str(tool["name"]) for tool in TOOLS)


class FittedCall(Generic[N]):
    """A model call whose prompt is planned. `shown` holds the messages after the system prompt."""

    def __init__(self, turn: CallTurn, session: ClientSession, prompt: Prompt, natives: Mapping[str, N]) -> None:
        self._turn, self._session, self._prompt = turn, session, prompt
        self.own = frozenset(
            str(tool["function"]["name"])
            for tool in (*recall_tools.TOOLS, CHECKPOINT)
            if is_offered(tool, prompt.setup.tools)
        )
        """Names of Foveal's own tools that the model is offered."""
        self.shown: list[N | Message] = list(_shown(prompt, natives))

    def keep(self, reply: Message, usage: Usage | None) -> None:
        """Keep a reply and its usage. One that calls own tools is kept with the framework's next list, which tells it whole."""
        try:
            if not any(isinstance(part, ToolCall) and part.name in OWN for part in reply.parts):
                self._session.keep_reply(WireReply(reply, usage), reply)
            elif usage:
                self._session.append(msgspec.structs.replace(usage, estimated=self._prompt.tokens))
        except Exception as error:  # the framework has its reply all the same, and tells it with its next call
            tell(f"{self._turn.name}: the reply was not kept: {type(error).__name__}: {error}")

    def end(self) -> None:
        """Let the next call have the session."""
        self._turn.end()


def fitted_call(
    turn: CallTurn,
    told: Sequence[tuple[Message, N]],
    *,
    system: str | None,
    tools: Sequence[Mapping[str, Any]],
    reply_tokens: int | None = None,
) -> FittedCall[N] | None:
    """Return the call for a framework's list; None, with a warning, if it cannot be fitted: then it goes on as it is.

    `tools` are the framework's own, without those of Foveal. A list whose results or whose beginning were changed since the last
    call is told: something else edits the history as well, and pays for it with the provider's cache.
    """

    def prepare(session: ClientSession) -> FittedCall[N]:
        is_begun = bool(session.view.facts.followed)
        followed = session.follow([message for message, _ in told], system=system)
        if followed.outcome == "edited" or (is_begun and followed.outcome == "branched" and not followed.known):
            tell_of_edits(turn.name, followed.outcome)
        natives = dict(zip(followed.entries, (native for _, native in told), strict=True))
        prompt = session.prompt(tools, next_call=NextCall(reply_tokens=reply_tokens))
        return FittedCall(turn, session, prompt, natives)

    try:
        return turn.begin(prepare)
    except Exception as error:  # of any kind: the framework's work goes on
        turn.end()
        tell(f"{turn.name} was passed on as it came: {type(error).__name__}: {error}")
        return None


def own_answer(store: Store, session: str, tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the answer to a call of one of Foveal's own tools, in the words that the model reads."""
    asked = own_tools.ToolSession(store, session, time.time_ns() // 1_000_000, None)
    found = own_tools.answer(asked, ToolCall("call", tool, msgspec.json.encode(arguments).decode()))
    return "\n".join(as_text(part.content) for part in found.parts if isinstance(part, ToolResult))


def _shown(prompt: Prompt, natives: Mapping[str, N]) -> Iterable[N | Message]:
    if not any(map(shows_less, prompt.atoms)):
        return natives.values()
    shown: list[N | Message] = []
    for atom in prompt.atoms:
        if atom.kind == "system":
            continue
        for items, messages, _ in pieces_of(atom):
            is_native = bool(items) and has_own_ids(atom) and all(one.id in natives and is_whole(one) for one in items)
            shown += [natives[one.id] for one in items] if is_native else messages
    return shown
