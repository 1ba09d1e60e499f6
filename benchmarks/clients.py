"""Real clients: everything that works directly must work through the gateway, and at which price it does.

    make clients                                                         # all of it: half an hour, 1.5 GB, npm
    python benchmarks/clients.py --clients codex pi --tasks "15 calls" "cut stream" --out /tmp/try.md
    python benchmarks/clients.py --latest --out /tmp/newer.md            # the newest versions in place of the pinned ones

Installs the clients into a folder that can be thrown away, runs each task in each way, and writes results/clients.md. Runs that
were made with the same code are not made again, so that an interrupted one goes on. The exit code is 1 if something that works
directly does not work through the gateway; the list is printed. The provider is scripted: no network beyond npm, and no key.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from client_runs.install import VERSIONS, InstalledClient, install
from client_runs.page import page
from client_runs.run import ClientRun, run, ways
from client_runs.tasks import FAULTS, TASKS, ClientTask
from client_runs.verdict import complaints

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "clients.md"

BUDGETS = {
    "claude": (32_000, 80_000),
    "codex": (20_000, 60_000),
    "pi": (16_000, 60_000),
    "opencode": (20_000, 60_000),
    "gemini": (24_000, 60_000),
}
"""Two budgets for each client: one that its fixed part fills to about a half, and a roomy one."""


def main(words: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(words)
    sys.path.insert(0, str(ROOT / "scripts"))
    from check_results import tree_hash  # noqa: PLC0415 - a script, not a package

    mark = tree_hash(ROOT, "clients.md")
    clients = [install(name, args.folder, latest=args.latest) for name in args.clients]
    runs: list[ClientRun] = []
    for client, task, budget in _all(clients, args.tasks):
        slug = f"{client.name}-{task.name}-{budget or 'direct'}".replace(" ", "_").replace(",", "").replace(":", "")
        kept = args.folder / "rows" / f"{client.version}-{mark}" / f"{slug}.json"
        if not kept.exists() or args.again:
            made = run(client, task, budget, args.folder / "runs" / slug)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(msgspec.json.encode(made))
        runs.append(msgspec.json.decode(kept.read_bytes(), type=ClientRun))
        print(_line(runs[-1]), flush=True)
    args.out.write_text(page(runs, {one.name: one.version for one in clients}), encoding="utf-8")
    worse = complaints(runs)
    for one in worse:
        print(f"worse through the gateway: {one}")
    return 1 if worse else 0


def _all(
    clients: Sequence[InstalledClient], tasks: Sequence[str]
) -> Iterator[tuple[InstalledClient, ClientTask, int | None]]:
    for client in clients:
        for name in tasks:
            task = TASKS[name]
            if not task.clients or client.name in task.clients:
                for budget in ways(task, BUDGETS[client.name], is_fault=name in FAULTS):
                    yield client, task, budget


def _line(one: ClientRun) -> str:
    way = "direct" if one.budget is None else f"{one.budget:,}"
    ended = "finished" if one.is_finished else f"ended {one.exit_codes}"
    errors = f", errors {', '.join(one.errors)}" if one.errors else ""
    marks = f", hidden {one.hidden}" * bool(one.hidden) + f", visible {one.visible}" * bool(one.visible)
    return f"{one.client:9}{one.task:22}{way:>7}  {ended}, {one.calls} calls, {one.seconds:.0f} s{errors}{marks}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", nargs="+", choices=VERSIONS, default=list(VERSIONS), metavar="NAME")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), metavar="TASK", help=", ".join(TASKS))
    parser.add_argument("--latest", action="store_true", help="the newest versions that npm has")
    parser.add_argument("--again", action="store_true", help="make all runs anew")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "foveal-clients", help="(%(default)s)"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
