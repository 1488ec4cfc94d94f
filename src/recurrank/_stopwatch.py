"""Time without compilation."""

from __future__ import annotations

import threading
import time
from typing import Any

from numba.core import event

_Listener: Any = event.Listener


class _Compiling(_Listener):  # type: ignore[misc]
    """How long each thread has held numba's compiler: compiling, or loading machine code from disk."""

    def __init__(self) -> None:
        self._own = threading.local()

    @property
    def seconds(self) -> float:
        return float(getattr(self._own, "seconds", 0.0))

    def on_start(self, event: Any) -> None:
        self._own.depth = getattr(self._own, "depth", 0) + 1
        if self._own.depth == 1:
            self._own.began = time.perf_counter()

    def on_end(self, event: Any) -> None:
        self._own.depth -= 1
        if self._own.depth == 0:
            self._own.seconds = self.seconds + time.perf_counter() - self._own.began


_compiling = _Compiling()
_events: Any = event
_events.register("numba:compiler_lock", _compiling)


class Stopwatch:
    """Seconds of this thread without compilation, wherever it happens: in the first round, a decision or a user's own code."""

    def __init__(self) -> None:
        self._began = time.perf_counter() - _compiling.seconds

    @property
    def seconds(self) -> float:
        """Seconds since its creation, without compilation."""
        return time.perf_counter() - _compiling.seconds - self._began
