"""Explain a prompt: one line an entry, shown how, by which policy, because of what, at how many tokens.

Lines, tools and framing add up to the total; a summary is named with its author and the entries that it covers. With --entry,
one entry with its original, its stand-in and the fold that made it. With --prefix, the changes to the cached prefix, and the
tokens billed anew for them. With --cost, the cost of the prompt and its fold; without --call, the costs of all folds.
"""

import shlex
from argparse import ArgumentParser, Namespace
from typing import Any

import msgspec

from foveal.analysis.inspect.cost import SessionCost, call_cost, cost
from foveal.analysis.inspect.entry_history import EntryHistory, PromptExplanation, PromptSummary, entry_history, why
from foveal.analysis.inspect.history import prefix_moves
from foveal.cli.arguments import add_call, add_store, existing_store
from foveal.cli.cost_report import dollars, print_call, print_session
from foveal.cli.output import Output
from foveal.values.trace import TraceLine
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


def run(args: Namespace, out: Output) -> None:
    answer = _cost if args.cost else _prefix if args.prefix else _explain
    answer(args, out)


def _cost(args: Namespace, out: Output) -> None:
    with existing_store(args.store) as store:
        one = call_cost(store, args.session, args.call) if args.call else None
        found = one or cost(store, args.session)
    if out.is_json:
        out.document(found)
    elif isinstance(found, SessionCost):
        print_session(found, out)
    else:
        print_call(found, out)


def _prefix(args: Namespace, out: Output) -> None:
    with existing_store(args.store) as store:
        found = prefix_moves(store, args.session, args.call)
    if out.is_json:
        out.document(found)
        return
    out.line(f"{found.session}, call {found.call}: {found.sent:,} tokens", "strong")
    if found.call == 1:
        out.line("The first call: nothing was sent before it.")
        return
    if not found.movers:
        out.line("Nothing moved: the prompt begins with all of the one before it.", "good")
        return
    rows = [(one.who, f"{one.tokens:,}", dollars(one.usd), one.what) for one in found.movers]
    out.table(("moved by", "billed anew", "USD", "what"), rows, "lrrl")
    out.line()
    more = "at a price that is not known" if found.usd is None else f"{dollars(found.usd)} USD more than from the cache"
    out.wrapped(
        f"In all {found.tokens:,} tokens were billed anew, {more}: behind the first change everything is, once."
    )


def _explain(args: Namespace, out: Output) -> None:
    with existing_store(args.store) as store:
        found = why(store, args.session, args.call)
        entry = entry_history(store, args.session, args.entry, args.call) if args.entry else None
    if out.is_json:
        out.document(_document(found, entry))
        return
    trace = found.trace
    out.line(f"{trace.session}, call {trace.call}: {trace.model} in the {trace.dialect} dialect", "strong")
    lines = (entry.line,) if entry else trace.lines
    out.table(_HEAD, [_cells(line) for line in lines], "lllrrll")
    out.line()
    if entry:
        _print_entry(entry, out)
        store = ["--store", args.store] if args.store else []
        out.line(f"The whole original: {shlex.join(['foveal', 'recall', entry.session, entry.ref, *store])}")
    else:
        _print_totals(found, out)
        if found.summary:
            _print_summary(found.summary, out)


_HEAD = ("entry", "kind", "shown", "tokens", "raw", "policy", "because")


def _cells(line: TraceLine) -> tuple[str, ...]:
    is_named = line.kind in ("range", "fence", "reminder")
    entry = line.entry if is_named else line.entry[:10]
    kind = f"{line.entries:,} entries" if line.kind == "range" else line.kind
    return entry, kind, line.shown, f"{line.tokens:,}", f"{line.raw_tokens:,}", line.policy, line.because


def _print_totals(found: PromptExplanation, out: Output) -> None:
    trace = found.trace
    entries, raw = sum(line.tokens for line in trace.lines), sum(line.raw_tokens for line in trace.lines)
    rows = [
        ("entries", f"{entries:,}", f"{raw:,}"),
        ("tools", f"{trace.tools_tokens:,}", f"{trace.tools_tokens:,}"),
        ("framing", f"{trace.framing_tokens:,}", f"{trace.framing_tokens:,}"),
        ("total", f"{trace.tokens:,}", f"{trace.raw_tokens:,}"),
    ]
    out.table(("", "tokens", "raw"), rows, "lrr")
    out.line(f"{trace.tokens / trace.limit:.1%} of the limit of {trace.limit:,} tokens")
    for note in trace.notes:
        out.line(f"Smaller than the policy allows: {note}.")
    if trace.tokens > trace.limit:
        out.line("More than the limit: asking for this prompt folds it first.", "bad")
    if fold := trace.fold:
        what = f"{fold.reason}; {fold.before:,} tokens became {fold.after:,}"
        out.wrapped(f"A fold was made for this call: {what}. What it cost: `foveal why … --cost --call {trace.call}`.")
    if found.counter_error:
        out.wrapped(f"Counted with {found.counter}; {found.counter_error}.")


def _print_summary(summary: PromptSummary, out: Output) -> None:
    of = f"{len(summary.covers):,} messages of {summary.raw_tokens:,} tokens, in {summary.tokens:,}"
    by = "by code" if summary.author == CODE else f"by code, its prose by {summary.author}"
    out.wrapped(f"The summary stands for {of} ({', '.join(summary.ranges)}). Written for call {summary.call} {by}.")


def _print_entry(entry: EntryHistory, out: Output) -> None:
    for fold in entry.folds:
        author = f", prose by {fold.author}" if fold.author else ""
        out.wrapped(f"Folded for call {fold.call} by {fold.policy}{author} ({fold.because}).", "  ", "")
        moved = f"{fold.before:,} tokens became {fold.after:,}, {fold.rebilled:,} of them billed anew"
        out.wrapped(f"The fold: {fold.reason}; {moved}.", "  ", "  ")
    if not entry.folds:
        out.line("No fold has touched it.")
    for title, text in (("original", entry.original), ("stand-in", entry.stand_in)):
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


def _document(found: PromptExplanation, entry: EntryHistory | None) -> dict[str, Any]:
    trace, plain = found.trace, msgspec.to_builtins(found.trace)
    detail = {"entry": entry} if entry else {}
    return {**plain, "tokens": trace.tokens, "raw_tokens": trace.raw_tokens, "summary": found.summary, **detail}
