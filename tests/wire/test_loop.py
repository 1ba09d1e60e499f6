"""The whole loop of an agent, through the providers' own SDKs, against a server that refuses what they refuse."""

import struct
import zlib

import pytest

from foveal import Image, Policy, result, system, user
from foveal.stores import Store
from foveal.testing.provider import ScriptedProvider
from foveal.testing.provider.replies import Call, Turn

from .conftest import DIALECTS
from .lines import Line, read_calls

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read",
            "description": "Read a file.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        },
    }
]


def png(width: int = 8, height: int = 8) -> bytes:
    """The smallest picture that every provider takes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(b"".join(b"\0" + b"\xff\x88\x00" * width for _ in range(height)))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def listing(name: str, lines: int) -> str:
    return "\n".join(f"{name}:{i} value_{i} = compute(item_{i * 7}, {i})" for i in range(lines))


@pytest.mark.parametrize(
    ("line", "named"),
    [*((dialect, True) for dialect in DIALECTS), pytest.param("gemini", False, id="gemini-calls without ids")],
    indirect=["line"],
)
def test_every_request_of_a_long_tool_loop_arrives_unchanged_and_is_accepted(
    provider: ScriptedProvider, line: Line, store: Store, named: bool
) -> None:
    """50 parallel calls, errors, images, an interruption and folds: no request is refused, none is altered on the way."""
    image = Image("image/png", png())
    scan = read_calls("scan", 50)
    if not named:
        scan = tuple(Call("", call.name, call.arguments) for call in scan)
    provider.script(
        Turn("I look at it.", (Call("first"),), thinking="Where to begin?"),
        Turn("", scan, thinking="All at once."),
        Turn("Three more.", read_calls("three", 3), thinking="Nearly."),
        Turn("", (Call("shot", "read", {"path": "shot.png"}),), thinking="Look."),
        Turn("", (Call("broken"),), thinking="Again."),
        Turn("", (Call("last"), Call("also")), thinking="Once more."),
        Turn("Done.\n", thinking="That is all."),
        Turn("You are welcome."),
    )
    session = line.session(store, policy=Policy(max_context_tokens=9_000))
    folds = 0

    def turn() -> list[Call]:
        nonlocal folds
        prompt, reply = line.send(provider, session, TOOLS, **line.thinks)
        assert prompt.tokens <= session.why().limit
        folds += prompt.fold is not None
        return line.calls(reply)

    session.append(system("You repair programs."))
    session.append(user("Find the bug in this picture.", image))
    (first,) = turn()
    session.append(result(first.id, listing("first.py", 150)))
    calls = turn()
    assert len(calls) == 50
    for i, call in enumerate(calls):
        content = [listing(f"{i}.py", 4)] if i != 7 else ["a picture", image]
        session.append(result(call.id, *content, status="error" if i == 3 else "ok"))
    three = turn()
    session.append(result(three[1].id, "only this one came back"))
    session.append(user("Stop. Look at the screenshot first."))
    (shot,) = turn()
    session.append(result(shot.id, image))
    (broken,) = turn()
    session.append(result(broken.id, "Traceback: no such file", image, status="error"))
    last = turn()
    session.extend(result(call.id, listing("last.py", 120)) for call in reversed(last))
    assert turn() == []
    session.append(user("Thank you."))
    assert turn() == []

    assert len(provider.arguments) == 8
    assert folds >= 1
