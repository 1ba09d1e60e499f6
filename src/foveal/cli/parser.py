"""The parser of the command line. Only the module of the command that is used is loaded: help on all of them loads none."""

import argparse
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from keyword import iskeyword
from typing import Any, NoReturn, cast

from foveal.cli.commands import COMMANDS
from foveal.values.errors import BadInput

PASSES_ON = frozenset({"wrap"})
"""Commands that start another program: the words behind `--` are for that one, and kept as `others`."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message}; see `{self.prog} --help`")


class _Command(_Parser):
    """The parser of one command, whose options may stand between its words.

    Before an option, argparse takes a word that may be left out for missing, and has no use for it then. Its own remedy reads the
    options first and the words after that; it cannot be used for all lines, since it takes words behind `--` for options.
    """

    _is_second = False
    """Whether the line was read before, and is read for its options first."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        found, rest = super().parse_known_args(args, namespace)
        if self._is_second or not rest or "--" in args or any(word.startswith("-") for word in rest):
            return found, rest
        self._is_second = True
        try:
            return self.parse_known_intermixed_args(args)
        finally:
            self._is_second = False


class _Version(argparse.Action):
    """Prints the version."""

    def __call__(self, parser: argparse.ArgumentParser, *rest: Any) -> NoReturn:
        from importlib.metadata import version  # noqa: PLC0415 - takes longer to load than the rest of the parser

        sys.stdout.write(f"foveal {version('foveal')}\n")
        parser.exit()


class _Help(argparse.HelpFormatter):
    """Wraps descriptions, and leaves examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith("examples:") else super()._fill_text(text, width, indent)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a command line. Raise `BadInput` with the nearest command for one that does not exist."""
    first = words[0] if words else ""
    if first and not first.startswith("-") and first not in COMMANDS:
        near = get_close_matches(first, COMMANDS, n=1)
        hint = f" Did you mean `foveal {near[0]}`?" if near else ""
        raise BadInput(f"there is no command {first!r}.{hint} See `foveal --help`")
    own, others = _split(words) if first in PASSES_ON else (words, ())
    args = (make_parser((first,)) if first in COMMANDS else _overview()).parse_args(own)
    args.others = others
    return args


def _split(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the words before the first `--`, and those behind it."""
    end = words.index("--") if "--" in words else len(words)
    return words[:end], words[end + 1 :]


def make_parser(named: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser with the named commands, or with all of them if none is named."""
    parser, commands = _frame()
    for name in named or COMMANDS:
        module = import_module(f"foveal.cli.{name}{'_' if iskeyword(name) else ''}")
        summary, examples = COMMANDS[name]
        command = commands.add_parser(
            name,
            help=summary,
            description=module.__doc__,
            epilog="\n  ".join(("examples:", *examples)),
            allow_abbrev=False,
            formatter_class=_Help,
        )
        module.configure(command)
        command.set_defaults(run=module.run)
    return parser


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands that a parser has, by name."""
    actions = parser._actions  # pyright: ignore[reportPrivateUsage] - argparse has no other way
    found = [action.choices for action in actions if isinstance(action, argparse._SubParsersAction)]  # pyright: ignore
    return dict(cast("dict[str, argparse.ArgumentParser]", found[0])) if found else {}


def _overview() -> argparse.ArgumentParser:
    """Return a parser that knows the names of the commands and nothing else of them."""
    parser, commands = _frame()
    for name, (summary, _) in COMMANDS.items():
        commands.add_parser(name, help=summary)
    return parser


def _frame() -> tuple[argparse.ArgumentParser, Any]:
    parser = _Parser(
        "foveal",
        description="The context engine for LLM agents.",
        epilog="`foveal COMMAND --help` has examples. Exit codes: 0 done; 1 a problem was found, or a run failed; 2 it could "
        "not be done; 3 a run waits for you; 130 interrupted; 143 terminated.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    return parser, parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Command)
