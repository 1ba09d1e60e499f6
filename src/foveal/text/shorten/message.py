"""A user's long message at a lower level of detail: the words stay, the pasted bulk between them is shortened.

Why does this fail?            words: kept
```                            bulk: shortened by the level that suits it, with a note and the reference
400 lines of a log
```
I ran it with -v.              words: kept
"""

import re
from itertools import groupby

import msgspec

from foveal.text.guard.seals import plain, sealable
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.choose import LEVELS, stand_in
from foveal.text.shorten.head_tail import sealed_head_tail

_BLOCK = re.compile(r"```.*?(?:```|\Z)\n?|\S.*?(?:\n\s*\n|(?=```)|\Z)|\s+", re.DOTALL)
"""A fenced block, or text up to a blank line or a fence."""

_WORDS_CHARS = 1_200
"""A paragraph that people write by hand is shorter."""

_WORDS_LINES = 8

_LETTERS_SHARE = 0.75
"""Letters and spaces in sentences make up more of the text; in logs, code and tables less."""

_LEAST_TOKENS = 60
"""Room of a bulk that is shortened; below it a stand-in is little more than its note."""


def shorten_message(text: str, room: Allowance) -> str | None:
    """Return the message in at most `room.tokens`, its words before its pasted bulk; None if that is not possible."""
    return stand_in(sealable(text), room, _shrink)


def own_words(text: str) -> str:
    """Return the sentences of a message that a person may have written for it, without what was pasted between them."""
    return "".join(block for block in _BLOCK.findall(text) if _is_words(block))


def is_pasted(text: str) -> bool:
    """Return whether most of a message, or of its beginning, is pasted bulk and not a person's own sentences."""
    return 2 * len(own_words(text)) < len(text)


def _shrink(text: str, room: Allowance) -> str | None:
    blocks = [(_is_words(block), block) for block in _BLOCK.findall(text)]
    runs = [(is_words, "".join(block for _, block in run)) for is_words, run in groupby(blocks, lambda one: one[0])]
    words = sum(room.count(run) for is_words, run in runs if is_words)
    bulks = [len(run) for is_words, run in runs if not is_words]
    left = room.tokens - words
    if left < _LEAST_TOKENS * max(1, len(bulks)) or not bulks:
        # All of it is words, or there are too many of them: the beginning and the end tell most.
        return sealed_head_tail(text, room.tokens, room.count, room.ref)
    shown = "".join(run if is_words else _shortened(run, left * len(run) // sum(bulks), room) for is_words, run in runs)
    is_small = room.count(plain(shown)) <= room.tokens
    return shown if is_small else sealed_head_tail(text, room.tokens, room.count, room.ref)


def _is_words(block: str) -> bool:
    """Return whether a block is sentences that a person may have written for this message."""
    if block.startswith("```") or len(block) > _WORDS_CHARS or block.strip().count("\n") >= _WORDS_LINES:
        return False
    return sum(char.isalpha() or char.isspace() for char in block) >= _LETTERS_SHARE * len(block)


def _shortened(bulk: str, tokens: int, room: Allowance) -> str:
    """Return a pasted text in about so many tokens, on lines of its own, with its notes sealed."""
    small = msgspec.structs.replace(room, tokens=max(_LEAST_TOKENS, tokens - 8))
    for level in LEVELS:
        if level.fits(bulk, "") and (shown := level.shrink(bulk, small)) is not None:
            return f"{shown.strip()}\n\n"
    cut = sealed_head_tail(bulk, small.tokens, small.count, small.ref)
    return f"{cut.strip()}\n\n" if cut else bulk
