"""A folder per session for files: what was uploaded, what was made, scratch space, and the skills it may read.

    with-root/s-<hash of the session's name>/
        session.json                the name itself, and when the session was last opened (by its modification time)
        uploads/<id>.pdf            the bytes, under a name that was generated
        uploads/<id>.meta           what the user called it, its size and hash
        outputs/  temp/  skills/

No name that somebody else chose is ever a name on disk. Every folder is opened by its parent's descriptor without following
links, so that what lies outside the root cannot be reached by any name, link or race.
"""

from foveal.context.workspace.cleaning import Cleaned, CleaningPlan, SessionFolder, clean, folders
from foveal.context.workspace.skills import LinkedSkill
from foveal.context.workspace.space import FOLDERS, MOST_BYTES, Folder, Workspace
from foveal.context.workspace.stored import StoredFile

__all__ = [
    "FOLDERS",
    "MOST_BYTES",
    "Cleaned",
    "CleaningPlan",
    "Folder",
    "LinkedSkill",
    "SessionFolder",
    "StoredFile",
    "Workspace",
    "clean",
    "folders",
]
