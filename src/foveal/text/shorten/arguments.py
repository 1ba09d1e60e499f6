"""Call arguments with their long strings shortened: still a JSON object, still naming the act and its object."""

from typing import Any, cast

import msgspec

from foveal.text.shorten.allowance import CountTokens
from foveal.text.shorten.head_tail import head_tail

_LEAST = 12


def shorten_arguments(arguments: str, tokens: int, count: CountTokens, ref: str) -> str | None:
    """Return a JSON object of at most `tokens`; None if the arguments are no object, or if it would not be shorter."""
    try:
        value = msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    each = tokens
    while each >= _LEAST:
        text = msgspec.json.encode(_shortened(value, each, count, ref)).decode()
        if count(text) <= tokens:
            # Without a reference in it, only white space was left out: that is no stand-in.
            return text if len(text) < len(arguments) and ref in text else None
        each //= 2
    text = msgspec.json.encode({"folded": f"[arguments not shown; ref {ref}]"}).decode()
    return text if len(text) < len(arguments) and count(text) <= tokens else None


def _shortened(value: Any, tokens: int, count: CountTokens, ref: str) -> Any:
    match value:
        case str() if len(value) > tokens and count(value) > tokens:
            return head_tail(value, tokens, count, ref) or f"[{len(value):,} characters not shown; ref {ref}]"
        case list():
            items = cast("list[Any]", value)
            return [_shortened(item, tokens, count, ref) for item in items]
        case dict():
            pairs = cast("dict[str, Any]", value)
            return {key: _shortened(item, tokens, count, ref) for key, item in pairs.items()}
        case _:
            return value
