"""Templates: text with `{name}` placeholders.

A template is compiled when it is read, so that a misspelt name is found before any model call, and filled in one pass: a value
that looks like a placeholder is not filled again. Attributes, indices and formats are not supported, so that a template cannot
reach into its values.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import TypeAlias

import msgspec

from foveal.text.display import LINE_CHARS, one_line
from foveal.values.errors import BadInput, BadPolicy

Value: TypeAlias = str | int

_PIECE = re.compile(r"\{\{|\}\}|\{([a-z_][a-z0-9_]{0,63})\}|[{}]")
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,63}\Z")

VALUE_CHARS = 2_000
LISTED = 20
"""A longer list of names belongs into a result and not into a reminder."""


class Template(msgspec.Struct, frozen=True):
    """Pieces of text, and the names between them: one fewer."""

    pieces: tuple[str, ...]
    names: tuple[str, ...]

    def fill(self, values: Mapping[str, Value]) -> str:
        pieces = iter(self.pieces)
        text = next(pieces)
        for name in self.names:
            value = values.get(name)
            if value is None:
                raise BadInput(f"nothing was given for {{{name}}}{nearest_hint(name, values)}")
            text += (value if isinstance(value, str) else f"{value:,}") + next(pieces)
        return text


@lru_cache(1_024)
def compile_template(text: str, key: str) -> Template:
    """Return the template of this text; `key` is its name in errors."""
    pieces, names, piece, end = list[str](), list[str](), "", 0
    for found in _PIECE.finditer(text):
        piece += text[end : found.start()]
        end = found.end()
        if found[1]:
            pieces.append(piece)
            names.append(found[1])
            piece = ""
        elif len(found[0]) == 2:
            piece += found[0][0]
        else:
            near = text[found.start() : found.start() + 24]
            raise BadPolicy(
                f"{key}: {near!r} is no placeholder; one is a {{name}} of small letters, digits and _. "
                "A brace that is meant as one is written twice."
            )
    return Template((*pieces, piece + text[end:]), tuple(names))


def check_template(text: str, key: str, known: Iterable[str]) -> Template:
    """Return the template; `BadPolicy` if one of its names is not known."""
    template, known = compile_template(text, key), frozenset(known)
    for name in template.names:
        if name not in known:
            raise BadPolicy(f"{key}: nothing fills {{{name}}}{nearest_hint(name, known)}")
    return template


def is_name(text: str) -> bool:
    """Return whether a text is a valid name of a placeholder."""
    return _NAME.match(text) is not None


def nearest_hint(wrong: str, known: Iterable[str]) -> str:
    """Return the advice that an error adds to an unknown name."""
    names = sorted(known)
    near = get_close_matches(wrong, names, n=1)
    if near:
        return f". Did you mean `{near[0]}`?"
    return f". Known: {', '.join(names)}" if names else ". None is known"


def join_names(items: Iterable[str], most: int = LINE_CHARS) -> str:
    """Return names as one value."""
    plain = [name for item in items if (name := one_line(item, most))]
    more = f" (+{len(plain) - LISTED})" if len(plain) > LISTED else ""
    return ", ".join(plain[:LISTED]) + more
