"""The operations of the HTTP API: the library's verbs on sessions that are opened when they are needed.

Operations that change a session, or need its view, take the turn of its conversation, so that a relayed request and the API are
never inside the same session. Those that only read the log take no turn: they answer while a reply streams.
"""

import asyncio
import warnings
from bisect import bisect_left
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from itertools import islice
from typing import Any, TypeVar, cast

import msgspec

from foveal import recall
from foveal.agent.inbox import is_inbox
from foveal.agent.run_marks import mark_in
from foveal.analysis.inspect.stored_session import stored_prompt, tool_name
from foveal.dialects import find_dialect
from foveal.gateway.adoption import continued_in
from foveal.gateway.api_types import (
    AppendRequest,
    AttachReply,
    AttachRequest,
    ChildRequest,
    CompactReply,
    CompactRequest,
    CreateRequest,
    DeleteRequest,
    ExtendRequest,
    FoldSummary,
    FollowReply,
    FollowRequest,
    InjectRequest,
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
    RemindRequest,
    RewindRequest,
    SearchReply,
    SearchRequest,
    ServeReply,
    SessionList,
    WhyReply,
    WhyRequest,
)
from foveal.gateway.conversations import CallFigures, ClientConversation, ClientConversations, HandedPrompt
from foveal.gateway.session_names import ApiCaller, ends_in_hash
from foveal.gateway.strict_values import read_value
from foveal.integrations.followed_sessions import has_known_limit
from foveal.models import catalogue
from foveal.recall.search import search
from foveal.session import own_tools
from foveal.session.client_session import ClientSession
from foveal.session.model_setup import UnknownModelWarning
from foveal.session.options import Host, Model
from foveal.session.policy import Policy, logged_policy, policy_from
from foveal.session.rebuild import setup_at
from foveal.stores import rows as log
from foveal.stores.deletion import Deletion, delete_sessions, with_children
from foveal.stores.port import Row, SessionCard
from foveal.stores.readable_cards import readable_cards
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


_OPENING_ID = "http-api-opening-"


class SessionOpening(msgspec.Struct, frozen=True, omit_defaults=True):
    """The model and the policy that a session was opened with. Without a policy, the gateway's holds."""

    model: str
    dialect: str
    policy: dict[str, Any] | None = None
    tools: tuple[str, ...] | None = None
    """The tools that a child may be offered; None allows all."""


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
        if stored is not None and is_inbox(stored):  # it is a part of its session
            stored = None
        cards = await self.read(lambda: self._store.cards(continued_in(self._store, stored))) if stored else []
        if not cards:
            raise NotFound(
                f"there is no session {name!r:.200} for you; create it, or name the key that it was made with"
            )
        return cards[0]

    async def stored(self, caller: ApiCaller, name: str) -> str:
        """Return the name under which the store has a caller's session."""
        return (await self.known(caller, name)).id

    def cards_of(self, caller: ApiCaller) -> list[SessionCard]:
        """Return the cards of a caller's sessions, inboxes among them, most recently used first. `StoreCorrupt` if one of them is
        damaged; damage to those of others is not told here, since it names them."""
        cards, damage = readable_cards(self._store.cards)
        for name, error in damage.items():
            if caller.owns(name):
                raise error
        return [card for card in cards if caller.owns(card.id)]

    async def own_name(self, caller: ApiCaller, wanted: str) -> str:
        """Return the stored name of a session that a caller opens; `BadInput` for a name that cannot be its own."""
        name = caller.stored_name(wanted)
        if name is None:
            raise BadInput(
                f"{wanted!r:.200} cannot be used: a dash and 16 hexadecimal digits at the end are the hash of a key, "
                "and this one is not yours"
            )
        if is_inbox(name):
            raise BadInput(f"{wanted!r:.200} cannot be used: it is the inbox of a session, which runs read")
        if name in (".", ".."):
            raise BadInput(
                f"{name!r} cannot be used as a name: clients take it for a part of an address and leave it out"
            )
        return await self.read(partial(continued_in, self._store, name))

    @asynccontextmanager
    async def released(self, stored: str) -> AsyncGenerator[None]:
        """Give up a session that is open here, so that a run can have it; nobody opens it again within the block."""
        async with self._turn(stored) as conversation:
            await self.conversations.in_thread(conversation, conversation.close)
            yield

    async def list(self, caller: ApiCaller, _name: str, given: ListRequest) -> SessionList:
        """List the sessions of the caller's key, most recently used first."""

        def found() -> list[SessionCard]:
            listed = (card for card in self.cards_of(caller) if not is_inbox(card.id))
            return [self._under_own_name(card) for card in islice(listed, given.limit)]

        return SessionList(tuple(await self.read(found)))

    def _under_own_name(self, card: SessionCard) -> SessionCard:
        """Return the card of a session that was adopted, under the name that the adopter has for it; any other as it is."""
        target = continued_in(self._store, card.id) if card.entries == 1 else card.id
        adopted = self._store.cards(target) if target != card.id else []
        return msgspec.structs.replace(adopted[0], id=card.id) if adopted else card

    async def create(self, caller: ApiCaller, _name: str, given: CreateRequest) -> SessionCard:
        """Open a session for a model: a new one, or one that goes on. Its name gets the hash of the caller's key."""
        name = await self.own_name(caller, given.name)
        policy = self._checked(SessionOpening(given.model, given.dialect or "", given.policy))
        dialect = find_dialect(given.dialect or catalogue.find(given.model, policy.models).dialect).name
        opening = SessionOpening(given.model, dialect, given.policy)

        def create(conversation: ClientConversation) -> SessionCard:
            count, last = self._last_opening(name)
            wanted = msgspec.structs.replace(opening, tools=last.tools if last else None)  # a child stays one
            if conversation.opened is None or last != wanted or given.takeover:
                session = self._open(conversation, wanted, policy, takeover=given.takeover)
                if last != wanted:
                    session.append(_opened(wanted), id=_opening_id(count))
            return self._store.cards(name)[0]

        async with self._turn(name) as conversation:
            return await self.conversations.in_thread(conversation, lambda: create(conversation))

    async def get(self, caller: ApiCaller, name: str, _given: NoParameters) -> SessionCard:
        """Return the facts about a session that are known without reading it."""
        return msgspec.structs.replace(await self.known(caller, name), id=caller.stored_name(name) or name)

    async def append(self, caller: ApiCaller, name: str, given: AppendRequest) -> KeptEntry:
        """Keep what happened: a message, a mark, or a provider's reply. It is durable when this returns."""
        item = _item(given.item)
        if given.id is not None and given.id.startswith(_OPENING_ID):
            raise BadInput(f"the id {given.id!r:.80} cannot be used: {_OPENING_ID}… are ids of the API's own")

        def append(session: ClientSession) -> tuple[KeptEntry, Sequence[Body]]:
            before = session.view.facts.seq
            entry = session.append(item, id=given.id)
            return _kept(entry), self._kept_since(session, before)

        return (await self._inside(caller, name, append, self._count_replies))[0]

    async def extend(self, caller: ApiCaller, name: str, given: ExtendRequest) -> KeptEntries:
        """Keep several items together: all of them or none."""
        items = [_item(item) for item in given.items]

        def extend(session: ClientSession) -> tuple[KeptEntries, Sequence[Body]]:
            before = session.view.facts.seq
            entries = session.extend(items)
            return KeptEntries(tuple(map(_kept, entries))), self._kept_since(session, before)

        return (await self._inside(caller, name, extend, self._count_replies))[0]

    async def follow(self, caller: ApiCaller, name: str, given: FollowRequest) -> FollowReply:
        """Keep what is new in a client's whole list of messages, and go to the branch that it tells."""
        messages = [_message(one) for one in given.messages]
        lead = None if given.system is None or isinstance(given.system, str) else [_message(m) for m in given.system]
        if lead and not all(isinstance(one, Message) for one in lead):
            raise BadInput("system is a text, or a list of neutral messages")
        system = given.system if isinstance(given.system, str) else cast("list[Message] | None", lead)

        def follow(session: ClientSession) -> tuple[FollowReply, Sequence[Body]]:
            before = session.view.facts.seq
            followed = session.follow(messages, system=system)
            reply = FollowReply(followed.outcome, followed.known, followed.written, followed.entries)
            return reply, self._kept_since(session, before)

        return (await self._inside(caller, name, follow, self._count_replies))[0]

    async def prompt(self, caller: ApiCaller, name: str, given: PromptRequest) -> PromptReply:
        """Build the next request: within the budget, valid for the provider."""

        def prompt(session: ClientSession) -> tuple[Prompt, PromptReply]:
            made = session.prompt(given.tools, next_call=given.next_call)
            return made, _prompt_reply(made)

        def count(conversation: ClientConversation, made: tuple[Prompt, PromptReply]) -> None:
            conversation.see(caller.headers)
            conversation.handed = HandedPrompt(made[0], made[1].raw_tokens)
            for figures in self._figures_of(conversation):
                figures.prompts += 1
                figures.folds += made[1].fold is not None

        return (await self._inside(caller, name, prompt, count))[1]

    async def recover(self, caller: ApiCaller, name: str, given: RecoverRequest) -> PromptReply:
        """Return a smaller prompt, after the provider refused the last one for its length with this error."""

        def recover(session: ClientSession) -> tuple[Prompt, PromptReply]:
            made = session.compaction.recover(given.error, given.tools, next_call=given.next_call)
            return made, _prompt_reply(made)

        def count(conversation: ClientConversation, made: tuple[Prompt, PromptReply]) -> None:
            conversation.handed = HandedPrompt(made[0], made[1].raw_tokens)
            for figures in self._figures_of(conversation):
                figures.recovered += 1
                figures.folds += made[1].fold is not None

        return (await self._inside(caller, name, recover, count))[1]

    async def serve(self, caller: ApiCaller, name: str, _given: NoParameters) -> ServeReply:
        """Answer the newest reply's calls to Foveal's own tools, and return its other calls for the host to run."""

        def serve(session: ClientSession) -> tuple[ServeReply, bool]:
            before = session.view.facts.seq
            return ServeReply(tuple(session.serve())), session.view.facts.seq > before

        def count(conversation: ClientConversation, served: tuple[ServeReply, bool]) -> None:
            for figures in self._figures_of(conversation):
                figures.recalls += served[1]

        return (await self._inside(caller, name, serve, count))[0]

    async def why(self, caller: ApiCaller, name: str, given: WhyRequest) -> WhyReply:
        """Explain the next prompt, or the prompt of a past call: one line an entry."""
        stored = await self.stored(caller, name)

        def explained() -> Trace | None:
            try:
                setup_at(self._store, stored)
            except NotFound:
                return None
            return stored_prompt(self._store, stored, given.call)[0].trace

        trace = await self.read(explained)
        if trace is None:  # no prompt was made so far: only an open session knows its model
            trace = await self._inside(caller, name, lambda session: session.why(given.call))
        return WhyReply(trace.tokens, trace.raw_tokens, msgspec.structs.replace(trace, fold=_lean(trace.fold)))

    async def recall(self, caller: ApiCaller, name: str, given: RecallRequest) -> RecallReply:
        """Return the original of a reference: whole, or an excerpt of it."""
        stored = await self.stored(caller, name)
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
        stored = await self.stored(caller, name)
        return SearchReply(tuple(await self.read(lambda: search(self._store, stored, given.words, limit=given.limit))))

    async def pressure(self, caller: ApiCaller, name: str, _given: NoParameters) -> PressureReply:
        """Return how full the next prompt is."""

        def pressure(session: ClientSession) -> PressureReply:
            now = session.compaction.pressure()
            return PressureReply(now.tokens, now.limit, now.share, now.level)

        return await self._inside(caller, name, pressure)

    async def compact(self, caller: ApiCaller, name: str, given: CompactRequest) -> CompactReply:
        """Fold now, down to half of the prompt's tokens; `session.compaction.fold` of the library."""

        def count(conversation: ClientConversation, fold: Fold | None) -> None:
            for figures in self._figures_of(conversation):
                figures.folds += fold is not None

        made = await self._inside(caller, name, lambda session: session.compaction.fold(given.instructions), count)
        return CompactReply(_fold_summary(made))

    async def rewind(self, caller: ApiCaller, name: str, given: RewindRequest) -> KeptEntry:
        """Continue from an earlier entry. The entries after it stay in the log, as a branch of their own."""
        return await self._inside(
            caller, name, lambda session: _kept(session.branches.rewind(given.entry_id, given.reason))
        )

    async def inject(self, caller: ApiCaller, name: str, given: InjectRequest) -> KeptEntry:
        """Put content beside the conversation, in a fence of a kind that the policy names. Blank text removes it."""
        if taken := sorted({"self", "kind", "text", "key"} & given.attributes.keys()):
            raise BadInput(f"attributes cannot be named {', '.join(taken)}: these are parameters of inject")

        def inject(session: ClientSession) -> KeptEntry:
            return _kept(session.context.inject(given.kind, given.text, key=given.key, **given.attributes))

        return await self._inside(caller, name, inject)

    async def remind(self, caller: ApiCaller, name: str, given: RemindRequest) -> NoParameters:
        """Show a text in the next call only."""
        await self._inside(caller, name, lambda session: session.context.remind(given.text, given.name))
        return NoParameters()

    async def attach(self, caller: ApiCaller, name: str, given: AttachRequest) -> AttachReply:
        """Give a file to the model: small text whole, larger ones by an outline that can be recalled, images scaled."""

        def attach(session: ClientSession) -> AttachReply:
            entry, file = session.attach_bytes(given.data, given.name)
            return AttachReply(
                id=entry.id,
                name=file.name,
                kind=file.kind,
                media_type=file.media_type,
                size_bytes=file.size_bytes,
                tokens=file.tokens,
                is_whole=file.is_whole,
                notes=file.notes,
            )

        return await self._inside(caller, name, attach)

    async def children(self, caller: ApiCaller, name: str, given: ChildRequest) -> SessionCard:
        """Open a session for a sub-agent: `session.children.open` of the library. Its name is the parent's, `/` and its own."""
        stored = await self.stored(caller, name)
        async with self._turn(stored) as parent, self._turn(f"{stored}/{given.name}") as child:
            return await self.conversations.in_thread(parent, lambda: self._begin_child(parent, child, given))

    def _begin_child(self, parent: ClientConversation, child: ClientConversation, given: ChildRequest) -> SessionCard:
        session = self._session(parent)
        _, last = self._last_opening(parent.name)
        dialect, _, model = parent.model.partition(" ")
        if given.model is not None:
            model, dialect = given.model, catalogue.find(given.model, self._policy.models).dialect
        told = last.policy if given.policy is None and last else given.policy
        opening = SessionOpening(model, dialect, told, tools=given.tools)
        policy = self._checked(opening)
        child.close()
        chosen = Model(model, dialect)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownModelWarning)
            opened = session.children.open(
                given.name,
                given.task,
                system=given.system,
                inherit_turns=given.inherit_turns,
                tools=given.tools,
                fences=given.fences,
                refs=given.refs,
                model=chosen,
                policy=policy,
            )
        child.take(cast("ClientSession", opened), chosen)  # a session opens children of its own kind
        count, known = self._last_opening(child.name)
        if known != opening:
            opened.append(_opened(opening), id=_opening_id(count))
        return self._store.cards(child.name)[0]

    async def delete(self, caller: ApiCaller, name: str, given: DeleteRequest) -> Deletion:
        """Delete a session, its children, and the artifacts that no other session names. Nothing brings them back."""
        stored = await self.stored(caller, name)
        doomed = [card.id for card in await self.read(lambda: with_children(self._store, [stored]))]
        async with AsyncExitStack() as turns:
            held = [await turns.enter_async_context(self._turn(one)) for one in sorted(doomed)]

            def delete() -> Deletion:
                for conversation in held:
                    conversation.close()
                return delete_sessions(self._store, [stored], takeover=given.takeover)

            try:
                return await self.conversations.in_thread(held[0], delete)
            finally:  # an error may tell what was left of sessions that are gone
                for conversation in held:
                    conversation.figures = CallFigures()
                    self.conversations.forget_name(conversation.name)

    async def _inside(
        self,
        caller: ApiCaller,
        name: str,
        act: Callable[[ClientSession], T],
        count: Callable[[ClientConversation, T], None] = lambda conversation, done: None,
    ) -> T:
        """Do something with the open session in its turn, in a thread; then count it, where all others count."""
        stored = await self.stored(caller, name)
        async with self._turn(stored) as conversation:
            done = await self.conversations.in_thread(conversation, lambda: act(self._session(conversation)))
            count(conversation, done)
            return done

    @asynccontextmanager
    async def _turn(self, stored: str) -> AsyncGenerator[ClientConversation]:
        """Take the turn of a session; `SessionHeld` if another request has it for longer than a moment."""
        async with AsyncExitStack() as held:
            try:
                conversation = await held.enter_async_context(self.conversations.turn(stored))
            except TimeoutError:
                raise SessionHeld(
                    f"session {stored!r} has another request under way, and it is not done yet; nothing was done. "
                    "Try again in a moment."
                ) from None
            yield conversation

    def _session(self, conversation: ClientConversation) -> ClientSession:
        """Return the open session of a conversation, opened as it was the last time if need be."""
        if conversation.opened is not None:
            return conversation.opened
        _, opening = self._last_opening(conversation.name)
        if opening is not None:
            return self._open(conversation, opening, self._checked(opening), takeover=False)
        try:
            setup = setup_at(self._store, conversation.name)
        except NotFound:
            raise NotFound(
                f"nothing says for which model session {conversation.name!r} is; create it with a model, and it goes on"
            ) from None
        # A client's conversation has the gateway's policy; a session that another program made goes on with its own.
        is_clients = ends_in_hash(conversation.name)
        policy = self.conversations.policy if is_clients else logged_policy(setup.policy)[0]
        return self._open(conversation, SessionOpening(setup.model, setup.dialect), policy, takeover=False)

    def _open(
        self, conversation: ClientConversation, opening: SessionOpening, policy: Policy, *, takeover: bool
    ) -> ClientSession:
        model = Model(opening.model, opening.dialect)
        host = Host(allowed_tools=None if opening.tools is None else frozenset(opening.tools))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownModelWarning)  # it has a budget, or was refused when it was created
            return conversation.open(self._store, model, policy=policy, host=host, takeover=takeover)

    def _checked(self, opening: SessionOpening) -> Policy:
        """Return the policy that a session is opened with; `BadInput` for what a caller may not ask for."""
        # A scope would be shared by all keys that name it.
        own = msgspec.structs.replace(self._policy, memory=None)
        policy = own if opening.policy is None else policy_from(opening.policy)
        if opening.policy is not None and policy.compact.summariser:
            raise BadPolicy(
                f"policy: compact.summariser is {policy.compact.summariser!r:.80}; who calls models with the keys of the "
                "gateway's machine is its operator's to say, in the gateway's own policy"
            )
        if policy.memory is not None:
            raise BadPolicy(
                f"policy: memory is {policy.memory!r:.80}; sessions of the API have none, because the keys that name the same "
                "scope would share it; leave it out"
            )
        if not has_known_limit(policy, opening.model):
            raise BadInput(
                f"the window of the model {opening.model!r:.200} is not known; say max_context_tokens in the policy, or name "
                "the model's window under models"
            )
        return policy

    def _last_opening(self, stored: str) -> tuple[int, SessionOpening | None]:
        """Return how often a session was opened in a new way, and the last of them."""
        count = self._count_openings(stored)
        for row in filter(None, (self._row(stored, _opening_id(number)) for number in reversed(range(count)))):
            body = log.to_entry(row, stored).body
            if isinstance(body, Note) and body.text.startswith(_OPENED):
                with suppress(msgspec.DecodeError):  # a note of somebody else's
                    return count, msgspec.json.decode(body.text.removeprefix(_OPENED), type=SessionOpening)
        return count, None

    def _count_openings(self, stored: str) -> int:
        """Return how many openings the log of a session has. Their numbers have no gap, so that a few looks find the end."""
        beyond = 1
        while self._row(stored, _opening_id(beyond - 1)):
            beyond *= 2
        return bisect_left(
            range(beyond - 1), True, lo=beyond // 2, key=lambda number: self._row(stored, _opening_id(number)) is None
        )

    def _row(self, stored: str, entry_id: str) -> Row | None:
        """Return the entry of an id; None if the session has none, or is not there."""
        try:
            rows = self._store.find(stored, entry_id)
        except NotFound:
            return None
        return next((row for row in rows if row.id == entry_id), None)

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

    def _figures_of(self, conversation: ClientConversation) -> tuple[CallFigures, CallFigures]:
        return conversation.figures, self.conversations.figures

    def _kept_since(self, session: ClientSession, after: int) -> Sequence[Body]:
        """Return the bodies of the entries that were written after a place of the log."""
        return [log.to_entry(row, session.name).body for row in self._store.rows(session.name, after=after)]

    def _count_replies(self, conversation: ClientConversation, kept: tuple[object, Sequence[Body]]) -> None:
        """Count the prompt that was handed out as a call, if its reply was kept, and the counts of providers."""
        is_replied = any(isinstance(body, Message) and body.role == "assistant" for body in kept[1])
        handed = conversation.handed
        if handed is not None and is_replied:
            conversation.handed = None
            conversation.cost.ask(handed.prompt, handed.asked_tokens, self._policy.models)
            for figures in self._figures_of(conversation):
                figures.calls += 1
                figures.asked_tokens += handed.asked_tokens
                figures.sent_tokens += handed.prompt.tokens
        for body in kept[1]:
            if isinstance(body, Usage):
                self.conversations.count_usage(conversation, body)


def _opened(opening: SessionOpening) -> Note:
    return Note(_OPENED + msgspec.json.encode(opening).decode())


def _opening_id(number: int) -> str:
    return f"{_OPENING_ID}{number}"


def _item(given: Mapping[str, Any]) -> object:
    """Return an item as the library takes it: a neutral one as a value, a provider's as it came."""
    item = read_value(given, cast("type[Body]", Body), "item", place="item") if "is" in given else given
    if isinstance(item, Note) and mark_in(item) is not None:
        raise BadInput("this note is a mark of a run, and only runs write those; use the operations below /runs")
    return item


def _message(given: Mapping[str, Any]) -> Mapping[str, Any] | Message:
    return read_value(given, Message, "message", place="message") if "is" in given else given


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
