"""NumPy's generators as arguments of compiled loops that do not count references.

numba takes a reference to every generator that is passed to compiled code, and releases it through its memory manager. Loops
are compiled without that manager (``_compiled.hot``), so each call would keep one reference, and every generator ever used
would stay in memory: 9 kB per view of a server, several times per second. The caller holds the generator during the call, so
no reference is needed.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from numba import types
from numba.core import boxing, cgutils, pythonapi
from numba.extending import NativeValue

_boxing: Any = boxing
_cgutils: Any = cgutils
_value: Any = NativeValue
_counted = _boxing.unbox_numpy_random_generator
_BITS: Any = types.NumPyRandomBitGeneratorType("bit_generator")


def _unbox(kind: Any, given: Any, c: Any) -> Any:
    """As numba does it, but without the reference where it would not be released."""
    if c.context.enable_nrt:
        return _counted(kind, given, c)
    failed = _cgutils.alloca_once_value(c.builder, _cgutils.false_bit)
    with ExitStack() as stack:
        generator = _cgutils.create_struct_proxy(kind)(c.context, c.builder)
        bits = c.pyapi.object_getattr_string(given, "bit_generator")
        with _cgutils.early_exit_if_null(c.builder, stack, bits):
            c.builder.store(_cgutils.true_bit, failed)
        generator.bit_generator = c.unbox(_BITS, bits).value
        generator.parent = given
        generator.meminfo = _cgutils.voidptr_t(None)
        c.pyapi.decref(bits)
    return _value(generator._getvalue(), is_error=c.builder.load(failed))


def register() -> None:
    """Make numba unbox generators with the function above."""
    pythonapi._unboxers.functions[types.NumPyRandomGeneratorType] = _unbox
