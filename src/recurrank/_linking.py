"""Machine code for whole loops only: functions that are inlined are never compiled on their own.

numba optimises each function and turns it into machine code before it compiles its callers, which contain the function once
more: a helper five calls below a loop is optimised and compiled six times, five of them for nothing. Here a function that only
compiled code calls stays what it was lowered to (:class:`Part`), and is cached on disk as LLVM bitcode. What Python calls is
linked with all its parts and optimised once, as a whole (:class:`Whole`).
"""

from __future__ import annotations

import functools
import gc
import logging
import threading
import weakref
from collections.abc import Iterator
from typing import Any, cast

import llvmlite.binding as llvm
from numba.core import caching, codegen, compiler, event
from numba.core.environment import lookup_environment
from numba.core.targetconfig import TargetConfig

_Library: Any = codegen.JITCodeLibrary
_Compiler: Any = compiler.Compiler
_CacheImpl: Any = caching.CompileResultCacheImpl
_event: Any = event
_environment_of: Any = lookup_environment
_Listener: Any = event.Listener
PART, WHOLE = "part", "whole"
"""How ours are called in the disk cache, where numba has "object" and "bitcode"."""


COMPILING = "recurrank: compiling, which takes some seconds; later runs find the result on disk"
PATIENCE = 1.0
"""Seconds of compilation until a line on standard error says what is going on."""


class Part(_Library):  # type: ignore[misc]
    """A function that callers link to: no machine code, no optimisation but that of its size, and nothing but itself.

    What it calls stays in parts of their own (``_linking_libraries``), so that each is linked once, into the whole.
    """

    @property
    def codegen(self) -> Any:
        """Called by numba to set the globals of the machine code; a part has no machine code."""
        return _NoGlobals

    @property
    def has_dynamic_globals(self) -> bool:
        return any(_Library.has_dynamic_globals.fget(part) for part in _closure([self]))

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    def finalize(self) -> None:
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.add_dead_code_elimination_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.run(self._final_module, self._codegen._pass_builder())
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == llvm.Linkage.external:
                function.linkage = "linkonce_odr"  # may be linked into many wholes
        self._finalize_dynamic_globals()
        self._finalized = True

    def serialize_using_object_code(self) -> tuple[str, str, list[tuple[str, bytes]]]:
        parts = _closure([self])
        return self.name, PART, [(part.name, _bitcode(part)) for part in parts]

    @classmethod
    def restored(cls, generator: Any, modules: list[tuple[str, bytes]]) -> Part:
        own, *others = [_restored_parts.get(bitcode) or cls._restored(generator, name, bitcode) for name, bitcode in modules]
        own._linking_libraries = others
        return own

    @classmethod
    def _restored(cls, generator: Any, name: str, bitcode: bytes) -> Part:
        part = _restored_parts[bitcode] = cls(generator, name)
        _kept_bitcode[part] = bitcode
        part._final_module = llvm.parse_bitcode(bitcode)
        part._finalize_dynamic_globals()
        part._finalized = True
        return part

    def _get_module_for_linking(self) -> Any:
        """The part with all that it calls, for libraries of numba's own."""
        own, *others = [_module(part) for part in _closure([self])]
        whole = own.clone()
        for module in others:
            whole.link_in(module, preserve=True)
        return whole

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout


_restored_parts: weakref.WeakValueDictionary[bytes, Part] = weakref.WeakValueDictionary()


def _closure(libraries: list[Any]) -> list[Any]:
    """These libraries and all that they link to, each once."""
    found = dict.fromkeys(libraries)
    waiting = list(found)
    while waiting:
        library = waiting.pop()
        library._ensure_finalized()
        for other in library._linking_libraries if isinstance(library, Part) else ():
            if other not in found:
                found[other] = None
                waiting.append(other)
    return list(found)


def _module(library: Any) -> Any:
    return library._final_module if isinstance(library, Part) else library._get_module_for_linking()


def _bitcode(library: Any) -> bytes:
    """The module of a library as bytes, made once: it is saved with every part that calls it."""
    if library not in _kept_bitcode:
        _kept_bitcode[library] = _module(library).as_bitcode()
    return _kept_bitcode[library]


_kept_bitcode: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()


class Whole(_Library):  # type: ignore[misc]
    """A function that Python calls, with its parts: optimised once. (numba does it twice, to prune references.)"""

    def finalize(self) -> None:
        own = {function.name for function in self._final_module.functions}
        for library in _closure(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(_module(library), preserve=True)
        for function in self._final_module.functions:
            if not function.is_declaration and function.name not in own:
                function.linkage = "internal"  # so that what is not inlined loses the arguments that it does not use
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)
        self._finalize_final_module()

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, list[str]]]:
        """Numba keeps the bitcode, too, for callers; a whole has none but Python."""
        self._ensure_finalized()
        module = self._final_module
        defined = [value.name for value in (*module.functions, *module.global_variables) if not value.is_declaration]
        return self.name, WHOLE, (self._get_compiled_object(), defined)

    @classmethod
    def restored(cls, generator: Any, name: str, machine_code: bytes, defined: list[str]) -> Whole:
        whole = cls(generator, name)
        whole.enable_object_caching()
        whole._set_compiled_object(machine_code)
        whole._finalize_final_module()
        generator._engine._defined_symbols.update(defined)
        return whole

    def _get_module_for_linking(self) -> Any:
        raise TypeError(f"{self.name}: only Python may call it; compiled code calls what is compiled with hot, inner or rare")

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout


class _NoGlobals:
    @staticmethod
    def set_env(name: str, environment: Any) -> None:
        """Callers set it in their own machine code."""


class PartCompiler(_Compiler):  # type: ignore[misc]
    """numba's compiler, into a :class:`Part`."""

    def define_pipelines(self) -> Any:
        _compile_into(self.state, Part)
        return super().define_pipelines()


class WholeCompiler(_Compiler):  # type: ignore[misc]
    """numba's compiler, into a :class:`Whole`; says so if that takes long."""

    def define_pipelines(self) -> Any:
        _compile_into(self.state, Whole)
        return super().define_pipelines()

    def _compile_core(self) -> Any:
        patience = threading.Timer(PATIENCE, _say)
        patience.daemon = True
        patience.start()
        try:
            return super()._compile_core()
        finally:
            patience.cancel()


@functools.cache
def _say() -> None:
    """Say once per process why nothing seems to happen."""
    logging.getLogger(__name__).warning(COMPILING)


def _compile_into(state: Any, library: type[Any]) -> None:
    state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
    state.library.enable_object_caching()


class PartsCache(_CacheImpl):  # type: ignore[misc]
    """numba's form of compiled functions on disk, and those of parts and wholes."""

    def reduce(self, cres: Any) -> Any:
        """What is kept: without the text of the source that numba annotates with types, which nothing here reads."""
        *kept, _ = cres._replace(type_annotation="")._reduce()
        return *kept, tuple(_environments(cres.library))

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        if payload[0][1] not in (PART, WHOLE):
            return super().rebuild(target_context, payload)
        found = super().rebuild(_OwnLibraries(target_context), payload)
        return found._replace(target_context=target_context)


def _environments(library: Any) -> Iterator[Any]:
    """Numba's environments of all functions in a library."""
    parts = _closure([library]) if isinstance(library, Part) else [library]
    names = {variable.name for part in parts for variable in part._final_module.global_variables}
    for name in sorted(names):
        found = _environment_of(name) if name.startswith("_ZN08NumbaEnv") else None
        if found is not None and found.can_cache():
            yield found


class _OwnLibraries:
    """A numba target whose libraries come back as parts and wholes."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def codegen(self) -> _OwnLibraries:
        return self

    def unserialize_library(self, serialized: tuple[str, str, Any]) -> Any:
        name, kind, data = serialized
        generator = self._context.codegen()
        return Part.restored(generator, data) if kind == PART else Whole.restored(generator, name, *data)


class _FewerPauses(_Listener):  # type: ignore[misc]
    """No garbage collection while numba compiles: most of its many small objects are needed till the end."""

    def __init__(self) -> None:
        self.depth, self.collecting = 0, False

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            self.collecting = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.depth == 0 and self.collecting:
            gc.enable()


_event.register("numba:compile", _FewerPauses())  # under numba's lock, so that one thread compiles at a time


def _equal_options(one: Any, other: Any) -> Any:
    """Numba's comparison of two sets of options: the same answers, but it looks at defaults only where what was set differs.

    numba asks ten thousand times per loop, for every operator that it looks up.
    """
    if not isinstance(other, TargetConfig):
        return NotImplemented
    return one is other or one._values == other._values or one.values() == cast(Any, other).values()


_Options: Any = TargetConfig
_Options.__eq__ = _equal_options
_Options.__hash__ = lambda options: 0  # numba hashes the names of all options, which are the same in all sets
