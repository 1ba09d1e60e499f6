"""Admission: the parts of a log that a provider would take, decided once for each part where it is projected.

A dialect knows what it must not send. Beyond that, parts that only their provider understands are tried: each is written alone
into a small request, and one to which the writer or the provider's rules object is hidden, so that it is not in the way of every
later prompt.
"""

from functools import cache

import msgspec

from foveal.dialects.media import fit_media
from foveal.dialects.port import CannotSay, Dialect, RequestOptions, Wire
from foveal.values.entry import File, Image, Message, Opaque, Part, Role, Text, user

_REASON_CHARS = 160


_WORDS = Text(".")
"""Follows the part that is tried: some parts must not end a reply."""


@cache
def _asked(dialect: Dialect) -> list[Wire]:
    """Return a message of the user on the wire."""
    return dialect.chunk((user("."),))


class Admission(msgspec.Struct, frozen=True):
    """The parts that one model takes in one dialect."""

    dialect: Dialect
    model: str

    def omits(self, part: Part, writer: str | None) -> str:
        """Return why this part, written by `writer`, is not sent; empty if it is."""
        if reason := self.dialect.hides(part, writer, self.model):
            return reason
        return self._refusal(part) if isinstance(part, Opaque) else ""

    def fits(self, item: Image | File, role: Role) -> tuple[Image | File | Text, str]:
        """Return an image or a file as the provider takes it, or the line in its place, and the reason for a change."""
        return fit_media(item, self.dialect.media, role)

    def _refusal(self, part: Opaque) -> str:
        """Return the reason for which a request with this part alone in a reply would be refused."""
        dialect, asked = self.dialect, _asked(self.dialect)
        wires = list(asked)
        try:
            dialect.join(wires, dialect.chunk((Message("assistant", (part, _WORDS), self.model),)))
        except CannotSay as error:
            return str(error)
        dialect.join(wires, asked)
        found = dialect.problems(dialect.request(RequestOptions(self.model, (), 1), (), wires), len(asked))
        return f"the provider would refuse it: {found[0].what}"[:_REASON_CHARS] if found else ""
