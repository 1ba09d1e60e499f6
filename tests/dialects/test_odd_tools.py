"""Tool definitions that no provider has: each is refused in words, before anything is sent."""

from typing import Any

import pytest

from foveal.dialects.tools import read_tools
from foveal.values.errors import BadInput

ODD: list[Any] = [
    {"name": "x", "type": {}},
    {"name": "x", "type": ["function"]},
    {"type": 1},
    {"functionDeclarations": 5},
    {"functionDeclarations": "read"},
    {"function_declarations": ["read"]},
    {"function_declarations": [None]},
    {"function_declarations": {"name": "read"}},
]


@pytest.mark.parametrize("tool", ODD, ids=repr)
def test_a_definition_that_is_none_is_refused(tool: Any) -> None:
    """A type that is no text, and declarations that are no functions, are the caller's mistake and told as such."""
    with pytest.raises(BadInput):
        read_tools([tool])


def test_a_hosted_tool_may_say_anything_of_itself() -> None:
    """A provider's own tool is named by its type where its fields name nothing."""
    (spec,) = read_tools([{"type": "web_search", "web_search": 5}])
    assert (spec.name, spec.hosted) == ("web_search", {"type": "web_search", "web_search": 5})
