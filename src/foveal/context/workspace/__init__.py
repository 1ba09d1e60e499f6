"""A folder per session for files: uploads, outputs, scratch space, and the skills that the session may read.

    with-root/s-<hash of the session's name>/
        session.json                the name itself, and when the session was last opened (by its modification time)
        uploads/<id>.pdf            the bytes, under a generated name
        uploads/<id>.meta           the user's name of the file, its size and hash
        outputs/  temp/  skills/

No name chosen by others is ever a name on disk. Every folder is opened by its parent's descriptor without following links, so
that nothing outside the root can be reached by any name, link or race.
"""

from foveal.context.workspace.cleanup import Cleaned, CleaningPlan, SessionFolder, clean, folders
from foveal.context.workspace.stored_file import StoredFile
from foveal.context.workspace.workspace import FOLDERS, Workspace

__all__ = ["FOLDERS", "Cleaned", "CleaningPlan", "SessionFolder", "StoredFile", "Workspace", "clean", "folders"]
