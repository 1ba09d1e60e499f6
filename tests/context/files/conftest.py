"""A way to read bytes as a file under a name, and a counter that is easy to foresee."""

import io
from hashlib import sha256

import pytest

from foveal.context.files import documents, pictures
from foveal.context.files.attachment import read_file
from foveal.context.files.read_options import ReadLimits, ReadOptions
from foveal.context.workspace import StoredFile


def words(text):
    """A token for every four characters, at least one."""
    return len(text) // 4 + 1


def read_whole(name, data, reading):
    """Bytes, read as a file that a workspace keeps."""
    stored = StoredFile("f", name, "uploads", "f.bin", "", len(data), sha256(data).hexdigest())
    return read_file(io.BytesIO(data), name, stored, reading)


@pytest.fixture
def reading():
    return ReadOptions(words, "k3v9x2m1qa", "claude")


@pytest.fixture
def read():
    def read_bytes(name, data, *, family="claude", limits=None, **options):
        reading = ReadOptions(words, "k3v9x2m1qa", family, limits=limits or ReadLimits(), **options)
        return read_whole(name, data, reading)

    return read_bytes


@pytest.fixture
def bare(monkeypatch):
    """As if no extra were installed."""
    monkeypatch.setattr(documents, "find_spec", lambda name: None)
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
