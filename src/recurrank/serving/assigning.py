"""The slate of a request in a ranker's mode: the ranker's own, the baseline, or a list drafted from both."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from recurrank.rollout import team_draft
from recurrank.serving.trial import Trial

MISSING = "baseline: missing; the ranker's mode is {mode!r}, which needs the order that would be shown without it"


def checked_baseline(baseline: Sequence[str] | None, mode: str, least: int) -> Sequence[str]:
    """The order that the caller would have shown; ValueError for one that will not do."""
    if baseline is None:
        raise ValueError(MISSING.format(mode=mode))
    if len(baseline) < least:
        raise ValueError(f"baseline: {len(baseline)} items; give at least {least}, one per position")
    if len(set(baseline)) < len(baseline):
        twice = next(name for name in baseline if list(baseline).count(name) > 1)
        raise ValueError(f"baseline: {twice!r} stands in it twice; give each item once")
    return baseline


def drafted(
    ours: Sequence[str], theirs: Sequence[str], positions: int, rng: np.random.Generator
) -> tuple[list[str], list[int | float]]:
    """A list that the ranker (``ours``) and the baseline have drafted, and which positions are the ranker's."""
    number = {name: place for place, name in enumerate(dict.fromkeys([*ours, *theirs]))}
    names = list(number)
    shown = team_draft([number[name] for name in ours], [number[name] for name in theirs], positions, rng)
    return [names[item] for item in shown.items.tolist()], [int(one) if one in (0, 1) else one for one in shown.share.tolist()]


def compose(
    arm: str,
    subject: str | None,
    baseline: Sequence[str],
    ranked: Callable[[], list[str]],
    shadow: bool,
    rng: np.random.Generator,
) -> tuple[list[str], Trial]:
    """The items of a slate that is not the ranker's alone; ``ranked`` says what the ranker would show.

    As many positions are filled as the ranker would fill; in shadow mode the answer says with what.
    """
    if arm == "interleaved":
        ours = ranked()
        names, credit = drafted(ours, baseline, min(len(ours), len(baseline)), rng)
        return names, Trial(subject, "interleaved", None, credit)
    return list(baseline), Trial(subject, "baseline", ranked() if shadow else None)
