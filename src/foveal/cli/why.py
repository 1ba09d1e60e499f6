"""Explain a prompt: one line an entry, shown how, by which policy, because of what, at how many tokens.

Lines, tools and framing add up to the total; where there is a summary, it is said for which entries it stands and who wrote
it. With --entry, one entry with its original, its stand-in and the fold that did it. With --prefix, who changed what was sent
before, and what was billed anew for it. With --cost, what the prompt and its fold cost; without --call, what all folds did.
"""

import shlex
from argparse import ArgumentParser, Namespace
from typing import Any

import msgspec

from foveal.analysis.inspect.cost import SessionCost, one_cost, session_cost
from foveal.analysis.inspect.entry_history import EntryHistory, PromptSummary, fate_of, standing_of
from foveal.analysis.inspect.prefix_moves import moved
from foveal.analysis.inspect.stored import add_store, existing_store, stored_prompt
from foveal.cli.calls import add_call
from foveal.cli.cost_words import print_one, print_session
from foveal.cli.output import Output, add_json
from foveal.session.model_setup import ModelSetup
from foveal.values.trace import Trace, TraceLine
from foveal.writers.summary_writer import CODE

PREVIEW_CHARS = 400


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION")
    add_call(parser)
    detail = parser.add_mutually_exclusive_group()
    detail.add_argument("--entry", metavar="ID", help="only this entry (the beginning of its id is enough), in detail")
    detail.add_argument("--prefix", action="store_true", help="who moved the cached prefix since the call before")
    detail.add_argument(
        "--cost", action="store_true", help="what the call and its fold cost; without --call, all folds of the session"
    )
    add_store(parser)
    add_json(parser)


def run(args: Namespace, out: Output) -> int:
    if args.cost:
        return _cost(args, out)
    return _prefix(args, out) if args.prefix else _explain(args, out)


def _cost(args: Namespace, out: Output) -> int:
    with existing_store(args.store) as store:
        one = one_cost(store, args.session, args.call) if args.call else None
        found = one or session_cost(store, args.session)
    if out.is_json:
        out.document(msgspec.to_builtins(found))
    elif isinstance(found, SessionCost):
        print_session(found, out)
    else:
        print_one(found, out)
    return 0


def _prefix(args: Namespace, out: Output) -> int:
    with existing_store(args.store) as store:
        found = moved(store, args.session, args.call)
    if out.is_json:
        out.document(msgspec.to_builtins(found))
        return 0
    out.line(f"{found.session}, call {found.call}: {found.sent:,} tokens", "strong")
    if found.call == 1:
        out.line("The first call: nothing was sent before it.")
        return 0
    if not found.movers:
        out.line("Nothing moved: the prompt begins with all of the one before it.", "good")
        return 0
    rows = [(one.who, f"{one.tokens:,}", _dollars(one.usd), one.what) for one in found.movers]
    out.table(("moved by", "billed anew", "USD", "what"), rows, "lrrl")
    out.line()
    more = (
        "at a price that is not known" if found.usd is None else f"{_dollars(found.usd)} USD more than from the cache"
    )
    out.wrapped(
        f"In all {found.tokens:,} tokens were billed anew, {more}: behind the first change everything is, once."
    )
    return 0


def _dollars(usd: float | None) -> str:
    return "?" if usd is None else f"{usd:.4f}"


def _explain(args: Namespace, out: Output) -> int:
    with existing_store(args.store) as store:
        prompt, optics = stored_prompt(store, args.session, args.call)
        trace = prompt.trace
        fate = fate_of(store, prompt, args.entry, args.call) if args.entry else None
        standing = standing_of(store, prompt, args.call)
    if out.is_json:
        out.document(_document(trace, fate, standing))
        return 0
    out.line(f"{trace.session}, call {trace.call}: {trace.model} in the {trace.dialect} dialect", "strong")
    lines = (fate.line,) if fate else trace.lines
    out.table(_HEAD, [_cells(line) for line in lines], "lllrrll")
    out.line()
    if fate:
        _print_fate(fate, out)
        store = ["--store", args.store] if args.store else []
        out.line(f"The whole original: {shlex.join(['foveal', 'recall', fate.session, fate.ref, *store])}")
    else:
        _print_totals(trace, optics, out)
        if standing:
            _print_standing(standing, out)
    return 0


_HEAD = ("entry", "kind", "shown", "tokens", "raw", "policy", "because")


def _cells(line: TraceLine) -> tuple[str, ...]:
    is_named = line.kind in ("range", "fence", "reminder")
    entry = line.entry if is_named else line.entry[:10]
    kind = f"{line.entries:,} entries" if line.kind == "range" else line.kind
    return entry, kind, line.shown, f"{line.tokens:,}", f"{line.raw_tokens:,}", line.policy, line.because


def _print_totals(trace: Trace, optics: ModelSetup, out: Output) -> None:
    entries, raw = sum(line.tokens for line in trace.lines), sum(line.raw_tokens for line in trace.lines)
    rows = [
        ("entries", f"{entries:,}", f"{raw:,}"),
        ("tools", f"{trace.tools_tokens:,}", f"{trace.tools_tokens:,}"),
        ("framing", f"{trace.framing_tokens:,}", f"{trace.framing_tokens:,}"),
        ("total", f"{trace.tokens:,}", f"{trace.raw_tokens:,}"),
    ]
    out.table(("", "tokens", "raw"), rows, "lrr")
    out.line(f"{trace.tokens / trace.limit:.1%} of the limit of {trace.limit:,} tokens")
    if trace.tokens > trace.limit:
        out.line("More than the limit: asking for this prompt folds it first.", "bad")
    if fold := trace.fold:
        what = f"{fold.reason}; {fold.before:,} tokens became {fold.after:,}"
        out.wrapped(f"A fold was made for this call: {what}. What it cost: `foveal why … --cost --call {trace.call}`.")
    if not optics.counter.exact:
        out.wrapped(f"Counted with {optics.counter.counter.name}; {optics.counter.error}.")


def _print_standing(standing: PromptSummary, out: Output) -> None:
    of = f"{len(standing.covers):,} messages of {standing.raw_tokens:,} tokens, in {standing.tokens:,}"
    by = "by code" if standing.author == CODE else f"by code, its prose by {standing.author}"
    out.wrapped(f"The summary stands for {of} ({', '.join(standing.ranges)}). Written for call {standing.call} {by}.")


def _print_fate(fate: EntryHistory, out: Output) -> None:
    for fold in fate.folds:
        author = f", prose by {fold.author}" if fold.author else ""
        out.wrapped(f"Folded for call {fold.call} by {fold.policy}{author} ({fold.because}).", "  ", "")
        moved = f"{fold.before:,} tokens became {fold.after:,}, {fold.rebilled:,} of them billed anew"
        out.wrapped(f"The fold: {fold.reason}; {moved}.", "  ", "  ")
    if not fate.folds:
        out.line("No fold has touched it.")
    for title, text in (("original", fate.original), ("stand-in", fate.stand_in)):
        if text is not None:
            out.line()
            out.line(f"── {title}, {len(text):,} characters", "sent")
            out.line(_preview(text))
    out.line()


def _preview(text: str) -> str:
    if len(text) <= PREVIEW_CHARS:
        return text
    head, tail = text[: PREVIEW_CHARS * 2 // 3], text[-PREVIEW_CHARS // 3 :]
    return f"{head}\n[… {len(text) - len(head) - len(tail):,} characters …]\n{tail}"


def _document(trace: Trace, fate: EntryHistory | None, standing: PromptSummary | None) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(trace)
    detail = {"entry": msgspec.to_builtins(fate)} if fate else {}
    summary = msgspec.to_builtins(standing) if standing else None
    return {**plain, "tokens": trace.tokens, "raw_tokens": trace.raw_tokens, "summary": summary, **detail}
