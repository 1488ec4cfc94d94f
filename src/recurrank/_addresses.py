"""Compiled functions that loops call by their address, so that a loop is compiled once, whatever it calls.

Such a function takes one argument, a pointer to a tuple of all that it works on. The tuple is written once, from Python, as
numba lays tuples out in memory (:func:`packed`): arrays as their data, shape and strides, numbers as themselves.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from recurrank._compiled import PART

_types: Any = types
_typeof: Any = typeof
_cgutils: Any = cgutils
_RESULT, _POINTER = _types.int64, _types.voidptr


class Call(NamedTuple):
    """A compiled function and what it works on, as compiled code takes them."""

    function: int
    arguments: int


class Calling:
    """Keeps alive what a :class:`Call` refers to.

    Raises TypeError where ``arguments`` are not arrays, numbers of 64 bits, generators and tuples of them.
    """

    def __init__(self, function: Any, arguments: tuple[Any, ...]) -> None:
        self._block, self._arguments = packed(arguments), arguments
        signature = (_types.CPointer(_typeof(arguments)),)
        function.compile(signature)
        made = function.overloads[signature]
        address = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
        self.call = Call(address, self._block.ctypes.data)


def packed(values: tuple[Any, ...]) -> NDArray[np.uint64]:
    """A tuple as numba has it in memory, where everything takes whole words; the arrays in it must live as long."""
    return np.array(list(_words(values)), np.uint64)


def _words(value: Any) -> Iterator[int]:
    if isinstance(value, np.ndarray):  # memory manager and owner: none; then what it is
        yield from (0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape)
        yield from (stride % 2**64 for stride in value.strides)
    elif isinstance(value, np.random.Generator):
        bits = value.bit_generator.ctypes
        yield from (0, bits.state_address, bits.state.value, *map(_address, bits[2:5]), bits.bit_generator.value, 0, 0)
    elif isinstance(value, tuple):
        for part in value:
            yield from _words(part)
    elif type(value) in (int, float, np.int64, np.float64):
        yield int(np.asarray(value).view(np.uint64))
    else:
        raise TypeError(f"a {type(value).__name__} cannot be handed over by its address")


def _address(function: Any) -> int:
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def call(function: Call) -> int:
    """Call a compiled function by its address, from compiled code."""
    raise NotImplementedError("only compiled code has addresses")


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
