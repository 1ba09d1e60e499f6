"""A scripted provider from the command line.

python -m foveal.testing.provider PROGRAM.py …           run a Python program against a provider that improvises, without a key
python -m foveal.testing.provider --port N [--script F]  serve until SIGTERM; the first line of the output is the address
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from itertools import count

from foveal.dialects import find_dialect
from foveal.dialects.tools import read_tools
from foveal.testing.provider import Call, ReceivedRequest, ScriptedProvider, Turn, read_scripts
from foveal.testing.provider.tools import forbids_calls, sample_arguments
from foveal.values.entry import Message
from foveal.values.errors import BadInput

_numbers = count(1)


def improvise(request: ReceivedRequest) -> Turn:
    """Return a call of the first tool after a user's message; a short text after a result, and where calls are forbidden."""
    asked = find_dialect(request.dialect).reader.request(request.body)
    newest: Message | None = asked.messages[-1] if asked.messages else None
    tools = read_tools(asked.tools)
    if newest and newest.role == "user" and tools and not forbids_calls(request.body):
        tool = tools[0]
        return Turn("", (Call(f"call_{os.getpid()}_{next(_numbers)}", tool.name, sample_arguments(tool.parameters)),))
    return Turn("This is the scripted provider: nobody thought about it.")


def main(words: Sequence[str]) -> int:
    """Run a program with the SDKs' addresses and keys set and return its exit code, or serve."""
    if words and words[0].startswith("-"):
        return serve(words)
    if not words:
        sys.stderr.write("usage: python -m foveal.testing.provider PROGRAM.py [ARGUMENT …] | --port N [OPTION …]\n")
        return 2
    with ScriptedProvider(improvise=improvise) as provider:
        return subprocess.run(  # noqa: S603 - the program that was named
            [sys.executable, *words], env=os.environ | provider.environment, check=False
        ).returncode


def serve(words: Sequence[str]) -> int:
    """Serve until the process is asked to end."""
    options = _options(words)
    try:
        scripts = read_scripts(options.script) if options.script else ()
        provider = ScriptedProvider(
            port=options.port,
            record=options.record,
            window=options.window,
            factor=options.factor,
            cwd=options.cwd,
            keep=1,
        )
    except (BadInput, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    provider.is_strict = not options.lenient
    provider.improvise = None if scripts else improvise
    for script in scripts:
        provider.play(*script.steps, when=script.when, side=script.side)
    ended = threading.Event()

    def end(_number: int, _frame: object) -> None:
        ended.set()

    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, end)
    with provider:
        sys.stdout.write(f"{provider.url}\n")
        sys.stdout.flush()
        while not ended.wait(3_600):  # a wait without end would not see the signal on every system
            pass
    return 0


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m foveal.testing.provider", description="Serve scripted answers on 127.0.0.1."
    )
    parser.add_argument("--port", type=int, default=0, help="0 for a free one")
    parser.add_argument("--script", metavar="FILE", help="steps in TOML or JSON; without one the provider improvises")
    parser.add_argument("--record", metavar="FOLDER", help="keep every request and answer there, without the keys")
    parser.add_argument("--window", type=int, metavar="N", help="largest request in tokens")
    parser.add_argument("--factor", type=float, default=1.0, metavar="X", help="tokens counted for each o200k token")
    parser.add_argument("--cwd", default="", metavar="DIR", help="working folder of the client, put before paths")
    parser.add_argument("--lenient", action="store_true", help="take requests that break the provider's rules")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
