"""The `foveal` command. One module a subcommand; each says what it takes (`configure`) and what it does (`run`)."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import NoReturn

from foveal.cli import demo, doctor, models, recall, replay, sessions, show, why
from foveal.cli.output import Output, complain
from foveal.core.errors import BadInput, FovealError

COMMANDS = {
    "demo": demo,
    "replay": replay,
    "why": why,
    "show": show,
    "recall": recall,
    "sessions": sessions,
    "models": models,
    "doctor": doctor,
}
_BAD = 2
_INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message}; see `{self.prog} --help`")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 where something is found wrong, 2 for what cannot be done."""
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
        args = _parser().parse_args(argv)
    except SystemExit as done:  # --help and --version have printed what was asked for
        return done.code if isinstance(done.code, int) else 0
    out = Output(sys.stdout, is_json=args.json)
    code: int = args.run(args, out)
    sys.stdout.flush()
    return code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser("foveal", description="The context engine for LLM agents.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"foveal {version('foveal')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        about = (module.__doc__ or "").partition("\n")[0]
        command = commands.add_parser(name, help=about, description=module.__doc__, allow_abbrev=False)
        module.configure(command)
        command.set_defaults(run=module.run)
    return parser


def _forget_stdout() -> None:
    """Whoever read our output has gone: nothing more is written to it, not even at the end of the process."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return
