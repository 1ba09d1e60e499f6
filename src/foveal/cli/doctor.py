"""Look for damage in a store; save what is whole into a new one.

Exit code 1 if there is damage, salvaged or not. The damaged file itself is never changed. Beside it, --sweep removes what nobody
needs: temporary files of dead writers, and search indexes of sessions that are not there.
"""

import shlex
from argparse import ArgumentParser, Namespace
from pathlib import Path

import msgspec

from foveal.cli.arguments import add_json, private_options
from foveal.cli.interrupts import terminable
from foveal.cli.output import Output
from foveal.stores.examination import Report
from foveal.stores.place import find_file, find_place
from foveal.stores.sqlite.connection import resolved
from foveal.stores.sqlite.doctor import examine, salvage, sweep
from foveal.stores.sqlite.index import (
    INDEX_OF_ALL,
    IndexFiles,
    index_files,
    list_index_files,
    remove_index_files,
    scope_key,
)
from foveal.values.errors import BadInput, IndexLeft


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the store to examine")
    parser.add_argument("--salvage", metavar="OUT", help="write everything that is whole to a new store")
    parser.add_argument("--sweep", action="store_true", help="remove leftovers beside the store")
    add_json(parser)


def run(args: Namespace, out: Output) -> int:
    place = find_place(args.file)
    if not isinstance(place, Path):
        raise BadInput("`foveal doctor` reads files; for a database there is `foveal store doctor`")
    if tenant := private_options()["tenant"]:
        raise BadInput(
            f"`foveal doctor` reads the sessions of all tenants, and $FOVEAL_TENANT is {tenant!r}; for one tenant there is "
            "`foveal store doctor`"
        )
    args.file = place
    target = find_file(args.salvage) if args.salvage else None
    found, shelf = _examined(args.file)
    swept = None
    if args.sweep:
        swept = sweep(args.file) + _remove(found.path, shelf)
        found, shelf = _examined(args.file)
    with terminable():
        kept = salvage(args.file, target) if target else None
    if out.is_json:
        salvaged = None if kept is None else plain_report(kept)
        out.document({**plain_report(found), "indexes": shelf, "swept": swept, "salvaged": salvaged})
    else:
        print_report(found, kept, out)
        _print_indexes(found, shelf, swept, out=out)
    return 1 if found.damage else 0


def _examined(file: Path) -> tuple[Report, IndexFiles]:
    """Examine a store, and its search indexes, which are of its sessions, of its scopes and of all."""
    path = resolved(file)
    indexes = list_index_files(path)
    found = examine(path)
    return found, index_files(path, indexes, (*found.names, *map(scope_key, found.scopes), INDEX_OF_ALL))


def _remove(path: str, shelf: IndexFiles) -> int:
    if left := remove_index_files(map(Path, shelf.orphans)):
        raise IndexLeft(left, path)
    return len(shelf.orphans)


def plain_report(report: Report) -> dict[str, object]:
    """Return a report as a JSON object."""
    return {key: value for key, value in msgspec.to_builtins(report).items() if key not in ("names", "scopes")}


def tell_report(found: Report, out: Output) -> int:
    """Print a report, as people or programs read it, and return the exit code: 1 if something is damaged or was not read."""
    if out.is_json:
        out.document(plain_report(found))
    else:
        print_report(found, None, out)
    return 1 if found.damage or found.unread else 0


def print_report(found: Report, kept: Report | None, out: Output) -> None:
    """Print the damage of a store and a verdict; and what was salvaged of it, if anything was."""
    for damage in found.damage:
        out.line(str(damage), "bad")
    verdict = f"{len(found.damage):,} damaged" if found.damage else "no damage"
    out.line(f"{found.path}: {_sizes(found)}; {verdict}", "" if found.damage or found.unread else "good")
    if found.encrypted:
        out.line(
            f"{found.encrypted:,} sessions are encrypted: their chains are proven; with $FOVEAL_KEYS, `foveal store doctor` "
            "reads their entries and artifacts, too"
        )
    if found.unread:
        out.line(
            f"{len(found.unread):,} sessions are under keys that are not at hand, and were not read; {found.unread[0]}",
            "bad",
        )
    if kept:
        out.line(f"{kept.path}: salvaged {_sizes(kept)}")
    elif found.damage:
        is_file = "://" not in found.path and not private_options()["tenant"]
        words = ["doctor", found.path, "--salvage", "NEW.db"] if is_file else ["store", "migrate", found.path, "NEW.db"]
        out.line(
            f"Save {'what is' if is_file else 'the sessions that are'} whole with: {shlex.join(['foveal', *words])}"
        )


def _print_indexes(found: Report, shelf: IndexFiles, swept: int | None, *, out: Output) -> None:
    if shelf.files:
        out.line(f"search indexes: {shelf.files:,} files, {shelf.size_bytes:,} bytes; made again when they are gone")
    if shelf.orphans:
        out.line(f"{len(shelf.orphans):,} of them, {shelf.orphan_bytes:,} bytes, are of sessions that are not there")
        out.line(f"Remove them with: {shlex.join(['foveal', 'doctor', found.path, '--sweep'])}")
    if swept is not None:
        out.line(f"removed {swept:,} files that nobody needs")


def _sizes(report: Report) -> str:
    return f"{report.sessions:,} sessions, {report.entries:,} entries, {report.artifacts:,} artifacts"
