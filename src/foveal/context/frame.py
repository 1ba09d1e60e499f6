"""The engine's own tags around side context, with the nonce of one session."""

from collections.abc import Mapping

from foveal.text import guard


class SessionFrame:
    """Writes the tags of one session. Its nonce is known from the first prompt on."""

    def __init__(self) -> None:
        self._nonce = ""
        self._tags: dict[str, tuple[str, str]] = {}

    def begin(self, nonce: str) -> None:
        """Write tags with this nonce from now on."""
        if nonce != self._nonce:
            self._nonce, self._tags = nonce, {}

    def wrap(self, kind: str, text: str, attributes: Mapping[str, str]) -> str:
        """Return the text, neutralised, between the tags of its kind."""
        if attributes:
            return guard.wrap(tag_name(kind), text, nonce=self._nonce, attributes=tag_attributes(attributes))
        opening, closing = self.tags(kind)
        return f"{opening}{guard.neutralise(text)}{closing}"

    def tags(self, kind: str) -> tuple[str, str]:
        """Return the opening and the closing tag of a kind without attributes."""
        if kind not in self._tags:  # making them costs more than neutralising most of the texts
            opening, _, closing = guard.wrap(tag_name(kind), "…", nonce=self._nonce).partition("…")
            self._tags[kind] = opening, closing
        return self._tags[kind]


def tag_name(name: str) -> str:
    """Return the name as it is written in a tag."""
    return name.replace("_", "-")


def tag_attributes(attributes: Mapping[str, str]) -> Mapping[str, str]:
    """Return the attributes under their names in a tag."""
    return {tag_name(name): value for name, value in attributes.items()} if attributes else attributes
