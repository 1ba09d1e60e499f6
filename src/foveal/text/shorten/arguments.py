"""Call arguments with their long strings shortened: still a JSON object, still naming the act and its object."""

from typing import Any

import msgspec

from foveal.text.shorten.allowance import CountTokens
from foveal.text.shorten.head_tail import head_tail
from foveal.values.codec import map_strings

_LEAST = 12


def shorten_arguments(arguments: str, tokens: int, count: CountTokens, ref: str) -> str | None:
    """Return a JSON object of at most `tokens`; None if the arguments are no object, or if it would not be shorter.

    Strings are only cut, so that arguments without a live form give none.
    """
    try:
        value = msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    each = tokens

    def shortened(text: str) -> str:
        if len(text) <= each or count(text) <= each:
            return text
        return head_tail(text, each, count, ref) or f"[{len(text):,} characters not shown; ref {ref}]"

    while each >= _LEAST:
        text = msgspec.json.encode(map_strings(value, shortened)).decode()
        if count(text) <= tokens:
            # Without a reference in it, only white space was left out: that is no stand-in.
            return text if len(text) < len(arguments) and ref in text else None
        each //= 2
    text = msgspec.json.encode({"folded": f"[arguments not shown; ref {ref}]"}).decode()
    return text if len(text) < len(arguments) and count(text) <= tokens else None
