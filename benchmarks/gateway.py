"""What does the gateway cost? 200 conversations at once, directly, through a plain proxy and through the gateway.

    python benchmarks/gateway.py                                  # a few minutes
    python benchmarks/gateway.py --conversations 50 --calls 6     # a minute

Every conversation comes with a history of about 30,000 tokens, and then makes calls that each add a reply and a result. The
scripted provider runs in a process of its own, and so does the server in front of it: the proxy of this file, which reads the
request, sends it on and streams the reply back; the gateway with a window that holds everything; the same gateway when it keeps
one conversation open, so that each call opens its own again; and the gateway with a budget that makes it fold. CPU is that of the
server's process for each call after the first of its conversation, which brings the whole history along and has a column of its
own. Memory is what a conversation adds to the server at rest. The wall time is that of all calls: on a machine with few cores the
provider has a large part in it, so that it is told as a ratio to direct calls.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

import synthetic

HISTORY_TOKENS = 30_000
FOLDING_BUDGET = 32_000
CHARACTERS_A_TOKEN = 3.4
WAYS = ("direct", "plain proxy", "gateway, nothing folded", "gateway, opened for each call", "gateway, folds")
RESULTS = Path(__file__).parent / "results" / "gateway.md"
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
Chat = dict[str, Any]


class Figures(NamedTuple):
    """One way to the provider, measured."""

    way: str
    first_ms: float
    """CPU of the server for the first call of a conversation."""
    call_ms: float
    """CPU of the server for a later call."""
    wall_s: float
    idle_mb: float
    failed: int
    sent: int
    """Tokens that arrived at the provider."""


def conversations(number: int, calls: int) -> list[tuple[list[Chat], list[str]]]:
    """Return for each conversation its history, and the texts that later calls add. All ways have the same ones."""
    return [(list(history), texts) for history, texts in _conversations(number, calls)]


@cache
def _conversations(number: int, calls: int) -> list[tuple[list[Chat], list[str]]]:
    made: list[tuple[list[Chat], list[str]]] = []
    for seed in range(number):
        history: list[Chat] = []
        size, texts = 0, list[str]()
        for message in synthetic.chat_messages(400, seed=seed):
            if size > HISTORY_TOKENS * CHARACTERS_A_TOKEN and message["role"] == "assistant":
                break
            history.append(message)
            size += len(json.dumps(message))
        for message in synthetic.chat_messages(40 * calls, seed=number + seed):
            if message["role"] == "tool" and len(texts) < calls:
                texts.append(message["content"])
        made.append((history, texts))
    return made


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory_mb(pid: int) -> float:
    """Return the memory of a process that is resident now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6


@contextmanager
def running(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a server in a process of its own. The first line that it prints has its address."""
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        line = process.stdout.readline()
        yield process, next(word.rstrip(",") for word in line.split() if word.startswith("http://"))
    finally:
        process.terminate()
        process.wait()


async def ask(client: httpx2.AsyncClient, url: str, name: str, messages: list[Chat]) -> bool:
    """Make one streamed call, and add the reply to the messages; tell whether it was answered."""
    body = {"model": "gpt-5", "stream": True, "messages": messages, "tools": synthetic.TOOLS}
    headers = {"authorization": "Bearer bench", "thread-id": name, "content-type": "application/json"}
    content = json.dumps(body).encode()
    lines: list[str] = []
    async with client.stream("POST", f"{url}/v1/chat/completions", content=content, headers=headers) as reply:
        async for line in reply.aiter_lines():
            lines.append(line)
        if reply.status_code != httpx2.codes.OK:
            return False
    messages.append(_said(lines))
    return True


def _said(lines: list[str]) -> Chat:
    """Return the message of a stream."""
    said: Chat = {"role": "assistant", "content": ""}
    for line in lines:
        if not line.startswith("data: {"):
            continue
        delta = next((choice["delta"] for choice in json.loads(line[6:])["choices"]), {})
        said["content"] += delta.get("content") or ""
        for piece in delta.get("tool_calls") or ():
            if piece.get("id"):
                said.setdefault("tool_calls", []).append(piece)
            else:
                said["tool_calls"][-1]["function"]["arguments"] += piece["function"]["arguments"]
    return said


def answer(messages: list[Chat], text: str) -> None:
    """Answer the newest reply with this text: as the result of its call, or as the words of the user."""
    calls = messages[-1].get("tool_calls", ())
    messages += [{"role": "tool", "tool_call_id": call["id"], "content": text} for call in calls]
    if not calls:
        messages.append({"role": "user", "content": text})


async def measure(way: str, url: str, server: subprocess.Popen[str], provider: str, size: tuple[int, int]) -> Figures:
    """Make all calls of all conversations over one way: the conversations at once, the calls of each one after the other."""
    number, calls = size
    talks = conversations(number + 1, calls)
    limits = httpx2.Limits(max_connections=number, max_keepalive_connections=number)
    async with httpx2.AsyncClient(timeout=600, limits=limits) as client:

        async def go_on(name: str, messages: list[Chat], texts: list[str]) -> int:
            failed = 0
            for text in texts:
                answer(messages, text)
                failed += not await ask(client, url, f"{way}-{name}", messages)
            return failed

        warm, texts = talks.pop()
        await ask(client, url, f"{way}-warm", warm)
        await go_on("warm", warm, texts)
        before, rest = memory_mb(server.pid), cpu_s(server.pid)

        async def begin(place: int) -> bool:
            return await ask(client, url, f"{way}-{place}", talks[place][0])

        began = await asyncio.gather(*map(begin, range(number)))
        first, started = cpu_s(server.pid), time.perf_counter()

        failed = sum(await asyncio.gather(*(go_on(str(place), *talk) for place, talk in enumerate(talks))))
        wall, spent = time.perf_counter() - started, cpu_s(server.pid) - first
        idle = (memory_mb(server.pid) - before) / number
        told = (await client.get(f"{provider}/scripted")).json()["bill"]
    later = number * calls
    return Figures(
        way,
        (first - rest) / number * 1_000,
        spent / later * 1_000,
        wall,
        idle,
        failed + began.count(False),
        told["input"] + told["cached"] + told["written"],
    )


def plain_proxy() -> None:
    """Serve a proxy that sends requests on and replies back, with the libraries that the gateway uses."""

    upstream = sys.argv[2]
    client = httpx2.AsyncClient(timeout=600, limits=httpx2.Limits(max_connections=1_000))

    async def forward(request: Request) -> Response:
        kept = [(name, value) for name, value in request.headers.items() if name not in ("host", "content-length")]
        asked = client.build_request("POST", upstream + request.url.path, headers=kept, content=await request.body())
        reply = await client.send(asked, stream=True)
        return StreamingResponse(reply.aiter_raw(), reply.status_code, {"content-type": reply.headers["content-type"]})

    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(
        Starlette(routes=[Route("/{path:path}", forward, methods=["POST"])]), log_level="warning", access_log=False
    )
    uvicorn.Server(config).run([listener])


def run_way(way: str, number: int, calls: int, *, program: Sequence[str] = ("-m", "foveal")) -> Figures:
    """Measure one way, with a provider of its own. `program` are the words for Python that run the gateway."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running("-m", "foveal.testing.provider", "--port", "0", "--lenient") as (served, provider),
    ):
        gateway = [*program, "serve", "--port", "0", "--upstream", f"openai={provider}"]
        gateway += ["--store", f"{folder}/sessions.db", "--most-open", str(number + 1), "--budget"]
        words = {
            "direct": [],
            "plain proxy": [__file__, "--proxy", provider],
            "gateway, nothing folded": [*gateway, "250000"],
            "gateway, opened for each call": [*gateway, "250000", "--most-open", "1"],
            "gateway, folds": [*gateway, str(FOLDING_BUDGET)],
        }[way]
        if not words:
            return asyncio.run(measure(way, provider, served, provider, (number, calls)))
        with running(*words) as (process, url):
            return asyncio.run(measure(way, url, process, provider, (number, calls)))


def run(number: int, calls: int) -> list[Figures]:
    """Measure all ways."""
    found: list[Figures] = []
    for way in WAYS:
        found.append(run_way(way, number, calls))
        print(found[-1], file=sys.stderr)
    return found


def table(found: list[Figures], number: int, calls: int) -> str:
    """Return the figures as a page."""
    direct = found[0]
    lines = [
        "# The gateway under load",
        "",
        f"{number} conversations at once, each with a history of about {HISTORY_TOKENS:,} tokens and {calls} calls after it;",
        "`python benchmarks/gateway.py`. CPU is that of the server between client and provider, in milliseconds.",
        "",
        "| way | CPU, first call | CPU, later call | wall time : direct | idle, MB | tokens sent : direct | failed |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for one in found:
        is_direct = one is direct
        cpu = ("-", "-") if is_direct else (f"{one.first_ms:.1f}", f"{one.call_ms:.2f}")
        idle = "-" if is_direct else f"{one.idle_mb:.2f}"
        lines.append(
            f"| {one.way} | {cpu[0]} | {cpu[1]} | {one.wall_s / direct.wall_s:.2f} | {idle} | "
            f"{one.sent / direct.sent:.2f} | {one.failed} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    page = table(run(options.conversations, options.calls), options.conversations, options.calls)
    options.output.write_text(page)
    print(page)


if __name__ == "__main__":
    plain_proxy() if sys.argv[1:2] == ["--proxy"] else main()
