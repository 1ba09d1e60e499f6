"""Replay recorded sessions: what would Foveal have sent for each model call, and at what price?

Reads sessions of Claude Code, Codex, Gemini CLI, opencode and Pi, OpenAI chat JSONL and the neutral JSONL; plain or gzipped.
Costs are whole bills at the model's prices: cache reads, cache writes and the recorded output.
"""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from foveal.analysis.recordings.places import CLIENT_FOLDERS, newest_sessions
from foveal.analysis.replay.replay import DEFAULT_MODEL, Replay
from foveal.analysis.replay.report import HEAD, cells, document, note_lines, totals
from foveal.cli.arguments import add_json, open_place, positive
from foveal.cli.batch import Order, replay_files
from foveal.cli.budget import with_budget
from foveal.cli.files import input_files, optional_file
from foveal.cli.output import Output, complain
from foveal.cli.progress import progress
from foveal.dialects import find_dialect
from foveal.models.catalogue import find
from foveal.session.policy import Policy
from foveal.session.policy_file import read_policy
from foveal.stores.place import find_place
from foveal.text.display import visible
from foveal.values.errors import BadInput, BadPolicy
from foveal.viewer.document import OverviewRow, PageOverview, PageSession, overview_row
from foveal.viewer.page import page

MOST_PAGES = 40
"""Sessions whose prompts are in a page: with more, their texts would have to be cut too short."""
_LEAST_NAME = 14  # characters of a session's name, however narrow the terminal


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", type=Path, help="recordings; - for standard input")
    parser.add_argument(
        "--recent", metavar="N", type=positive, help="the N newest session files of the agents on this machine as well"
    )
    parser.add_argument(
        "--budget", metavar="N", type=positive, help="the most that is sent, in o200k tokens or --model's"
    )
    parser.add_argument("--model", metavar="M", help="replay as this model (default: the recorded one)")
    parser.add_argument(
        "--policy", metavar="FILE", type=Path, help="a policy in TOML or YAML; --budget overrides its budget"
    )
    parser.add_argument("--dialect", metavar="D", help="wire format (default: the recorded one, else openai_chat)")
    parser.add_argument(
        "--html", metavar="REPORT", type=Path, help="write a page that shows every prompt of the sessions"
    )
    parser.add_argument("--prompts", metavar="OUT", type=Path, help="write every prompt, one line of JSON a call")
    parser.add_argument("--jobs", metavar="N", type=positive, default=1, help="processes to use (default: 1)")
    parser.add_argument("--store", metavar="OUT", help="keep the replayed sessions in this store, for `foveal why`")
    add_json(parser)


def run(args: Namespace, out: Output) -> int:
    order = _order(args)
    recordings = _recordings(args)
    _check_outputs(args, recordings)
    replays: list[Replay] = []
    errors: list[str] = []
    pages = _ReplayPages()
    with input_files(recordings) as files, optional_file(args.html) as html, optional_file(args.prompts) as prompts:
        with progress(() if out.is_json else files) as tick:
            for outcome in replay_files(files, order, jobs=args.jobs, prompts=prompts, tick=tick):
                if outcome.replay:
                    replays.append(outcome.replay)
                    pages.take(outcome.replay, outcome.page)
                else:
                    errors.append(outcome.error)
        if html:
            html.write(pages.page(order.page_name, errors))
        for stream in (html, prompts):
            if stream and not replays:
                stream.close()
    for error in errors:
        complain(error)
    if out.is_json:
        out.document(document(replays, errors))
    elif replays:
        _print(replays, out)
    return 2 if errors else 0


class _ReplayPages:
    """The rows of all replayed sessions, and the data of the largest ones."""

    def __init__(self) -> None:
        self._rows: list[OverviewRow] = []
        self._kept: list[tuple[int, int, PageSession]] = []
        """Size, number and data of the sessions whose calls are in the page."""

    def take(self, done: Replay, page: PageSession | None) -> None:
        if page is None:
            self._rows.append(OverviewRow(visible(done.session), visible(done.source), calls=len(done.calls)))
            return
        self._kept.append((page.runs[0].total.everything_tokens, len(self._rows), page))
        self._rows.append(overview_row(page))
        if len(self._kept) > MOST_PAGES:
            self._kept.remove(min(self._kept, key=lambda one: (one[0], -one[1])))

    def page(self, name: str, errors: Sequence[str]) -> bytes:
        """Return the page: a list of all sessions, those that open first."""
        opened = sorted(number for _, number, _ in self._kept)
        others = [row for number, row in enumerate(self._rows) if number not in set(opened)]
        failed = [OverviewRow(visible(error.partition(": ")[0]), error=visible(error)) for error in errors]
        note = f"The {len(opened)} largest sessions open; of the others, the figures are listed." if others else ""
        overview = PageOverview(
            title="Foveal replay",
            sessions=(*(self._rows[number] for number in opened), *others, *failed),
            sent_as=name,
            note=note,
        )
        return page([one for _, _, one in sorted(self._kept, key=lambda one: one[1])], overview)


def _recordings(args: Namespace) -> list[Path]:
    """Return the files to replay; raise an error if there are none."""
    found = newest_sessions(Path.home(), os.environ, args.recent) if args.recent else []
    if not args.files and not found:
        places = (str(Path(os.environ.get(one.variable) or Path.home() / one.folder)) for one in CLIENT_FOLDERS)
        absent = f"no agent that we know has kept a session here (looked into {', '.join(places)})"
        raise BadInput(
            f"{absent if args.recent else 'no recording is named'}; name files, or `--recent 10` for the newest ones of your "
            "agents (foveal replay --help)"
        )
    return [*args.files, *found]


def _check_outputs(args: Namespace, recordings: Sequence[Path]) -> None:
    """Raise an error about the output files before the work, not after."""
    inputs = {file.resolve() for file in recordings}
    for path in (args.html, args.prompts):
        if path is not None and path.resolve() in inputs:
            raise BadInput(f"{path} is one of the recordings; name another file to write to")
    place = find_place(args.store) if args.store else None
    if place and (not isinstance(place, Path) or place.exists()):
        open_place(place).close()


def _order(args: Namespace) -> Order:
    policy = read_policy(args.policy) if args.policy else Policy()
    dialect = find_dialect(args.dialect).name if args.dialect else None
    try:
        find(args.model or DEFAULT_MODEL, policy.models)
    except ValueError as error:
        raise BadPolicy(f"{args.policy}: {error}") from None
    if args.budget:
        policy = with_budget(policy, args.budget)
    count_as = DEFAULT_MODEL if args.budget and not args.model else None
    name = f"{args.budget:,} tokens" if args.budget else args.policy.name if args.policy else "the built-in policy"
    return Order(policy, dialect, args.model, count_as, args.store, name if args.html else "")


def _print(replays: Sequence[Replay], out: Output) -> None:
    rows = [cells(replay.session, totals([replay])) for replay in replays]
    if len(replays) > 1:
        rows.append(cells(f"total of {len(replays):,}", totals(replays)))
    if out.is_terminal:
        numbers = sum(2 + max(map(len, column)) for column in list(zip(HEAD, *rows, strict=True))[1:])
        rows = [(_shortened(name, max(_LEAST_NAME, out.columns - numbers - 2)), *rest) for name, *rest in rows]
    out.table(HEAD, rows, "l" + "r" * (len(HEAD) - 1))
    models = ", ".join(dict.fromkeys(replay.model for replay in replays))
    out.wrapped(
        f"Prices of {models}. Raw is the whole history sent for every call that the model would have taken, cached as the "
        "provider caches it; recorded is what the provider counted at the time (none: the recording does not have it); sent is "
        "Foveal's."
    )
    for note in note_lines(replays):
        out.wrapped(f"Note: {note}.")


def _shortened(name: str, room: int) -> str:
    """Return the name without its middle: beginnings name the set, ends name the session."""
    tail = room * 2 // 3
    return name if len(name) <= room else f"{name[: room - tail - 1]}…{name[-tail:]}"
