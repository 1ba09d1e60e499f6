"""Following a client that sends its whole list of messages with every call: finding what is new, and writing only that.

Entries that a client told have ids that are a chain over its list (`record.fingerprint`): the id of a message names all of them
up to it. So the longest beginning of a list that the log holds is found by looking up ids from the end, without any state beside
the log: the same in another process, and after a crash. Where a list leaves the branch, the session goes back to the last common
entry and on from there; the entries that the client no longer tells stay in the log. A host that appends words of such a branch
says them again: their entry has an id that names how often (`again_id`), and stands behind all that the branch has now.
Results that the client only shortened, as some do to save tokens, are folded in place.
"""

from collections.abc import Container, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from foveal.dialects.port import Dialect
from foveal.record.client_list import ClientList, HeardMessage, ListedMessage, dialect_of, has_call_ids
from foveal.record.fingerprint import FIRST, fingerprint, is_told, list_ids, next_id
from foveal.session import own_tools
from foveal.session.journal import Journal, NewBody
from foveal.stores import rows as log
from foveal.stores.port import Store
from foveal.text.shorten.reference import as_text
from foveal.values.codec import sendable
from foveal.values.entry import (
    CLIENT,
    INSTRUCTIONS,
    Entry,
    Fold,
    Message,
    Note,
    Overflow,
    PartFold,
    Rewind,
    Setup,
    Text,
    ToolResult,
    Usage,
    again_id,
    told_id,
)
from foveal.values.errors import BadInput

Outcome: TypeAlias = Literal["same", "grown", "edited", "branched"]

EDITED = "here the client changed its list"
"""The note whose id stands for a list with results that the client changed."""

_ROOT = next_id(FIRST, b"")


class Followed(msgspec.Struct, frozen=True):
    """A client's list, compared with the log."""

    outcome: Outcome
    """`same`: nothing is new. `grown`: it goes on from the newest message. `edited`: old results were changed, and nothing
    else. `branched`: it leaves the branch before its end."""
    known: int
    """Messages of the list that the log held already."""
    written: int
    """Entries that were written for it."""
    messages: tuple[HeardMessage, ...]
    """The list as messages, each with the elements that it was read from."""
    entries: tuple[str, ...]
    """The entries that hold these messages. Of a message before an edit, in a session that was opened since, it is none."""


class _Position(NamedTuple):
    outcome: Outcome
    known: int
    written: int


class _Told(NamedTuple):
    """The names of a message that a client will tell."""

    id: str
    """The id of the list up to it."""
    entry: str
    """The entry that holds it: another one if the log has the message on a branch that was left."""


class ClientFollower:
    """Follows the lists of the client of one session."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._list: ClientList | None = None
        self._heard: Sequence[HeardMessage] = ()
        self._ids: list[str] = []
        """The ids of the last list."""
        self._entries: list[str] = []
        """The entries that hold the messages of the last list, where they are known: those of edited ones are older."""
        self._has_edits = False
        """Whether the newest message of a list may have several ids."""
        self._has_sayings = False
        """Whether messages were said again, so that a branch may have other entries for them."""
        self._system: tuple[str, Message] | None = None
        """The system prompt that was looked up last, and its entry."""

    @property
    def keys(self) -> Sequence[object]:
        """The keys of the last list."""
        return self._list.keys if self._list else ()

    @property
    def ids(self) -> Sequence[str]:
        """The ids of the last list, and of the replies that were kept behind it."""
        return self._ids

    def follow(
        self,
        given: Sequence[ListedMessage],
        system: str | Sequence[Message] | None,
        keys: Sequence[object] | None = None,
    ) -> Followed:
        """Make the branch say this list. `keys` are equal for equal elements of two lists."""
        if self._journal.redact is not None:
            raise BadInput(
                f"session {self._journal.name!r} redacts what it records, and so cannot compare it with a client's list; open it "
                "without Host(redact=…), or redact the list before it is followed"
            )
        try:
            return self._follow(given, system, keys)
        except BaseException:  # of a list that was read but not written, nothing is known
            self._list = None
            raise

    def _follow(
        self, given: Sequence[ListedMessage], system: str | Sequence[Message] | None, keys: Sequence[object] | None
    ) -> Followed:
        journal = self._journal
        # Whoever has keys has read a request, and knows its dialect.
        dialect = dialect_of(given, journal.setup.dialect) if keys is None else journal.setup.dialect
        is_lean = keys is not None
        if self._list is None or self._list.dialect is not dialect or self._list.is_lean != is_lean:
            self._list = ClientList(dialect, journal.setup.model, is_lean=is_lean)
            self._heard, self._ids, self._entries = (), [], []
        lead, heard, same = self._list.read(given, keys)
        if not heard:
            raise BadInput("a client's list holds no message; there is nothing to follow")
        ids = [
            *self._ids[:same],
            *list_ids(self._ids[same - 1] if same else _ROOT, (one.fingerprint for one in heard[same:])),
        ]
        told = self._told_system()
        if self._has_sayings or journal.view.facts.said_again:  # the host may have changed the branch meanwhile
            self._entries = [self._entry_of(told_id(one)) for one in self._entries]
        position = self._go_to(heard, ids)
        if is_lean and position.known < same:  # behind an edit, the log may not have messages that the last list had
            heard = ClientList(dialect, journal.setup.model).read(given).messages
        entries = self._entries[: position.known] if position.outcome in ("same", "grown", "edited") else []
        entries += map(self._entry_of, ids[len(entries) :])
        written = position.written + self._write(
            heard[position.known :], ids[position.known :], _instructions(system, lead) or told
        )
        self._list.settle()
        self._heard = list(map(HeardMessage.settled, heard)) if is_lean else heard
        self._ids, self._entries = ids, entries
        return Followed(position.outcome, position.known, written, tuple(heard), tuple(entries))

    def _told(self, message: Message, before: str) -> _Told | None:
        """Return the ids of a message that follows the one that was told as `before`; None if no client will tell it."""
        facts = self._journal.view.facts
        hidden = own_tools.ours(facts.setup.tools if facts.setup else "[]")
        if not is_told(message, hidden):
            return None
        has_ids = has_call_ids((self._list or self._journal.setup).dialect.name)
        mark = fingerprint(message, has_ids=has_ids, hidden=hidden)
        found = next_id(before, mark)
        entry_id = found if self._is_alone(before) else again_id(found, self._times_said(found) + 1)
        self._has_sayings = self._has_sayings or entry_id != found
        if self._ids and self._ids[-1] == before:
            is_lean = self._list is not None and self._list.is_lean
            reply = HeardMessage.of(message, mark, (0, 0))
            self._heard = [*self._heard, reply.settled() if is_lean else reply]
            self._ids, self._entries = [*self._ids, found], [*self._entries, entry_id]
        return _Told(found, entry_id)

    def _times_said(self, told: str) -> int:
        """Return how many entries of the log hold the message of this id."""
        return next(times for times in count() if not self._journal.has(again_id(told, times + 1)))

    def _entry_of(self, told: str) -> str:
        """Return the entry of the branch that holds the message of this id."""
        return self._journal.view.facts.said_again.get(told, told)

    def keep(
        self,
        new: Sequence[NewBody],
        ids: Sequence[str] = (),
        *,
        authors: Mapping[str, str] = MappingProxyType({}),
    ) -> list[Entry]:
        """Write the items of a host: messages under the ids by which the client's list will name them. It never names a system
        message of the host's.

        Entries whose ids have `authors` are files, which no list will name; they and marks are kept under these ids.
        """
        journal, before, was = self._journal, self._journal.view.facts.followed, self._last
        named = list(ids) or [journal.clock.new_id() for _ in new]
        by = dict(authors)
        for place, item in enumerate(new):
            body = item.body if isinstance(item, log.EncodedBody) else item
            said = body if isinstance(body, Message) and named[place] not in authors else None
            if said and said.role != "system" and (told := self._told(said, before)):
                before, named[place], by[told.entry] = told.id, told.entry, CLIENT
        return self._kept(new, named, by, was)

    def keep_reply(self, new: Sequence[log.EncodedBody], told: Message | None) -> None:
        """Write a reply of which the client is told something else: of several rounds with own calls one reply, or nothing."""
        journal, before, was = self._journal, self._journal.view.facts.followed, self._last
        named = self._told(told, before) if told else None
        ids = [named.entry if named and not number else journal.clock.new_id() for number in range(len(new))]
        self._kept(new, ids, {named.entry: CLIENT} if named else {}, was)

    @property
    def _last(self) -> tuple[Sequence[HeardMessage], list[str], list[str]]:
        """The last list, with the replies that were kept behind it."""
        return self._heard, self._ids, self._entries

    def _kept(self, new: Sequence[NewBody], ids: Sequence[str], authors: Mapping[str, str], was: Any) -> list[Entry]:
        """Write bodies. If that fails, they are no part of the last list."""
        try:
            return self._journal.keep(new, ids, authors=authors)
        except BaseException:
            self._heard, self._ids, self._entries = was
            raise

    def _go_to(self, heard: Sequence[HeardMessage], ids: list[str]) -> _Position:
        """Go to the entry after which the list goes on."""
        here = self._journal.view.facts.followed
        if not here and not self._journal.has(_ROOT):
            return _Position("grown", 0, 0)
        known = self._known(ids, here)
        at = ids[known - 1] if known else _ROOT
        if at == here:
            return _Position("same" if known == len(ids) else "grown", known, 0)
        changed = self._changed(heard, known)
        if changed:
            upto = len(self._heard)
            self._fold([(self._entries[i], heard[i].message) for i in changed], ids[upto - 1])
            return _Position("edited", upto, 2)
        self._journal.rewind(again_id(at, self._times_said(at)), f"the client's list goes on from message {known}")
        return _Position("branched", known, 1)

    def _known(self, ids: list[str], here: str) -> int:
        """Return how many messages of the list the log holds. Looked up from the end: a client rarely takes much back."""
        has = self._journal.has
        last = len(self._ids)
        if self._is_alone(here) and last <= len(ids) and ids[last - 1] == here:
            return last
        return next((n for n in range(len(ids), 0, -1) if ids[n - 1] == here or has(ids[n - 1])), 0)

    def _is_alone(self, here: str) -> bool:
        """Return whether the log holds this branch and no other, so that nothing in it follows its newest message `here`."""
        is_newest = bool(self._ids) and self._ids[-1] == here
        return is_newest and not self._journal.has_branches and not self._has_edits

    def _changed(self, heard: Sequence[HeardMessage], known: int) -> list[int]:
        """Return the places of results that the client changed, if nothing else is new up to our newest message."""
        old = self._heard
        if len(heard) < len(old) or not old or self._ids[-1] != self._journal.view.facts.followed:
            return []
        changed = [i for i in range(min(known, len(old)), len(old)) if heard[i].fingerprint != old[i].fingerprint]
        is_edit = all(heard[i].answers == old[i].answers is not None for i in changed)
        # Behind an edit that another session followed, a note may have the id, or an entry of another branch.
        return changed if is_edit and all(self._is_shown(self._entries[i]) for i in changed) else []

    def _is_shown(self, entry: str) -> bool:
        """Return whether an entry is a message of the branch."""
        return isinstance(self._journal.body(entry), Message) and self._journal.is_on_branch(entry)

    def _fold(self, changed: Sequence[tuple[str, Message]], list_id: str) -> None:
        """Show results as the client has changed them; the originals stay in the log."""
        journal = self._journal
        view, guard = journal.view, journal.setup.guard
        items: list[PartFold] = []
        for entry, message in changed:
            text = guard.text(sendable(_words(message)))
            tokens = view.projection.measure.count(text)
            items.append(PartFold(entry, 0, "trimmed", text, tokens, CLIENT, "the client shortened it"))
        size = view.size.tokens
        after = view.folded(Fold(tuple(items), "", size, size, size)).size.tokens
        fold = Fold(tuple(items), "the client changed results in its list", size, after, after)
        ids = [journal.clock.new_id(), list_id]
        self._has_edits = True
        journal.keep([fold, Note(EDITED)], ids, authors={list_id: CLIENT})

    def _write(self, heard: Sequence[HeardMessage], ids: Sequence[str], system: Message | None) -> int:
        """Write what is new with one commit, and return the number of entries."""
        journal = self._journal
        new: list[tuple[Any, str, str]] = []
        if not journal.view.facts.followed:
            new.append((Note(FIRST), _ROOT, CLIENT))
        if system is not None and system != self._told_system():
            new.append((log.checked_message(system), journal.clock.new_id(), INSTRUCTIONS))
        for one, entry_id in zip(heard, ids, strict=True):
            new.extend((body, entry_id, CLIENT) for body in journal.bodies_of(one.message))
        if new:
            journal.keep(
                [body for body, _, _ in new], [one for _, one, _ in new], authors={i: who for _, i, who in new}
            )
        return len(new)

    def _told_system(self) -> Message | None:
        """Return the system prompt that the branch has; None if it has none."""
        lead = self._journal.view.atoms[:1]
        if not lead or lead[0].kind != "system":
            return None
        if self._system is None or self._system[0] != lead[0].first:
            body = self._journal.body(lead[0].first)
            self._system = (lead[0].first, body) if isinstance(body, Message) else None
        return self._system[1] if self._system else None


def told_list(given: Sequence[ListedMessage], *, dialect: Dialect, model: str) -> Followed:
    """Return a client's list with the entries that a log has for its messages if it holds them. Nothing is looked up."""
    heard = ClientList(dialect, model).read(given).messages
    return Followed("same", 0, 0, tuple(heard), tuple(list_ids(_ROOT, (one.fingerprint for one in heard))))


def tells_all(store: Store, session: str, ids: Container[str]) -> bool:
    """Return whether a client's list, whose messages have these ids, holds every message of a log, on all of its branches, and a
    reply among them.

    System prompts are not compared: some clients change theirs with every call. Calls of own tools, which no client is told of,
    show what the log holds. Where the log has anything else of its own, such as a fence, the answer is no.
    """
    has_reply = False
    for row in store.rows(session):
        entry = log.to_entry(row, session)
        role = entry.body.role if isinstance(entry.body, Message) else ""
        if entry.author == CLIENT:
            if told_id(entry.id) not in ids and entry.id != _ROOT:
                return False
            has_reply = has_reply or role == "assistant"
        elif (
            entry.author != INSTRUCTIONS
            and role not in ("assistant", "tool")
            and not isinstance(entry.body, Setup | Fold | Usage | Rewind | Overflow)
        ):
            return False
    return has_reply


def _instructions(system: str | Sequence[Message] | None, lead: tuple[Message, ...]) -> Message | None:
    """Return the system prompt of a list as one message; None if nothing is said of it."""
    if isinstance(system, str):
        return Message("system", (Text(system),) if system else ())
    if system is None and not lead:
        return None
    given = (*(system or ()), *lead)
    return Message("system", tuple(part for message in given for part in message.parts))


def _words(message: Message) -> str:
    return "\n".join(as_text(part.content) for part in message.parts if isinstance(part, ToolResult))
