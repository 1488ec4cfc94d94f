"""Which columns of a file are features, and which one names the items: the same rule for CSV, Parquet and previews.

A column called ``id``, in upper or lower case, names the items. Features are the only column of lists of numbers, or else all
columns of numbers. Text, bytes, dates and categories are never features. Callers may name the columns instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum, StrEnum
from typing import Any, NamedTuple


class Kind(Enum):
    """What a column may be used for."""

    NUMBERS = "numbers"
    LISTS = "lists of numbers"
    BESIDE = "never features: text, bytes, dates, categories, nothing"
    UNCLEAR = "features or not: only the file's author knows"


class Role(StrEnum):
    """The use of a column, as pages show it."""

    NAMES = "names the items"
    FEATURE = "feature"
    UNUSED = "not used"


class Column(NamedTuple):
    """A column of a file; ``holds`` is its type as the file's format names it."""

    name: str
    kind: Kind
    holds: str


class Layout(NamedTuple):
    """The columns that are used. Files of one dataset have equal layouts."""

    features: tuple[Column, ...]
    ids: Column | None

    @property
    def listed(self) -> bool:
        """Whether the features are one column of lists."""
        return self.features[0].kind is Kind.LISTS

    @property
    def ids_name(self) -> str | None:
        """The name of the column that names the items."""
        return None if self.ids is None else self.ids.name

    @property
    def names(self) -> list[str]:
        """The names of all columns to read, that of the ids last."""
        return [*(column.name for column in self.features), *([self.ids.name] if self.ids else [])]

    def role(self, name: str) -> Role:
        """The use of the column of this name."""
        if name == self.ids_name:
            return Role.NAMES
        return Role.FEATURE if any(name == column.name for column in self.features) else Role.UNUSED

    def difference(self, first: Layout) -> str:
        """The difference from another layout, in words."""
        for mine, other in zip(self.features, first.features, strict=False):
            if mine.name != other.name:
                return f"column {mine.name!r} where {other.name!r} should be"
        if len(self.features) != len(first.features):
            return f"{len(self.features)} columns of features instead of {len(first.features)}"
        for mine, other in zip(self.features, first.features, strict=True):
            if mine != other:
                return f"column {mine.name!r} holds {mine.holds} instead of {other.holds}"
        return f"ids in column {_described(self.ids)} instead of {_described(first.ids)}"


def layout(
    where: str,
    columns: Sequence[Column],
    features: str | Sequence[str] | None = None,
    ids: str | None = None,
    *,
    text_names: bool = False,
) -> Layout:
    """The use of each column of a file; ValueError, in one line, if it is unclear or impossible.

    Args:
        where: the file, for the error.
        columns: all columns of the file.
        features: the column of lists, or the columns of numbers, by name; by default the rule above.
        ids: the column that names the items; by default the rule above.
        text_names: whether the first column of text names the items where none is called ``id``.

    """
    wanted = _wanted(features)
    by_name = {column.name: column for column in columns}
    if ids is None:
        free = [column for column in columns if column.name not in (wanted or [])]
        called = [column.name for column in free if column.name.strip().casefold() == "id"]
        text = [column.name for column in free if column.kind is Kind.BESIDE] if text_names else []
        ids = next(iter(called + text), None)
    named = [*(wanted or []), *([ids] if ids is not None else [])]
    for name in named:
        if name not in by_name:
            raise ValueError(f"{where}: no column {name!r}; it has {', '.join(map(repr, by_name)) or 'none'}")
    for names in (named, [column.name for column in columns]):
        if len(set(names)) < len(names):
            twice = Counter(names).most_common(1)[0][0]
            raise ValueError(f"{where}: column {twice!r} is there, or asked for, twice; each can be used once")
    if wanted is None:
        used = _guess(where, [column for column in columns if column.name != ids])
    else:
        used = [by_name[name] for name in wanted]
    if len(used) > 1 and used[0].kind is Kind.LISTS:
        raise ValueError(f"{where}: several list columns ({', '.join(c.name for c in used)}); name the one with the features")
    for column in used:
        if column.kind is not Kind.NUMBERS and (column.kind is not Kind.LISTS or len(used) > 1):
            raise ValueError(
                f"{where}: column {column.name!r} holds {column.holds}, which are not numbers; name another for the features"
            )
    return Layout(tuple(used), None if ids is None else by_name[ids])


def _guess(where: str, columns: list[Column]) -> list[Column]:
    """The columns of lists, or else all columns of numbers."""
    lists = [column for column in columns if column.kind is Kind.LISTS]
    if lists:
        return lists
    for column in columns:
        if column.kind is Kind.UNCLEAR:
            raise ValueError(
                f"{where}: column {column.name!r} holds {column.holds}, which may be features or not; name those that are"
            )
    numbers = [column for column in columns if column.kind is Kind.NUMBERS]
    if not numbers:
        raise ValueError(f"{where}: no list column and no numeric columns; give at least one feature per item")
    return numbers


def _wanted(features: Any) -> list[str] | None:
    if features is None:
        return None
    wanted = [features] if isinstance(features, str) else list(features) if isinstance(features, list | tuple) else []
    if not wanted or not all(isinstance(column, str) for column in wanted):
        raise ValueError(f"features: {features!r} is not the name of a column, nor a list of names")
    return wanted


def _described(ids: Column | None) -> str:
    return "None" if ids is None else f"{ids.name!r} ({ids.holds})"
