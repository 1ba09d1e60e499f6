"""A recorded session as values: every importer makes them, and the replay reads them."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from foveal.dialects.json_values import json_text, mapping
from foveal.values.entry import Message, Usage


class RecordedStep(msgspec.Struct, frozen=True):
    """One recorded message. Each assistant message is one model call: its prompt was made of the messages before it."""

    message: Message
    usage: Usage | None = None
    """The provider's count for the call that this assistant message answered, where it was recorded."""


class Recording(msgspec.Struct, frozen=True):
    """One recorded session."""

    id: str
    source: str
    """File and line that it was read from."""
    model: str | None
    tools: str
    """Tool definitions as JSON text, in the form of any dialect; `[]` where none were recorded."""
    steps: tuple[RecordedStep, ...]
    notes: tuple[str, ...] = ()
    """Everything that the importer left out or had to guess, for the reader of a report."""
    dialect: str | None = None
    """The dialect that the recording agent spoke; None where the format does not tell."""
    project: str = ""
    """The folder that the agent worked in; empty where the format does not tell."""
    compactions: tuple[int, ...] = ()
    """Places among the steps at which the agent compacted its own context."""


def one_session(
    session_id: str,
    file: str,
    steps: Sequence[RecordedStep],
    notes: Sequence[str],
    *,
    dialect: str | None = None,
    tools: Sequence[object] = (),
    project: str = "",
    compactions: Sequence[int] = (),
) -> Recording:
    """Return the recording of one session. Its model is that of the last reply; `tools` are kept where they are objects."""
    models = Counter(step.message.model for step in steps if step.message.model)
    last = next((step.message.model for step in reversed(steps) if step.message.model), None)
    all_notes = list(notes)
    if len(models) > 1:
        all_notes.append("several models replied: " + ", ".join(f"{name} {count}" for name, count in models.items()))
    if not steps:
        all_notes.append("no message was recorded")
    offered = json_text([tool for tool in tools if mapping(tool) is not None])
    return Recording(
        session_id, file, last, offered, tuple(steps), tuple(all_notes), dialect, project, tuple(compactions)
    )


def tally(counts: Counter[str], what: str) -> list[str]:
    """Return a note of how many there were, and of which kind; no note where there were none."""
    if not counts:
        return []
    kinds = ", ".join(f"{kind} {number}" for kind, number in counts.most_common())
    return [f"{counts.total()} {what}: {kinds}"]
