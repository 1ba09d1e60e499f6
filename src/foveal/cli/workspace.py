"""List the workspaces of sessions, or remove those that have not been used for long.

`foveal workspace clean` lists them; only with --apply does it remove them.
"""

import os
from argparse import ArgumentParser, Namespace
from datetime import timedelta

import msgspec

from foveal.cli.arguments import add_json, age_s
from foveal.cli.output import Output, utc_time
from foveal.context.workspace import Cleaned, CleaningPlan, SessionFolder, clean, folders

ROOT = "FOVEAL_WORKSPACES"


def configure(parser: ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    listing = commands.add_parser("list", help="the workspaces, the longest unused first", allow_abbrev=False)
    listing.set_defaults(work=_list)
    cleaning = commands.add_parser("clean", help="what is old: show it, or remove it", allow_abbrev=False)
    cleaning.add_argument(
        "--older-than", metavar="AGE", type=age_s, default="7d", help="90m, 12h, 7d, 4w (default: 7d)"
    )
    cleaning.add_argument("--apply", action="store_true", help="remove what is shown without it")
    cleaning.set_defaults(work=_clean)
    for command in (listing, cleaning):
        command.add_argument("--root", metavar="DIR", help=f"(default: ${ROOT}, else ./foveal.workspaces)")
        add_json(command)


def run(args: Namespace, out: Output) -> int | None:
    code: int | None = args.work(args, args.root or os.environ.get(ROOT) or "foveal.workspaces", out)
    return code


def _list(_args: Namespace, root: str, out: Output) -> None:
    found = folders(root)
    if out.is_json:
        out.document({"root": root, "workspaces": found})
    elif found:
        _table(found, out)
    else:
        out.line(f"no workspaces in {root}")


def _clean(args: Namespace, root: str, out: Output) -> int:
    plan = clean(root, timedelta(seconds=args.older_than))
    cleaned = plan.apply() if args.apply and plan.remove else None
    if out.is_json:
        out.document(_document(plan, cleaned))
    else:
        _print(plan, cleaned, out)
    return 1 if cleaned and cleaned.kept else 0


def _print(plan: CleaningPlan, cleaned: Cleaned | None, out: Output) -> None:
    kept = f"newer ones, which stay: {len(plan.keep):,}"
    if not plan.remove:
        out.line(f"nothing to remove in {plan.root}; {kept}")
        return
    _table(plan.remove if cleaned is None else cleaned.removed, out)
    if cleaned is None:
        out.line(f"would be removed: {len(plan.remove):,}, with {plan.size_bytes:,} bytes; {kept}", "strong")
        out.line("Nothing has been removed. Say --apply to remove them.")
        return
    for folder, why in cleaned.kept:
        out.line(f"{folder.folder} stays: {why}", "bad")
    size = sum(folder.size_bytes for folder in cleaned.removed)
    out.line(f"removed: {len(cleaned.removed):,}, with {size:,} bytes; {kept}", "strong")


def _table(found: tuple[SessionFolder, ...], out: Output) -> None:
    rows = [(f"{one.files:,}", f"{one.size_bytes:,}", utc_time(one.used_s), one.folder, _name(one)) for one in found]
    out.table(("files", "bytes", "last used", "folder", "session"), rows, "rrlll")


def _name(folder: SessionFolder) -> str:
    return "(left by an interrupted cleaning)" if folder.session is None else folder.session


def _document(plan: CleaningPlan, cleaned: Cleaned | None) -> dict[str, object]:
    kept = cleaned.kept if cleaned else ()
    return {
        "root": str(plan.root),
        "older_than_s": plan.older_than.total_seconds(),
        "would_remove": plan.remove,
        "newer": len(plan.keep),
        "removed": cleaned.removed if cleaned else None,
        "not_removed": [msgspec.structs.asdict(folder) | {"why": why} for folder, why in kept],
    }
