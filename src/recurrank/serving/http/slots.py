"""Limit concurrent work. A slot is taken before the work starts, so that no two requests take the last one."""

from __future__ import annotations

from recurrank.serving.http.problems import Refused


class Slots:
    """A number of slots; Refused (503) with the detail ``full`` if all are taken."""

    def __init__(self, number: int, full: str, retry: int) -> None:
        self._free, self._full, self._retry = number, full, retry

    def take(self) -> Slot:
        """Take a slot, until it is released."""
        if self._free <= 0:
            raise Refused(503, self._full, {"retry-after": str(self._retry)})
        self._free -= 1
        return Slot(self)

    def give_back(self) -> None:
        self._free += 1


class Slot:
    """A taken slot. It is released once, at the latest when it is garbage collected.

    So a stream that never started because its client has gone does not keep a slot.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots: Slots | None = slots

    def release(self) -> None:
        slots, self._slots = self._slots, None
        if slots is not None:
            slots.give_back()

    def __del__(self) -> None:
        self.release()
