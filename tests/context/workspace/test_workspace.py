"""Putting files into a workspace and getting them back."""

import hashlib
import io
import os
import shutil

import pytest

from foveal import BadInput, NotFound
from foveal.context.workspace import FOLDERS, Workspace
from foveal.values.errors import StoreCorrupt, StoreFull


@pytest.mark.parametrize("form", ["path", "bytes", "stream"])
def test_what_is_put_can_be_read_again(space, tmp_path, form):
    """A path, bytes and a stream of the same content are kept alike: size, hash and every byte."""
    data = os.urandom(3_000_000)
    (tmp_path / "root" / "given").write_bytes(data)
    source = {"path": tmp_path / "root" / "given", "bytes": data, "stream": io.BytesIO(data)}[form]
    stored = space.put(source, "Report 2026.PDF")
    with space.stream(stored.id) as stream:
        assert stream.read() == data
    assert (stored.size_bytes, stored.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert (stored.name, stored.media_type) == ("Report 2026.PDF", "application/pdf")


def test_a_workspace_has_its_four_folders(space):
    """Opening makes uploads, outputs, temp and skills, for the user alone."""
    assert sorted(path.name for path in space.path.iterdir() if path.is_dir()) == sorted(FOLDERS)
    assert {path.stat().st_mode & 0o777 for path in space.path.iterdir() if path.is_dir()} == {0o700}


def test_opening_again_finds_the_same_files(space):
    """A workspace is its folder: another handle on it sees what this one put."""
    stored = space.put(b"x", "x.txt")
    again = Workspace.open(space.root, "a session")
    assert again.list() == (stored,)
    assert again.get(stored.id) == stored


def test_sessions_do_not_see_each_other(space):
    """The id of another session's file is as unknown as one that never was."""
    stored = space.put(b"x", "x.txt")
    other = Workspace.open(space.root, "another")
    assert other.list() == ()
    with pytest.raises(NotFound):
        other.get(stored.id)


def test_files_are_listed_by_folder(space):
    """What is put into outputs is listed there and not among the uploads."""
    made = space.put(b"chart", "chart.png", folder="outputs")
    assert space.list("outputs") == (made,)
    assert space.list() == ()


def test_what_tools_write_is_not_listed(space):
    """A file that nobody put has no name in the metadata and is left alone."""
    (space.folder("outputs") / "result.csv").write_text("1,2")
    (space.folder("outputs") / "odd.meta").write_text("{")
    assert space.list("outputs") == ()


def test_too_large_a_file_is_refused_and_leaves_nothing(space):
    """The error says the limit, and nothing of the file is left on disk."""
    with pytest.raises(BadInput, match="more than 1,000 bytes"):
        space.put(io.BytesIO(b"x" * 1_001), "x.bin", most_bytes=1_000)
    assert list(space.folder("uploads").iterdir()) == []


def test_a_file_of_just_the_size_is_taken(space):
    """The limit itself is allowed."""
    assert space.put(b"x" * 1_000, "x.bin", most_bytes=1_000).size_bytes == 1_000


def test_a_stream_that_breaks_leaves_nothing(space):
    """What the stream raises comes through, and nothing is left on disk."""

    class Broken(io.RawIOBase):
        def read(self, size=-1):
            raise ConnectionError("cut")

    with pytest.raises(Exception, match="cut"):
        space.put(Broken(), "x.bin")
    assert list(space.folder("uploads").iterdir()) == []


def test_a_text_stream_is_refused(space):
    """A stream that gives text was opened in the wrong mode, and the error says so."""
    with pytest.raises(BadInput, match="binary mode"):
        space.put(io.StringIO("text"), "x.txt")


def test_a_full_disk_is_named(space, monkeypatch):
    """No space is an error of its own, and nothing is left."""

    def full(handle, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(StoreFull):
            space.put(b"x", "x.txt")
    assert list(space.folder("uploads").iterdir()) == []


@pytest.mark.parametrize("source", ["missing", "", "nul\0"])
def test_a_source_that_cannot_be_read_is_named(space, tmp_path, source):
    """The error names the path that was given."""
    with pytest.raises(BadInput, match=r"cannot be read|folder"):
        space.put(str(tmp_path / source), "x")


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_only_regular_files_are_taken(space, tmp_path, kind):
    """A folder, a pipe that nobody writes to or a device is refused at once."""
    path = tmp_path / "other"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(BadInput, match=f"is a {kind}"):
        space.put("/dev/zero" if kind == "device" else path, "x")


def test_an_unknown_folder_is_refused(space):
    """A workspace has four folders and no way to name another."""
    with pytest.raises(BadInput, match="no folder"):
        space.put(b"x", "x", folder="../outside")


def test_a_damaged_note_is_loud(space):
    """A note that is not one is named with its place."""
    stored = space.put(b"x", "x.txt")
    (space.folder("uploads") / f"{stored.id}.meta").write_text("{")
    with pytest.raises(StoreCorrupt, match="cannot be read"):
        space.get(stored.id)


def test_a_workspace_that_was_cleaned_says_so(space):
    """Whoever still holds it is told to open it again, and can."""
    shutil.rmtree(space.path)
    with pytest.raises(NotFound, match="open the workspace again"):
        space.put(b"x", "x.txt")
    assert Workspace.open(space.root, "a session").put(b"x", "x.txt").size_bytes == 1
