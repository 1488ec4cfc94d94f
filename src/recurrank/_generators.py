"""numpy's generators as arguments of compiled loops that do not count references.

numba takes a reference to every generator that is handed to compiled code, and gives it back through its memory manager. Loops
are compiled without that manager (``_compiled.hot``), so that each call kept one reference, and each generator that was ever
used stayed in memory: 9 kB per view of a server, some times a second. Whoever calls holds the generator meanwhile: without the
manager no reference is needed.
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
    """As numba does it, but for the reference where it would not be given back."""
    if c.context.enable_nrt:
        return _counted(kind, given, c)
    failed = _cgutils.alloca_once_value(c.builder, _cgutils.false_bit)
    with ExitStack() as stack:
        made = _cgutils.create_struct_proxy(kind)(c.context, c.builder)
        bits = c.pyapi.object_getattr_string(given, "bit_generator")
        with _cgutils.early_exit_if_null(c.builder, stack, bits):
            c.builder.store(_cgutils.true_bit, failed)
        made.bit_generator = c.unbox(_BITS, bits).value
        made.parent = given
        made.meminfo = _cgutils.voidptr_t(None)
        c.pyapi.decref(bits)
    return _value(made._getvalue(), is_error=c.builder.load(failed))


def register() -> None:
    """Make numba unbox generators with the function above."""
    pythonapi._unboxers.functions[types.NumPyRandomGeneratorType] = _unbox
