"""Unpin an entry of a stored session: it may be folded again."""

from argparse import ArgumentParser, Namespace

from foveal.cli.marks import add_entry, set_pin
from foveal.cli.output import Output


def configure(parser: ArgumentParser) -> None:
    add_entry(parser)


def run(args: Namespace, out: Output) -> int:
    return set_pin(args, out, pinned=False)
