"""How the package compiles: with numba, in nopython mode, in a disk cache that is never stale.

numba keeps a compiled function until the *file that defines it* changes. Our functions call each other across files, and the
compiled loops contain the functions of the ranker and click model that they run, including a user's own. So the key of this
cache is all contributing code: the bytecode of the function and of all functions that it calls, in any file, the constants
that they read, and the compiled functions of the classes that are registered for the states in the signature.
"""

from __future__ import annotations

import atexit
import enum
import functools
import glob
import hashlib
import inspect
import itertools
import logging
import os
import pickle
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar, cast

import numpy as np
from numba import __version__ as numba_version
from numba import njit, types
from numba.core import caching, config
from numba.core.bytecode import FunctionIdentity
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher
from numba.extending import overload

from recurrank._generators import register
from recurrank._linking import PartCompiler, PartsCache, WholeCompiler
from recurrank._sources import is_ours, is_users

_INLINED: Any = {"forceinline": True, "_nrt": False}
_NO_WAY_IN: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": PartCompiler}
_LOOP: Any = {**_INLINED, "no_cfunc_wrapper": True, "pipeline_class": WholeCompiler}
PART: Any = {**_INLINED, **_NO_WAY_IN}
"""numba's options for functions that are inlined into compiled code and never called from Python."""

register()

_FORM = "8"
"""Version of the disk cache's format, part of every key."""

F = TypeVar("F", bound=Callable[..., Any])

_FunctionCache: Any = caching.FunctionCache
_DataFiles: Any = caching.IndexDataCacheFile
_Dispatcher: Any = CPUDispatcher


def compiled(function: F) -> F:
    """``function`` compiled by numba on its first call, and from the disk cache in later processes."""
    return _kept(function, {})


def hot(function: F) -> F:
    """Compile a function that runs every round with numba: it is inlined into its callers, and must not allocate.

    A hot function that would allocate an array therefore does not compile, and no time is spent on counting references
    (four fifths of the time of a round otherwise). The entry point for Python is compiled when Python first calls it.
    """
    return _callable_part(function, PART)


def rare(function: F) -> F:
    """:func:`hot` for long or seldom called functions: called instead of inlined, so that their callers stay small."""
    return _callable_part(function, {**PART, "forceinline": False})


def loop(function: F) -> F:
    """:func:`hot` for functions that only Python calls: the loops around all hot functions."""
    return _kept(function, _LOOP)


def addressed(function: F) -> F:
    """:func:`loop` for functions that compiled code calls by their address (``_addresses.py``)."""
    return _kept(function, {**_LOOP, "no_cpython_wrapper": True})


def inner(function: F) -> F:
    """:func:`hot` for functions that only compiled code calls."""
    return _kept(function, PART)


def apart(function: F) -> F:
    """:func:`compiled` for long computations on arrays: it releases the GIL."""
    return _kept(function, {"nogil": True})


def sweep(function: F) -> F:
    """:func:`apart` for functions that do not allocate, which compile faster."""
    return _kept(function, {**_LOOP, "nogil": True})


def natural(index: Any) -> Any:
    """Mark an index as not negative: compiled code then does not check whether it counts from the end."""
    return index


@overload(natural, jit_options=PART, strict=False)
def _natural(index: Any) -> Any:
    return lambda index: np.uint64(index)


def interpreted(function: F) -> F:
    """The Python function behind a compiled one, for what numba cannot compile."""
    return cast(F, cast(Any, function).py_func)


def contributes(state: type[Any], owner: type[Any]) -> None:
    """Compiled code that takes this state contains the compiled functions of ``owner``.

    The class gets a unique name: numba treats named tuples with equal names and fields as one type, and would run the
    compiled functions of one owner for the other.
    """
    _owners[state] = owner
    name = full = re.sub(r"\W", "_", f"{state.__module__}.{state.__qualname__}")
    number = 1
    while _names.setdefault(name, state) is not state:  # defined again, as in a notebook
        number += 1
        name = f"{full}_{number}"
    state.__name__ = name


_owners: dict[type[Any], type[Any]] = {}
_names: dict[str, type[Any]] = {}


def _kept(function: F, options: dict[str, Any]) -> F:
    dispatcher: Any = njit(**options)(function)
    dispatcher._cache = _CodeCache(function)
    return cast(F, dispatcher)


def _callable_part(function: F, options: dict[str, Any]) -> F:
    part: Any = _kept(function, options)
    part.__class__ = _Hot
    return cast(F, part)


class _Hot(_Dispatcher):  # type: ignore[misc]
    """A function to be inlined that Python can call as well."""

    def __call__(self, *arguments: Any) -> Any:
        return self.way_in(*arguments)

    @property
    def stats(self) -> Any:
        return self.way_in.stats

    @functools.cached_property
    def way_in(self) -> Any:
        """A wrapper for Python that only calls the function."""
        function: Any = self.py_func
        code = function.__code__
        parameters = ", ".join(code.co_varnames[: code.co_argcount])
        source = "\n" * (code.co_firstlineno - 1) + f"def {function.__name__}({parameters}): return part({parameters})"
        names: dict[str, Any] = {"part": self, "__name__": function.__module__}
        exec(compile(source, code.co_filename, "exec"), names)
        forward = names[function.__name__]
        forward.__qualname__ = f"{function.__qualname__}.way_in"
        forward.__defaults__ = function.__defaults__
        return loop(forward)


class _CodeCache(_FunctionCache):  # type: ignore[misc]
    """numba's disk cache with all contributing code in the key."""

    _impl_class = PartsCache

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            super().__init__(function)
        except RuntimeError:  # neither the source's folder nor the home folder is writable
            _use_temporary_cache()
            super().__init__(function)
        self._cache_file.__class__ = _KeyedFiles

    def _index_key(self, sig: Any, codegen: Any) -> tuple[str, str]:
        states = [kind for part in sig for kind in _states(part)]
        factory_parts = [_named(interpreted(part)) for part in _cells(self._py_func) if _is_dispatcher(part)]
        names = factory_parts + [_named(kind) for kind in states]
        signature = repr((_FORM, numba_version, str(sig), names, codegen.magic_tuple()))
        return _digest([signature.encode()]), _digest(_code([self._py_func, *states]))

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load; a script's classes are unpickled as copies, so the signature is replaced by the one asked for."""
        try:
            result = super()._load_overload(sig, target_context)
        except (ImportError, AttributeError, EOFError, pickle.UnpicklingError):  # truncated, or from another version
            return None
        if result is None or tuple(result.signature.args) == tuple(sig):
            return result
        result.fndesc.argtypes = tuple(sig)
        return result._replace(signature=result.signature.replace(args=tuple(sig)))


class _KeyedFiles(_DataFiles):  # type: ignore[misc]
    """One file per key, named after it, and no index.

    numba numbers the files and keeps an index of them. Two processes that compile the same function at the same time may take
    the same number, and one of them then finds the machine code of the other.
    """

    def load(self, key: tuple[str, str]) -> Any:
        try:
            return self._load_data(self._name(*key))
        except OSError:
            return None

    def save(self, key: tuple[str, str], data: Any) -> None:
        """Save, and remove the machine code of older sources."""
        self._save_data(self._name(*key), data)
        for other in self._named(key[0]):
            if other.name != self._name(*key):
                other.unlink(missing_ok=True)

    def flush(self) -> None:
        for file in self._named("*"):
            file.unlink(missing_ok=True)

    def _name(self, signature: str, code: str) -> str:
        return f"{self._index_name.removesuffix('.nbi')}.{signature[:16]}.{code[:32]}.nbc"

    def _named(self, signature: str) -> list[Path]:
        pattern = f"{self._index_name.removesuffix('.nbi')}."
        return list(Path(self._cache_path).glob(f"{glob.escape(pattern)}{signature[:16]}.*.nbc"))


def _randomize_numbers() -> None:
    """Number compiled functions from a random start.

    In machine code the name of a function ends with a number, which distinguishes the functions that one factory makes
    (``optimism.selector``). numba counts from 1 in every process. When the disk cache brings machine code of two processes
    together, two functions could have the same name, and one of them would run for both.
    """
    FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(6), "big"))


_randomize_numbers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_randomize_numbers)


def _use_temporary_cache() -> None:
    """Keep machine code in a private folder until this process ends; its children use it too."""
    folder = tempfile.mkdtemp(prefix="recurrank-cache-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = folder
    config.reload_config()  # type: ignore[no-untyped-call]
    logging.getLogger(__name__).warning(
        "recurrank: machine code cannot be kept between runs; set NUMBA_CACHE_DIR to a folder that can be written"
    )


def _states(numba_type: Any) -> Iterator[type[Any]]:
    """The classes of the named tuples in a numba type."""
    if isinstance(numba_type, types.CPointer):
        yield from _states(cast(Any, numba_type).dtype)
    if hasattr(numba_type, "instance_class"):
        yield numba_type.instance_class
    if isinstance(numba_type, types.BaseTuple):
        for part in cast(Any, numba_type).types:
            yield from _states(part)


def _digest(parts: Iterator[bytes] | list[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _code(values: list[Any]) -> Iterator[bytes]:
    """Everything in these functions, classes and constants, and in all that they refer to, that changes compiled code."""
    waiting, seen = values[::-1], set[int]()
    while waiting:
        value = waiting.pop()
        if isinstance(value, Dispatcher):
            yield repr(sorted(value.targetoptions.items())).encode()
            value = value.py_func
        if isinstance(value, FunctionType):
            if id(value) not in seen:
                seen.add(id(value))
                yield value.__module__.encode()  # the file on disk imports it
                yield from _bytecode(value.__code__, value.__doc__)
                waiting += [*_referred(value), *(value.__defaults__ or ()), *_cells(value)][::-1]
        elif isinstance(value, type):
            yield _named(value).encode()
            if issubclass(value, enum.Enum):
                yield repr(list(value)).encode()
            elif issubclass(value, tuple):
                yield repr(getattr(value, "_fields", ())).encode()
                waiting += [part for _, part in inspect.getmembers(_owners.get(value), _is_dispatcher)]
        elif isinstance(value, np.ndarray):
            yield f"{value.dtype} {value.shape}".encode() + value.tobytes()
        elif isinstance(value, tuple):
            waiting += value[::-1]
        elif isinstance(value, int | float | complex | str | bytes | np.generic | None):
            yield repr(value).encode()
        else:
            yield _named(value if hasattr(value, "__qualname__") else type(value)).encode()


def _bytecode(code: CodeType, doc: str | None) -> Iterator[bytes]:
    yield code.co_code + repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)).encode()
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _bytecode(constant, None)
        elif constant != doc or doc is None:
            yield repr(constant).encode()


def _referred(function: FunctionType) -> Iterator[Any]:
    """The globals that a function names, and the attributes that it names of modules of ours or the user's."""
    codes = [function.__code__]
    for code in codes:
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    names = [name for code in codes for name in code.co_names]
    for name in names:
        value = function.__globals__.get(name)
        if not isinstance(value, ModuleType):
            yield value
        elif is_ours(value.__name__) or is_users(value):
            yield from (getattr(value, part, None) for part in names)


def _cells(function: FunctionType) -> list[Any]:
    return [cell.cell_contents for cell in function.__closure__ or ()]


def _is_dispatcher(value: Any) -> bool:
    return isinstance(value, Dispatcher)


def _named(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{value.__qualname__}"
