"""Places of stores, in one line."""

from pathlib import Path

import pytest

from foveal.stores import open_store
from foveal.stores.place import DatabaseAddress, find_place
from foveal.stores.sqlite import SqliteStore
from foveal.values.errors import BadInput


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("agent.db", Path("agent.db")),
        ("sqlite:///agent.db", Path("agent.db")),
        ("sqlite:////var/my%20agent.db", Path("/var/my agent.db")),
        ("postgresql://u@h/d", DatabaseAddress("postgresql://u@h/d")),
        ("postgres://h/d", DatabaseAddress("postgres://h/d")),
    ],
)
def test_a_place_is_a_file_or_an_address(text: str, place: object) -> None:
    """The same line works wherever a store is named."""
    assert find_place(text) == place


def test_an_unknown_kind_of_place_is_refused() -> None:
    """It is not taken for the name of a file."""
    with pytest.raises(BadInput, match=r"mysql:// is no place of a store.*postgresql://"):
        open_store("mysql://h/d")


def test_a_password_is_never_shown() -> None:
    """Neither the one before the host nor one among the parameters is in the text of an address."""
    shown = str(DatabaseAddress("postgresql://me:s3cret@h:5433/d?password=s3cret&host=/tmp/x&foveal_schema=a"))
    assert shown == "postgresql://me@h:5433/d?host=/tmp/x&foveal_schema=a"


def test_an_address_of_sqlite_opens_the_file(tmp_path: Path) -> None:
    """Both ways to write it are the same store."""
    open_store(f"sqlite:///{tmp_path}/a.db").close()
    with open_store(tmp_path / "a.db") as store:
        assert isinstance(store, SqliteStore)
