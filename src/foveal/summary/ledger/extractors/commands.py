"""Extractor of commands and their outcomes."""

from collections.abc import Iterator

from foveal.summary.ledger.events import CallEnded, Fact, LedgerEvent, TaskFinished
from foveal.summary.ledger.items import LedgerCommand
from foveal.summary.ledger.outcome import (
    CONTINUES,
    comparable_command,
    error_line,
    exit_code,
    handle_of,
    is_read_only,
    outcome_of,
)

_HANDLE = ("sessionid", "bashid", "shellid", "taskid", "cellid", "id")


def commands(event: LedgerEvent) -> Iterator[Fact]:
    """Yield commands with their outcomes. Commands that only look are left out: their output is recorded by the files and
    the names."""
    if not isinstance(event, CallEnded):
        return
    if event.command:
        if not is_read_only(event):
            outcome = outcome_of(event)
            error = error_line(event.text) if outcome == "failed" else ""
            handle = handle_of(event.text) if outcome == "running" else ""
            yield LedgerCommand(
                text=comparable_command(event.command),
                outcome=outcome,
                exit=exit_code(event.text),
                error=error,
                handle=handle,
            )
    elif event.tool in CONTINUES and (code := exit_code(event.text)) is not None:
        handle = next((str(event.fields[key]) for key in _HANDLE if key in event.fields), "")
        yield TaskFinished(handle, "failed" if code else "ok", code, error_line(event.text) if code else "")
