"""No name, no link and no race leads out of a workspace."""

import os
import re

import pytest

from foveal import BadInput, FovealError, NotFound
from foveal.context import safe_paths
from foveal.context.workspace import Workspace
from foveal.testing.hostile_names import hostile_names
from foveal.values.errors import StoreCorrupt

ON_DISK = re.compile(r"(session\.json|uploads|outputs|temp|skills|[a-z2-7]{26}\.([a-z0-9]{1,9}))\Z")


def on_disk(space):
    return [path.name for path in space.path.rglob("*")]


@pytest.mark.usefixtures("unchanged")
def test_hostile_file_names_escape_nowhere(space):
    """2 000 hostile names: every file lies in uploads under a generated name, and its user's name comes back as it was."""
    given = hostile_names()
    for name in given:
        stored = space.put(b"x", name)
        assert space.get(stored.id).name == name[:8_192]
        assert (space.folder("uploads") / stored.file).read_bytes() == b"x"
    assert len(space.list()) == len(given) == 2_000
    assert [name for name in on_disk(space) if not ON_DISK.match(name)] == []


@pytest.mark.usefixtures("unchanged")
def test_hostile_session_names_escape_nowhere(tmp_path):
    """2 000 hostile session names: each gets a folder of its own right below the root, named by a hash."""
    given = {name for name in hostile_names() if len(name) <= 8_192}
    for name in given:
        Workspace.open(tmp_path / "root", name)
    made = [path.name for path in (tmp_path / "root").iterdir()]
    assert len(made) == len(given)
    assert all(re.fullmatch(r"s-[0-9a-f]{40}", name) for name in made)


@pytest.mark.usefixtures("unchanged")
def test_hostile_ids_find_nothing(space):
    """2 000 hostile ids: each is an unknown file, and says so in the same way."""
    for name in hostile_names():
        with pytest.raises(NotFound, match="has no file"):
            space.get(name)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("place", ["session", "uploads"])
def test_a_folder_that_is_a_link_is_refused(space, outside, place):
    """Where a link stands in the place of a folder of ours, nothing is read or written behind it."""
    folder = space.path if place == "session" else space.folder("uploads")
    folder.rename(space.root / "aside")
    folder.symlink_to(outside, target_is_directory=True)
    with pytest.raises(BadInput, match="a link or a file stands"):
        space.put(b"x", "x.txt")
    with pytest.raises(BadInput):
        space.list()
    with pytest.raises(BadInput):
        Workspace.open(space.root, "a session")


@pytest.mark.usefixtures("unchanged")
def test_a_file_that_is_a_link_is_not_read(space, outside):
    """A stored file that was swapped for a link to a secret gives an error, not the secret."""
    stored = space.put(b"x", "x.txt")
    path = space.folder("uploads") / stored.file
    path.unlink()
    path.symlink_to(outside / "secret.txt")
    with pytest.raises(FovealError):
        space.stream(stored.id)


@pytest.mark.parametrize("field", ["file", "folder", "id"])
def test_a_note_cannot_name_another_file(space, field):
    """A tool that rewrites a note does not get us to open what it names."""
    stored = space.put(b"x", "x.txt")
    note = space.folder("uploads") / f"{stored.id}.meta"
    note.write_text(note.read_text().replace(f'"{getattr(stored, field)}"', '"../../../outside/secret.txt"'))
    with pytest.raises(StoreCorrupt, match="names another file"):
        space.stream(stored.id)


@pytest.mark.usefixtures("unchanged")
def test_a_swap_before_any_step_leads_nowhere(space, outside, monkeypatch):
    """Whichever open of a put comes after folders were swapped for links, nothing arrives behind the links."""
    real, refused = os.open, 0
    for step in range(1, 8):
        seen = 0

        def swapping(path, flags, *rest, dir_fd=None, at=step):
            nonlocal seen
            seen += 1
            if seen == at:
                uploads = space.folder("uploads")
                uploads.rename(space.path / f"aside{at}")
                uploads.symlink_to(outside, target_is_directory=True)
            return real(path, flags, *rest, dir_fd=dir_fd)

        with monkeypatch.context() as patch:
            patch.setattr(safe_paths.os, "open", swapping)
            try:
                space.put(b"x", "x.txt")
            except BadInput:
                refused += 1
        if seen >= step:
            space.folder("uploads").unlink()
            (space.path / f"aside{step}").rename(space.folder("uploads"))
    assert refused == 3  # before the root, the session or the folder was open; later swaps hit a folder that is held
