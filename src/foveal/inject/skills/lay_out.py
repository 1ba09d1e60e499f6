"""A skill's files in a session's workspace: a copy that nobody can write to.

A link to the skill would let an agent change it for every later session.
"""

import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from foveal.core.errors import BadInput
from foveal.inject.skills.beneath import opened_folder
from foveal.inject.skills.scan import FILE, Skills

MOST_TOTAL_BYTES = 32 << 20


def lay_out(skills: Skills, name: str, folder: str | Path) -> Path:
    """Copy a skill to `folder/name`, and say where that is. One that is there already stays as it is."""
    skill = skills.get(name)
    body = skills.body(name)
    total = sum(resource.size_bytes for resource in body.resources)
    if total > MOST_TOTAL_BYTES:
        raise BadInput(f"{skill.path}: its files have {total:,} bytes; {MOST_TOTAL_BYTES:,} is the most that is copied")
    place = Path(folder, skill.name)
    if place.is_dir() and not place.is_symlink():
        return place
    draft = f".{skill.name}-{secrets.token_hex(8)}"
    with opened_folder(folder) as handle:
        os.mkdir(draft, dir_fd=handle)
        try:
            for path in (FILE, *(resource.path for resource in body.resources)):
                _write(folder, (draft, *path.split("/")), skills.resource(name, path))
            with suppress(FileExistsError):
                os.rename(draft, skill.name, src_dir_fd=handle, dst_dir_fd=handle)
        except OSError as error:
            raise BadInput(f"{place}: the skill cannot be copied there ({error.strerror})") from None
        finally:
            shutil.rmtree(Path(folder, draft), ignore_errors=True)
    return place


def _write(folder: str | Path, parts: tuple[str, ...], data: bytes) -> None:
    for i in range(2, len(parts)):
        with opened_folder(folder, parts[: i - 1]) as handle, suppress(FileExistsError):
            os.mkdir(parts[i - 1], dir_fd=handle)
    with opened_folder(folder, parts[:-1]) as handle:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(parts[-1], flags, 0o444, dir_fd=handle), "wb") as stream:
            stream.write(data)
