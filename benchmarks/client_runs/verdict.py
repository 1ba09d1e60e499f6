"""The verdict: everything that works directly works through the gateway, or what does not."""

from collections.abc import Iterable, Mapping

from client_runs.run import ClientRun


def direct_runs(runs: Iterable[ClientRun]) -> Mapping[tuple[str, str], ClientRun]:
    """Return the runs without a gateway, by client and task."""
    return {(one.client, one.task): one for one in runs if one.budget is None}


def complaints(runs: Iterable[ClientRun]) -> list[str]:
    """Return everything that is worse through the gateway, one line for each."""
    known = list(runs)
    direct = direct_runs(known)
    found: list[str] = []
    for one in known:
        if one.budget is None:
            continue
        before = direct.get((one.client, one.task))
        found += (f"{one.client}, {one.task}, {one.budget:,}: {what}" for what in _worse(one, before))
    return found


def _worse(one: ClientRun, direct: ClientRun | None) -> Iterable[str]:
    """Yield what is worse in a run than in the one without a gateway."""
    if direct is None:
        yield "there is no run without the gateway to compare it with"
        return
    if direct.is_finished and not one.is_finished:
        yield f"did not finish (exit codes {one.exit_codes}, {one.calls} calls); directly it does"
    if one.hidden:
        yield f"the newest result was hidden in {one.hidden} calls"
    if one.visible:
        yield f"tools of the gateway were visible in {one.visible} calls"
    if len(one.refused) > len(direct.refused):
        yield f"{len(one.refused)} requests broke a rule of the provider: {one.refused[0]:.200}"
    if one.upgrades > direct.upgrades:
        yield f"the client tried a WebSocket {one.upgrades} times, and directly {direct.upgrades}"
    new = list(one.errors)
    for known in direct.errors:
        if known in new:
            new.remove(known)
    if new and one.task not in _MAY_DIFFER:
        yield f"the client saw errors that it does not see directly: {', '.join(new)}"


_MAY_DIFFER = ("killed while waiting", "killed in a stream")
"""Tasks in which it is a matter of moments how often a client knocks at a closed door."""
