"""The operations of the HTTP API: the library's verbs on sessions that are opened when they are needed.

Operations that change a session, or need its view, take the turn of its conversation, so that a relayed request and the API are
never inside the same session. Those that only read the log take no turn: they answer while a reply streams.
"""

import asyncio
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar, cast

import msgspec

from foveal import recall
from foveal.analysis.inspect.stored_session import stored_prompt, tool_name
from foveal.dialects import find_dialect
from foveal.gateway.api_types import (
    AppendRequest,
    CompactReply,
    CompactRequest,
    CreateRequest,
    DeleteRequest,
    ExtendRequest,
    FoldSummary,
    FollowReply,
    FollowRequest,
    KeptEntries,
    KeptEntry,
    ListRequest,
    NoParameters,
    PressureReply,
    PromptReply,
    PromptRequest,
    RecallReply,
    RecallRequest,
    RecoverRequest,
    RewindRequest,
    SearchReply,
    SearchRequest,
    ServeReply,
    SessionList,
    WhyReply,
    WhyRequest,
)
from foveal.gateway.conversations import CallFigures, ClientConversation, ClientConversations, in_thread
from foveal.gateway.session_names import ApiCaller
from foveal.gateway.strict_values import read_value
from foveal.models import catalogue
from foveal.recall.search import search
from foveal.session import own_tools
from foveal.session.client_session import ClientSession
from foveal.session.model_setup import UnknownModelWarning
from foveal.session.options import Host, Model
from foveal.session.policy import Policy, policy_from
from foveal.session.rebuild import setup_at
from foveal.stores import rows as log
from foveal.stores.deletion import Deletion, delete_sessions, with_children
from foveal.stores.port import SessionCard
from foveal.values.entry import Body, Entry, Fold, Message, Note, Usage
from foveal.values.errors import BadInput, BadPolicy, NotFound, SessionHeld
from foveal.values.prompt import Prompt
from foveal.values.trace import Trace

T = TypeVar("T")

MOST_RECALLED = 1 << 24
"""Characters of an original that is returned whole; of a longer one, excerpts are."""

_READERS = 8
"""Threads for operations that only read: searches must not take those that relayed requests need."""

_OPENED = "opened by the HTTP API: "
"""The beginning of the note that says for which model and policy a session is opened: it is found again after a restart."""


class SessionOpening(msgspec.Struct, frozen=True, omit_defaults=True):
    """The model and the policy that a session was opened with. Without a policy, the gateway's holds."""

    model: str
    dialect: str
    policy: dict[str, Any] | None = None


class SessionApi:
    """The operations, each for a caller and one of its sessions, by its name."""

    def __init__(self, conversations: ClientConversations, policy: Policy) -> None:
        self.conversations, self._policy = conversations, policy
        self._store = conversations.store
        self._readers = ThreadPoolExecutor(_READERS, "foveal-api")

    async def read(self, act: Callable[[], T]) -> T:
        """Do something that only reads the store, outside of the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, act)

    def close(self) -> None:
        """End the threads."""
        self._readers.shutdown(wait=False, cancel_futures=True)

    async def known(self, caller: ApiCaller, name: str) -> SessionCard:
        """Return the card of a caller's session. `NotFound` if there is none, or if it is another's: nobody can tell which."""
        stored = caller.stored_name(name)
        cards = await self.read(lambda: self._store.cards(stored)) if stored else []
        if not cards:
            raise NotFound(
                f"there is no session {name!r:.200} for you; create it, or name the key that it was made with"
            )
        return cards[0]

    async def list(self, caller: ApiCaller, _name: str, given: ListRequest) -> SessionList:
        """List the sessions of the caller's key, most recently used first."""
        cards = await self.read(self._store.cards)
        return SessionList(tuple([card for card in cards if caller.owns(card.id)][: given.limit]))

    async def create(self, caller: ApiCaller, _name: str, given: CreateRequest) -> SessionCard:
        """Open a session for a model: a new one, or one that goes on. Its name gets the hash of the caller's key."""
        name = caller.stored_name(given.name)
        if name is None:
            raise BadInput(
                f"{given.name!r:.200} cannot be used: a dash and 16 hexadecimal digits at the end are the hash of a key, "
                "and this one is not yours"
            )
        if name in (".", ".."):
            raise BadInput(
                f"{name!r} cannot be used as a name: clients take it for a part of an address and leave it out"
            )
        opening, policy = self._opening(given)

        def create(conversation: ClientConversation) -> SessionCard:
            count, last = self._last_opening(name)
            if conversation.opened is None or last != opening or given.takeover:
                session = self._open(conversation, opening, policy, takeover=given.takeover)
                if last != opening:
                    session.append(Note(_OPENED + msgspec.json.encode(opening).decode()), id=_opening_id(count))
            return self._store.cards(name)[0]

        async with self._turn(caller, name) as conversation:
            return await in_thread(conversation, lambda: create(conversation))

    async def get(self, caller: ApiCaller, name: str, _given: NoParameters) -> SessionCard:
        """Return the facts about a session that are known without reading it."""
        return await self.known(caller, name)

    async def append(self, caller: ApiCaller, name: str, given: AppendRequest) -> KeptEntry:
        """Keep what happened: a message, a mark, or a provider's reply. It is durable when this returns."""
        item = _item(given.item)

        def append(session: ClientSession, conversation: ClientConversation) -> KeptEntry:
            before = session.view.facts.seq
            entry = session.append(item, id=given.id)
            self._count_usage(conversation, before)
            return _kept(entry)

        return await self._inside(caller, name, append)

    async def extend(self, caller: ApiCaller, name: str, given: ExtendRequest) -> KeptEntries:
        """Keep several items together: all of them or none."""
        items = [_item(item) for item in given.items]

        def extend(session: ClientSession, conversation: ClientConversation) -> KeptEntries:
            before = session.view.facts.seq
            entries = session.extend(items)
            self._count_usage(conversation, before)
            return KeptEntries(tuple(map(_kept, entries)))

        return await self._inside(caller, name, extend)

    async def follow(self, caller: ApiCaller, name: str, given: FollowRequest) -> FollowReply:
        """Keep what is new in a client's whole list of messages, and go to the branch that it tells."""
        messages = [_message(one) for one in given.messages]
        lead = None if given.system is None or isinstance(given.system, str) else [_message(m) for m in given.system]
        if lead and not all(isinstance(one, Message) for one in lead):
            raise BadInput("system is a text, or a list of neutral messages")
        system = given.system if isinstance(given.system, str) else cast("list[Message] | None", lead)

        def follow(session: ClientSession, _conversation: ClientConversation) -> FollowReply:
            followed = session.follow(messages, system=system)
            return FollowReply(followed.outcome, followed.known, followed.written, followed.entries)

        return await self._inside(caller, name, follow)

    async def prompt(self, caller: ApiCaller, name: str, given: PromptRequest) -> PromptReply:
        """Build the next request: within the budget, valid for the provider."""

        def prompt(session: ClientSession, conversation: ClientConversation) -> PromptReply:
            made = session.prompt(given.tools, next_call=given.next_call)
            self._count_call(conversation, made)
            return _prompt_reply(made)

        return await self._inside(caller, name, prompt)

    async def recover(self, caller: ApiCaller, name: str, given: RecoverRequest) -> PromptReply:
        """Return a smaller prompt, after the provider refused the last one for its length with this error."""

        def recover(session: ClientSession, conversation: ClientConversation) -> PromptReply:
            made = session.compaction.recover(given.error, given.tools, next_call=given.next_call)
            for figures in (conversation.figures, self.conversations.figures):
                figures.recovered += 1
                figures.folds += made.fold is not None
            return _prompt_reply(made)

        return await self._inside(caller, name, recover)

    async def serve(self, caller: ApiCaller, name: str, _given: NoParameters) -> ServeReply:
        """Answer the newest reply's calls to Foveal's own tools, and return its other calls for the host to run."""

        def serve(session: ClientSession, conversation: ClientConversation) -> ServeReply:
            before = session.view.facts.seq
            calls = session.serve()
            for figures in (conversation.figures, self.conversations.figures):
                figures.recalls += session.view.facts.seq > before
            return ServeReply(tuple(calls))

        return await self._inside(caller, name, serve)

    async def why(self, caller: ApiCaller, name: str, given: WhyRequest) -> WhyReply:
        """Explain the next prompt, or the prompt of a past call: one line an entry."""
        stored = (await self.known(caller, name)).id

        def explained() -> Trace | None:
            try:
                setup_at(self._store, stored)
            except NotFound:
                return None
            return stored_prompt(self._store, stored, given.call)[0].trace

        trace = await self.read(explained)
        if trace is None:  # no prompt was made so far: only an open session knows its model
            trace = await self._inside(caller, name, lambda session, _conversation: session.why(given.call))
        return WhyReply(trace.tokens, trace.raw_tokens, msgspec.structs.replace(trace, fold=_lean(trace.fold)))

    async def recall(self, caller: ApiCaller, name: str, given: RecallRequest) -> RecallReply:
        """Return the original of a reference: whole, or an excerpt of it."""
        stored = (await self.known(caller, name)).id
        window = {key: value for key, value in msgspec.structs.asdict(given).items() if value is not None}
        if len(window) == 1:
            return RecallReply(given.ref, await self.read(lambda: self._whole(stored, given.ref)))
        wanted = recall.Fetch(**window)
        found = await self.read(lambda: recall.fetch(self._store, stored, wanted))
        return RecallReply(
            ref=given.ref,
            text=found.text,
            unit=found.unit,
            total=found.total,
            first=found.first,
            last=found.last,
            matches=found.matches,
            next=found.next,
        )

    async def search(self, caller: ApiCaller, name: str, given: SearchRequest) -> SearchReply:
        """Return the parts of the session that hold the words, best first."""
        stored = (await self.known(caller, name)).id
        return SearchReply(tuple(await self.read(lambda: search(self._store, stored, given.words, limit=given.limit))))

    async def pressure(self, caller: ApiCaller, name: str, _given: NoParameters) -> PressureReply:
        """Return how full the next prompt is."""

        def pressure(session: ClientSession, _conversation: ClientConversation) -> PressureReply:
            now = session.compaction.pressure()
            return PressureReply(now.tokens, now.limit, now.share, now.level)

        return await self._inside(caller, name, pressure)

    async def compact(self, caller: ApiCaller, name: str, given: CompactRequest) -> CompactReply:
        """Fold now, down to half of the prompt's tokens; `session.compaction.fold` of the library."""

        def compact(session: ClientSession, conversation: ClientConversation) -> CompactReply:
            fold = session.compaction.fold(given.instructions)
            for figures in (conversation.figures, self.conversations.figures):
                figures.folds += fold is not None
            return CompactReply(_fold_summary(fold))

        return await self._inside(caller, name, compact)

    async def rewind(self, caller: ApiCaller, name: str, given: RewindRequest) -> KeptEntry:
        """Continue from an earlier entry. The entries after it stay in the log, as a branch of their own."""
        return await self._inside(
            caller, name, lambda session, _conversation: _kept(session.branches.rewind(given.entry_id, given.reason))
        )

    async def delete(self, caller: ApiCaller, name: str, given: DeleteRequest) -> Deletion:
        """Delete a session, its children, and the artifacts that no other session names. Nothing brings them back."""
        stored = (await self.known(caller, name)).id
        doomed = [card.id for card in await self.read(lambda: with_children(self._store, [stored]))]
        async with AsyncExitStack() as turns:
            held = [await turns.enter_async_context(self._turn(caller, one)) for one in sorted(doomed)]

            def delete() -> Deletion:
                for conversation in held:
                    conversation.close()
                return delete_sessions(self._store, [stored], takeover=given.takeover)

            deletion = await in_thread(held[0], delete)
            for conversation in held:
                conversation.figures = CallFigures()
            return deletion

    async def _inside(self, caller: ApiCaller, name: str, act: Callable[[ClientSession, ClientConversation], T]) -> T:
        """Do something with the open session, in its turn."""
        stored = (await self.known(caller, name)).id
        async with self._turn(caller, stored) as conversation:
            return await in_thread(conversation, lambda: act(self._session(conversation), conversation))

    @asynccontextmanager
    async def _turn(self, caller: ApiCaller, stored: str) -> AsyncGenerator[ClientConversation]:
        """Take the turn of a session; `SessionHeld` if another request has it for longer than a moment."""
        async with AsyncExitStack() as held:
            try:
                conversation = await held.enter_async_context(self.conversations.turn(stored))
            except TimeoutError:
                raise SessionHeld(
                    f"session {stored!r} has another request under way, and it is not done yet; nothing was done. "
                    "Try again in a moment."
                ) from None
            conversation.see(caller.headers)
            yield conversation

    def _session(self, conversation: ClientConversation) -> ClientSession:
        """Return the open session of a conversation, opened as it was the last time if need be."""
        if conversation.opened is not None:
            return conversation.opened
        _, opening = self._last_opening(conversation.name)
        if opening is None:  # a client's conversation, or a session that another program made
            setup = setup_at(self._store, conversation.name)
            opening, policy = SessionOpening(setup.model, setup.dialect), self.conversations.policy
        else:
            policy = self._policy if opening.policy is None else policy_from(opening.policy)
        return self._open(conversation, opening, policy, takeover=False)

    def _open(
        self, conversation: ClientConversation, opening: SessionOpening, policy: Policy, *, takeover: bool
    ) -> ClientSession:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownModelWarning)  # without a budget it is refused when it is created
            model = Model(opening.model, opening.dialect)
            return conversation.open(self._store, model, policy=policy, host=Host(), takeover=takeover)

    def _opening(self, given: CreateRequest) -> tuple[SessionOpening, Policy]:
        """Return how a session is to be opened; `BadInput` for a model whose window nobody tells."""
        policy = self._policy if given.policy is None else policy_from(given.policy)
        if given.policy is not None and policy.compact.summariser:
            raise BadPolicy(
                f"policy: compact.summariser is {policy.compact.summariser!r:.80}; who calls models with the keys of the "
                "gateway's machine is its operator's to say, in the gateway's own policy"
            )
        facts = catalogue.find(given.model, policy.models)
        if not facts.known and policy.max_context_tokens is None and policy.budget.limit is None:
            raise BadInput(
                f"the window of the model {given.model!r:.200} is not known; say max_context_tokens in the policy, or name "
                "the model's window under models"
            )
        dialect = find_dialect(given.dialect or facts.dialect).name
        return SessionOpening(given.model, dialect, given.policy), policy

    def _last_opening(self, stored: str) -> tuple[int, SessionOpening | None]:
        """Return how often a session was opened in a new way, and the last of them."""
        count, found = 0, None
        while self._store.cards(stored):
            row = next(
                (one for one in self._store.find(stored, _opening_id(count)) if one.id == _opening_id(count)), None
            )
            body = log.to_entry(row, stored).body if row else None
            if not isinstance(body, Note) or not body.text.startswith(_OPENED):
                break
            count, found = count + 1, msgspec.json.decode(body.text.removeprefix(_OPENED), type=SessionOpening)
        return count, found

    def _whole(self, stored: str, ref: str) -> str:
        blocks: list[str] = []
        size = 0
        for block in recall.blocks(self._store, stored, ref):
            size += len(block)
            if size > MOST_RECALLED:
                raise BadInput(
                    f"the original of {ref!r:.100} has more than {MOST_RECALLED:,} characters; ask for excerpts of it, with "
                    "offset and limit"
                )
            blocks.append(block)
        return "".join(blocks)

    def _count_call(self, conversation: ClientConversation, prompt: Prompt) -> None:
        conversation.cost.ask(prompt, self._policy.models)
        for figures in (conversation.figures, self.conversations.figures):
            figures.calls += 1
            figures.asked_tokens += prompt.trace.raw_tokens
            figures.sent_tokens += prompt.tokens
            figures.folds += prompt.fold is not None

    def _count_usage(self, conversation: ClientConversation, after: int) -> None:
        for row in self._store.rows(conversation.name, after=after):
            body = log.to_entry(row, conversation.name).body
            if isinstance(body, Usage):
                conversation.cost.report(body)
                for figures in (conversation.figures, self.conversations.figures):
                    figures.input_tokens += body.input_tokens
                    figures.cached_tokens += body.cache_read_tokens
                    figures.output_tokens += body.output_tokens


def _opening_id(number: int) -> str:
    return f"http-api-opening-{number}"


def _item(given: Mapping[str, Any]) -> object:
    """Return an item as the library takes it: a neutral one as a value, a provider's as it came."""
    return read_value(given, cast("type[Body]", Body), "item") if "is" in given else given


def _message(given: Mapping[str, Any]) -> Mapping[str, Any] | Message:
    return read_value(given, Message, "message") if "is" in given else given


def _kept(entry: Entry) -> KeptEntry:
    return KeptEntry(entry.id, entry.parent, entry.time_ms, entry.author)


def _fold_summary(fold: Fold | None) -> FoldSummary | None:
    return FoldSummary(fold.reason, fold.before, fold.after, fold.rebilled) if fold else None


def _lean(fold: Fold | None) -> Fold | None:
    return msgspec.structs.replace(fold, layout=b"") if fold else None


def lean_entry(entry: Entry) -> Entry:
    """Return an entry without the packed view of a fold, which only Foveal can read."""
    return msgspec.structs.replace(entry, body=_lean(entry.body)) if isinstance(entry.body, Fold) else entry


def _prompt_reply(prompt: Prompt) -> PromptReply:
    trace = prompt.trace
    offered = {tool_name(tool) for tool in msgspec.json.decode(prompt.setup.tools)}
    shown: dict[str, int] = {}
    for line in trace.lines:
        shown[line.shown] = shown.get(line.shown, 0) + line.entries
    return PromptReply(
        session=prompt.session,
        call=prompt.call,
        model=prompt.setup.model,
        dialect=prompt.setup.dialect,
        request=_body(prompt.request, prompt.setup.dialect),
        tokens=prompt.tokens,
        raw_tokens=trace.raw_tokens,
        limit=prompt.setup.limit,
        fold=_fold_summary(prompt.fold),
        shown=shown,
        own_tools=tuple(sorted(own_tools.ours(prompt.setup.tools) & offered)),
        renamed_tools=dict(prompt.renamed_tools),
        notes=prompt.notes,
    )


def _body(request: Mapping[str, Any], dialect: str) -> dict[str, Any]:
    """Return the body of a request. The one of Gemini has no `config` as the SDK's has, and the model in its address."""
    if dialect != "gemini":
        return dict(request)
    config = dict(request["config"])
    system = config.pop("system_instruction", None)
    lead: dict[str, Any] = {"system_instruction": {"parts": [{"text": system}]}} if system else {}
    return {"contents": request["contents"], **lead, **config}
