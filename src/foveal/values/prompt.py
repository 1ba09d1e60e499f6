"""A prompt: the request to send, and everything needed to explain it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from foveal.values.entry import Fold, Setup
from foveal.values.shown import Atom
from foveal.values.trace import Trace, TraceLine, framing_of, lines_of, renamed_lines


class Prompt(msgspec.Struct, frozen=True):
    """One request. `request` holds the keyword arguments for the provider's own SDK."""

    session: str
    call: int
    """Which model call of the branch this is for, counted from 1."""
    request: dict[str, Any]
    wires: list[dict[str, Any]]
    """The conversation in wire form, without cache marks: the provider's cache compares these."""
    tokens: int
    """Tokens of the whole request (tools and framing included), in our own count."""
    fold: Fold | None
    """The fold that was recorded to make it fit, if one was needed."""
    setup: Setup
    atoms: tuple[Atom, ...]
    beside: tuple[TraceLine, ...] = ()
    """Trace lines of the blocks beside the conversation, and of the content that was held back."""
    renamed_tools: Mapping[str, str] = {}
    """The host's names of tools whose names providers refuse, by the names that they are offered under. For hosts that read calls
    from the provider's reply; `session.serve()` returns calls under the host's names."""
    decided: Fold | None = None
    """The newest fold that was made for this call, now or when its prompt was asked for before, without its items."""
    notes: tuple[str, ...] = ()
    """Reasons why it may be no larger, beyond the policy."""

    @property
    def trace(self) -> Trace:
        return Trace(
            session=self.session,
            call=self.call,
            model=self.setup.model,
            dialect=self.setup.dialect,
            limit=self.setup.limit,
            lines=(*lines_of(self.atoms), *renamed_lines(self.renamed_tools), *self.beside),
            tools_tokens=self.setup.tools_tokens,
            framing_tokens=framing_of(self.atoms),
            fold=self.decided,
            notes=self.notes,
        )
