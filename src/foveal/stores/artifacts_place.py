"""The place of artifacts, as it is written in one line: a folder, or the address of a bucket."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote

from foveal.stores.artifacts import FileArtifacts
from foveal.stores.place import without_secrets
from foveal.stores.port import OutsideShelf
from foveal.values.errors import BadInput, MissingExtra

SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")


def artifacts_address(place: str | Path) -> str:
    """Return a place of artifacts as it is remembered and compared: a whole path, or an address without secrets."""
    text = str(place)
    if isinstance(place, str) and "://" in text and not text.startswith("file://"):
        return without_secrets(text).rstrip("/")
    return str(_folder(place).absolute())


def open_artifacts(place: str | Path) -> OutsideShelf:
    """Open the artifacts at a place: a folder, `file:///FOLDER`, or `s3://BUCKET/PREFIX`, `gs://…`, `az://…`."""
    text = str(place)
    if not text:
        raise BadInput(
            "the place of artifacts is empty; give a folder, or s3://BUCKET/PREFIX, gs://… or az://…, or leave it out"
        )
    if isinstance(place, Path) or "://" not in text or text.startswith("file://"):
        return FileArtifacts(_folder(place))
    scheme = text.partition("://")[0]
    if scheme not in SCHEMES:
        raise BadInput(f"{scheme}:// is no place of artifacts; give a folder, or s3://BUCKET/PREFIX, gs://… or az://…")
    if find_spec("obstore") is None:
        raise MissingExtra("Keeping artifacts in an object store", "objects")
    return import_module("foveal.stores.objects").ObjectArtifacts(text)


def _folder(place: str | Path) -> Path:
    text = str(place)
    is_address = isinstance(place, str) and text.startswith("file://")
    return Path(unquote("/" + text.removeprefix("file://").partition("/")[2])) if is_address else Path(place)
