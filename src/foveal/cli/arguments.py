"""Numbers on the command line: calls, budgets, jobs."""

from argparse import ArgumentParser, ArgumentTypeError


def positive(text: str) -> int:
    """Return a count above zero; `32_000` and `32,000` are fine."""
    try:
        number = int(text.replace(",", "_"))
    except ValueError:
        number = 0
    if number <= 0:
        raise ArgumentTypeError(f"{text!r} is not a number above zero")
    return number


def add_call(parser: ArgumentParser) -> None:
    """Add the option `--call`."""
    parser.add_argument(
        "--call", metavar="K", type=positive, help="the K-th model call of the session (default: the next one)"
    )
