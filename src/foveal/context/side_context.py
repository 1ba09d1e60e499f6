"""The side context of one session: content that is in its prompts and not in its conversation."""

from collections.abc import Callable, Iterable
from os import PathLike
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from foveal.context import files
from foveal.context.fences import FenceKind
from foveal.context.injector import Injector
from foveal.context.mentions import Mentioned
from foveal.context.reminders import one_shot
from foveal.context.reminders.situation import OneShot, Upload, news_mark
from foveal.models.counters import ModelCounter
from foveal.project.view import View
from foveal.stores.port import Store
from foveal.stores.rows import EncodedBody, checked_message
from foveal.text.redaction import Redactor
from foveal.values.entry import ATTACHED, Body, Entry
from foveal.values.errors import BadInput
from foveal.values.shown import short_ref

if TYPE_CHECKING:
    from foveal.context.files.attachment import Attachment
    from foveal.context.workspace import Workspace


class SessionAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a session that its side context reads, and the function by which it appends."""

    store: Store
    counter: ModelCounter
    workspace: "Workspace | None"
    view: Callable[[], View]
    new_id: Callable[[], str]
    remember: Callable[[str, str | None], str]
    """Keeps a note of this text and key in the scope of the session, and returns its key."""
    forget: Callable[[str], None]
    redact: Redactor
    """Takes the secrets out of a text; returns it as it is where nobody looks for them."""
    append: Callable[[Body | EncodedBody, str, str | None], Entry]
    """Appends an entry of this body, id and author; without an author it is the session's own."""


class FileEntry(msgspec.Struct, frozen=True):
    """A file that was read before its session is open, for `Session.extend`; and the id of the entry that will show it."""

    id: str
    file: "Attachment"


class NewEntry(NamedTuple):
    """A body that is to be kept under this id; without an author it is the session's own."""

    body: Body | EncodedBody
    id: str
    author: str | None = None


class SideContext:
    """Puts content next to the conversation of one session: fences, reminders, files."""

    def __init__(self, injector: Injector, session: SessionAccess) -> None:
        self._injector, self._session = injector, session

    def inject(self, kind: str, text: str, *, key: str | None = None, **attributes: str) -> Entry:
        """Put content beside the conversation, in a fence of a kind that the policy names. Blank text removes it."""
        clean = self._session.redact(text)
        fence = self._injector.fences.fence(self._session.view(), kind, clean, key=key, attributes=attributes)
        return self._session.append(fence, self._session.new_id(), None)

    def remind(self, text: str, name: str = "host") -> None:
        """Show this text in the next call only. Needs `remind` in the policy."""
        if self._injector.reminders is None:
            raise BadInput("reminders are off, so that nobody would read this; set remind = true in the policy")
        if once := one_shot(name, self._session.redact(text), self._session.view().facts.news):
            _tell(self._session, "one_shots", (once,))

    def attach(self, path: str | PathLike[str], *, name: str | None = None) -> "Attachment":
        """Give a file to the model: small text whole, larger ones by an outline that can be recalled, images scaled."""
        session = self._session
        if session.workspace is None:
            raise BadInput("this session has no workspace to keep files in; give it Environment(workspace=…)")
        entry_id = session.new_id()
        reading = files.ReadOptions.for_entry(entry_id, session.counter, session.redact)
        file = files.attach(session.workspace, path, reading, name=name)
        _give(file, entry_id, self._injector, session)
        return file

    def remember(self, text: str, key: str | None = None) -> str:
        """Keep a note for all sessions of this session's scope, in the place of the one with the same key; return its key.

        Needs `memory` in the policy. Without a key, the text gives it one.
        """
        return self._session.remember(self._session.redact(text), key)

    def forget(self, key: str) -> None:
        """Remove the note of this key: no prompt of any session shows it from now on. `NotFound` if there is none."""
        self._session.forget(key)

    def mentioned(self) -> Mentioned:
        """Return the tools, skills, agents and files that the newest request mentions, and its unknown and ambiguous names."""
        return self._injector.mentioned(self._session.view())

    def fence_kind(self, name: str) -> FenceKind:
        """Return the kind of fence of this name; `BadInput` if there is none."""
        return self._injector.fences.registry.kind(name)


def attach_bytes(data: bytes, name: str, injector: Injector, session: SessionAccess) -> "tuple[Entry, Attachment]":
    """Give a file to the model whose bytes the host has and no workspace: it is in the log alone."""
    entry_id = session.new_id()
    file = files.read_bytes(data, name, files.ReadOptions.for_entry(entry_id, session.counter, session.redact))
    return _give(file, entry_id, injector, session), file


def _give(file: "Attachment", entry_id: str, injector: Injector, session: SessionAccess) -> Entry:
    """Append a file that was read, and keep facts about it for the reminders of the next call."""
    shown, *news = file_entries(FileEntry(entry_id, file), injector, session)
    entry = session.append(*shown)
    for one in news:
        session.append(*one)
    return entry


def file_entries(given: FileEntry, injector: Injector, session: SessionAccess) -> list[NewEntry]:
    """Return the entry that shows a file, and behind it facts for the reminders of the next call."""
    file, shown = given.file, checked_message(files.message_of(given.file, session.store))
    found = [source.attached(file.name, file.media_type) for source in injector.sources]
    marks: list[Body] = []
    if injector.reminders:
        marks.append(news_mark("uploads", [Upload(file.name, file.kind, file.size_bytes, short_ref(given.id))]))
        marks += [news_mark(field, names) for news in found for field, names in news.items() if names]
    return [NewEntry(shown, given.id, ATTACHED), *(NewEntry(mark, session.new_id()) for mark in marks)]


def _tell(session: SessionAccess, field: str, values: Iterable[Upload | OneShot | str]) -> None:
    """Keep facts for the reminders of the next call."""
    session.append(news_mark(field, values), session.new_id(), None)
