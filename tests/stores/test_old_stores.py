"""Stores that earlier versions wrote: they open, verify, give the same prompts and can be appended to.

Each fixture is named by the last version that wrote it; the JSON beside it has what that version read from it.
"""

import json
import re
import tarfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import apsw
import msgspec
import pytest

import foveal
from foveal.project.view import PROJECTION
from foveal.session.model_setup import FRAME, ModelSetup, setup_for
from foveal.session.options import Model
from foveal.session.policy import Policy
from foveal.session.policy_file import policy_from
from foveal.session.rebuild import prompt_at, setup_at
from foveal.stores import Store
from foveal.stores import format as formats
from foveal.stores.rows import to_entry
from foveal.stores.sqlite.doctor import examine, salvage
from foveal.values.entry import Fold

FIXTURES = Path(__file__).parent / "fixtures"
VERSIONS = sorted(path.name.removeprefix("store-").removesuffix(".tar.xz") for path in FIXTURES.glob("*.tar.xz"))
SESSIONS = [
    (version, name)
    for version in VERSIONS
    for name in json.loads((FIXTURES / f"store-{version}.json").read_text(encoding="utf-8"))
]


@pytest.fixture
def known(version: str, name: str) -> dict[str, Any]:
    """What the old version read from the session."""
    return json.loads((FIXTURES / f"store-{version}.json").read_text(encoding="utf-8"))[name]


@pytest.fixture
def file(version: str, tmp_path: Path) -> Path:
    with tarfile.open(FIXTURES / f"store-{version}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "agent.db"


@pytest.fixture
def store(file: Path) -> Iterator[Store]:
    opened = foveal.open_store(file)
    yield opened
    opened.close()


def recorded_policy(store: Store, name: str) -> Policy:
    return policy_from(msgspec.json.decode(setup_at(store, name).policy), "the stored policy")


def recorded_setup(store: Store, name: str) -> ModelSetup:
    return setup_for(Model(setup_at(store, name).model), recorded_policy(store, name))


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_store_is_whole(file: Path) -> None:
    """Every row, chain, snapshot and artifact passes the examination, and nothing is reported."""
    report = examine(file)
    assert report.damage == ()
    assert report.sessions == len(report.names) == 2
    assert report.artifacts == 1


@pytest.mark.parametrize(("version", "name"), SESSIONS)
def test_every_row_of_an_old_session_is_an_entry(store: Store, name: str, known: dict[str, Any]) -> None:
    """As many rows and folds are read as were written, each row verified and decoded."""
    entries = [to_entry(row, name) for row in store.rows(name)]
    assert len(entries) == known["seq"]
    assert sum(isinstance(entry.body, Fold) for entry in entries) == known["folds"]


@pytest.mark.parametrize(("version", "name"), SESSIONS)
def test_an_old_prompt_is_built_again_to_the_byte(store: Store, name: str, known: dict[str, Any]) -> None:
    """The recorded call gives the request, the tokens and the trace that the old version gave."""
    prompt = prompt_at(store, name, recorded_setup(store, name), known["call"])
    assert sha256(json.dumps(prompt.request, sort_keys=True).encode()).hexdigest() == known["request"]
    assert prompt.tokens == known["tokens"]
    shown = [line for line in known["trace"] if line[2] != "hidden"]  # the log does not say which fences were left out
    assert [[line.entry, line.kind, line.shown, line.tokens] for line in prompt.trace.lines] == shown


@pytest.mark.parametrize(("version", "name"), SESSIONS)
def test_an_old_session_goes_on(store: Store, name: str, known: dict[str, Any]) -> None:
    """It is opened as it was left, its large result is recalled, and a further message is in its next prompt."""
    policy = recorded_policy(store, name)
    with foveal.Session(store, name, model=known["model"], policy=policy) as session:
        if "large" in known:
            assert sha256(session.recall(known["large"]).encode()).hexdigest() == known["large_sha"]
        session.append(foveal.assistant("done"))
        session.append(foveal.user("and one question more"))
        assert "and one question more" in json.dumps(session.prompt().request)
        assert len(list(store.rows(name))) >= known["seq"] + 2
    assert to_entry(list(store.rows(name))[known["seq"]], name).body == foveal.assistant("done")


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_store_is_upgraded_once_and_stays_whole(file: Path) -> None:
    """Opening turns it into a store of the present schema, in which every check passes and old sessions have no secret."""
    before = examine(file)
    foveal.open_store(file).close()
    after = examine(file)
    assert (after.damage, after.entries, after.names) == ((), before.entries, before.names)
    with foveal.open_store(file) as store:
        assert {store.secret(name) for name in after.names} == {b""}
        foveal.Session(store, "new", model="gpt-5").close()
        assert len(store.secret("new")) == 32


@pytest.mark.parametrize("version", VERSIONS)
def test_a_damaged_old_store_is_not_upgraded(file: Path) -> None:
    """It is refused with the repair and left as it is; the doctor lists and salvages it by the rules of its time."""
    db = apsw.Connection(str(file))
    db.execute("DROP TRIGGER entries_never_change")
    db.execute("UPDATE entries SET author = 'mallory' WHERE place = (SELECT max(place) - 3 FROM entries)")
    db.close()
    for _ in range(2):
        with pytest.raises(foveal.errors.StoreCorrupt, match="foveal doctor"):
            foveal.open_store(file)
    report = examine(file)
    assert len(report.damage) == 1
    kept = salvage(file, file.with_name("new.db"))
    assert kept.entries == report.entries
    assert examine(file.with_name("new.db")).damage == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_an_upgrade_that_dies_leaves_the_old_store(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it or nothing: the next opening begins again."""
    monkeypatch.setattr("foveal.stores.sqlite.version_1.insert_record", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        foveal.open_store(file)
    monkeypatch.undo()
    assert examine(file).damage == ()
    with foveal.open_store(file) as store:
        assert len(store.cards()) == 2


def test_the_table_of_versions_says_what_the_code_writes() -> None:
    """A version that is raised is raised in the table of `foveal.stores.format` as well, where its promise is."""
    table = dict(re.findall(r"^\| `([A-Z_]+)` +\| (\d+) ", formats.__doc__ or "", re.MULTILINE))
    assert {name: int(number) for name, number in table.items()} == {
        "SCHEMA_VERSION": formats.SCHEMA_VERSION,
        "POSTGRES_SCHEMA": formats.POSTGRES_SCHEMA,
        "PROJECTION": PROJECTION,
        "FRAME": FRAME,
        "INDEX_VERSION": formats.INDEX_VERSION,
    }
