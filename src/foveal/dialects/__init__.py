"""The providers' wire formats. Only this package knows them."""

from difflib import get_close_matches

from foveal.dialects.anthropic import Anthropic
from foveal.dialects.gemini import Gemini
from foveal.dialects.openai_chat import OpenAIChat
from foveal.dialects.openai_responses import OpenAIResponses
from foveal.dialects.port import Dialect
from foveal.values.errors import BadInput

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (OpenAIChat(), OpenAIResponses(), Anthropic(), Gemini())
}


def find_dialect(name: str) -> Dialect:
    """The dialect of this name; an error that names the nearest one otherwise."""
    if name in DIALECTS:
        return DIALECTS[name]
    near = get_close_matches(name, DIALECTS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise BadInput(f"there is no dialect {name!r}; known are {', '.join(DIALECTS)}.{hint}")


__all__ = ["DIALECTS", "Dialect", "find_dialect"]
