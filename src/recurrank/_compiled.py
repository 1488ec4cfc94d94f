"""How the package compiles: numba, nopython mode, kept on disk, and never stale.

numba keeps a compiled function until the *file that defines it* changes. Ours call each other across files, so
a change in one file would leave machine code of its old text inside another's. Here every compiled function's
stamp is the digest of all the package's sources instead: any change compiles anew.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

HOT: Any = {"forceinline": True, "_nrt": False}
"""numba's options for what runs every round."""

F = TypeVar("F", bound=Callable[..., Any])


@functools.cache
def sources_digest() -> bytes:
    """A digest of every source file of the package, names and contents."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.digest()


def compiled(function: F) -> F:
    """``function`` compiled by numba on its first call, and from the disk cache in later processes."""
    return _kept(function, {})


def hot(function: F) -> F:
    """:func:`compiled` for what runs every round: inlined into its callers, and without numba's memory manager.

    So a hot function that would allocate an array does not compile, and no time goes into counting references
    (which is four fifths of the time of a round otherwise).
    """
    return _kept(function, HOT)


def rare(function: F) -> F:
    """:func:`hot` for what it seldom calls: a call of its own, so that the rest stays small."""
    return _kept(function, {**HOT, "forceinline": False})


def apart(function: F) -> F:
    """:func:`compiled` for long work on arrays: other threads go on meanwhile."""
    return _kept(function, {"nogil": True})


def _kept(function: F, options: dict[str, Any]) -> F:
    dispatcher: Any = njit(cache=True, **options)(function)
    cache_file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(cache_file, "_source_stamp"):  # numba's own name: without it we fall back on numba's own rule
        cache_file._source_stamp = sources_digest()
    return cast(F, dispatcher)
