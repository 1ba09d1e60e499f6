"""Keep house in a store: move it, copy it, examine it, measure it, give its space back.

PLACE is a file, sqlite:///FILE or postgresql://USER@HOST/DATABASE. `migrate` copies all sessions with their artifacts and notes
to another store, of the other kind or not, and proves each by its hash chain; run again, it goes on where it was stopped. A
session that was deleted in TARGET is not copied again. Exit code 1 if something is damaged or missing, or was left because
somebody writes it, because its key is not at hand, because TARGET has another session of that name, or because it was deleted in
PLACE after it was copied.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

import msgspec

from foveal.cli.arguments import add_json, existing_place, open_existing, open_place, private_options, store_place
from foveal.cli.doctor import tell_report
from foveal.cli.interrupts import terminable
from foveal.cli.output import Output
from foveal.stores.moving import StoreMove, are_same, copy_store, examine_place, move_sessions
from foveal.stores.place import DatabaseAddress
from foveal.stores.unnamed_artifacts import vacuum_store
from foveal.values.errors import BadInput

_VERBS = {
    "migrate": "copy everything from PLACE to TARGET, resumable and verified",
    "backup": "copy PLACE to the new file TARGET while it is in use, and verify the copy",
    "doctor": "read everything in PLACE and report damage",
    "stats": "print the size of PLACE and of its parts",
    "vacuum": "give back the space of everything that was deleted in PLACE",
}
_TARGETED = ("migrate", "backup")
_NAMED = 5
"""Sessions that a sentence names; a line of a terminal holds no more."""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("verb", choices=_VERBS, metavar="VERB", help="; ".join(f"{k}: {v}" for k, v in _VERBS.items()))
    parser.add_argument(
        "place", metavar="PLACE", nargs="?", help="the store (default: $FOVEAL_STORE, else ./foveal.db)"
    )
    parser.add_argument("target", metavar="TARGET", nargs="?", help="the store or file to copy to")
    add_json(parser)


def run(args: Namespace, out: Output) -> int:
    if args.target is None and args.verb in _TARGETED:
        raise BadInput(f"`foveal store {args.verb}` needs the store and the place to copy it to")
    if args.target is not None and args.verb not in _TARGETED:
        raise BadInput(f"`foveal store {args.verb}` is about one store; the second place is one too many")
    return {"migrate": _migrate, "backup": _backup, "doctor": _doctor, "stats": _stats, "vacuum": _vacuum}[args.verb](
        args, out
    )


def _existing(args: Namespace) -> Path | DatabaseAddress:
    words = "FILE TARGET" if args.verb in _TARGETED else "FILE"
    return existing_place(args.place, f"as in `foveal store {args.verb} {words}`")


def _migrate(args: Namespace, out: Output) -> int:
    place, target = _existing(args), store_place(args.target)
    with open_existing(place) as old:
        if are_same(place, target):
            raise BadInput(f"{place} and {target} are the same store; name another place to copy it to")
        with open_place(target) as new:
            done = move_sessions(old, new)
    if out.is_json:
        out.document(msgspec.to_builtins(done))
    else:
        _tell_move(done, target, out)
    return 0 if done.is_whole else 1


def _tell_move(done: StoreMove, target: Path | DatabaseAddress, out: Output) -> None:
    out.line(
        f"{done.sessions:,} sessions are whole in {target}: {done.copied:,} entries and {done.artifacts:,} "
        "artifacts were copied by this run, every chain compared"
    )
    for problem in (*done.damaged, *done.left):
        out.line(problem, "bad")
    for problem in done.missing:
        out.line(f"not copied: {problem}", "bad")
    for names, what in (
        (done.in_use, "are in use and were left: {}. Run it again."),
        (
            done.unheld,
            "could not be held, because the old store cannot be written, and were copied as they were at this moment: {}. "
            "If somebody writes them there, run it again.",
        ),
        (done.deleted, "were deleted in the new store after they were copied, and stay deleted: {}."),
        (
            done.outlived,
            "were deleted in the old store after they were copied, and the new store still has them: {}. "
            "Delete them there if they are to be gone: foveal delete SESSION --yes --store TARGET",
        ),
    ):
        if names:
            out.line(f"{len(names):,} sessions {what.format(_named(names))}")
    if done.forgotten:
        out.line(
            f"{len(done.forgotten):,} notes were not copied, because the new store has not got them and notes of their scopes "
            f"were forgotten there: {_named(done.forgotten)}."
        )


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more (--json names all)" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _backup(args: Namespace, out: Output) -> int:
    with terminable():
        done = copy_store(_existing(args), args.target, **private_options())
    return tell_report(done, out)


def _doctor(args: Namespace, out: Output) -> int:
    return tell_report(examine_place(_existing(args), **private_options()), out)


def _stats(args: Namespace, out: Output) -> int:
    place = _existing(args)
    with open_existing(place) as store:
        found = store.stats()
    if out.is_json:
        out.document(msgspec.to_builtins(found))
    else:
        out.line(
            f"{place}: {found.sessions:,} sessions ({found.held:,} held), {found.entries:,} entries, {found.deleted:,} deleted"
        )
        for name, size in found.sizes.items():
            out.line(f"  {name}: {size:,} bytes")
    return 0


def _vacuum(args: Namespace, out: Output) -> int:
    place = _existing(args)
    with open_place(place, must_exist=True) as store:
        before = sum(store.stats().sizes.values())
        swept = vacuum_store(store)
    with open_existing(place) as store:  # once closed, it has no WAL of this very work
        after = sum(store.stats().sizes.values())
    if out.is_json:
        out.document({"before": before, "after": after, "artifacts": swept.removed, "left": swept.left})
    else:
        out.line(f"{place}: {before:,} bytes before, {after:,} after")
        if swept.removed:
            out.line(f"{swept.removed:,} artifacts that no session names were removed")
        for reason in swept.left:
            out.line(reason, "bad")
    return int(bool(swept.left))
