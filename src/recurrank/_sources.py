"""Source files: whether they belong to this package, a library or the user, and digests of them."""

from __future__ import annotations

import functools
import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = __name__.partition(".")[0]
_HERE = Path(__file__).parent


@functools.cache
def sources_digest() -> bytes:
    """A digest of the names and contents of every source file of the package."""
    root, digest = _HERE, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.digest()


def digest_behind(*kinds: type[Any]) -> bytes:
    """A digest of the package's sources, and of the files that the user's own classes among these need.

    Those are the file of each such class and the imported files in its folder and below.
    """
    digest = hashlib.sha256(sources_digest())
    for kind in kinds:
        if not is_ours(kind.__module__):
            for name, path in _beside(kind.__module__):
                digest.update(name.encode() + b"\0" + path.read_bytes())
    return digest.digest()


def _beside(module: str) -> Iterator[tuple[str, Path]]:
    own = getattr(sys.modules.get(module), "__file__", None)
    if own is None:
        raise ValueError(f"{module}: its classes are in no file, so that nothing tells whether they change; put them into one")
    for name, other in sorted(sys.modules.items()):
        path = getattr(other, "__file__", None)
        if name == module or (name != "__main__" and path and is_users(other) and Path(path).is_relative_to(Path(own).parent)):
            yield name, Path(str(path))


def is_ours(module: str) -> bool:
    """Whether a module, by its name, is one of this package."""
    return module.partition(".")[0] == PACKAGE


def is_users(module: ModuleType) -> bool:
    """Whether the file is the user's own rather than part of Python or an installed library."""
    path = getattr(module, "__file__", None)
    return path is not None and not _installed(Path(path))


def in_a_library(file: Path) -> bool:
    """Whether a file is part of this package, of Python or of an installed library, rather than the user's own."""
    return file.is_relative_to(_HERE) or _installed(file)


def _installed(file: Path) -> bool:
    return any(file.is_relative_to(library) for library in _libraries())


@functools.cache
def _libraries() -> frozenset[str]:
    return frozenset(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
