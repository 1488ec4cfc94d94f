"""Machine code for whole loops only: functions that are inlined are never compiled on their own.

numba optimises each function and turns it into machine code before it compiles its callers, which contain the function again:
a helper five calls below a loop is optimised and compiled six times, five of them in vain. Here a function that only compiled
code calls keeps its unoptimised LLVM code (:class:`Part`), and is cached on disk as bitcode. A function that Python calls is
optimised once, together with its parts (:class:`Whole`).
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import logging
import threading
from collections.abc import Iterator
from typing import Any

import llvmlite.binding as llvm
from numba.core import caching, codegen, compiler, targetconfig
from numba.np import linalg

_Library: Any = codegen.JITCodeLibrary
_Compiler: Any = compiler.Compiler
_CacheImpl: Any = caching.CompileResultCacheImpl
_Options: Any = targetconfig.TargetConfig
_linalg: Any = linalg
PART = "part"
"""The kind of a part in the disk cache, beside numba's "object" and "bitcode"."""


COMPILING = "recurrank: compiling, which takes some seconds; later runs find the result on disk"
PATIENCE = 1.0
"""Seconds of compilation until a line on standard error says that it is compiling."""


class Part(_Library):  # type: ignore[misc]
    """A function that callers link to: without machine code, and only shrunk, not optimised."""

    @property
    def codegen(self) -> Any:
        """Called by numba to set the globals of the machine code; a part has no machine code."""
        return _NoGlobals

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        self._ensure_finalized()
        return self.name, PART, self._final_module.as_bitcode()

    @classmethod
    def restored(cls, generator: Any, name: str, bitcode: bytes) -> Part:
        part = cls(generator, name)
        part._final_module = llvm.parse_bitcode(bitcode)
        part._finalize_final_module()
        return part

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_dead_code_elimination_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.run(self._final_module, self._codegen._pass_builder())

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class Whole(_Library):  # type: ignore[misc]
    """A function that Python calls, with its parts: optimised once. (numba does it twice, to prune references.)"""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class _NoGlobals:
    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """Callers set it in their own machine code."""


class PartCompiler(_Compiler):  # type: ignore[misc]
    """numba's compiler, producing a :class:`Part`."""

    def define_pipelines(self) -> Any:
        _compile_into(self.state, Part)
        return super().define_pipelines()


class WholeCompiler(_Compiler):  # type: ignore[misc]
    """numba's compiler, producing a :class:`Whole`; logs a line if that takes long."""

    def define_pipelines(self) -> Any:
        _compile_into(self.state, Whole)
        return super().define_pipelines()

    def _compile_core(self) -> Any:
        patience = threading.Timer(PATIENCE, _say)
        patience.daemon = True
        patience.start()
        try:
            with _no_collections():
                return super()._compile_core()
        finally:
            patience.cancel()


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Without garbage collection: it frees hardly any of the compiler's objects, and takes an eighth of its time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _compare_options() -> None:
    """Let numba compare only those of its options that are set.

    It looks overloads up by them, tens of thousands of times for one loop, and each time reads all of them on both sides,
    which is a fifth of the compilation time.
    """

    def equal(one: Any, other: Any) -> Any:
        if type(one) is not type(other):
            return NotImplemented
        mine, others = one._values, other._values
        return mine == others or all(getattr(one, name) == getattr(other, name) for name in {*mine, *others})

    _Options.__eq__ = equal
    _Options.__hash__ = lambda options: hash(type(options))  # numba's hash is also the same for all options of a kind


_compare_options()


def _import_without_scipy() -> None:
    """Import numba's array functions without scipy.linalg, which takes a fifth of a second.

    numba imports it only to check that it exists. Only ``np.dot`` and ``np.linalg`` in compiled code need it, and import it
    themselves.
    """
    ensure = _linalg.ensure_blas
    _linalg.ensure_blas = lambda: None
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        _linalg.ensure_blas = ensure


_import_without_scipy()


@functools.cache
def _say() -> None:
    """Say once per process why nothing seems to happen."""
    logging.getLogger(__name__).warning(COMPILING)


def _compile_into(state: Any, library: type[Any]) -> None:
    state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
    state.library.enable_object_caching()


class PartsCache(_CacheImpl):  # type: ignore[misc]
    """numba's format of compiled functions on disk, extended by parts."""

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        if payload[0][1] != PART:
            return super().rebuild(target_context, payload)
        result = super().rebuild(_PartContext(target_context), payload)
        return result._replace(target_context=target_context)


class _PartContext:
    """A numba target whose libraries, loaded from disk, are parts."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def codegen(self) -> _PartContext:
        return self

    def unserialize_library(self, serialized: tuple[str, str, bytes]) -> Part:
        name, _, bitcode = serialized
        return Part.restored(self._context.codegen(), name, bitcode)
