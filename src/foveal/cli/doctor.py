"""Look for damage in a store; save what is whole into a new one.

Exit code 1 if there is damage, salvaged or not. The damaged file itself is never changed.
"""

import shlex
from argparse import ArgumentParser, Namespace

import msgspec

from foveal.cli.output import Output, add_json
from foveal.stores.doctor import Report, examine, salvage


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the store to examine")
    parser.add_argument("--salvage", metavar="OUT", help="write everything that is whole to a new store")
    add_json(parser)


def run(args: Namespace, out: Output) -> int:
    found = examine(args.file)
    kept = salvage(args.file, args.salvage) if args.salvage else None
    if out.is_json:
        salvaged = None if kept is None else msgspec.to_builtins(kept)
        out.document({**msgspec.to_builtins(found), "salvaged": salvaged})
    else:
        _print(found, kept, out)
    return 1 if found.damage else 0


def _print(found: Report, kept: Report | None, out: Output) -> None:
    for damage in found.damage:
        out.line(str(damage), "bad")
    verdict = f"{len(found.damage):,} damaged" if found.damage else "no damage"
    out.line(f"{found.path}: {_sizes(found)}; {verdict}", "" if found.damage else "good")
    if kept:
        out.line(f"{kept.path}: salvaged {_sizes(kept)}")
    elif found.damage:
        out.line(f"Save what is whole with: {shlex.join(['foveal', 'doctor', found.path, '--salvage', 'NEW.db'])}")


def _sizes(report: Report) -> str:
    return f"{report.sessions:,} sessions, {report.entries:,} entries, {report.artifacts:,} artifacts"
