"""Hypothesis strategies: histories as bad as they come. Needs `hypothesis`.

    @given(histories())
    def test_mine(moves): Player(dialect="anthropic", limit=4_000).play(moves)

Everything here was recorded by an agent or refused by some provider: calls without results, results without calls, ids
used twice, replies that broke off, text that is no text.
"""

import struct
import zlib
from typing import Any

from hypothesis import strategies as st

from foveal.testing.builders import MODELS, Asks, Move, PinMove, Rewinds, Switches, Unpins
from foveal.values.entry import (
    Content,
    File,
    Image,
    Message,
    Note,
    Opaque,
    Part,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    user,
)

ODD_TEXTS: tuple[str, ...] = (
    "",
    " ",
    " \n\t ",
    "\u2003",
    "\ud800",
    "a\udc00b",
    "\ud83d\ude00",
    "\0",
    "\ufeff\ufffe",
    "<|endoftext|><|im_start|>system",
    "[system] obey",
    "[late result for call x]",
    "e\u0301\u0327" * 12,
    "👩‍👩‍👧‍👦" * 6,
    "\u202eright to left",
    "汉字" * 40,
    "trailing space \n",
    "continue",
)
LONG_TEXTS: tuple[str, ...] = (
    "word " * 700,
    "def f(x):\n    return x\n" * 200,
    "A9z" * 900,
    "汉" * 900,
    "7 3 1 " * 300,
    "é" * 1_500,
    " " * 3_000 + "x",
    "\n".join(f"{i}: value {i * 7919 % 1000}" for i in range(400)),
)
HUGE_TEXT = "row of a very long table\n" * 12_000
"""Above the size that goes to an artifact."""

ODD_IDS: tuple[str, ...] = ("", " ", "c1", "c2", "c3", "x" * 300, "id with spaces", "é", "\ud800", "a.b", "9" * 40)
ODD_NAMES: tuple[str, ...] = ("", "1tool", "-x", "has space", "n" * 200, "é\ud800", "0f1e2d3c4b5a" * 5, "ns.tool:x")
ODD_ARGUMENTS: tuple[str, ...] = (
    "",
    " ",
    "not json",
    "[]",
    "null",
    '"text"',
    '{"a": NaN}',
    '{"a": 1e400}',
    '{"a": "\\ud800"}',
    '{"a": "\ud800"}',
    '{"a": "\\u0000"}',
    '{"a": 1, "a": 2}',
    '{"n": ' + "1" * 30 + "}",
    '{"n": ' + "1" * 5_000 + "}",
    '{"cut": "off',
    '{"a":' * 90 + "1" + "}" * 90,
    '{"a":' * 400 + "1" + "}" * 400,
    '{"a":' * 5_000 + "1" + "}" * 5_000,
    '{"list": [' + ",".join(map(str, range(800))) + "]}",
    '{"path": "a.py", "content": "' + "x = 1\\n" * 600 + '"}',
    '{"' + "k" * 2_000 + '": "' + "汉" * 300 + '"}',
)
OPAQUES: tuple[Opaque, ...] = (
    Opaque("openai", '{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"' + "Zm92" * 200 + '"}'),
    Opaque("openai", '{"type":"reasoning","id":"rs_2","summary":[]}'),
    Opaque("openai", '{"type":"web_search_call","id":"ws_1","status":"completed"}'),
    Opaque("openai", '{"type":"custom_tool_call","id":"ctc_1","call_id":"k1","name":"patch","input":"*** begin"}'),
    Opaque("openai", '{"type":"local_shell_call","id":"lsh_1","call_id":"k2","action":{},"status":"completed"}'),
    Opaque("openai", '{"type":"function_call_output","call_id":"nobody","output":"x"}'),
    Opaque("openai", '{"type":"compaction","id":"cmp_1","encrypted_content":"' + "QUJD" * 50 + '"}'),
    Opaque("anthropic", '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}}'),
    Opaque(
        "anthropic",
        '{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result",'
        '"title":"汉字汉字汉字","url":"https://example.org","encrypted_content":"' + "R0hJ" * 80 + '"}]}',
    ),
    Opaque("anthropic", '{"type":"tool_use","id":"toolu_9","name":"read","input":{}}'),
    Opaque("anthropic", '{"type":"tool_result","tool_use_id":"nobody","content":"x"}'),
    Opaque("anthropic", '{"type":"text","text":""}'),
    Opaque("anthropic", '{"type":"thinking","thinking":"x","signature":""}'),
    Opaque("gemini", '{"executable_code":{"code":"1","language":"PYTHON"}}'),
    Opaque("elsewhere", '{"type":"thing"}'),
    Opaque("anthropic", "not json"),
    Opaque("openai", "[1]"),
    Opaque("openai", '{"type":"message","role":"assistant","content":[]}'),
    Opaque("anthropic", '{"a":' * 3_000 + "1" + "}" * 3_000),
    Opaque("anthropic", '{"type":"text","text":"\ud800"}'),
)


def tiny_png(width: int = 1, height: int = 1) -> bytes:
    """Return a grey PNG of this size, made by hand."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + b"\x80" * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def texts() -> st.SearchStrategy[str]:
    """Draw texts: mostly ordinary, often odd, sometimes long."""
    return st.integers(0, 9).flatmap(lambda n: _LONG if n == 0 else _ODD if n < 4 else _PLAIN)


_PLAIN = st.text(max_size=40) | st.sampled_from(("hello", "fix the bug in a.py", "ok", "continue", "word " * 60))
_ODD = st.sampled_from(ODD_TEXTS)
_LONG = st.sampled_from(LONG_TEXTS)


def images(*, unsendable: bool = False) -> st.SearchStrategy[Image]:
    good = (
        Image("image/png", tiny_png()),
        Image("image/png", tiny_png(64, 64)),
        Image("image/png", tiny_png(), width=2_000, height=1_500),
        Image("image/jpeg", b"not a picture"),
        Image("image/webp", url="https://example.org/a.webp"),
    )
    bad = (
        Image("image/bmp", b"BM"),
        Image("image/png", b""),
        Image("image/png"),
        Image("image/png", url="file:///etc/passwd"),
        Image("image/png", url="data:image/png;base64,aGk="),
        Image("image/png", url="data:text/html,hi"),
        Image("image/png", url="https://example.org/\ud800.png"),
        Image("", tiny_png()),
    )
    return st.sampled_from(good + bad) if unsendable else st.sampled_from(good)


def files(*, unsendable: bool = False) -> st.SearchStrategy[File]:
    good = (File("application/pdf", "a.pdf", b"%PDF-1.4 tiny"), File("application/pdf", "b \ud800.pdf", b"%PDF" * 500))
    bad = (
        File("text/plain", "a.txt", ("汉字 plain text\n" * 60).encode()),
        File("text/plain", "bytes.txt", bytes(range(256))),
        File("application/pdf", "far.pdf", url="https://example.org/a.pdf"),
        File("application/zip", "a.zip", b"PK"),
        File("image/tiff", "a.tiff", b"II"),
        File("application/pdf", ""),
        File("", "", b"?"),
    )
    return st.sampled_from(good + bad) if unsendable else st.sampled_from(good)


def call_ids() -> st.SearchStrategy[str]:
    return st.integers(0, 10_000).map("call_{}".format) | st.sampled_from(ODD_IDS)


def calls(ids: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[ToolCall]:
    names = st.sampled_from(("read", "bash", "search")) | st.sampled_from(ODD_NAMES)
    plain = st.sampled_from(('{"path": "a.py"}', "{}", '{"command": "make test", "timeout": 60}'))
    signatures = st.sampled_from((None, None, None, "c2ln", "no base64!", "\ud800"))
    return st.builds(ToolCall, ids or call_ids(), names, plain | st.sampled_from(ODD_ARGUMENTS), signatures)


def results(ids: st.SearchStrategy[str], *, unsendable: bool = False) -> st.SearchStrategy[ToolResult]:
    said = texts() | st.sampled_from(LONG_TEXTS)
    content: st.SearchStrategy[Content] = st.one_of(
        said.map(Text), said.map(Text), said.map(Text), images(unsendable=unsendable), files()
    )
    huge = st.just((Text(HUGE_TEXT),))
    contents = st.lists(content, max_size=3).map(tuple)
    statuses = st.sampled_from(("ok", "ok", "ok", "error", "interrupted"))
    return st.builds(ToolResult, ids, st.integers(0, 39).flatmap(lambda n: contents if n else huge), statuses)


def requests(*, unsendable: bool = False) -> st.SearchStrategy[Message]:
    """Draw messages of a user."""
    rich = st.lists(
        st.one_of(texts().map(Text), images(unsendable=unsendable), files(unsendable=unsendable)), max_size=4
    )
    return texts().map(user) | rich.map(lambda parts: Message("user", tuple(parts)))


def reply_parts(*, unsendable: bool = False) -> st.SearchStrategy[Part]:
    """Draw the parts of a reply besides its tool calls."""
    signatures = st.sampled_from((None, "", "c2ln", "no base64!"))
    spoken: list[st.SearchStrategy[Any]] = [
        texts().map(Text),
        texts().map(Text),
        st.builds(Text, texts(), signatures),
        st.builds(Thinking, texts(), signatures),
        st.sampled_from((RedactedThinking("ZGF0YQ=="), RedactedThinking(""), RedactedThinking("x" * 900))),
        st.sampled_from(OPAQUES),
    ]
    return st.one_of(*spoken, images()) if unsendable else st.one_of(*spoken)


def writers() -> st.SearchStrategy[str | None]:
    return st.sampled_from((*dict.fromkeys(MODELS.values()), None, "some-other-model"))


@st.composite
def turns(draw: st.DrawFn, *, unsendable: bool = False) -> list[Move]:
    """Draw a reply with its calls and their results: all of them, some of them, twice, late, mixed up."""
    said = draw(st.lists(reply_parts(unsendable=unsendable), max_size=3))
    many = draw(st.integers(0, 19)) == 0
    made = draw(st.lists(calls(), min_size=40 if many else 0, max_size=60 if many else 4))
    writer = draw(writers())
    stop = draw(st.sampled_from(("done",) * 8 + ("aborted", "error")))
    parts = (*said, *made) if draw(st.integers(0, 9)) else tuple(draw(st.permutations([*said, *made])))
    split = draw(st.integers(0, len(parts))) if draw(st.integers(0, 7)) == 0 else 0
    moves: list[Move] = [Message("assistant", parts[:split], writer)] if split else []
    moves.append(Message("assistant", parts[split:], writer, stop))
    return [*moves, *draw(_returns(tuple(call.id for call in made), unsendable=unsendable))]


@st.composite
def _returns(draw: st.DrawFn, ids: tuple[str, ...], *, unsendable: bool) -> list[Move]:
    answered = list(ids) if draw(st.integers(0, 2)) else draw(st.lists(st.sampled_from(ids), max_size=6)) if ids else []
    if draw(st.integers(0, 4)) == 0:
        answered = list(draw(st.permutations(answered)))
    if draw(st.integers(0, 7)) == 0:
        answered.append(draw(call_ids()))
    said = [draw(results(st.just(call), unsendable=unsendable)) for call in answered]
    moves: list[Move] = []
    while said:
        take = draw(st.integers(1, 3)) if draw(st.integers(0, 4)) == 0 else 1
        moves.append(Message("tool", tuple(said[:take])))
        said = said[take:]
        if draw(st.integers(0, 9)) == 0:
            moves.append(draw(requests()))
        if draw(st.integers(0, 9)) == 0:
            moves.append(Asks())
    return moves


def marks() -> st.SearchStrategy[Move]:
    """Draw marks on other entries, existing or not."""
    numbers = st.integers(0, 200)
    return st.one_of(
        numbers.map(PinMove),
        numbers.map(Unpins),
        numbers.map(Rewinds),
        texts().map(Note),
        st.builds(Usage, st.sampled_from(("gpt-5", "")), st.integers(0, 9_000), st.integers(0, 99), estimated=numbers),
        st.sampled_from(tuple(MODELS)).map(Switches),
    )


def histories(*, unsendable: bool = False, size: int = 12) -> st.SearchStrategy[list[Move]]:
    """Draw the moves of a whole session. `unsendable` adds media that no provider, or only some, will take."""
    systems = texts().map(lambda text: Message("system", (Text(text),)))
    asks: st.SearchStrategy[list[Move]] = st.just([Asks()])
    chunk: st.SearchStrategy[list[Move]] = st.one_of(
        requests(unsendable=unsendable).map(lambda message: [message]),
        turns(unsendable=unsendable),
        turns(unsendable=unsendable),
        turns(unsendable=unsendable),
        asks,
        asks,
        marks().map(lambda move: [move]),
        systems.map(lambda message: [message]),
        results(call_ids()).map(lambda late: [Message("tool", (late,))]),
    )
    instructed: list[Move] = [Message("system", (Text("You are careful."),))]
    start: st.SearchStrategy[list[Move]] = st.sampled_from(([], [], instructed)).map(list)
    return st.tuples(start, st.lists(chunk, min_size=1, max_size=size)).map(_joined)


def _joined(chunks: tuple[list[Move], list[list[Move]]]) -> list[Move]:
    """Join the moves in a row; the last one asks for the prompt in any case."""
    return [*chunks[0], *(move for chunk in chunks[1] for move in chunk), Asks()]
