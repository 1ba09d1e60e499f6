"""Labels of a session for people: a title, and tags by which sessions are listed.

The name of a session is its key for ever: its hash chain begins with it, its data key is bound to it, its children and the
references of other sessions carry it. So a session is not renamed; it is given a title.
"""

from collections.abc import Sequence

import msgspec

from foveal.stores.checks import check_tag, check_title
from foveal.stores.port import SessionCard
from foveal.values.errors import BadInput

MOST_TAGS = 64
"""Tags of one session: more are another thing than labels for people."""


class Labels(msgspec.Struct, frozen=True):
    """The title and the tags of a session."""

    title: str | None = None
    tags: tuple[str, ...] = ()
    """In their order as text, each once."""

    def entitled(self, title: str | None, secret: bytes = b"") -> "Labels":
        """Return the labels with another title; `BadInput` if it cannot be that of a session that has this secret."""
        check_title(title, secret)
        return Labels(title, self.tags)

    def tagged(self, add: Sequence[str], remove: Sequence[str]) -> "Labels":
        """Return the labels with some tags more and some less; `BadInput` if one cannot be a tag, or there are too many."""
        for tag in (*add, *remove):
            check_tag(tag)
        tags = tuple(sorted({*self.tags, *add} - set(remove)))
        if len(tags) > MOST_TAGS:
            raise BadInput(f"a session can have {MOST_TAGS} tags, and this one would have {len(tags)}; remove some")
        return Labels(self.title, tags)

    def on(self, card: SessionCard) -> SessionCard:
        """Return a card with these labels."""
        return msgspec.structs.replace(card, title=self.title, tags=self.tags)


NO_LABELS = Labels()
