"""Foresight: when a person speaks, what was said before on the same subject and is folded stands behind their words.

A model that does not see that something was said cannot know that it should fetch it. So the words of a new request are looked
up in everything that folds cover, before the call. What is found stands in a frame after the last message, where it moves no
prefix, for this call only: the replies that follow have seen it. Nothing is shown that the prompt shows already, and nothing at
all if nothing fits well.

The answer follows from the log: the same request is shown the same passages, in another process too, and the blocks of a past
prompt are in the log like all others.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from foveal.context.frame import SessionFrame
from foveal.project.view import View
from foveal.summary.ledger.items import STATEMENT_CHARS
from foveal.summary.relevance.render import quote_line
from foveal.text import guard
from foveal.text.shorten.message import own_words
from foveal.text.stand_in import part_text
from foveal.text.user_words import user_words
from foveal.values.codec import sendable
from foveal.values.entry import Block, Text
from foveal.values.errors import StoreError
from foveal.values.shown import JOINT, MESSAGE_TOKENS, Atom, short_ref

if TYPE_CHECKING:
    from foveal.recall.search import RelatedPassage

NAME = "foresight"

_HEAD = "Said before in this conversation, on the same subject; what was said later holds:"

_ONE_SHARE = 0.6
"""Largest share of the room for one passage; of a longer one, the lines around its best line are shown."""

_SHOWN_SHARE = 0.6
"""A passage of which the prompt shows so much already is not shown again."""

_MOST_PASSAGES = 4
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

    def __init__(self, share: float, past: FoldedPast, frame: SessionFrame, count: Callable[[str], int]) -> None:
        self._share, self._past, self._frame, self._count = share, past, frame, count
        self._last: tuple[object, Block | None] = None, None

    def block(self, view: View, *, most: int, left: int) -> Block | None:
        """Return the passages for the next call as a block, of a share of `most` tokens; None if there are none.

        It takes at most the tokens that are left before a fold is due: nothing is folded for its sake.
        """
        room = min(int(most * self._share), left)
        is_asked = bool(view.atoms) and view.atoms[-1].last == view.facts.last_user
        if room < _LEAST_TOKENS or not is_asked or not any(atom.gap for atom in view.atoms):
            return None
        words = _spoken(view.atoms[-1])
        if not words:
            return None
        key = view.facts.last_user, room, tuple(atom.gap.span for atom in view.atoms if atom.gap)
        if self._last[0] != key:
            self._last = key, self._made(view, words, room)
        return self._last[1]

    def _made(self, view: View, words: str, room: int) -> Block | None:
        visible = [item.seq for atom in view.atoms for item in atom.items]
        try:
            found = self._past.find(words, visible)
        except StoreError:
            return None  # a shortcut: the model can still search, and is told what is wrong when it does
        shown = "\n".join(_texts(view))
        pieces, refs = [_HEAD], list[str]()
        for passage in found:
            if len(refs) == _MOST_PASSAGES:
                break
            if _is_shown(passage.text, shown) or not self._is_folded(view, passage):
                continue
            left = room - self._tokens("\n".join(pieces))
            piece = self._piece(passage, words, min(left, int(room * _ONE_SHARE)))
            if piece:
                pieces.append(piece)
                refs.append(short_ref(passage.entry, passage.part))
        if not refs:
            return None
        text = sendable(self._frame.wrap(NAME, "\n".join(pieces), {}))
        because = f"what was said on the same subject: {', '.join(refs)}; at most {self._share:.0%} of the budget"
        tokens = self._count(text) + JOINT.tokens + MESSAGE_TOKENS
        return Block(NAME, "fence", "user", "tail", text, tokens, because, tokens) if tokens <= room else None

    def _tokens(self, text: str) -> int:
        return self._count(self._frame.wrap(NAME, text, {})) + JOINT.tokens + MESSAGE_TOKENS

    def _is_folded(self, view: View, passage: "RelatedPassage") -> bool:
        """Return whether a fold covers the passage, and somebody really said it: not a harness in the user's place."""
        place = view.place(passage.entry)
        if place is not None and view.atoms[place].gap is None:
            return False
        is_said = passage.role == "assistant" or bool(user_words(passage.text))
        return is_said and self._past.is_on_branch(passage.entry)

    def _piece(self, passage: "RelatedPassage", words: str, most: int) -> str:
        """Return the passage under its reference, or the lines around its best one; empty if there is no room."""
        chars = len(passage.text)
        for _ in range(_ATTEMPTS):
            line, text = _around(passage.text, words, chars)
            where = f", line {passage.line + line}" if passage.line + line > 1 else ""
            rows = "\n".join(map(quote_line, self._past.safe(sendable(text)).split("\n")))
            piece = f"[{passage.role}, ref {short_ref(passage.entry, passage.part)}{where}]\n{rows}"
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
    return "\n".join(text if len(text) <= STATEMENT_CHARS else own_words(text) for text in said).strip()


def _texts(view: View) -> Iterator[str]:
    """Yield all texts that the view shows."""
    for atom in view.atoms:
        if atom.gap:
            yield atom.gap.text
        yield from (part_text(shown.part) for item in atom.items for shown in item.shown)


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
