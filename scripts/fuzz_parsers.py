"""Feed parsers with mutated bytes, and keep those that reach new places: guided by coverage, without a seed from any recording.

    python scripts/fuzz_parsers.py --runs 100000 [--seed N] [--only sse request]

A parser takes bytes of strangers: a body that a client sends, a stream of a provider, a row, an exported session, a skill's head,
the arguments of a call. It returns, or raises an error of ours; anything else is a crash, and printed with its input.
"""

import argparse
import io
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec

sys.path.insert(0, str(Path(__file__).parent))

from coverage_probes import put_probes

from foveal.dialects import find_dialect
from foveal.dialects.reply_filter import ReplyFilter
from foveal.dialects.sse import SseDecoder
from foveal.integrations.client_request import ClientRequest
from foveal.record.client_list import ClientList
from foveal.stores.memory import MemoryStore
from foveal.stores.portable import export_session, import_session
from foveal.testing.builders import MODELS, open_session
from foveal.text.calls.reads import accesses
from foveal.text.guard import neutralise
from foveal.text.plain_yaml import plain_yaml
from foveal.values.codec import decode, encode
from foveal.values.entry import ToolCall, assistant, user
from foveal.values.errors import FovealError

DIALECTS = sorted(MODELS)
ROOMS = ("dialects", "integrations", "models", "record", "stores", "text", "values")
"""Rooms of the product that parsers are in, or call: the places that guide are theirs."""


class Parser(NamedTuple):
    """A reader of bytes, inputs to begin with, and the errors that it may raise."""

    read: Callable[[bytes], object]
    begins: Sequence[bytes]
    errors: tuple[type[Exception], ...] = (FovealError,)


def _read_stream(data: bytes) -> None:
    decoder, dialect = SseDecoder(), find_dialect(DIALECTS[data[0] % len(DIALECTS)] if data else "anthropic")
    seen = ReplyFilter(dialect.reader, {"recall_context"}, {"stream": True})
    for event in (*decoder.feed(data[1:]), *decoder.end()):
        seen.feed(event)
    seen.end_round()


def _read_request(data: bytes) -> None:
    request = ClientRequest.read(DIALECTS[data[0] % len(DIALECTS)] if data else "anthropic", data[1:], "gpt-5")
    ClientList(request.dialect, request.model).read(list(request.messages))


def _exported() -> bytes:
    store, stream = MemoryStore(), io.BytesIO()
    with open_session(store, "s") as session:
        session.append(user("x"))
    export_session(store, "s", stream)
    return stream.getvalue()


PARSERS: dict[str, Parser] = {
    "sse": Parser(
        _read_stream,
        [
            b'0event: message_start\ndata: {"type": "message_start", "message": {"role": "assistant", "content": []}}\n\n',
            b'2data: {"choices": [{"delta": {"content": "x", "tool_calls": [{"index": 0, "id": "c", "function": {}}]}}]}\n\n',
            b'1data: {"candidates": [{"content": {"parts": [{"text": "x"}, {"functionCall": {"name": "f"}}]}}]}\r\n\r\n',
            b'3event: response.completed\ndata: {"type": "response.completed", "response": {"output": [{"type": "x"}]}}\n\n',
        ],
    ),
    "request": Parser(
        _read_request,
        [
            b'0{"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}], "tools": [{}]}',
            b'1{"contents": [{"role": "user", "parts": [{"text": "x"}, {"functionResponse": {"name": "f", "response": {}}}]}]}',
            b'2{"messages": [{"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{"}}]}]}',
            b'3{"input": [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}], "tools": [{"type": "x"}]}',
        ],
    ),
    "row": Parser(
        decode,
        [encode(user("x")), encode(assistant("", ToolCall("c", "f", "{}")))],
        (FovealError, msgspec.MsgspecError),
    ),
    "export": Parser(
        lambda data: import_session(MemoryStore(), io.BytesIO(data)),
        [_exported()],
    ),
    "yaml": Parser(
        lambda data: plain_yaml(data.decode("utf-8", "replace"), "skill"),
        [b"name: x\nlist: [a, {b: 1}]\ntext: |\n  y\n"],
    ),
    "call": Parser(
        lambda data: accesses(ToolCall("c", "bash", data.decode("utf-8", "surrogateescape"))),
        [
            b'{"command": "cd a && sed -n \'1,5p\' b.py | head; cat <<EOF > c\\nx\\nEOF"}',
            b'{"path": "a", "lines": [1, 2]}',
        ],
    ),
    "guard": Parser(
        lambda data: neutralise(data.decode("utf-8", "surrogateescape")),
        [
            b"<foveal:note>x</foveal:note> <system-reminder> &lt;system&gt;",
            b"\xef\xbc\x9csystem\xef\xbc\x9e [INST] <|im_start|>",
        ],
    ),
}

_WORDS = (
    *(b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\r", b"\n\n", b": "),
    *(b"[" * 200, b"{" * 9, b"null", b"1e999", b'"', b"\\u0000", b"\\ud800", b"-1"),
)


def mutated(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Return bytes with one to three changes: flipped, cut, doubled, or with a piece of another input or an odd word."""
    for _ in range(rng.randint(1, 3)):
        at, size = rng.randrange(len(data) + 1), rng.randint(1, 12)
        match rng.randrange(6):
            case 0 if data:
                at = min(at, len(data) - 1)
                data = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
            case 1:
                data = data[:at] + data[at + size :]
            case 2:
                data = data[:at] + data[at : at + size] * 2 + data[at + size :]
            case 3:
                other = rng.choice(others)
                data = data[:at] + other[rng.randrange(len(other) + 1) :]
            case _:
                data = data[:at] + rng.choice(_WORDS) + data[at:]
    return data[:4_000]


@cache
def _reached() -> bytearray:
    """Return a byte for each place of the product, 1 once it was reached. What parsers import at first use is loaded before."""
    for parser in PARSERS.values():
        for begin in parser.begins:
            with suppress(Exception):  # of a bug that is planted: it is found later
                parser.read(begin)
    rooms = tuple(f"foveal.{room}." for room in ROOMS)
    return put_probes([module for name, module in sys.modules.items() if name.startswith(rooms) and module.__file__])


def fuzz(parser: Parser, runs: int, rng: random.Random) -> tuple[list[str], int]:
    """Run a parser so often; return the crashes, one for each kind, and the places of the product that were reached."""
    corpus, crashes, reached = list(parser.begins), dict[str, str](), _reached()
    reached[:] = bytes(len(reached))
    before = bytes(reached)
    for _ in range(runs):
        data = mutated(rng.choice(corpus), corpus, rng)
        try:
            parser.read(data)
        except parser.errors:
            pass
        except Exception as error:
            crashes.setdefault(type(error).__name__, f"{type(error).__name__}: {str(error)[:80]} for {data[:200]!r}")
        if reached != before:
            before = bytes(reached)
            corpus.append(data)
    return list(crashes.values()), sum(reached)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000, help="of each parser")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", choices=PARSERS)
    given = parser.parse_args()
    found = list[str]()
    for name in given.only or PARSERS:
        began = time.monotonic()
        crashes, reached = fuzz(PARSERS[name], given.runs, random.Random(f"{given.seed} {name}"))
        print(f"{name}: {reached} places reached, {given.runs / (time.monotonic() - began):,.0f} runs/s", flush=True)
        print("".join(f"    {crash}\n" for crash in crashes), end="")
        found += crashes
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
