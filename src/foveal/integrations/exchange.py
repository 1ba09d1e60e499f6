"""One exchange between a client and its provider, without I/O: the body sent in place of the client's, and the replies kept.

    exchange = Exchange(session, request)
    replies = exchange.replies                     # a `ReplyFilter`: the client's side of it
    while True:
        body = exchange.body()                     # send it, with the client's own headers
        ended = replies.take(reply)                # or feed(event)…, end_round() for a stream
        exchange.keep(ended)
        if not ended.again:
            break

Until the session folds something, the body is the client's, byte for byte.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from foveal.context.injection import NextCall
from foveal.dialects.reply_filter import ReplyFilter, ReplyRound
from foveal.integrations.assembly import ClientWords, shows_less
from foveal.integrations.client_request import ClientRequest
from foveal.record.client_list import LISTS
from foveal.session import own_tools
from foveal.session.client_session import ClientSession
from foveal.values.prompt import Prompt
from foveal.values.trace import PROMPT_TOKENS

MOST_ROUNDS = 8
"""Replies in a row that may call nothing but own tools: a model that goes in circles is stopped."""


class Exchange:
    """The state of one exchange. Its calls are made in the order of the module's example."""

    def __init__(self, session: ClientSession, request: ClientRequest) -> None:
        self._session, self._request = session, request
        read = request.dialect.reader.request({**request.body, LISTS[request.dialect.name]: [], "model": request.model})
        self._tools = read.tools
        request.messages.begin_with(session.heard)
        self.followed = session.follow_list(request.messages, system=read.system, keys=request.messages.wires)
        self.prompt: Prompt | None = None
        """The prompt that was sent last."""
        self.own_tools: Sequence[Mapping[str, Any]] = ()
        """The own tools that were sent last, in the provider's form."""
        self._replies: ReplyFilter | None = None
        self._is_raw_sent = True

    def body(self) -> bytes:
        """Return the body to send now. Raises the errors of `Session.prompt`, `OverBudget` above all."""
        return self._sent(self._session.prompt(self._tools, next_call=self._next_call))

    def recovered(self, error: object) -> bytes:
        """Return a smaller body, after the provider refused the last one for its length with this error."""
        return self._sent(self._session.compaction.recover(error, self._tools, next_call=self._next_call))

    @property
    def _next_call(self) -> NextCall:
        return NextCall(reply_tokens=self._request.reply_tokens)

    def _sent(self, prompt: Prompt) -> bytes:
        self.prompt = prompt
        self.own_tools = own = self._own_tools(prompt)
        is_reduced = self._session.view.facts.is_reduced and any(map(shows_less, prompt.atoms))
        if not own and not is_reduced:
            self._is_raw_sent = True
            return self._request.raw
        self._is_raw_sent = False
        words = ClientWords(self._request, self.followed)
        return self._request.with_messages(words.assemble(prompt.atoms), own)

    @property
    def asked_tokens(self) -> int:
        """Tokens of the client's own request, in our count."""
        tools = self.prompt.setup.tools_tokens if self.prompt else 0
        return self._session.view.facts.raw_tokens + tools + PROMPT_TOKENS

    def sent_whole(self) -> None:
        """Note that the client's own request was sent in place of the prompt: the usage of its reply is about that."""
        self._session.sent_instead(self.asked_tokens)

    @property
    def replies(self) -> ReplyFilter:
        """The filter between the provider's replies and the client. It is made for the body that was sent first."""
        if self._replies is None:
            names = own_tools.ours(self.prompt.setup.tools) if self.prompt else frozenset[str]()
            reader, body = self._request.dialect.reader, self._request.body
            self._replies = ReplyFilter(reader, names, body, is_own_request=self._is_raw_sent)
        return self._replies

    def keep(self, ended: ReplyRound) -> None:
        """Keep a reply, and answer its own calls. Of a round after which the model is asked again, the client is told nothing."""
        if ended.reply is None:
            return
        told = None if ended.again else self.replies.shown.message
        self._session.keep_reply(ended.reply, told)
        self._session.serve()

    def _own_tools(self, prompt: Prompt) -> list[Mapping[str, Any]]:
        """Return the own tools of a prompt in the provider's form."""
        names = own_tools.ours(prompt.setup.tools)
        request = prompt.request
        given = request.get("tools") or request.get("config", {}).get("tools") or ()
        found: list[Mapping[str, Any]] = []
        for tool in given:
            declared = tool.get("function_declarations") or tool.get("functionDeclarations")
            if declared:
                ours = [one for one in declared if one.get("name") in names]
                found += [{"functionDeclarations": ours}] if ours else []
            elif (tool.get("function") or tool).get("name") in names:
                found.append({key: value for key, value in tool.items() if key != "cache_control"})
        return found


def begun(request: ClientRequest, session: ClientSession) -> tuple[Exchange, bytes]:
    """Return the exchange for a request, and the body to send first."""
    exchange = Exchange(session, request)
    return exchange, exchange.body()
