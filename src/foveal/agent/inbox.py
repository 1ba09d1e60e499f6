"""The inbox of a session: messages for a run from anywhere, durable, taken by whoever works at the run.

Only one process may write the log of a session; others say what they want here. The inbox is a session of its own, below
the other: it is deleted together with it.
"""

import time
from base64 import b32encode
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from typing import TypeAlias

import msgspec

from foveal.agent.run_marks import InboxRead, encoded_words
from foveal.agent.tools import UserAnswer
from foveal.session.options import Clock
from foveal.stores import rows as log
from foveal.stores.port import Draft, Row, Store, Writer
from foveal.text.redaction import Redactor
from foveal.values.entry import Note
from foveal.values.errors import NotFound, SessionHeld

_NAME = ".inbox"
_PREFIX = "foveal inbox "
_ATTEMPTS, _PAUSE_S = 100, 0.02
"""Another process holds an inbox for some milliseconds, while it writes one message."""


NO_FILES = msgspec.Raw()
"""The files of a message that came without any."""
NOTHING_READ = InboxRead(0)
"""The mark of an inbox of which nothing was taken."""


class _Letter(msgspec.Struct, frozen=True, tag_field="is", omit_defaults=True):
    """Shared settings of all messages of an inbox."""


class Steering(_Letter, frozen=True, tag="steer"):
    """Words of the user for a run under way, taken before anything else is done."""

    text: str
    files: msgspec.Raw = NO_FILES
    """Files that come with them, as `run_files.posted_files` writes them."""


class FollowUp(_Letter, frozen=True, tag="follow"):
    """Words of the user for after the answer."""

    text: str
    files: msgspec.Raw = NO_FILES
    """Files that come with them, as `run_files.posted_files` writes them."""


class QuestionReply(_Letter, frozen=True, tag="answer"):
    """An answer to an open question."""

    answer: UserAnswer


class StopRequest(_Letter, frozen=True, tag="stop"):
    """The wish that a run ends (`cancelled`) or rests (`paused`)."""

    status: str
    reason: str = ""


Letter: TypeAlias = Steering | FollowUp | QuestionReply | StopRequest
_DECODER = msgspec.json.Decoder(Letter)


def inbox_of(session: str) -> str:
    """Return the name of the inbox of a session."""
    return f"{session}/{_NAME}"


def is_inbox(session: str) -> bool:
    """Return whether a session is an inbox of another one."""
    return session.endswith(f"/{_NAME}")


def post(
    store: Store,
    session: str,
    letter: Letter,
    *,
    key: str = "",
    redact: Redactor | None = None,
    may_be_put: Callable[[Letter], bool] | None = None,
    clock: Clock = Clock(),  # noqa: B008 - a frozen value
) -> None:
    """Put a message into the inbox of a session, without the secrets in it if somebody looks for them. Durable when it returns.

    With a `key`, the same message under the same key is put there once, however often it is posted. `may_be_put` is asked about
    the message, as it would be read again, while nobody else can put one there.
    """
    name = inbox_of(session)
    words = encoded_words(letter, redact)
    text = _PREFIX + words
    writer = _acquired(store, name)
    try:
        if may_be_put is not None and not may_be_put(_DECODER.decode(words)):
            return
        card = next(iter(store.cards(name)), None)
        payload = log.encoded(Note(text)).payload
        entry = b32encode(sha256(key.encode()).digest())[:26].decode().lower() if key else clock.new_id()
        writer.append([Draft(entry, card.head if card else None, clock.now_ms(), "user", payload)])
    finally:
        writer.release()


def _acquired(store: Store, name: str) -> Writer:
    """Become the writer of an inbox, after others who are writing to it."""
    for _ in range(_ATTEMPTS):
        with suppress(SessionHeld):
            return store.acquire(name)
        time.sleep(_PAUSE_S)
    return store.acquire(name)


def letters(store: Store, session: str, after: InboxRead = NOTHING_READ) -> list[tuple[InboxRead, Letter]]:
    """Return the messages after the one that was read last, each with the mark that it was read.

    An inbox that has not that message was begun anew, since the one before was deleted or has stayed in another store: all of
    its messages are new.
    """
    card = next(iter(store.cards(inbox_of(session))), None)
    if card is None or card.head == after.entry:
        return []
    return list(_letters_in(_rows(store, session, after.place if _has(store, session, after) else 0), session))


def _has(store: Store, session: str, read: InboxRead) -> bool:
    """Return whether the inbox of a session has a message that was read, at its place."""
    rows = _rows(store, session, read.place - 1, read.place) if read.place else []
    return any(read.entry in ("", row.id) for row in rows)


def letter_at(store: Store, session: str, place: int) -> Letter | None:
    """Return the message at a place of the inbox of a session; None if there is none."""
    return next((letter for _, letter in _letters_in(_rows(store, session, place - 1, place), session)), None)


def _rows(store: Store, session: str, after: int, upto: int | None = None) -> list[Row]:
    try:
        return list(store.rows(inbox_of(session), after=after, upto=upto))
    except NotFound:  # nobody has written to it yet
        return []


def _letters_in(rows: Iterable[Row], session: str) -> Iterator[tuple[InboxRead, Letter]]:
    for row in rows:
        body = log.to_entry(row, inbox_of(session)).body
        if isinstance(body, Note) and body.text.startswith(_PREFIX):
            with suppress(msgspec.MsgspecError, RecursionError):  # a message of a newer Foveal
                yield InboxRead(row.seq, row.id), _DECODER.decode(body.text.removeprefix(_PREFIX))
