"""Names of a package that are loaded when they are asked for: an import costs what every session needs, and no more."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def later(package: str, where: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names live in these of its modules. No name may be that of a module itself."""

    def find(name: str) -> Any:
        if name in where:
            return getattr(import_module(f"{package}.{where[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find
