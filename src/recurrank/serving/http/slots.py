"""A limited number of things at a time. A slot is taken before the work starts, so that no two requests take the last one."""

from __future__ import annotations

from recurrank.serving.http.problems import Refused


class Slots:
    """So many slots; Refused (503) with this line when all are taken."""

    def __init__(self, number: int, full: str, retry: int) -> None:
        self._free, self._full, self._retry = number, full, retry

    def take(self) -> Slot:
        """One of them, until it is released."""
        if self._free <= 0:
            raise Refused(503, self._full, {"retry-after": str(self._retry)})
        self._free -= 1
        return Slot(self)

    def give_back(self) -> None:
        self._free += 1


class Slot:
    """A slot that was taken. It is released at most once, at the latest when nobody refers to it any more.

    So a stream that was never started, its visitor having gone, does not keep one.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots: Slots | None = slots

    def release(self) -> None:
        slots, self._slots = self._slots, None
        if slots is not None:
            slots.give_back()

    def __del__(self) -> None:
        self.release()
