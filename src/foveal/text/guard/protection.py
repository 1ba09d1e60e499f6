"""The guard of one session: which forms it breaks, and whose texts it believes.

Our own forms are broken in every text of others, always. Forms of other harnesses and of chat templates are broken too, unless
the host turns that off, or believes some of them by name in the texts that its client sends as the user.
"""

from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import msgspec

from foveal.text.guard.neutral_text import Forms, neutralise, neutralise_live, restore
from foveal.text.guard.parts import neutralise_definition, neutralise_message_parts
from foveal.text.guard.patterns import forms
from foveal.values.entry import Part, Role


class Guard(msgspec.Struct, frozen=True):
    """The forms that are broken, and the texts in which some of them are believed. Pure: texts in, texts out."""

    foreign: bool = True
    """Whether tags of other harnesses and tokens of chat templates are broken, too."""
    believed: tuple[str, ...] = ()
    """Names or patterns of foreign tags that are left as they are in the user's own texts: those of the host's client."""

    @property
    def key(self) -> str:
        """A text that is the same for equal guards."""
        return f"{int(self.foreign)}{','.join(self.believed)}"

    def parts(
        self, parts: tuple[Part, ...], role: Role, *, is_file: bool, keeps_signature: Callable[[Part], bool]
    ) -> tuple[Part, ...]:
        """Return the parts of a message neutralised; the very same objects where nothing had to be done.

        System messages are believed. `is_file` is a message that holds a file and no words of the user. A signed part is
        left as it is if its signature `keeps_signature`: if the dialect sends it along.
        """
        if role == "system":
            return parts
        find = self._client_forms if self.believed and role == "user" and not is_file else self._forms
        return neutralise_message_parts(parts, self._forms, find, keeps_signature)

    def text(self, text: str) -> str:
        """Return a foreign text neutralised."""
        return neutralise(text, self._forms)

    def definition(self, definition: dict[str, Any]) -> dict[str, Any]:
        """Return a tool's definition, as plain JSON, with the texts neutralised that describe it."""
        return neutralise_definition(definition, self._forms)

    def live(self, text: str) -> str:
        """Return a text that was neutralised and then changed, with the forms broken that are live in it."""
        return neutralise_live(text, self._forms)

    def restore(self, text: str) -> str:
        """Return the text that was neutralised."""
        return restore(text, self._forms)

    @property
    def _forms(self) -> Forms:
        return forms if self.foreign else partial(forms, ours_only=True)

    @property
    def _client_forms(self) -> Forms:
        if not self.foreign:
            return self._forms
        patterns = [name.casefold().replace("_", "-") for name in self.believed]
        return partial(forms, believed=lambda name: bool(name) and any(fnmatchcase(name, one) for one in patterns))


OURS_ONLY = Guard(foreign=False)
"""The guard of a host that wants everything as it came: only our own frame is protected."""
