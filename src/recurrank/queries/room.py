"""Whether a table of features fits, checked before it is made: one large feature number makes every document as wide."""

from __future__ import annotations

import math
import os
import re
import shutil
from pathlib import Path
from typing import NamedTuple

PIECE = 1 << 26
"""Bytes of numbers processed at a time, since a table may be larger than memory."""


class Room(NamedTuple):
    """The most bytes of a table, and advice for larger ones."""

    size: float  # bytes
    instead: str

    @classmethod
    def in_memory(cls) -> Room:
        """Half of the available memory: the parsed parts and the table made of them exist at the same time."""
        return cls(available_memory() / 2, "give a map, or number the features without gaps")

    @classmethod
    def on_disk(cls, folder: Path) -> Room:
        """Half of the free space of a folder's disk."""
        return cls(shutil.disk_usage(folder).free / 2, "number the features without gaps")

    def check(self, where: str, rows: int, dim: int) -> None:
        """ValueError if this many documents with this many single-precision features do not fit."""
        if 4 * rows * dim > self.size:
            raise ValueError(
                f"{where}: feature {dim:,} makes {4e-9 * rows * dim:,.1f} GB of {rows:,} documents, and there is room for "
                f"{self.size / 1e9:,.1f} GB; {self.instead}"
            )


def available_memory() -> float:
    """Bytes of memory available to programs; infinite if the system does not report it."""
    try:
        found = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text(encoding="utf-8"))
        return float(found[1]) * 1024 if found else math.inf
    except OSError:
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return math.inf


def rows_of(dim: int) -> int:
    """Rows of single-precision features per piece."""
    return max(1, PIECE // (4 * max(1, dim)))
