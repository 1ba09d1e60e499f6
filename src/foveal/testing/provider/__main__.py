"""`python -m foveal.testing.provider PROGRAM.py …`: run a Python program against a provider that improvises, without a key."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from foveal.dialects import find_dialect
from foveal.dialects.tools import read_tools
from foveal.testing.provider import Call, ReceivedRequest, ScriptedProvider, Turn
from foveal.values.entry import Message

_numbers = count(1)


def improvise(request: ReceivedRequest) -> Turn:
    """Return a call of the first tool after a user's message, and a short text after a result."""
    asked = find_dialect(request.dialect).reader.request(request.body)
    newest: Message | None = asked.messages[-1] if asked.messages else None
    tools = read_tools(asked.tools)
    if newest and newest.role == "user" and tools:
        tool = tools[0]
        return Turn("", (Call(f"call_{os.getpid()}_{next(_numbers)}", tool.name, _arguments(tool.parameters)),))
    return Turn("This is the scripted provider: nobody thought about it.")


def _arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of the right types for the required properties."""
    samples: dict[str, Any] = {
        "string": "README.md",
        "integer": 1,
        "number": 1.0,
        "boolean": True,
        "array": [],
        "object": {},
    }
    properties: dict[str, dict[str, Any]] = schema.get("properties") or {}
    wanted: Sequence[str] = schema.get("required") or list(properties)
    return {
        name: (field.get("enum") or [samples.get(str(field.get("type")).lower(), "")])[0]
        for name, field in properties.items()
        if name in wanted
    }


def main(words: Sequence[str]) -> int:
    """Run the program with the SDKs' addresses and keys set, and return its exit code."""
    if not words:
        sys.stderr.write("usage: python -m foveal.testing.provider PROGRAM.py [ARGUMENT …]\n")
        return 2
    with ScriptedProvider(improvise=improvise) as provider:
        return subprocess.run(  # noqa: S603 - the program that was named
            [sys.executable, *words], env=os.environ | provider.environment, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
