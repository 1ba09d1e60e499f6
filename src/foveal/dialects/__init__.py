"""The providers' wire formats, read and written. Only this package knows them.

    openai_chat        OpenAI Chat Completions, and the many servers that speak it
    openai_responses   OpenAI Responses
    anthropic          Anthropic Messages
    gemini             Gemini, as the google-genai SDK takes it

Each has a folder: `write.py` (messages → wire, and `DIALECT`), `read.py` (wire → messages), `stream.py` (events → a reply),
`filter.py` (replies and events without calls to own tools), `rules.py` (the reasons for which the provider refuses a request).
"""

from difflib import get_close_matches
from functools import cache
from importlib import import_module

from foveal.dialects.port import Dialect
from foveal.values.errors import BadInput

DIALECTS = ("openai_chat", "openai_responses", "anthropic", "gemini")


@cache
def find_dialect(name: str) -> Dialect:
    """Return the dialect of this name, loaded by the first call. Raise `BadInput` with the nearest name for an unknown one."""
    if name in DIALECTS:
        return import_module(f"foveal.dialects.{name}.write").DIALECT
    near = get_close_matches(name, DIALECTS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise BadInput(f"there is no dialect {name!r}; known are {', '.join(DIALECTS)}.{hint}")


__all__ = ["DIALECTS", "Dialect", "find_dialect"]
