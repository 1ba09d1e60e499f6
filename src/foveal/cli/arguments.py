"""Arguments that several commands have: numbers, a call, the store that a command reads."""

import os
import re
import shlex
import shutil
import sys
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path

from foveal.stores import open_store
from foveal.stores.place import DatabaseAddress, find_place
from foveal.stores.port import Store
from foveal.values.errors import BadInput, NotFound

_AGE = re.compile(r"(\d{1,6})([smhdw])")
_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def positive(text: str) -> int:
    """Return a count above zero; `32_000` and `32,000` are fine."""
    try:
        number = int(text.replace(",", "_"))
    except ValueError:
        number = 0
    if number <= 0:
        raise ArgumentTypeError(f"{text!r} is not a number above zero")
    return number


def age_s(text: str) -> int:
    """Return an age such as `30d` in seconds."""
    found = _AGE.fullmatch(text.strip().lower())
    if not found:
        raise ArgumentTypeError(f"{text!r:.40} is not an age; write 90m, 12h, 7d or 4w")
    return int(found[1]) * _UNITS_S[found[2]]


def add_call(parser: ArgumentParser) -> None:
    """Add the option `--call`."""
    parser.add_argument(
        "--call", metavar="K", type=positive, help="the K-th model call of the session (default: the next one)"
    )


def add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")


def add_store(parser: ArgumentParser) -> None:
    """Add the options of every command that reads a store: `--store` and `--json`."""
    parser.add_argument(
        "--store",
        metavar="PLACE",
        help="the store to read: a file, or postgresql://… (default: $FOVEAL_STORE, else ./foveal.db)",
    )
    add_json(parser)


def store_place(named: str | None) -> Path | DatabaseAddress:
    """Return the place of the store: the named one, $FOVEAL_STORE or ./foveal.db."""
    place = find_place(named or os.environ.get("FOVEAL_STORE") or "foveal.db")
    if isinstance(place, Path) and place.is_dir():
        raise BadInput(f"{place} is a folder; a store is a file")
    return place


def existing_place(named: str | None, how: str = "with --store FILE") -> Path | DatabaseAddress:
    """Return the place of a store that exists; `NotFound` if there is none, and how to name one. A database says so when it
    is opened as one that must exist."""
    place = store_place(named)
    if isinstance(place, Path):
        if not place.exists():
            raise NotFound(f"there is no store at {place}; name one {how} or $FOVEAL_STORE")
        if not place.is_file() or not place.stat().st_size:
            raise NotFound(f"{place} is not a store; name one {how} or $FOVEAL_STORE")
    return place


def open_place(place: Path | DatabaseAddress, *, may_be_read_only: bool = False, must_exist: bool = False) -> Store:
    """Open the store of a place, with the keys that $FOVEAL_KEYS names and for the tenant in $FOVEAL_TENANT."""
    return open_store(place, may_be_read_only=may_be_read_only, must_exist=must_exist, **private_options())


def open_existing(place: Path | DatabaseAddress) -> Store:
    """Open the store of a place, which is there already, also if it can only be read."""
    return open_place(place, may_be_read_only=True, must_exist=True)


def private_options() -> dict[str, str | None]:
    """Return the place of the keys and the tenant that the environment names."""
    return {"keys": os.environ.get("FOVEAL_KEYS"), "tenant": os.environ.get("FOVEAL_TENANT")}


def existing_store(named: str | None) -> Store:
    """Return the store of this place, for a `with` block. Never makes a store, and reads one that cannot be written."""
    return open_existing(existing_place(named))


def command_line() -> str:
    """Return the word by which this program can be called again from here: `foveal` only if the shell finds this very one."""
    script = Path(sys.argv[0])
    if script.name == "__main__.py" and script.parent.name == "foveal":
        return f"{shlex.quote(sys.executable)} -m foveal"
    found = shutil.which("foveal")
    if script.stem != "foveal" or (found and Path(found).resolve() == script.resolve()):
        return "foveal"
    place = script.absolute()
    return shlex.quote(str(place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place))
