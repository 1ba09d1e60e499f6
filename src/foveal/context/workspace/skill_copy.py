"""A skill's folder, copied read-only into a workspace.

A copy and not a link: the session sees the vetted files, and programs it runs there cannot change the originals. Names inside a
skill are kept, because its text refers to them; each is one step that the kernel listed. Hidden entries (`.git`) are no part of
a skill. A link to a file of the same skill is copied as that file; a link that leaves the skill, leads to a folder or turns in
circles is refused.
"""

import errno
import os
import secrets
import stat
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from foveal.context.safe_paths import REMOVING, below, entries, inside, new_file, regular_file, remove_tree, write_all
from foveal.values.errors import BadInput

MOST_FILES = 2_000
MOST_SKILL_BYTES = 50_000_000
MOST_DEPTH = 16
_MOST_LINKS = 40  # as many as the kernel follows before it gives up
_CHUNK = 1 << 20


class LinkedSkill(msgspec.Struct, frozen=True):
    name: str
    """The name of its original folder: data, never a path."""
    path: Path
    files: int
    size_bytes: int
    sha256: str
    """Hash of all paths and contents: the same for the same skill, and its folder's name."""

    @property
    def place(self) -> str:
        """Its path below the session's folder."""
        return f"skills/{self.path.name}"


class _Copying:
    """One copy: its source, and the files copied so far, held to the limits."""

    def __init__(self, skill: str, source: int) -> None:
        self.skill, self.source = skill, source
        self.files, self.size_bytes, self.digest = 0, 0, sha256()

    def folder(self, path: tuple[str, ...], source: int, target: int) -> None:
        if len(path) > MOST_DEPTH:
            raise self._too_much(f"folders more than {MOST_DEPTH} deep")
        for name, found in entries(source):
            here = (*path, name)
            if name.startswith("."):
                continue
            if stat.S_ISDIR(found.st_mode):
                with inside(source, name) as below, inside(target, name, make=True) as copy:
                    self.folder(here, below, copy)
            elif stat.S_ISLNK(found.st_mode):
                self._file(here, self._behind(path, os.readlink(name, dir_fd=source)), target)
            elif stat.S_ISREG(found.st_mode):
                self._file(here, regular_file(name, source), target)
            else:
                raise BadInput(f"the skill {self.skill!r:.80} holds {name!r:.80}, which is no file, folder or link")
        os.fchmod(target, 0o555)

    def _file(self, path: tuple[str, ...], handle: int, target: int) -> None:
        with os.fdopen(handle, "rb") as stream:
            mode = 0o555 if os.fstat(handle).st_mode & stat.S_IXUSR else 0o444
            self.files += 1
            if self.files > MOST_FILES:
                raise self._too_much(f"more than {MOST_FILES:,} files")
            copy, content = new_file(target, path[-1]), sha256()
            try:
                while chunk := stream.read(_CHUNK):
                    self.size_bytes += len(chunk)
                    if self.size_bytes > MOST_SKILL_BYTES:
                        raise self._too_much(f"more than {MOST_SKILL_BYTES:,} bytes")
                    content.update(chunk)
                    write_all(copy, chunk)
                os.fchmod(copy, mode)
            finally:
                os.close(copy)
        name = os.fsencode("/".join(path))
        self.digest.update(b"%d %o %b %b" % (len(name), mode, name, content.digest()))

    def _too_much(self, what: str) -> BadInput:
        return BadInput(f"the skill {self.skill!r:.80} has {what}; is it the right folder?")

    def _behind(self, folder: tuple[str, ...], target: str) -> int:
        """Open the file that a link in `folder` leads to, step by step from the skill's own folder."""
        at, waiting, links = list(folder), _steps(target), 1
        if target.startswith("/"):
            raise self._refused(target, "leads out of it")
        while waiting:
            step = waiting.pop(0)
            if step == "..":
                if not at:
                    raise self._refused(target, "leads out of it")
                at.pop()
                continue
            with below(self.source, at) as here:
                found = os.stat(step, dir_fd=here, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and not waiting:
                    return regular_file(step, here)
                if stat.S_ISLNK(found.st_mode):
                    further, links = os.readlink(step, dir_fd=here), links + 1
                    if further.startswith("/") or links > _MOST_LINKS:
                        raise self._refused(target, "leads out of it or in circles")
                    waiting = _steps(further) + waiting
                else:
                    at.append(step)
        raise self._refused(target, "leads to a folder; put the files there")

    def _refused(self, target: str, why: str) -> BadInput:
        return BadInput(f"the skill {self.skill!r:.80} has a link to {target!r:.120}, which {why}")


def copy_skill(root: Path, folder: Sequence[str], place: int, *, shown: Path) -> LinkedSkill:
    """Copy the `folder` below a root into the open folder `place`, whose path is `shown`: whole under its final name, or not at
    all. The root is the caller's word and may be a link; no step below it may."""
    skill = folder[-1] if folder else root.name
    unfinished = f"{REMOVING}{secrets.token_hex(12)}"
    os.mkdir(unfinished, 0o700, dir_fd=place)
    try:
        with _source(root, folder) as source, inside(place, unfinished) as target:
            copying = _Copying(skill, source)
            copying.folder((), source, target)
        name = copying.digest.hexdigest()[:32]
        try:
            os.rename(unfinished, name, src_dir_fd=place, dst_dir_fd=place)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            remove_tree(place, unfinished)  # the same content is there already
    except BaseException:
        with suppress(OSError):
            remove_tree(place, unfinished)
        raise
    return LinkedSkill(skill, shown / name, copying.files, copying.size_bytes, copying.digest.hexdigest())


@contextmanager
def _source(root: Path, folder: Sequence[str]) -> Generator[int]:
    with ExitStack() as stack:
        try:
            handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, handle)
            handle = stack.enter_context(below(handle, folder))
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise BadInput(f"the skill {'/'.join((root.name, *folder))!r:.200} cannot be read: {why}") from None
        yield handle


def _steps(target: str) -> list[str]:
    return [step for step in target.split("/") if step not in ("", ".")]
