"""The page of results: a table for each task, one for all faults, and the verdict."""

from collections.abc import Iterable, Mapping, Sequence

from client_runs.run import ClientRun
from client_runs.tasks import FAULTS, TASKS
from client_runs.verdict import complaints, direct_runs

_HEAD = """# Real clients through the gateway

Written by `make clients`. Unchanged clients from npm, headless, against the scripted provider (`foveal.testing.provider`):
directly, and through `foveal wrap` at two budgets; for the kills through `foveal serve`, and directly through a relay that passes
bytes on. Tokens and bill are those of the scripted provider: o200k times the factor of the model's family, Anthropic's prices for
what is cached, nothing expires.

- **errors**: answers that the client saw as errors, cut streams among them.
- **hidden**: calls in which the newest result reached the provider without a line of it; **visible**: calls in which the client
  saw a tool of the gateway's. Both must be 0.
- **tokens**, **bill**: sent, against the direct run. **first fold**: at which call, and the size of the client's request then.
- **CPU**: milliseconds of the gateway's processor time for each call after the first, folds included.
"""
_NONE = "–"


def page(runs: Sequence[ClientRun], versions: Mapping[str, str]) -> str:
    """Return the page."""
    worse = complaints(runs)
    verdict = (
        ["**Everything that works directly works through the gateway.**"]
        if not worse
        else ["**Not everything that works directly works through the gateway:**", "", *(f"- {one}" for one in worse)]
    )
    parts = [_HEAD, ", ".join(f"{name} {version}" for name, version in versions.items()) + ".", "", *verdict, ""]
    for name in TASKS:
        if name not in FAULTS and (chosen := [one for one in runs if one.task == name]):
            parts += [f"## {name[0].upper()}{name[1:]}", "", *_task_table(chosen), ""]
    if faults := [one for one in runs if one.task in FAULTS]:
        parts += ["## Faults", "", "Directly → through the gateway, with the errors that the client saw.", ""]
        parts += [*_fault_table(faults), ""]
    parts += [
        f"{one} tries a WebSocket first, is told 426 and goes on by POST, in every run." for one in _upgraders(runs)
    ]
    return "\n".join(parts).rstrip() + "\n"


def _upgraders(runs: Iterable[ClientRun]) -> list[str]:
    """Return the clients that ask for a WebSocket before anything else."""
    return list(dict.fromkeys(one.client for one in runs if one.upgrades))


def _task_table(runs: Sequence[ClientRun]) -> list[str]:
    direct = direct_runs(runs)
    heads = ("client", "way", "finished", "calls", "errors", "hidden", "visible", "tokens", "bill", "first fold", "CPU")
    rows = [heads, ("---", "---", "---", *["---:"] * 6, "---", "---:")]
    for one in runs:
        before = direct.get((one.client, one.task))
        ratios = [_ratio(one.tokens, before and before.tokens), _ratio(one.bill, before and before.bill)]
        if one.budget is None:
            ratios = [f"{one.tokens:,}", f"{one.bill:,.0f}"]
        fold = f"call {one.first_fold}, {one.fold_tokens:,}" if one.first_fold is not None else _NONE
        cpu = f"{one.cpu_ms:.0f}" if one.cpu_ms is not None else _NONE
        way = "direct" if one.budget is None else f"{one.budget:,}"
        checked = [str(one.hidden), str(one.visible)] if one.budget is not None else [_NONE, _NONE]
        fold = fold if one.budget is not None else _NONE
        errors = _errors(one.errors)
        rows.append((one.client, way, _yes(one.is_finished), str(one.calls), errors, *checked, *ratios, fold, cpu))
    return [f"| {' | '.join(row)} |" for row in rows]


def _fault_table(runs: Sequence[ClientRun]) -> list[str]:
    clients = list(dict.fromkeys(one.client for one in runs))
    found = {(one.client, one.task, one.budget is None): one for one in runs}
    rows = [("fault", *clients), ("---",) * (len(clients) + 1)]
    for task in dict.fromkeys(one.task for one in runs):
        cells = [
            " → ".join(_outcome(found.get((client, task, is_direct))) for is_direct in (True, False))
            for client in clients
        ]
        rows.append((task, *(cell if cell != f"{_NONE} → {_NONE}" else _NONE for cell in cells)))
    return [f"| {' | '.join(row)} |" for row in rows]


def _outcome(one: ClientRun | None) -> str:
    if one is None:
        return _NONE
    errors = f" ({_errors(one.errors)})" if one.errors else ""
    return f"{'finishes' if one.is_finished else 'ends'}{errors}"


def _errors(errors: Iterable[str]) -> str:
    known = list(errors)
    told = [f"{known.count(one)} × {one}" if known.count(one) > 1 else one for one in dict.fromkeys(known)]
    return ", ".join(told) or "0"


def _ratio(value: float, base: float | None) -> str:
    return f"{value / base:.2f}" if base else _NONE


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "**no**"
