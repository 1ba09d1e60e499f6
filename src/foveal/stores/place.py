"""The place of a store, as it is written in one line: a file, or the address of a database."""

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

import msgspec

from foveal.values.errors import BadInput

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")
_MEANT_POSTGRES = re.compile(r"\s*postgres(ql)?:", re.IGNORECASE)
_OWN = "foveal_"
_SHOWN = frozenset({"user", "host", "hostaddr", "port", "dbname", "service", "sslmode", "target_session_attrs"})
"""Parameters of libpq that are shown. Others may hold a secret: `options` anything, and a mistyped name a password."""
_HOST = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(:\d*)?")
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")


class _Parts(NamedTuple):
    """The parts of an address, still encoded."""

    scheme: str
    login: str | None
    """The user and the password; None if there is no @."""
    where: str
    """Hosts, ports and the database."""
    parameters: list[str]
    """`NAME=VALUE`, each."""


class DatabaseAddress(msgspec.Struct, frozen=True):
    """The address of a database: postgresql://USER:PASSWORD@HOST/DATABASE?NAME=VALUE. Its text, for people and logs, has no
    password. `BadInput` for one that cannot be read, which is not repeated: a password may stand in a wrong place of it."""

    url: str

    def __post_init__(self) -> None:
        _split(self.url)

    @property
    def conninfo(self) -> str:
        """The address as libpq gets it: without the parameters of Foveal's own."""
        parts = _split(self.url)
        login = "" if parts.login is None else f"{parts.login}@"
        kept = "&".join(one for one in parts.parameters if not _name(one).startswith(_OWN))
        return f"{parts.scheme}://{login}{parts.where}{'?' if kept else ''}{kept}"

    @property
    def options(self) -> dict[str, str]:
        """The parameters of Foveal's own, by their names without `foveal_`."""
        pairs = [(_name(one), _value(one)) for one in _split(self.url).parameters]
        return {name.removeprefix(_OWN): value for name, value in pairs if name.startswith(_OWN)}

    @property
    def parameters(self) -> list[str]:
        """All parameters in their order, as they are written: `NAME=VALUE`, with the secrets in them."""
        return _split(self.url).parameters

    def __str__(self) -> str:
        parts = _split(self.url)
        login = "" if parts.login is None else f"{parts.login.partition(':')[0]}@"
        shown = "&".join(filter(None, map(_shown, parts.parameters)))
        return f"{parts.scheme}://{login}{parts.where}{'?' if shown else ''}{shown}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


def find_place(text: str | Path) -> Path | DatabaseAddress:
    """Return the place that a text names: `agent.db`, `sqlite:///agent.db`, `sqlite:////var/agent.db` or `postgresql://…`."""
    if isinstance(text, Path):
        return text
    if text.startswith(_POSTGRES):
        return DatabaseAddress(text)
    if text.startswith(_SQLITE):
        return Path(unquote(text.removeprefix(_SQLITE)))
    if _MEANT_POSTGRES.match(text):
        raise _unreadable("it does not begin with postgresql:// in small letters")
    if "://" in text:
        raise BadInput(
            f"{text.partition('://')[0]}:// is no place of a store; give a file, sqlite:///FILE or postgresql://USER@HOST/DATABASE"
        )
    return Path(text)


def find_file(text: str | Path) -> Path:
    """Return the file that a text names, as `find_place` reads it; `BadInput` if it names a database."""
    place = find_place(text)
    if isinstance(place, Path):
        return place
    raise BadInput(
        f"{place} is a database; name a file. `foveal store migrate` copies a store into a database, or out of one."
    )


def without_secrets(url: str) -> str:
    """Return the address of a bucket without user, password and parameters."""
    scheme, mark, rest = url.partition("://")
    return scheme + mark + re.split(r"[?#]", rest.rpartition("@")[2])[0] if mark else url


def _split(url: str) -> _Parts:
    """Return the parts of an address by the rules of libpq, whose passwords may hold ? and # and [ as they are. Characters that
    end a part too early are refused: they are of a password, and the rest of it would be shown as the name of a host."""
    scheme, _, rest = url.partition("://")
    login = None
    if "@" in rest.partition("/")[0]:
        login, _, rest = rest.partition("@")
    where, _, query = rest.partition("?")
    parameters = query.split("&") if query else []
    if "@" in where:
        raise _unreadable("there is an @ behind the host, or a / before the @")
    if not all(_HOST.fullmatch(host) for host in where.partition("/")[0].split(",")):
        raise _unreadable("a port is no number, or there is a password and no host behind it")
    if any(not _name(one) or "=" not in one for one in parameters):
        raise _unreadable("a parameter is not NAME=VALUE")
    if _BAD_PERCENT.search(url):
        raise _unreadable("a % is not followed by two hexadecimal digits that are no zero byte")
    return _Parts(scheme, login, where, parameters)


def _unreadable(reason: str) -> BadInput:
    return BadInput(
        f"this is not an address of PostgreSQL: {reason}. Give postgresql://USER:PASSWORD@HOST:PORT/DATABASE?NAME=VALUE&… and "
        "write in a part / as %2F, : as %3A, @ as %40, & as %26, = as %3D and % as %25. It is not repeated here, because it "
        "may hold a password."
    )


def _name(parameter: str) -> str:
    return unquote(parameter.partition("=")[0])


def _value(parameter: str) -> str:
    return unquote(parameter.partition("=")[2])


def _shown(parameter: str) -> str:
    name = _name(parameter)
    if name == f"{_OWN}artifacts":
        return f"{name}={quote(without_secrets(_value(parameter)), safe='/:')}"
    return parameter if name in _SHOWN or name.startswith(_OWN) else ""
