"""Compiled functions that loops call by their address, so that a loop is compiled once, whatever it calls.

Such a function takes one argument, a pointer to a tuple of all its arguments. Python writes the tuple once, in numba's memory
layout for tuples (:class:`Packed`): an array as its data pointer, shape and strides, a number by its value.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from recurrank._compiled import PART

_types: Any = types
_typeof: Any = typeof
_cgutils: Any = cgutils
_RESULT, _POINTER = _types.int64, _types.voidptr


class Call(NamedTuple):
    """The addresses of a compiled function and of its packed arguments."""

    function: int
    arguments: int


class Packed:
    """Arguments in memory for functions that are called by their address; it keeps the objects they refer to alive.

    Raises TypeError for anything but arrays, 64-bit numbers, generators and tuples of them.
    """

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        words: list[int] = []
        form = _write(arguments, words)
        self._block, self._arguments = np.array(words, np.uint64), arguments
        self._compiled = _addresses_by_form.setdefault(form, {})

    def call(self, function: Any) -> Call:
        """A call of this function, which is compiled on first use."""
        address = self._compiled.get(function)
        if address is None:
            signature = (_types.CPointer(_typeof(self._arguments)),)
            function.compile(signature)
            result = function.overloads[signature]
            address = self._compiled[function] = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
        return Call(address, self._block.ctypes.data)


_addresses_by_form: dict[Any, dict[Any, int]] = {}
"""Addresses of compiled functions for arguments of the same types, dimensions and layouts."""


def _write(value: Any, words: list[int]) -> Any:
    """Append a value in numba's memory layout, as 64-bit words; return what determines its numba type."""
    if isinstance(value, np.ndarray):  # no memory manager and no owner, then the array itself
        words += (0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape)
        words += [stride % 2**64 for stride in value.strides]
        return value.dtype, value.ndim, value.flags.num
    if isinstance(value, tuple):
        return (type(value), *[_write(part, words) for part in value])
    if isinstance(value, np.random.Generator):
        bits = value.bit_generator.ctypes
        words += (0, bits.state_address, bits.state.value, *map(_address, bits[2:5]), bits.bit_generator.value, 0, 0)
    elif type(value) in (int, float, np.int64, np.float64):
        words.append(int(np.asarray(value).view(np.uint64)))
    else:
        raise TypeError(f"a {type(value).__name__} cannot be handed over by its address")
    return type(value)


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def call(function: Any) -> int:
    """Call a function: in compiled code a :class:`Call`, by its address; in Python a function without parameters."""
    return int(function())


@overload(call, jit_options=PART, strict=False)
def _call(function: Any) -> Any:
    return lambda function: _call_address(function.function, function.arguments)


def _by_address(typing: Any, function: Any, arguments: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        convention = context.call_conv
        address, pointer = given
        kind = convention.get_function_type(_RESULT, (_POINTER,))
        at = builder.inttoptr(address, kind.as_pointer())
        argument = builder.inttoptr(pointer, context.get_value_type(_POINTER))
        status, result = convention.call_function(builder, at, _RESULT, (_POINTER,), (argument,))
        with _cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result

    return _RESULT(_types.int64, _types.int64), generate


_call_address: Any = intrinsic(_by_address)
