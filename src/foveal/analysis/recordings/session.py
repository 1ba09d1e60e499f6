"""What the readers of session files share: a file is one session, and its replies name their models."""

from collections import Counter
from collections.abc import Sequence

from foveal.analysis.recordings.recording import RecordedStep, Recording


def one_session(session_id: str, file: str, steps: Sequence[RecordedStep], notes: Sequence[str]) -> Recording:
    """The recording of a session file. Its model is that of the last reply."""
    models = Counter(step.message.model for step in steps if step.message.model)
    last = next((step.message.model for step in reversed(steps) if step.message.model), None)
    said = list(notes)
    if len(models) > 1:
        said.append("several models replied: " + ", ".join(f"{name} {count}" for name, count in models.items()))
    if not steps:
        said.append("no message was recorded")
    return Recording(session_id, file, last, "[]", tuple(steps), tuple(said))
