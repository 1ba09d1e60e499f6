"""Fences: content that a host puts beside the conversation, in a frame of its own.

A *kind* holds the properties that its fences share: role, placement, lifetime, whether they may be cut. It is data, read from
a policy file or registered by code. A *fence* is content of a kind. It is formatted when it is injected, so that the text in the
log is the text that is sent, and a past prompt can be built again without the host's code. `fence_placement` decides which
fences a prompt shows.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

import msgspec

from foveal.context.templates import Template, compile_template, is_name, nearest_hint
from foveal.text.display import one_line
from foveal.values.entry import Fence, Placement
from foveal.values.errors import BadInput, BadPolicy

FenceRole: TypeAlias = Literal["user", "system"]
Formatter: TypeAlias = Callable[[str, Mapping[str, str]], str]
"""A host's function that writes a text, called with the text and its attributes."""
Formatters: TypeAlias = Mapping[str, Formatter]

NO_FORMATTERS: Formatters = MappingProxyType({})

PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
"""All placements, in the order of a prompt."""
_PLACE = {placement: i for i, placement in enumerate(PLACEMENTS)}

_KIND = re.compile(r"[a-z][a-z0-9_-]{0,63}\Z")
_ERROR_CHARS = 200
"""Length of a formatter's error in the trace: enough to find the line."""


class Turns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A lifetime in turns of the user, the turn of the injection included."""

    turns: int

    def __post_init__(self) -> None:
        if self.turns <= 0:
            raise BadPolicy(f"lifetime.turns is {self.turns}; it is a positive number of turns")


Lifetime: TypeAlias = Literal["call", "turn", "session"] | Turns


class FenceKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The properties that all fences of one kind share."""

    name: str
    role: FenceRole = "user"
    placement: Placement = "tail"
    lifetime: Lifetime = "turn"
    must_keep: bool = False
    """Never cut, never left out: if the fences of the kind exceed their share, the prompt is refused."""
    share: float = 1.0
    """Largest share of the budget for all fences of the kind."""
    formatter: str = "{text}"
    """The template of the text, with `{text}` and names of attributes as placeholders; or, without braces, the name of a function
    that the host gives to the session."""

    def __post_init__(self) -> None:
        if not _KIND.match(self.name):
            raise BadPolicy(f"the fence {self.name!r} needs a name of small letters, digits, - and _, a letter first")
        for field, known in (("role", get_args(FenceRole)), ("placement", PLACEMENTS)):
            if (value := getattr(self, field)) not in known:
                raise BadPolicy(f"fences.{self.name}.{field} is {value!r}{nearest_hint(str(value), known)}")
        if not isinstance(self.lifetime, Turns) and self.lifetime not in _LASTING:
            known = ", ".join(_LASTING)
            raise BadPolicy(f"fences.{self.name}.lifetime is {self.lifetime!r}; it is one of {known}, or {{turns = 3}}")
        if not 0 < self.share <= 1:
            raise BadPolicy(f"fences.{self.name}.share is {self.share}; it is a share above 0 and up to 1")
        if not self.is_formatted_by_host and "text" not in self.template.names:
            raise BadPolicy(f"fences.{self.name}.formatter has no {{text}}: the content would be lost")

    @property
    def is_formatted_by_host(self) -> bool:
        """Whether `formatter` names a function: a template has braces, and a name has none."""
        return _KIND.match(self.formatter) is not None

    @property
    def template(self) -> Template:
        """The template of the text, if no function of the host writes it."""
        return compile_template(self.formatter, f"fences.{self.name}.formatter")

    @property
    def moves_prefix(self) -> bool:
        """Whether cached bytes change when a fence appears, disappears or moves: yes, unless it is static or at the tail."""
        return self.placement != "tail" and not self.is_static

    @property
    def is_static(self) -> bool:
        """Whether its fences stay in one place at the front of the prompt."""
        return self.placement in ("after_system", "before_conversation") and self.lifetime == "session"


_LASTING = ("session", "turn", "call")

BUILT_IN_KINDS = (
    FenceKind("instructions", placement="after_system", lifetime="session", must_keep=True, role="system"),
    FenceKind("skills", placement="after_system", lifetime="session", must_keep=True, role="system"),
)
"""Kinds that every session knows. Their fences are never summarised, and move the prefix only when they change."""

STARTED = FenceKind("started", placement="after_system", lifetime="session", must_keep=True, role="system")
"""The kind of the session's start time. The last static kind, so that content that all sessions share comes before it."""


class FenceRegistry:
    """The kinds of fences that a session knows. Static kinds follow the system prompt in this order."""

    def __init__(self, kinds: Iterable[FenceKind] = (), formatters: Formatters = NO_FORMATTERS) -> None:
        self.kinds: dict[str, FenceKind] = {}
        self._formatters = formatters
        for kind in kinds:  # the same kind twice is fine; another kind of the same name is not
            if self.kinds.setdefault(kind.name, kind) != kind:
                raise BadPolicy(f"fences.{kind.name} is there already, and not as this; give one of them another name")
        self._ranks = {name: rank for rank, name in enumerate(self.kinds)}

    def kind(self, name: str) -> FenceKind:
        found = self.kinds.get(name)
        if found is None:
            raise BadInput(f"no fence {name!r} is registered{nearest_hint(name, self.kinds)}")
        return found

    def place_of(self, kind: FenceKind) -> tuple[int, int, int]:
        """Return the sort key of a kind: its placement in the prompt, then its lifetime, longest first, so that little moves.

        A static kind also has its rank, so that a change of one leaves the others in place.
        """
        lifetime = "turn" if isinstance(kind.lifetime, Turns) else kind.lifetime
        return _PLACE[kind.placement], _LASTING.index(lifetime), self._ranks[kind.name] if kind.is_static else 0

    def fence(
        self,
        kind: str,
        text: str,
        attributes: Mapping[str, str] | None = None,
        *,
        call: int,
        turn: int,
        key: str | None = None,
    ) -> Fence:
        """Return a fence of a kind, formatted as the kind says. Blank content gives a fence that is not shown."""
        known = self.kind(kind)
        attributes = dict(sorted((attributes or {}).items()))
        for name in attributes:
            if not is_name(name) or name == "text":
                raise BadInput(
                    f"the fence {kind} has an attribute {name!r}; one is small letters, digits and _, not `text`"
                )
        text, failed = self._formatted(known, text, attributes) if text.strip() else (text, "")
        return Fence(kind, text, call, turn, tuple(attributes.items()), key, failed)

    def _formatted(self, kind: FenceKind, text: str, attributes: Mapping[str, str]) -> tuple[str, str]:
        """Return the formatted text; or the text as given, with the reason why it is not formatted."""
        name = kind.formatter
        if not kind.is_formatted_by_host:
            try:
                return kind.template.fill({**attributes, "text": text}), ""
            except BadInput as error:
                raise BadInput(f"the fence {kind.name}: {error}; its formatter is {name!r}") from None
        if name not in self._formatters:
            raise BadPolicy(
                f"fences.{kind.name}.formatter: there is no formatter {name!r}{nearest_hint(name, self._formatters)}. "
                "Give it to the session with Environment(formatters=…)"
            )
        try:
            made = self._formatters[name](text, dict(attributes))
        except Exception as error:  # the model needs the content, its layout is secondary
            return text, one_line(f"the formatter {name} failed ({type(error).__name__}: {error})", _ERROR_CHARS)
        if not isinstance(made, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            return text, f"the formatter {name} gave {type(made).__name__} where text belongs"
        return (made, "") if made.strip() else (text, f"the formatter {name} gave no text")
