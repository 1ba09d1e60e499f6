"""The `foveal` command. One module a subcommand: `configure` adds its arguments, `run` does its work.

`run` prints one JSON document or text for people, and returns an exit code if it is not 0.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from foveal.cli.output import Output, complain, complaints
from foveal.cli.parser import parse
from foveal.values.errors import FovealError

_BAD = 2
_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, as `foveal --help` lists them."""
    _open_closed_streams()
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
        args = parse(words)
    except SystemExit as done:  # --help and --version have printed their text
        return done.code if isinstance(done.code, int) else 0
    out = Output(sys.stdout, is_json=args.json)
    with complaints():
        code: int | None = args.run(args, out)
    sys.stdout.flush()
    return code or 0


def _open_closed_streams() -> None:
    """Let streams that the caller has closed lead nowhere: their numbers must not become those of a store's files."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _forget_stdout() -> None:
    """Redirect stdout to nowhere: its reader has closed it, and the process must not write to it even at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
