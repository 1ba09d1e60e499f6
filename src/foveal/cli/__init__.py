"""The `foveal` command. One module a subcommand: `configure` adds its arguments, `run` does its work.

`run` prints one JSON document or text for people, and returns an exit code if it is not 0.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from keyword import iskeyword
from typing import NoReturn

from foveal.cli.output import Output, complain
from foveal.values.errors import BadInput, FovealError

COMMANDS = (
    *("demo", "replay", "why", "show", "recall", "search"),
    *("pin", "compact", "policy", "skills", "workspace", "tune", "models"),
    *("sessions", "export", "import", "delete", "expire", "backup", "doctor"),
)
_BAD = 2
_INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message}; see `{self.prog} --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0; 1 if it found a problem; 2 if it could not be done."""
    try:
        return _run(argv)
    except FovealError as error:
        complain(error)
        return _BAD
    except BrokenPipeError:
        _forget_stdout()
        return 1
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else error)
        return _BAD
    except KeyboardInterrupt:
        return _INTERRUPTED


def _run(argv: Sequence[str] | None) -> int:
    try:
        words = sys.argv[1:] if argv is None else list(argv)
        args = _parser(words[:1]).parse_args(words)
    except SystemExit as done:  # --help and --version have printed their text
        return done.code if isinstance(done.code, int) else 0
    out = Output(sys.stdout, is_json=args.json)
    code: int | None = args.run(args, out)
    sys.stdout.flush()
    return code or 0


def _parser(named: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the named command, or of all commands if none is named: only used commands are loaded."""
    parser = _Parser("foveal", description="The context engine for LLM agents.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"foveal {version('foveal')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in [name for name in COMMANDS if name in named] or COMMANDS:
        module = import_module(f"foveal.cli.{name}{'_' if iskeyword(name) else ''}")
        about = (module.__doc__ or "").partition("\n")[0]
        command = commands.add_parser(name, help=about, description=module.__doc__, allow_abbrev=False)
        module.configure(command)
        command.set_defaults(run=module.run)
    return parser


def _forget_stdout() -> None:
    """Redirect stdout to nowhere: its reader has closed it, and the process must not write to it even at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
