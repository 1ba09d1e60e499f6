"""Places of stores, in one line."""

from pathlib import Path

import pytest

from foveal.stores import open_store
from foveal.stores.place import DatabaseAddress, find_file, find_place
from foveal.stores.sqlite import SqliteStore
from foveal.values.errors import BadInput, MissingExtra


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


def test_secrets_are_in_no_form_of_an_address() -> None:
    """Neither a password with marks that libpq allows, nor credentials of a bucket, nor a parameter that may hold anything, is in
    the text or in the representation, which a traceback shows."""
    address = DatabaseAddress(
        "postgresql://me:s3?c#r[et@h/d?options=s3cret&Password=s3cret&foveal_artifacts=s3%3A%2F%2Fkey:s3cret@b/p?s3cret"
    )
    assert str(address) == "postgresql://me@h/d?foveal_artifacts=s3://b/p"
    assert repr(address) == "DatabaseAddress('postgresql://me@h/d?foveal_artifacts=s3://b/p')"


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:s3/cret@h/d",
        "postgresql://me:s3@cret@h/d",
        "postgresql://me:s3%2zcret@h/d",
        "postgresql://me:s3cret",
        "postgresql://me:1/s3?cret@h/d",
        "postgresql://me@h/d?password=s3&cret",
        "postgresql:/me:s3cret@h/d",
        " PostgreSQL://me:s3cret@h/d",
    ],
)
def test_an_address_that_cannot_be_read_is_not_repeated(text: str) -> None:
    """No part of a password is in the error, wherever it was taken to stand."""
    with pytest.raises(BadInput, match="not an address of PostgreSQL") as caught:
        open_store(text)
    assert "s3" not in str(caught.value)
    assert "cret" not in str(caught.value)


def test_parameters_of_libpq_reach_it_as_they_are_written() -> None:
    """Only those of Foveal's own are taken out; a blank stays %20, which libpq understands."""
    address = DatabaseAddress("postgresql://h/d?options=-c%20a%3D1&foveal_schema=my%5Fa&sslmode=disable")
    assert address.conninfo == "postgresql://h/d?options=-c%20a%3D1&sslmode=disable"
    assert address.options == {"schema": "my_a"}


def test_a_file_is_no_database() -> None:
    """A path and an address of SQLite name a file; for a database there is another command, and its password is not repeated."""
    assert (find_file("a.db"), find_file("sqlite:///a.db")) == (Path("a.db"), Path("a.db"))
    with pytest.raises(BadInput, match=r"postgresql://me@h/d is a database.*store migrate"):
        find_file("postgresql://me:s3cret@h/d")


def test_a_package_that_cannot_be_loaded_is_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """psycopg is there, but not the library of PostgreSQL: what to install is said, and there is no traceback."""

    def load(_: str) -> None:
        raise ImportError("no pq wrapper available.\nAttempts made: none")

    monkeypatch.setattr("foveal.stores.find_spec", lambda _: True)
    monkeypatch.setattr("foveal.stores.import_module", load)
    with pytest.raises(
        MissingExtra, match=r"cannot be loaded \(no pq wrapper available\. Attempts made: none\)\. Install it"
    ):
        open_store("postgresql://me@db.example/agents")
