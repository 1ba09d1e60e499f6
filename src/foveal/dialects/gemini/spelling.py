"""The two spellings of Gemini's keys: that of the Python SDK, and that of the wire."""

from functools import cache


@cache
def camel_case(key: str) -> str:
    """Return the wire's spelling of a key in the SDK's: `inlineData` for `inline_data`."""
    head, *rest = key.split("_")
    return head + "".join(word.capitalize() for word in rest)


def both_spellings(*keys: str) -> frozenset[str]:
    """Return the keys in the spelling of the SDK and in that of the wire."""
    return frozenset((*keys, *map(camel_case, keys)))
