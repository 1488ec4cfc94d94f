"""The slate that a ranker's mode shows: the ranker's own, the baseline, or a list drafted from both."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from recurrank.rollout import team_draft
from recurrank.serving.trial import Arm, Trial

MISSING = "baseline: missing; the ranker's mode is {mode!r}, which needs the order that would be shown without it"
NOBODY = 0.5
"""Credit of an item that neither order contributed."""


class Baseline(NamedTuple):
    """The order that the caller would have shown, without what the rules of the request and of the ranker forbid.

    Attributes:
        order: items for the free positions, best first; there may be more of them than positions.
        pinned: the pinned item of each pinned position.
        size: number of positions to fill.

    """

    order: Sequence[str]
    pinned: Mapping[int, str]
    size: int

    def around(self, order: Sequence[str]) -> list[str]:
        """The slate: ``order`` at the free positions, pinned items at theirs."""
        if not self.pinned:
            return list(order[: self.size])
        rest = iter(order)
        return [self.pinned[k] if k in self.pinned else next(rest) for k in range(self.size)]


def checked_baseline(given: Sequence[str] | None, mode: str) -> Sequence[str]:
    """The order that the caller would have shown; ValueError if it is missing or names an item twice."""
    if given is None:
        raise ValueError(MISSING.format(mode=mode))
    if len(set(given)) < len(given):
        twice = next(name for name in given if list(given).count(name) > 1)
        raise ValueError(f"baseline: {twice!r} stands in it twice; give each item once")
    return given


def allowed(
    given: Sequence[str], size: int, here: Container[Any], pinned: Mapping[int, str] | None = None, out: Container[str] = ()
) -> Baseline:
    """A baseline without the excluded items (``out``); ValueError if the rest is too short or not all ``here``."""
    order, pinned = given, pinned or {}
    if pinned or out:
        fixed = set(pinned.values())
        order = [name for name in given if name not in out and name not in fixed]
    free, which = size - len(pinned), " that are neither excluded nor pinned" if len(order) < len(given) else ""
    if len(order) < free:
        raise ValueError(f"baseline: {len(order)} items{which}; give at least {free}, one per position")
    if not all(map(here.__contains__, order[:free])):
        unknown = next(name for name in order if name not in here)
        raise ValueError(f"baseline: {unknown!r} is not among the items that can be shown here; leave it out")
    if len(order) > free:
        order = [name for name in order if name in here]
    return Baseline(order, pinned, size)


def drafted(
    ours: Sequence[str], theirs: Sequence[str], positions: int, rng: np.random.Generator
) -> tuple[list[str], list[int | float]]:
    """A list drafted from the ranker's order (``ours``) and the baseline's, and the ranker's share in each position."""
    number = {name: i for i, name in enumerate(dict.fromkeys([*ours, *theirs]))}
    names = list(number)
    shown = team_draft([number[name] for name in ours], [number[name] for name in theirs], positions, rng)
    return [names[item] for item in shown.items.tolist()], [int(one) if one in (0, 1) else one for one in shown.share.tolist()]


def compose(
    assignment: tuple[str | None, Arm, int | None],
    baseline: Baseline,
    ranked: Callable[[], list[str]],
    shadow: bool,
    rng: np.random.Generator,
) -> tuple[list[str], Trial]:
    """The items of a slate that is not the ranker's alone; ``assignment`` holds its subject, arm and unit.

    ``ranked`` returns what the ranker would show, which shadow mode also tells. Pinned positions are not drafted.
    """
    subject, arm, unit = assignment
    if arm == "baseline":
        return baseline.around(baseline.order), Trial(subject, arm, ranked() if shadow else None, unit=unit)
    fixed = set(baseline.pinned.values())
    ours = [name for name in ranked() if name not in fixed]
    names, share = drafted(ours, baseline.order, baseline.size - len(baseline.pinned), rng)
    shares = iter(share)
    credit = [NOBODY if k in baseline.pinned else next(shares) for k in range(baseline.size)]
    return baseline.around(names), Trial(subject, arm, None, credit, unit=unit)
