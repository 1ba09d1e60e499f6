"""Fold a stored session now: older messages are covered by a summary, down to half of their tokens.

Nothing is lost: the log keeps every message, and the last line of the output is the command that goes back. With --dry-run
everything is shown and nothing is written; no summariser is asked.
"""

import shlex
import warnings
from argparse import ArgumentParser, Namespace
from collections import Counter
from typing import Any

import msgspec

from foveal.analysis.inspect.stored_session import AbsentRenderers, copy_session, known_session, recorded_setup
from foveal.cli.arguments import add_store, command_line, existing_store
from foveal.cli.output import Output, complain
from foveal.session.model_setup import SCENARIO, ModelSetup, UnknownModelWarning
from foveal.session.options import Host, Model
from foveal.session.policy import logged_policy
from foveal.session.rebuild import setup_at
from foveal.session.session import Session
from foveal.stores import open_store
from foveal.stores.port import Store
from foveal.summary.prose import summary_in
from foveal.values.entry import Fold, PartFold, Setup
from foveal.values.errors import BadInput, BadPolicy, SessionHeld
from foveal.values.events import CompactionEnded, Event, Pressure, SummaryRefused
from foveal.values.shown import range_ref

NOBODY = "none"
"""Given as a summariser's name: code alone writes the summary."""


class CoveredRange(msgspec.Struct, frozen=True):
    """A range of entries, and its stand-in."""

    ref: str
    entries: int
    raw_tokens: int
    shown: str
    tokens: int
    policy: str


class Compacted(msgspec.Struct, frozen=True):
    """The result of the command. Tokens are those of messages."""

    session: str
    pressure: Pressure
    fold: Fold | None = None
    author: str = ""
    refused: SummaryRefused | None = None
    covered: tuple[CoveredRange, ...] = ()
    rewind_to: str | None = None
    """The entry before the fold: a session that is rewound to it has its view of before again."""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("--instructions", metavar="TEXT", default="", help="what the summariser looks at above all")
    parser.add_argument(
        "--summariser",
        metavar="NAME",
        help=f"openai:MODEL, openai:MODEL@URL, anthropic:MODEL, local:PATH, or {NOBODY} (default: the session's own)",
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would be done, and write nothing")
    add_store(parser)


def run(args: Namespace, out: Output) -> None:
    if args.instructions and (args.dry_run or args.summariser == NOBODY):
        raise BadInput("--instructions are for a summariser, and none is asked; leave them out")
    with existing_store(args.store) as store:
        name = known_session(store, args.session)
        setup = _known_setup(name, setup_at(store, name))
        if args.dry_run:
            trial = open_store()
            copy_session(store, trial, name)
            done = _compact(trial, name, setup, summariser=NOBODY)
        else:
            done = _compact(store, name, setup, summariser=args.summariser, instructions=args.instructions)
    if out.is_json:
        out.document(_document(done, is_dry=args.dry_run))
    else:
        _print(done, args.store, out, is_dry=args.dry_run)


def _known_setup(name: str, recorded: Setup) -> ModelSetup:
    """Return the model setup of a stored session; `BadInput` if its folds are proposed by code that is not known here."""
    _, absent = logged_policy(recorded.policy)
    if absent:
        raise BadInput(
            f"session {name!r} folds by stages of its host ({', '.join(absent)}), which are code and not in the log; "
            "nothing was written. Call session.compaction.fold() in the program that has them"
        )
    return recorded_setup(recorded)


def _compact(
    store: Store, name: str, setup: ModelSetup, *, summariser: str | None, instructions: str = ""
) -> Compacted:
    heard: list[Event] = []
    with _opened(store, name, setup, summariser=summariser, heard=heard) as session:
        before, pressure = session.view.facts.head, session.compaction.pressure()
        fold = session.compaction.fold(instructions)
        gaps = [(atom.gap, atom.size.tokens) for atom in session.view.atoms if atom.gap]
    covered = tuple(
        CoveredRange(range_ref(gap.first, gap.newest[1]), gap.entries, gap.raw_tokens, gap.level, tokens, gap.policy)
        for gap, tokens in gaps
    )
    if fold is None:
        return Compacted(name, pressure, covered=covered)
    refused = next((event for event in heard if isinstance(event, SummaryRefused)), None)
    ended = next(event for event in heard if isinstance(event, CompactionEnded))
    return Compacted(name, pressure, fold, ended.author, refused, covered, before)


def _opened(store: Store, name: str, setup: ModelSetup, *, summariser: str | None, heard: list[Event]) -> Session:
    """Open the session as its host has it, as far as the log records it."""
    compact = setup.policy.compact
    wanted = compact.summariser if summariser is None else "" if summariser == NOBODY else summariser
    policy = msgspec.structs.replace(setup.policy, compact=msgspec.structs.replace(compact, summariser=wanted))
    renderers = AbsentRenderers()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownModelWarning)  # its host was warned when the session was made
            session = Session(
                store,
                name,
                model=Model(setup.model, setup.dialect.name, setup.counter),
                policy=policy,
                host=Host(renderers=renderers, on_event=heard.append, author="cli"),
            )
    except SessionHeld as error:
        what = str(error).partition(". ")[0]
        raise SessionHeld(f"{what}; nothing was written. Close it there, or call its compact() there") from None
    except BadPolicy as error:
        hint = f" Name another with --summariser, or `--summariser {NOBODY}`." if wanted else ""
        raise BadPolicy(f"{error}{hint}") from None
    if session.view.projection.key != setup.projection().key:
        session.close()
        raise BadInput(f"session {name!r} was last used under another scenario than ${SCENARIO} says now; set it alike")
    if renderers:
        what = f"the host shows some results by renderers that are not known here ({', '.join(sorted(renderers))})"
        complain(f"{what}; such results are shown and counted whole")
    return session


def _print(done: Compacted, store: str | None, out: Output, *, is_dry: bool) -> None:
    fold, pressure = done.fold, done.pressure
    if fold is None:
        share = f"{pressure.share:.1%} of the {pressure.limit:,} above which a fold is due"
        out.line(f"{done.session}: nothing to fold", "strong")
        out.wrapped(
            f"The next prompt takes {pressure.tokens:,} tokens, {share}. What may not go (system prompt, first and "
            "latest request, pins, the newest messages) is all of it, or a summary would be no smaller."
        )
        return
    would = "would become" if is_dry else "became"
    saved = 1 - fold.after / max(1, fold.before)
    out.line(f"{done.session}: {fold.before:,} tokens of messages {would} {fold.after:,}, {saved:.0%} less", "strong")
    out.line(f"{fold.rebilled:,} of them stand after the first change and are billed anew.")
    if done.refused:
        said = f"{done.refused.author} was not taken ({done.refused.why}): {done.refused.detail}"
        out.wrapped(f"The summary of {said} Code's own stands in its place.")
    _print_covered(done, fold, out)
    if is_dry and (item := summary_in(fold)):
        out.line()
        out.line(f"── summary, {item.tokens:,} tokens, written by {done.author}", "sent")
        out.line(item.text)
    out.line()
    if is_dry:
        out.line("Nothing was written.")
    else:
        where = f" --store {shlex.quote(store)}" if store else ""
        out.line(f"Undo: {command_line()} rewind {shlex.quote(done.session)} {done.rewind_to}{where}")


def _print_covered(done: Compacted, fold: Fold, out: Output) -> None:
    out.line()
    rows = [
        (one.ref, f"{one.entries:,}", f"{one.raw_tokens:,}", _by(one, done.author), f"{one.tokens:,}")
        for one in done.covered
    ]
    out.table(("covered", "entries", "tokens", "shown by", "tokens"), rows, "lrrlr")
    last = {(item.entry, item.part): (item.policy, item.level) for item in fold.items if isinstance(item, PartFold)}
    for (policy, level), number in Counter(last.values()).items():
        out.line(f"{number:,} {'part' if number == 1 else 'parts'} now {level}, by {policy}")


def _by(one: CoveredRange, author: str) -> str:
    return f"summary by {author}" if one.shown == "summary" else "a line"


def _document(done: Compacted, *, is_dry: bool) -> dict[str, Any]:
    fold, item = done.fold, summary_in(done.fold) if done.fold else None
    pressure = {"tokens": done.pressure.tokens, "limit": done.pressure.limit, "level": done.pressure.level}
    said: dict[str, Any] = {"session": done.session, "dry_run": is_dry, "folded": fold is not None}
    if fold is None:
        return {**said, "pressure": pressure, "covered": done.covered}
    return {
        **said,
        "pressure": pressure,
        "reason": fold.reason,
        "before": fold.before,
        "after": fold.after,
        "rebilled": fold.rebilled,
        "author": done.author,
        "refused": done.refused,
        "covered": done.covered,
        "parts": [one for one in fold.items if isinstance(one, PartFold)],
        "summary": item.text if item else None,
        "rewind_to": None if is_dry else done.rewind_to,
    }
