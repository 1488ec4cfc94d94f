"""How a block shows an item that it tries: at its first position, the best-known items in order below it."""

from __future__ import annotations

from recurrank._arrays import Ints
from recurrank._compiled import inner


@inner
def show_tried(items: Ints, leaders: Ints, first: int, stop: int, tried: int) -> None:
    """The tried item at ``first``, and the leaders in order below it: those above its own position move down by one."""
    items[first] = tried
    k = first
    while k < stop - 1 and leaders[k] != tried:
        items[k + 1] = leaders[k]
        k += 1
    show_leaders(items, leaders, k + 1, stop)


@inner
def show_leaders(items: Ints, leaders: Ints, first: int, stop: int) -> None:
    """The leaders in order."""
    for k in range(first, stop):
        items[k] = leaders[k]
