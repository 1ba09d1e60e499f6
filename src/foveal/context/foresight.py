"""Foresight: when a person speaks, what was said before on the same subject and is folded stands behind their words.

A model that does not see that something was said cannot know that it should fetch it. So the words of a new request are looked
up in everything that folds cover, before the call. What is found stands in a frame after the last message, where it moves no
prefix, for this call only: the replies that follow have seen it. Nothing is shown that the prompt shows already, and nothing at
all if nothing fits well.

In a session with a memory, the other sessions of its scope are looked into as well, up to the moment of the request. What is
found there says from which session and day it is.

The answer follows from the log: the same request is shown the same passages, in another process too, and the blocks of a past
prompt are in the log like all others. Other sessions go on, so that a block with passages of theirs is taken from the log when
its prompt is asked for again.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from foveal import recall
from foveal.context.frame import SessionFrame
from foveal.context.memory import KIND, ScopeAccess, note_piece, quoted_rows, short_or_own_words, shown_name
from foveal.project.view import View
from foveal.recall import search
from foveal.summary.ledger.items import STATEMENT_CHARS
from foveal.text import guard
from foveal.text.stand_in import part_text
from foveal.text.user_words import user_words
from foveal.values.codec import sendable
from foveal.values.entry import Block, Text
from foveal.values.errors import StoreError
from foveal.values.shown import JOINT, MESSAGE_TOKENS, Atom, short_ref

if TYPE_CHECKING:
    from foveal.recall.search import EarlierPassage, RelatedPassage

NAME = "foresight"

_HEAD = "Said before in this conversation, on the same subject; what was said later holds:"

_EARLIER_HEAD = "Said in earlier sessions, on the same subject; what was said later holds:"

_ONE_SHARE = 0.6
"""Largest share of the room for one passage; of a longer one, the lines around its best line are shown."""

_SHOWN_SHARE = 0.6
"""A passage of which the prompt shows so much already is not shown again."""

_MOST_PASSAGES = 4
_MOST_EARLIER = 8
_LEAST_TOKENS = 48
_ATTEMPTS = 4

FindRelated: TypeAlias = Callable[[str, Sequence[int]], "list[RelatedPassage]"]
"""Returns passages on the subject of these words, best first, without entries at these positions of the log."""


class FoldedPast(msgspec.Struct, frozen=True):
    """Access to what a session's folds cover."""

    find: FindRelated
    is_on_branch: Callable[[str], bool]
    """Returns whether an entry is on the branch that the view shows: what was rewound is not looked back at."""
    safe: Callable[[str], str]
    """Neutralises a recorded text as the view does."""


class Foresight:
    """Finds the passages for each prompt of one session. They take at most `share` of the budget."""

    def __init__(
        self,
        share: float,
        past: FoldedPast,
        frame: SessionFrame,
        count: Callable[[str], int],
        scope: ScopeAccess | None = None,
    ) -> None:
        self._share, self._past, self._frame, self._count, self._scope = share, past, frame, count, scope
        self._last: tuple[object, Block | None] = None, None

    def block(self, view: View, *, most: int, left: int) -> Block | None:
        """Return the passages for the next call as a block, of a share of `most` tokens; None if there are none.

        It takes at most the tokens that are left before a fold is due: nothing is folded for its sake.
        """
        room = min(int(most * self._share), left)
        is_asked = bool(view.atoms) and view.atoms[-1].last == view.facts.last_user
        is_folded = any(atom.gap for atom in view.atoms)
        if room < _LEAST_TOKENS or not is_asked or not (is_folded or self._scope):
            return None
        words = _spoken(view.atoms[-1])
        if not words:
            return None
        looked = self._looked_at(view)
        key = view.facts.last_user, room, tuple(atom.gap.span for atom in view.atoms if atom.gap), looked
        if self._last[0] != key:
            self._last = key, self._recorded(view, looked, room) or self._made(view, words, room, looked)
        return self._last[1]

    def _looked_at(self, view: View) -> str:
        """Return the mark of a block with passages of other sessions: the request, and the state in which it was asked."""
        if self._scope is None or view.facts.last_user is None:
            return ""
        request, folds = short_ref(view.facts.last_user), view.facts.folds
        return f"; for request {request} after {folds} folds, the scope after {self._scope.changes()} changes"

    def _recorded(self, view: View, looked: str, room: int) -> Block | None:
        """Return the block that a prompt for the same request has shown, as the log has it; None if there is none."""
        blocks = view.facts.context.blocks if looked and view.facts.context else ()
        return next(
            (one for one in blocks if one.name == NAME and one.because.endswith(looked) and one.tokens <= room), None
        )

    def _made(self, view: View, words: str, room: int, looked: str) -> Block | None:
        shown = "\n".join(_texts(view))
        try:
            pieces, refs = self._folded(view, words, room, shown)
            if self._scope and view.facts.last_user:
                self._add_notes(self._scope, words, room, shown=shown, pieces=pieces, refs=refs)
                found = self._scope.find(words, view.facts.last_user)
                self._add_earlier(found, words, room, shown=shown, pieces=pieces, refs=refs)
        except StoreError:
            return None  # a shortcut: the model can still search, and is told what is wrong when it does
        if not refs:
            return None
        text = sendable(self._frame.wrap(NAME, "\n".join(pieces), {}))
        told = f"what was said on the same subject: {', '.join(refs)}; at most {self._share:.0%} of the budget"
        because = f"{told}{looked}"
        tokens = self._count(text) + JOINT.tokens + MESSAGE_TOKENS
        return Block(NAME, "fence", "user", "tail", text, tokens, because, tokens) if tokens <= room else None

    def _folded(self, view: View, words: str, room: int, shown: str) -> tuple[list[str], list[str]]:
        """Return the passages that folds of this session cover, under a heading, and their references; nothing if
        there are none."""
        pieces, refs = [_HEAD], list[str]()
        if not any(atom.gap for atom in view.atoms):
            return [], refs
        for passage in self._past.find(words, [item.seq for atom in view.atoms for item in atom.items]):
            if len(refs) == _MOST_PASSAGES:
                break
            if _is_shown(passage.text, shown) or not self._is_folded(view, passage):
                continue
            left = room - self._tokens("\n".join(pieces))
            ref = short_ref(passage.entry, passage.part)
            piece = self._piece(passage, words, min(left, int(room * _ONE_SHARE)), name=f"{passage.role}, ref {ref}")
            if piece:
                pieces.append(piece)
                refs.append(ref)
        return (pieces if refs else []), refs

    def _add_notes(
        self, scope: ScopeAccess, words: str, room: int, *, shown: str, pieces: list[str], refs: list[str]
    ) -> None:
        """Add notes of the scope that are not shown already, each whole or not at all."""
        notes = [note for note in scope.notes() if not _is_shown(note.text, shown)]
        texts = [f"{note.key} {note.text}" for note in notes]
        for place in search.related_texts(texts, words) if notes else ():
            piece = note_piece(notes[place], scope.safe)
            if self._tokens("\n".join((*pieces, piece))) <= room:
                pieces.append(piece)
                refs.append(f"note {shown_name(notes[place].key)}")

    def _add_earlier(
        self,
        found: "Sequence[EarlierPassage]",
        words: str,
        room: int,
        *,
        shown: str,
        pieces: list[str],
        refs: list[str],
    ) -> None:
        """Add passages of other sessions that are not shown already, under a heading of their own."""
        head = [_EARLIER_HEAD]
        for one in found[:_MOST_EARLIER]:
            passage = one.passage
            is_said = passage.role == "assistant" or bool(user_words(passage.text))
            if not is_said or _is_shown(passage.text, shown):
                continue
            left = room - self._tokens("\n".join((*pieces, *head)))
            ref = recall.memory_ref(one.session, short_ref(passage.entry, passage.part))
            where = f"session {shown_name(one.session)}, {recall.day_of(one.time_ms)}"
            name = f"{passage.role}, {where}, ref {ref}"
            piece = self._piece(passage, words, min(left, int(room * _ONE_SHARE)), name=name)
            if piece:
                pieces += [*head, piece]
                refs.append(ref)
                head = []

    def _tokens(self, text: str) -> int:
        return self._count(self._frame.wrap(NAME, text, {})) + JOINT.tokens + MESSAGE_TOKENS

    def _is_folded(self, view: View, passage: "RelatedPassage") -> bool:
        """Return whether a fold covers the passage, and somebody really said it: not a harness in the user's place."""
        place = view.place(passage.entry)
        if place is not None and view.atoms[place].gap is None:
            return False
        is_said = passage.role == "assistant" or bool(user_words(passage.text))
        return is_said and self._past.is_on_branch(passage.entry)

    def _piece(self, passage: "RelatedPassage", words: str, most: int, *, name: str) -> str:
        """Return the passage under its name, or the lines around its best one; empty if there is no room."""
        chars = len(passage.text)
        for _ in range(_ATTEMPTS):
            line, text = _around(passage.text, words, chars)
            where = f", line {passage.line + line}" if passage.line + line > 1 else ""
            piece = f"[{name}{where}]\n{quoted_rows(text, self._past.safe)}"
            if (tokens := self._count(piece) + 1) <= most:
                return piece
            chars = int(len(text) * most / tokens * 0.9) - 16
            if chars < STATEMENT_CHARS // 4:
                break
        return ""


def _spoken(request: Atom) -> str:
    """Return the user's own words in a request."""
    parts = (shown.part for item in request.items for shown in item.shown)
    said = (user_words(guard.restore(part.text)) for part in parts if isinstance(part, Text))
    return "\n".join(map(short_or_own_words, said)).strip()


def _texts(view: View) -> Iterator[str]:
    """Yield all texts that the view shows, and what stands in the fence of its memory."""
    for atom in view.atoms:
        if atom.gap:
            yield atom.gap.text
        yield from (part_text(shown.part) for item in atom.items for shown in item.shown)
    yield from (fence.text for fence in view.facts.fences if fence.kind == KIND.name)


def _is_shown(text: str, shown: str) -> bool:
    lines = [line for one in text.split("\n") if (line := one.strip())]
    return sum(len(line) for line in lines if line in shown) >= _SHOWN_SHARE * sum(map(len, lines))


def _around(text: str, words: str, chars: int) -> tuple[int, str]:
    """Return so many characters around the line with most of the words, in whole lines, and how many lines are before them."""
    if len(text) <= chars:
        return 0, text.strip("\n")
    wanted = {word for word in words.casefold().split() if len(word) > 1}
    lines = text.split("\n")
    best = max(range(len(lines)), key=lambda at: (sum(word in lines[at].casefold() for word in wanted), -at))
    first = last = best
    size = len(lines[best])
    while size < chars and (first > 0 or last < len(lines) - 1):
        if last < len(lines) - 1 and (last - best <= best - first or first == 0):
            last += 1
            size += len(lines[last]) + 1
        else:
            first -= 1
            size += len(lines[first]) + 1
    return first, "\n".join(lines[first : last + 1])[:chars].strip("\n")
