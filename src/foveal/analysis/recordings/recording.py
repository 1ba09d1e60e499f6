"""A recorded session as values: what every importer makes and the replay reads."""

import msgspec

from foveal.values.entry import Message, Usage


class RecordedStep(msgspec.Struct, frozen=True):
    """One recorded message. Each assistant message is one model call: the prompt was made of what came before it."""

    message: Message
    usage: Usage | None = None
    """What the provider counted for the call that this assistant message answered, where it was recorded."""


class Recording(msgspec.Struct, frozen=True):
    id: str
    source: str
    """File and line that it was read from."""
    model: str | None
    tools: str
    """Tool definitions as JSON text (OpenAI chat form); `[]` where none were recorded."""
    steps: tuple[RecordedStep, ...]
    notes: tuple[str, ...] = ()
    """What the importer left out or had to guess, for the reader of a report."""
