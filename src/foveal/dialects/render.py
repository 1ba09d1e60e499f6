"""From a view to wire messages, rendering only what is new since the last prompt."""

from foveal.core.entry import Message
from foveal.core.errors import Unrepresentable
from foveal.core.project import View
from foveal.core.repair import settle
from foveal.core.view import Atom
from foveal.dialects.port import CannotSay, Dialect, Wire


class Renderer:
    """Keeps the wire messages of the atoms that can no longer change, until a fold moves the prefix."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._wires: list[Wire] = []
        self._lead: list[Message] = []
        self._done = 0

    def render(self, view: View) -> tuple[list[Message], list[Wire], int]:
        """The leading system messages, the wire messages, and how many of the latter were there the last time."""
        if view.changed_from < self._done:
            self._wires, self._lead, self._done = [], [], 0
        since = max(0, len(self._wires) - 1)
        self._take(view.atoms[self._done : view.settled])
        self._done = max(self._done, view.settled)
        view.changed_from = len(view.atoms)
        lead, wires = list(self._lead), list(self._wires)
        for atom in view.atoms[self._done :]:
            self._add(atom, lead, wires)
        return lead, wires, since

    def _take(self, atoms: list[Atom]) -> None:
        for atom in atoms:
            self._add(atom, self._lead, self._wires)

    def _add(self, atom: Atom, lead: list[Message], wires: list[Wire]) -> None:
        messages = settle(atom)
        if atom.kind == "system":
            lead.extend(messages)
            return
        try:
            chunk = self._dialect.chunk(messages)
        except CannotSay as error:
            raise Unrepresentable(self._dialect.name, atom.first, str(error)) from None
        self._dialect.join(wires, chunk)
