"""A root with something beside it that nobody may reach, and a disk that is not waited for."""

import os

import pytest

from foveal.context.workspace import Workspace


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """Thousands of files are written here; whether they outlive a power cut is not what these tests ask."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def space(tmp_path):
    return Workspace.open(tmp_path / "root", "a session")


@pytest.fixture
def unchanged(tmp_path, outside):
    """Fails the test if anything beside the root was touched."""
    before = picture(outside)
    yield
    assert picture(outside) == before
    assert {path.name for path in tmp_path.iterdir()} <= {"root", "outside", "skill", "other"}


def picture(folder):
    return {
        str(path): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"") for path in folder.rglob("*")
    }
