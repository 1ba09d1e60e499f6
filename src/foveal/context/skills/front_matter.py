"""The front matter of a SKILL.md, between its two `---` lines, and the text after it.

The author of a skill is a stranger. The name of a skill becomes part of paths and prompts, so it is a plain word; every value has
a type and a size; unknown keys are kept unchanged.
"""

import re
from datetime import date
from hashlib import sha256
from typing import Any, cast

import msgspec

from foveal.context.safe_paths import decode_utf8
from foveal.text.display import printable
from foveal.text.plain_yaml import plain_yaml
from foveal.values.errors import BadInput, BadPolicy

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
MOST_BYTES = 128 << 10
"""Size limit of a SKILL.md, which is pinned once it is read and carried through every later call."""
MOST_FRONT = 16 << 10
MOST_ITEMS = 64
_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
_TOOLS = re.compile(r"[^\s,()]+(?:\([^()]*\))?")


class Skill(msgspec.Struct, frozen=True):
    """A skill as its front matter declares it, and its location: `folder` below `root`."""

    name: str
    description: str
    root: str
    folder: tuple[str, ...]
    sha256: str
    """Hash of the scanned SKILL.md: a later read gives the same bytes, or an error."""
    version: str = ""
    license: str = ""
    allowed_tools: tuple[str, ...] = ()
    """Tools that the skill says it needs. This grants nothing."""
    files: tuple[str, ...] = ()
    """Patterns of file names that suggest it, in lower case."""
    dependencies: tuple[str, ...] = ()
    """Packages that the skill says it needs. Nothing installs them by itself."""
    extra: dict[str, Any] = {}
    """Unknown keys, unchanged."""

    @property
    def path(self) -> str:
        """Its SKILL.md below the root, safe to show."""
        return printable("/".join((*self.folder, "SKILL.md")))


def read_front(data: bytes, *, root: str, folder: tuple[str, ...]) -> Skill:
    """Return the skill that a SKILL.md declares; `BadInput` with the file and the key if it cannot be used."""
    where = printable("/".join((*folder, "SKILL.md")))
    front, _ = split_front(decode_utf8(data, where), where)
    keys = _Keys(_table(front, where), where)
    return Skill(
        name=keys.name(),
        description=keys.text("description", most=1_024),
        root=root,
        folder=folder,
        sha256=sha256(data).hexdigest(),
        version=keys.version(),
        license=keys.text("license", most=200, needed=False),
        allowed_tools=keys.tools("allowed-tools"),
        files=tuple(map(_pattern, keys.items("files", most=100))),
        dependencies=keys.items("dependencies", most=300),
        extra=keys.rest(),
    )


def split_front(text: str, where: str) -> tuple[str, str]:
    """Return the front matter and the body of a SKILL.md."""
    first, _, rest = text.partition("\n")
    if first.rstrip() != "---":
        raise BadInput(f"{where}: does not begin with a line '---', so it has no name and no description")
    end = _END.search(rest, 0, MOST_FRONT)
    if end is None:
        raise BadInput(
            f"{where}: no second line '---' in the first {MOST_FRONT:,} characters; end the front matter there"
        )
    return rest[: end.start()], rest[end.end() :].strip("\n")


def _table(front: str, where: str) -> dict[str, Any]:
    try:
        # With an empty line in place of '---', so that errors name the file's lines.
        return plain_yaml("\n" + front, where, "a skill")
    except BadPolicy as error:
        raise BadInput(printable(error)) from None


class _Keys:
    """The keys of a front matter, each taken once and checked."""

    def __init__(self, table: dict[str, Any], where: str) -> None:
        self._table, self._where = dict(table), where
        strange = next((key for key in cast("dict[object, Any]", table) if not isinstance(key, str)), None)
        if strange is not None:
            raise self._bad(strange, "is a key that is no text; put it in quotes")

    def name(self) -> str:
        value = self.text("name", most=MOST_FRONT)
        if not NAME.match(value):
            raise self._bad("name", f"is {printable(value)!r:.80}; it is 1 to 64 of a-z, 0-9, '-' and '_', and no more")
        return value

    def text(self, key: str, *, most: int, needed: bool = True) -> str:
        value = self._table.pop(key, None)
        if value is None and not needed:
            return ""
        if not isinstance(value, str) or not value.strip():
            raise self._bad(key, "is missing" if value is None else f"is {_kind(value)} where a text belongs")
        if len(value) > most:
            raise self._bad(key, f"has {len(value):,} characters; {most:,} is the most")
        return value.strip()

    def version(self) -> str:
        value = self._table.get("version")
        is_plain = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 10**9
        if is_plain or isinstance(value, date):  # people write 1.0 and 2025-01-31
            self._table["version"] = str(value)
        return self.text("version", most=64, needed=False)

    def tools(self, key: str) -> tuple[str, ...]:
        if isinstance(value := self._table.get(key), str):
            self._table[key] = _TOOLS.findall(value)
        return self.items(key, most=200)

    def items(self, key: str, *, most: int) -> tuple[str, ...]:
        value: object = self._table.pop(key, None)
        if value is None:
            return ()
        values = cast("list[object]", value if isinstance(value, list) else [value])
        if len(values) > MOST_ITEMS:
            raise self._bad(key, f"has {len(values):,} items; {MOST_ITEMS} is the most")
        for one in values:
            if not isinstance(one, str) or not one.strip() or len(one) > most:
                raise self._bad(key, f"holds {_kind(one)} where texts of 1 to {most} characters belong")
        return tuple(cast("str", one).strip() for one in values)

    def rest(self) -> dict[str, Any]:
        try:
            return msgspec.to_builtins(self._table, str_keys=True)
        except (TypeError, ValueError, RecursionError) as error:
            raise BadInput(f"{self._where}: holds a value that is no plain data: {printable(error)}") from None

    def _bad(self, key: object, what: str) -> BadInput:
        return BadInput(f"{self._where}: {printable(key)!r:.80} {what}")


def _kind(value: object) -> str:
    return f"a text of {len(value):,} characters" if isinstance(value, str) else f"a {type(value).__name__}"


def _pattern(item: str) -> str:
    """Return a pattern of file names: `*.pdf` as it is, and `pdf` or `.pdf` for short."""
    item = item.lower()
    return item if any(char in item for char in "*?[") or "." in item.lstrip(".") else f"*.{item.lstrip('.')}"
