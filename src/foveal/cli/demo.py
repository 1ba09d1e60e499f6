"""Replay the bundled session and show what Foveal makes of it."""

import shutil
from argparse import ArgumentParser, Namespace
from contextlib import closing, suppress
from pathlib import Path

from foveal.analysis.inspect.stored_session import copy_session
from foveal.analysis.recordings import Recording
from foveal.analysis.replay.demo import BUDGET, comparison, demo_recording, footnote, intro, saving_texts
from foveal.analysis.replay.replay import DEFAULT_MODEL, Replay, replay, usable_tools
from foveal.analysis.replay.report import document, totals
from foveal.analysis.replay.series import series_of
from foveal.cli.arguments import add_json, command_line, positive
from foveal.cli.files import whole_file
from foveal.cli.output import Output
from foveal.cli.terminal_chart import chart
from foveal.session.options import Model
from foveal.session.policy import BudgetTable, Policy
from foveal.session.session import Session
from foveal.stores import MemoryStore, open_store
from foveal.stores.artifacts import artifacts_folder
from foveal.values.errors import BadInput, FovealError, OverBudget
from foveal.viewer.builder import stored_page
from foveal.viewer.page import page

STORE = Path(".foveal") / "demo.db"
PAGE = STORE.with_suffix(".html")


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--budget", metavar="N", type=positive, default=BUDGET, help=f"tokens a call (default: {BUDGET})"
    )
    parser.add_argument("--model", metavar="M", default=DEFAULT_MODEL, help=f"default: {DEFAULT_MODEL}")
    add_json(parser)


def run(args: Namespace, out: Output) -> None:
    recording, memory = demo_recording(), MemoryStore()
    policy = Policy(budget=BudgetTable(limit=args.budget, reserve=0))
    done = replay(recording, model=args.model, policy=policy, dialect="openai_chat", store=memory)
    if all(call.sent is None for call in done.calls):
        raise _too_small(memory, recording, policy, args)
    if out.is_json:
        out.document(document([done]))
    else:
        _print(recording, done, out)
    _keep(memory, recording.id)
    with whole_file(PAGE, is_private=True) as stream:
        stream.write(page([stored_page(memory, recording.id, source=str(STORE))]))
    if not out.is_json:
        _print_next(done, out)


def _too_small(memory: MemoryStore, recording: Recording, policy: Policy, args: Namespace) -> FovealError:
    """Return the error about a budget that holds no prompt, with the size that would hold all of them."""
    with Session(memory, recording.id, model=Model(args.model, "openai_chat"), policy=policy) as session:
        try:
            session.prompt(usable_tools(recording, "openai_chat")[0])
        except OverBudget as error:
            least = f"the smallest budget is about {error.needed:,}"
            return BadInput(f"{args.budget:,} tokens hold no prompt of this session; {least}")
        except FovealError as error:
            return error
    return BadInput(f"{args.budget:,} tokens hold no prompt of this session; name a larger budget")


def _print(recording: Recording, done: Replay, out: Output) -> None:
    sums = totals([done])
    out.wrapped(intro(recording, done))
    out.line()
    out.table(("", "whole history", "Foveal", ""), comparison(done), "lrrl")
    out.wrapped(footnote(sums))
    for note in done.notes:
        out.wrapped(f"Note: {note}.")
    out.line()
    out.line("Tokens per call", "strong")
    for spans in chart(series_of(done), columns=min(out.columns, 100), ascii_only=out.is_ascii):
        out.spans(spans)
    out.line()
    out.line("The largest savings", "strong")
    for number, (worth, what) in enumerate(saving_texts(done), 1):
        bullet = f"{number}." if number <= len(done.savings) else "+ "
        out.line(f"{bullet} {worth}", "good")
        out.wrapped(what, "   ")


def _keep(memory: MemoryStore, name: str) -> None:
    """Write the replayed session to a store of its own, anew each time."""
    STORE.parent.mkdir(exist_ok=True)
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            STORE.with_name(STORE.name + suffix).unlink()
    shutil.rmtree(artifacts_folder(STORE), ignore_errors=True)
    with closing(open_store(STORE)) as store:
        copy_session(memory, store, name)


def _print_next(done: Replay, out: Output) -> None:
    last = min(60, len(done.calls))
    refs = [saving.ref for saving in done.savings]
    out.line()
    out.line(f"Nothing is lost: all of it is in {STORE}. Try next", "strong")
    command = command_line()
    out.line(f"  {command} why {done.session} --call {last} --store {STORE}")
    out.line(f"  {command} why {done.session} --cost --store {STORE}")
    out.line(f"  {command} show {done.session} --call {last} --store {STORE}")
    if refs:
        out.line(f"  {command} recall {done.session} {refs[0]} --store {STORE}")
    out.line(f"  {command} replay YOUR.jsonl --budget 32000")
    out.line(f"  {command} view")
    out.line()
    out.line("Every prompt, every message and every bill of it, for your browser:", "strong")
    out.line(PAGE.resolve().as_uri())
