"""Commands and how they ended."""

from collections.abc import Iterator

from foveal.summary.ledger.events import Ended, Fact, Finished, LedgerEvent
from foveal.summary.ledger.items import LedgerCommand
from foveal.summary.ledger.outcome import CONTINUES, error_line, exit_code, handle_of, only_looks, outcome_of, trimmed

_HANDLE = ("sessionid", "bashid", "shellid", "taskid", "cellid", "id")


def commands(event: LedgerEvent) -> Iterator[Fact]:
    """A command that only looks is no news: what it showed is listed with the files and the names."""
    if not isinstance(event, Ended):
        return
    if event.command:
        if not only_looks(event):
            outcome = outcome_of(event)
            error = error_line(event.text) if outcome == "failed" else ""
            handle = handle_of(event.text) if outcome == "running" else ""
            yield LedgerCommand(
                text=trimmed(event.command), outcome=outcome, exit=exit_code(event.text), error=error, handle=handle
            )
    elif event.tool in CONTINUES and (code := exit_code(event.text)) is not None:
        handle = next((str(event.fields[key]) for key in _HANDLE if key in event.fields), "")
        yield Finished(handle, "failed" if code else "ok", code, error_line(event.text) if code else "")
