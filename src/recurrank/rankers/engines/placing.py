"""How a block shows an item that it tries: at its first position, the best-known items in order below it."""

from __future__ import annotations

from recurrank._arrays import Ints
from recurrank._compiled import inner, natural


@inner
def show_tried(items: Ints, leaders: Ints, first: int, stop: int, tried: int) -> None:
    """Show the tried item at ``first``, and the leaders in order below it: those above its own position move down by one."""
    items[natural(first)], below = tried, False
    before = leaders[natural(first)]
    for k in range(first + 1, stop):  # all of them: leaving early costs more, in mispredicted branches
        below |= before == tried
        here = leaders[natural(k)]
        items[natural(k)] = here if below else before
        before = here


@inner
def show_leaders(items: Ints, leaders: Ints, first: int, stop: int) -> None:
    """Show the leaders in order."""
    for k in range(first, stop):
        items[natural(k)] = leaders[natural(k)]
