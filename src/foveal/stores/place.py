"""The place of a store, as it is written in one line: a file, or the address of a database."""

from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

import msgspec

from foveal.values.errors import BadInput

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")
_SECRETS = frozenset({"password", "sslpassword", "passfile"})


class DatabaseAddress(msgspec.Struct, frozen=True):
    """The address of a database. Its text, for people and logs, has no password."""

    url: str

    def __str__(self) -> str:
        parts = urlsplit(self.url)
        user, at, host = parts.netloc.rpartition("@")
        query = [(key, value) for key, value in parse_qsl(parts.query) if key not in _SECRETS]
        return urlunsplit(
            (parts.scheme, f"{user.partition(':')[0]}{at}{host}", parts.path, urlencode(query, safe="/"), "")
        )


def find_place(text: str | Path) -> Path | DatabaseAddress:
    """Return the place that a text names: `agent.db`, `sqlite:///agent.db`, `sqlite:////var/agent.db` or `postgresql://…`."""
    if isinstance(text, Path):
        return text
    if text.startswith(_POSTGRES):
        return DatabaseAddress(text)
    if text.startswith(_SQLITE):
        return Path(unquote(text.removeprefix(_SQLITE)))
    if "://" in text:
        raise BadInput(
            f"{text.partition('://')[0]}:// is no place of a store; give a file, sqlite:///FILE or postgresql://USER@HOST/DATABASE"
        )
    return Path(text)
