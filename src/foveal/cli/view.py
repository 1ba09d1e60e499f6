"""Show sessions in the browser: every prompt, call by call, and how sharply each message was shown in it.

Names a session of a store, or a recording that is replayed with --budget or --policy. With neither it lists the newest sessions
that agents have written on this machine; nothing of them is copied or sent. With --live the page follows sessions that another
process writes. It asks for nothing from elsewhere; with --html it is one file, for a colleague.
"""

import os
import threading
import webbrowser
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

from foveal.analysis.replay.replay import DEFAULT_MODEL
from foveal.analysis.replay.report import counted
from foveal.cli.arguments import add_store, existing_place, open_existing, positive, store_place
from foveal.cli.budget import with_budget
from foveal.cli.files import whole_file
from foveal.cli.output import Output, complain
from foveal.dialects import find_dialect
from foveal.models.counters import counter_for
from foveal.session.policy import Policy
from foveal.session.policy_file import read_policy
from foveal.values.errors import BadInput, FovealError, NotFound
from foveal.viewer.builder import AS_SENT, RunOptions
from foveal.viewer.choices import SessionChoice, StoredSessions, local_choices, recorded_choices
from foveal.viewer.document import PageSession
from foveal.viewer.page import page
from foveal.viewer.server import opened_server
from foveal.viewer.session_pages import SessionPages

_RECENT = 50


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="SESSION|FILE",
        nargs="?",
        help="a session of the store, or a file of recordings (default: all sessions of --store, else those of your agents)",
    )
    parser.add_argument("--html", metavar="OUT", type=Path, help="write the page to this file, and serve nothing")
    parser.add_argument("--live", action="store_true", help="follow the sessions of the store as they grow")
    parser.add_argument("--no-open", action="store_true", help="print the address, and open no browser")
    parser.add_argument("--budget", metavar="N", type=positive, help="replay recordings with at most N tokens a call")
    parser.add_argument("--policy", metavar="FILE", type=Path, help="replay recordings under this policy")
    parser.add_argument("--compare", metavar="N|FILE", help="another budget or policy, to be shown side by side")
    parser.add_argument("--model", metavar="M", help="replay recordings as this model (default: the recorded one)")
    parser.add_argument("--dialect", metavar="D", help="wire format of the replay (default: the recorded one)")
    parser.add_argument(
        "--recent",
        metavar="N",
        type=positive,
        default=_RECENT,
        help=f"the N newest sessions of your agents (default: {_RECENT})",
    )
    add_store(parser)


def run(args: Namespace, out: Output) -> None:
    _check_live(args)
    with _opened_store(args) as stored:
        if args.html:
            found = stored.choices() if stored else list(_recorded(args))
            _write(args.html, found[:1] if stored and args.target else found, out)
        else:
            _serve(args, _pages(args, stored), out)


def _check_live(args: Namespace) -> None:
    if not args.live:
        return
    for name in ("html", "compare"):
        if getattr(args, name):
            raise BadInput(
                f"--live follows a session as it grows, and --{name} shows it as it is; leave one of them out"
            )
    if args.store is None and _is_replayed(args):
        raise BadInput("--live follows the sessions of a store: name it with --store FILE")


@contextmanager
def _opened_store(args: Namespace) -> Generator[StoredSessions | None]:
    """Open the store that is named, for reading; None if recordings are meant."""
    if args.store is None and _is_replayed(args):
        yield None
        return
    place = store_place(args.store)
    if args.store is None and isinstance(place, Path) and not place.exists():
        raise NotFound(
            f"{args.target} is neither a file here nor a session of a store; name a recording, or the store: --store FILE"
        )
    for name in ("budget", "policy", "model", "dialect"):
        if getattr(args, name):
            raise BadInput(
                f"--{name} is for recordings; stored prompts have been sent already (--compare shows another)"
            )
    place = existing_place(args.store)
    with open_existing(place) as store:
        stored = StoredSessions(store, str(place), args.target, [_compared(args)] if args.compare else [])
        if not args.live and not store.cards():
            raise NotFound(f"there is no session in {place} yet")
        yield stored


def _pages(args: Namespace, stored: StoredSessions | None) -> SessionPages:
    """Return the pages to serve; raise an error with the names that can be given if there is nothing to show."""
    title = args.target or args.store or "Sessions of the agents on this machine"
    if stored and args.live:
        return SessionPages(title=title, sent_as=AS_SENT, store=stored, is_one=args.target is not None)
    if stored:
        return SessionPages(stored.choices(), title=title, sent_as=AS_SENT, is_one=args.target is not None)
    is_local = args.target is None
    note = "Read from the folders of the agents; nothing is copied, changed or sent." if is_local else ""
    return SessionPages(
        _recorded(args),
        title=title,
        sent_as=_options(args).name,
        note=note,
        at_budget=lambda budget: _options(Namespace(**{**vars(args), "budget": budget})),
    )


def _write(path: Path, choices: list[SessionChoice], out: Output) -> None:
    sessions = list[PageSession]()
    for choice in choices:
        try:
            sessions.append(choice.source.page())
        except FovealError as error:
            if len(choices) == 1:
                raise
            complain(error)
    if not sessions:
        raise NotFound("none of these sessions can be shown")
    with whole_file(path, is_private=True) as stream:
        size = stream.write(page(sessions))
    calls = sum(session.runs[0].total.calls for session in sessions)
    if out.is_json:
        out.document({"html": str(path), "bytes": size, "sessions": len(sessions), "calls": calls})
    else:
        out.line(f"{path}: {counted(len(sessions), 'session')}, {counted(calls, 'call')}, {size / 1e6:.1f} MB")


def _serve(args: Namespace, pages: SessionPages, out: Output) -> None:
    """Serve the pages until the user ends it."""
    with suppress(KeyboardInterrupt), opened_server(pages) as server:
        if out.is_json:
            out.document({"url": server.address})
        else:
            out.line(server.address, "strong")
            out.line("Only this machine can open it. Ctrl-C ends it.")
        out.stream.flush()
        if not args.no_open:
            webbrowser.open(server.address)
        threading.Event().wait()


def _is_replayed(args: Namespace) -> bool:
    return args.target is None or Path(args.target).is_file()


def _recorded(args: Namespace) -> Iterator[SessionChoice]:
    """Return the recordings to show; raise an error with the names that can be given if there are none."""
    compare = [_compared(args)] if args.compare else []
    if args.target is None:
        found = local_choices([_options(args), *compare], args.recent, home=Path.home(), environment=os.environ)
        first = next(found, None)
        if first is None:
            raise NotFound(
                "no agent that we know has kept a session here; name a recording, or a session and --store FILE"
            )
        return chain([first], found)
    listed = list(recorded_choices([Path(args.target)], [_options(args), *compare]))
    if errors := [choice.row.error for choice in listed if choice.row.error]:
        raise BadInput(errors[0])
    if not listed:
        raise BadInput(f"{args.target} holds no session")
    return iter(listed)


def _options(args: Namespace) -> RunOptions:
    """Return the way to replay a recording. A budget is in o200k tokens, unless a model is named."""
    policy, names = read_policy(args.policy) if args.policy else Policy(), list[str]()
    if args.policy:
        names.append(args.policy.name)
    if args.budget:
        policy = with_budget(policy, args.budget)
        names.append(f"{args.budget:,} tokens")
    return RunOptions(
        name=", ".join(names) or "the built-in policy",
        policy=policy,
        model=args.model,
        dialect=find_dialect(args.dialect).name if args.dialect else None,
        counter=counter_for(DEFAULT_MODEL) if args.budget and not args.model else None,
    )


def _compared(args: Namespace) -> RunOptions:
    """Return the way that `--compare` names: a budget, with the same policy otherwise, or a policy."""
    is_budget = args.compare.replace("_", "").replace(",", "").isdecimal()
    try:
        given = {"budget": positive(args.compare)} if is_budget else {"policy": Path(args.compare)}
    except ArgumentTypeError as error:
        raise BadInput(f"--compare: {error}") from None
    other = _options(Namespace(**{**vars(args), **given}))
    if other.name != _options(args).name:
        return other
    raise BadInput(f"--compare {args.compare} is the same as without it; name another budget or policy")
