"""Ids in files: the names of millions of items, read without loading them all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Ints
from recurrank.catalogue.rows import MappedFile

AT_ONCE = 1 << 16
"""Names that are decoded at a time."""


class Names(Sequence[str]):
    """Strings stored end to end in one file, with the offset of each in another."""

    def __init__(self, text: NDArray[np.uint8], ends: Ints) -> None:
        self._text, self._ends = text, ends  # name i is text[ends[i] : ends[i + 1]]
        self._files = [file for file in (MappedFile.of(text), MappedFile.of(ends)) if file is not None]

    @classmethod
    def open(cls, text: Path, ends: Path) -> Names:
        """Map the two files; ValueError if they do not belong together."""
        try:
            offsets = np.load(ends, mmap_mode="r", allow_pickle=False)
            letters = np.memmap(text, np.uint8, "r") if text.stat().st_size else np.empty(0, np.uint8)
        except (OSError, ValueError, EOFError) as error:
            raise ValueError(f"{text.parent}: its ids are missing or damaged ({error})") from error
        shaped = offsets.ndim == 1 and len(offsets) > 0 and offsets.dtype == np.int64
        if not shaped or offsets[0] != 0 or offsets[-1] != len(letters) or (np.diff(offsets) < 0).any():
            raise ValueError(f"{text.parent}: its ids are damaged; delete the folder and convert again")
        return cls(letters, offsets)

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        number = int(index) + (len(self) if index < 0 else 0)
        if not 0 <= number < len(self):
            raise IndexError(f"ids[{index}]: there are {len(self)}")
        self._look()
        return self._text[self._ends[number] : self._ends[number + 1]].tobytes().decode()

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), AT_ONCE):
            self._look()
            ends = np.asarray(self._ends[start : start + AT_ONCE + 1])
            text = self._text[ends[0] : ends[-1]].tobytes()
            yield from (text[a:b].decode() for a, b in zip(ends - ends[0], ends[1:] - ends[0], strict=False))

    def _look(self) -> None:
        for file in self._files:
            file.look()

    def digest(self) -> bytes:
        """The same as :func:`digest_of` the names."""
        self._look()
        digest = hashlib.sha256(np.asarray(self._ends).tobytes())
        for start in range(0, len(self._text), 1 << 24):
            digest.update(self._text[start : start + (1 << 24)].tobytes())
        return digest.digest()

    def repeated(self) -> tuple[int, int] | None:
        """The indices of two equal names, the later one as early as possible; None if all names differ."""
        from recurrank.catalogue.kernels import hash_text

        ends, hashes = np.asarray(self._ends), np.empty(len(self), np.uint64)
        edges = np.linspace(0, len(self), 17).astype(np.int64)

        def hash_some(number: int) -> None:
            hash_text(self._text, ends[edges[number] : edges[number + 1] + 1], hashes[edges[number] : edges[number + 1]])

        def repeated_in(number: int) -> NDArray[np.uint64]:
            rising = np.sort(hashes[hashes >> np.uint64(61) == number])
            again: NDArray[np.uint64] = rising[:-1][rising[:-1] == rising[1:]]
            return again

        with ThreadPoolExecutor() as pool:  # both release Python's lock
            list(pool.map(hash_some, range(16)))
            twice = np.unique(np.concatenate(list(pool.map(repeated_in, range(8)))))
        seen: dict[str, int] = {}
        for index in map(int, np.flatnonzero(np.isin(hashes, twice)) if len(twice) else ()):
            if self[index] in seen:  # others only have the same hash
                return seen[self[index]], index
            seen[self[index]] = index
        return None


def digest_of(names: Sequence[str]) -> bytes:
    """A digest of names: of the offset of each when they are joined, and of their text."""
    if isinstance(names, Names):
        return names.digest()
    text = [name.encode("utf-8", "surrogatepass") for name in names]
    ends = np.concatenate([[0], np.cumsum([len(name) for name in text], dtype=np.int64)]).astype(np.int64)
    return hashlib.sha256(ends.tobytes() + b"".join(text)).digest()
