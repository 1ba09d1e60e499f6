"""The place of artifacts, as it is written in one line: a folder, or the address of a bucket."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from foveal.stores.artifacts import FileArtifacts
from foveal.stores.port import ArtifactShelf
from foveal.values.errors import BadInput, MissingExtra

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")


def open_artifacts(place: str | Path) -> ArtifactShelf:
    """Open the artifacts at a place: a folder, `file:///FOLDER`, or `s3://BUCKET/PREFIX`, `gs://…`, `az://…`."""
    text = str(place)
    if isinstance(place, Path) or "://" not in text:
        return FileArtifacts(Path(place))
    scheme = urlsplit(text).scheme
    if scheme == "file":
        return FileArtifacts(Path(unquote(urlsplit(text).path)))
    if scheme not in SCHEMES:
        raise BadInput(f"{scheme}:// is no place of artifacts; give a folder, or s3://BUCKET/PREFIX, gs://… or az://…")
    if find_spec("obstore") is None:
        raise MissingExtra("Keeping artifacts in an object store", "objects")
    return import_module("foveal.stores.objects").ObjectArtifacts(text)
