"""Memory: a new session begins with the notes of its scope and with what people said in its earlier sessions.

Both stand in one fence before the conversation: notes verbatim, then the newest statements, each session's under a line with its
name, its day and a reference. The fence is written with the first prompt, of what was recorded before the session began, and
stays: it is cached like a system prompt. It is written anew only when a note of the scope was kept or forgotten, or a session of
the scope deleted. What has no room in it is found by foresight.

Why not by foresight alone: a question seldom has the words of its answer. Of the evidence in chats that were cut into ten
sessions, foresight alone shows 0.14 at 32k, and 0.80 stands there with this fence in a tenth of the budget.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from foveal import recall
from foveal.context.fences import FenceKind
from foveal.project.view import View
from foveal.stores.port import KeptNote
from foveal.summary.ledger.items import STATEMENT_CHARS
from foveal.summary.relevance.render import quote_line
from foveal.text import guard
from foveal.text.shorten.message import own_words
from foveal.text.user_words import user_words
from foveal.values.codec import sendable
from foveal.values.entry import Fence
from foveal.values.errors import StoreError
from foveal.values.shown import range_ref, short_ref

if TYPE_CHECKING:
    from foveal.recall.search import EarlierPassage, EarlierStatement

KIND = FenceKind("memory", placement="before_conversation", lifetime="session")
"""The kind of the fence. It holds words of people and of models, not of the host: it is no part of the system prompt."""

SHARE = 0.1
"""Share of the budget for the fence. On the training chats cut into ten sessions, at 32k, 0.05 held 0.56 of the evidence of
earlier sessions, 0.1 held 0.80 and 0.15, from where on everything fits that the people said in them, 0.91, for 13 200,
14 100 and 14 800 tokens a call; 12 800 without it."""

_NOTES_SHARE = 0.5
"""Largest share of the fence for notes, if there are statements as well."""

_LEAST_TOKENS = 48
_NAME_CHARS = 60

_HEAD = "From earlier sessions; what was said later holds, and what is said now holds most:"


class ScopeAccess(msgspec.Struct, frozen=True):
    """Access of one session to the scope that it is in."""

    session: str
    changes: Callable[[], int]
    notes: Callable[[], list[KeptNote]]
    statements: "Callable[[], list[EarlierStatement]]"
    """Returns what the user said in other sessions before this one began, the newest first."""
    find: "Callable[[str, str], list[EarlierPassage]]"
    """Returns passages of other sessions on the subject of these words that were recorded before this request."""
    safe: Callable[[str], str]
    """Neutralises a recorded text as the view does."""


class MemoryFence:
    """Writes the fence of one session."""

    def __init__(self, scope: ScopeAccess, count: Callable[[str], int]) -> None:
        self._scope, self._count = scope, count
        self._nothing_at: int | None = None
        """The changes of the scope at which there was nothing to show."""

    def due(self, view: View, limit: int, fence: Callable[[str], Fence]) -> Iterator[Fence]:
        """Yield the fence if it is to be written, for a prompt of at most `limit` tokens. `fence` makes one of a text."""
        changes = self._scope.changes()
        shown = next((one for one in view.facts.fences if one.kind == KIND.name), None)
        note = f"the scope after {changes:,} changes of its notes and sessions"
        if (shown and shown.note == note) or (not shown and self._nothing_at == changes):
            return
        try:
            text = self._text(int(limit * SHARE))
        except StoreError:
            return  # a shortcut: the model can still recall, and is told what is wrong when it does
        if not text and not shown:
            self._nothing_at = changes
            return
        yield msgspec.structs.replace(fence(text), note=note)

    def _text(self, room: int) -> str:
        if room < _LEAST_TOKENS:
            return ""
        statements = list(filter(None, map(_spoken, self._scope.statements())))
        room -= self._count(_HEAD) + 1
        notes = list(self._notes(int(room * _NOTES_SHARE) if statements else room))
        said = list(self._said(statements, room - sum(map(self._tokens, notes))))
        return "\n".join((_HEAD, *notes, *said)) if notes or said else ""

    def _notes(self, room: int) -> Iterator[str]:
        """Yield the newest notes in so many tokens. Those that the model itself has kept in this session are in it already."""
        for note in self._scope.notes():
            if note.session == self._scope.session and note.author == recall.BY_AGENT:
                continue
            piece = note_piece(note, self._scope.safe)
            room -= self._tokens(piece)
            if room < 0:
                return
            yield piece

    def _said(self, statements: "Sequence[EarlierStatement]", room: int) -> Iterator[str]:
        """Yield the newest statements in so many tokens, in the order in which they were said, session by session."""
        chosen, sessions = list["EarlierStatement"](), set[str]()
        for one in statements:
            is_first = one.session not in sessions
            head = self._tokens(self._session_line([one])) + 8 if is_first else 0
            room -= head + self._tokens(self._rows(one.text))
            if room < 0:
                break
            chosen.append(one)
            sessions.add(one.session)
        newest = {one.session: number for number, one in reversed(list(enumerate(chosen)))}
        chosen.reverse()
        ordered = sorted(chosen, key=lambda one: -newest[one.session])
        for _, run in groupby(ordered, key=lambda one: one.session):
            listed = list(run)
            yield self._session_line(listed)
            yield from (self._rows(one.text) for one in listed)

    def _session_line(self, said: "Sequence[EarlierStatement]") -> str:
        """Return the line above the statements of one session."""
        first, last = said[0], said[-1]
        ref = short_ref(first.entry) if len(said) == 1 else range_ref(first.entry, last.entry)
        days = list(dict.fromkeys((recall.day_of(first.time_ms), recall.day_of(last.time_ms))))
        return (
            f"[session {shown_name(first.session)}, {' to '.join(days)}, ref {recall.memory_ref(first.session, ref)}]"
        )

    def _rows(self, text: str) -> str:
        return quoted_rows(text, self._scope.safe)

    def _tokens(self, piece: str) -> int:
        return self._count(piece) + 1


def note_piece(note: KeptNote, safe: Callable[[str], str]) -> str:
    """Return a note verbatim, under a line that says who kept it, where and when."""
    where = f"{shown_name(note.session)}, {recall.day_of(note.time_ms)}"
    head = f"[note {shown_name(note.key)}, kept by {shown_name(note.author)}, session {where}]"
    return f"{head}\n{quoted_rows(note.text, safe)}"


def quoted_rows(text: str, safe: Callable[[str], str]) -> str:
    """Return a recorded text for use in a frame, such that no row of it can be taken for a line of ours."""
    return "\n".join(map(quote_line, safe(sendable(text)).split("\n")))


def shown_name(name: str) -> str:
    """Return the name of a session, a note or an author, cut and neutralised for use in a frame."""
    return guard.safe_name(name, _NAME_CHARS)


def short_or_own_words(words: str) -> str:
    """Return the user's words: all of a short message, whatever its form, and of a long one those that they typed themselves."""
    return words if len(words) <= STATEMENT_CHARS else own_words(words)


def _spoken(one: "EarlierStatement") -> "EarlierStatement | None":
    """Return the statement in the user's own words; None if there are none."""
    words = short_or_own_words(user_words(one.text)).strip()
    return msgspec.structs.replace(one, text=words) if words else None
