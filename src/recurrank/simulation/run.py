"""``simulate``: a ranker against simulated users, with exact regret at checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Floats, Ints, as_count
from recurrank._frames import frame
from recurrank._stopwatch import Stopwatch
from recurrank.clicks.model import ClickModel
from recurrank.clicks.optimum import EXACT
from recurrank.rankers.ranker import Ranker
from recurrank.requests.streams import Requests
from recurrank.simulation.loop import Simulation


class Run(NamedTuple):
    """Cumulative regret and clicks at checkpoints.

    Attributes:
        rounds: the checkpoints, as numbers of rounds played.
        regret: expected clicks of the best ranking less those of what was shown, summed up to each checkpoint.
        clicks: clicks seen up to each checkpoint.
        seconds: time of the rounds and decisions, without compilation.
        optimum: "exact" when regret is against a best ranking; "best found" when that is not certain (it may be negative).

    """

    rounds: Ints
    regret: Floats
    clicks: Ints
    seconds: float
    optimum: str = EXACT

    def to_frame(self) -> Any:
        """A pandas DataFrame, one row per checkpoint."""
        return frame({"rounds": self.rounds, "regret": self.regret, "clicks": self.clicks})

    def _repr_html_(self) -> str:
        """The regret curve and the final numbers, for notebooks."""
        rounds, regret = int(self.rounds[-1]), float(self.regret[-1])
        top = max(float(self.regret.max()), 1e-300)
        points = " ".join(
            f"{300 * t / rounds:.1f},{100 - 95 * max(r, 0.0) / top:.1f}" for t, r in zip(self.rounds, self.regret, strict=True)
        )
        return (
            f"<figure><svg viewBox='-2 0 304 102' width='304' role='img' aria-label='regret over {rounds:,} rounds'>"
            "<path d='M0 0V100H300' fill='none' stroke='#9aa5b1'/>"
            f"<polyline points='{points}' fill='none' stroke='#c0392b' stroke-width='1.5'/></svg>"
            f"<figcaption>regret {regret:,.2f} after {rounds:,} rounds, {int(self.clicks[-1]):,} clicks, "
            f"{self.seconds:.2f} s (optimum: {self.optimum})</figcaption></figure>"
        )


def simulate(
    ranker: Ranker,
    model: ClickModel | None = None,
    rounds: int | None = None,
    seed: int | np.random.SeedSequence = 0,
    *,
    clicks: str | ClickModel | None = None,
    requests: Requests | None = None,
    checkpoints: ArrayLike | None = None,
    progress: Callable[[int], None] | None = None,
) -> Run:
    """Let ``ranker`` rank and learn for ``rounds`` rounds of users who click as ``model`` says.

    The ranker continues from its present state, and is changed. The same ranker, model and seed give the same result; calling
    again with the same ranker simulates new users, also with the same seed.

    Args:
        ranker: what ranks.
        model: how users click, over the same items.
        rounds: how many rounds to play.
        clicks: with ``requests``, how users click: a click model of this package, or its name. Attractions are the requests'.
        requests: a stream of :mod:`recurrank.requests`; each has candidates of its own, and regret is against their best.
        seed: the seed of the users. It may be the ranker's: each derives its own stream from it.
        checkpoints: rounds at which to note regret and clicks; by default about 100, evenly spread on a log scale.
        progress: called from time to time with the number of rounds played.

    >>> import recurrank as rr
    >>> problem = rr.synthetic(items=50, dim=3, seed=0)
    >>> ranker = rr.RecurRank(problem.features, positions=3, rounds=2000, seed=0)
    >>> run = rr.simulate(ranker, rr.clicks.DocumentBased(problem.attraction), rounds=2000, seed=1)
    >>> int(run.rounds[-1]), len(run.regret) == len(run.rounds)
    (2000, True)

    """
    rounds = as_count("rounds", rounds)
    marks = _checkpoints(rounds, checkpoints)
    if requests is not None:
        if model is not None and clicks is not None:
            raise ValueError(
                "model: requests bring their own attractions, so that this has no effect beside clicks; leave it out"
            )
        return _requests(ranker, model if clicks is None else clicks, requests, rounds, seed, marks, progress)
    if model is None or clicks is not None:
        raise ValueError("model: give a click model over the ranker's items, or requests and clicks")
    simulation = Simulation(ranker, model, seed)
    simulation.prepare()
    regret, clicked = np.empty(len(marks)), np.empty(len(marks), np.int64)
    watch = Stopwatch()
    ends = marks if marks[-1] == rounds else np.append(marks, rounds)
    for i, mark in enumerate(ends):
        while simulation.round < mark:
            simulation.advance(int(mark))
        if i < len(marks):
            regret[i], clicked[i] = simulation.lost.sum(), simulation.clicked
        if progress is not None:
            progress(simulation.round)
    return Run(marks, regret, clicked, watch.seconds, simulation.optimum.kind)


def _requests(
    ranker: Ranker, clicks: Any, requests: Requests, rounds: int, seed: int | np.random.SeedSequence, marks: Ints,
    progress: Callable[[int], None] | None,
) -> Run:  # fmt: skip
    from recurrank.simulation.requests import RequestSimulation

    simulation = RequestSimulation(ranker, clicks, requests, seed)
    simulation.prepare()
    regret, clicked = np.empty(len(marks)), np.empty(len(marks), np.int64)
    watch = Stopwatch()
    for i, mark in enumerate(marks):
        simulation.advance(int(mark))
        regret[i], clicked[i] = simulation.regret, simulation.clicked
        if progress is not None:
            progress(simulation.round)
    simulation.advance(rounds)
    return Run(marks, regret, clicked, watch.seconds, simulation.optimum)


def _checkpoints(rounds: int, given: ArrayLike | None) -> Ints:
    if given is None:
        return np.unique(np.geomspace(1, rounds, 100).round().astype(np.int64))
    try:
        marks = np.asarray(given)
    except ValueError as error:
        raise ValueError("checkpoints: give a list of whole numbers of rounds") from error
    if marks.ndim != 1 or marks.size == 0 or marks.dtype.kind not in "iu":
        raise ValueError("checkpoints: give a list of whole numbers of rounds")
    if marks[0] < 1 or marks[-1] > rounds or (np.diff(marks) <= 0).any():
        raise ValueError(f"checkpoints: give increasing rounds between 1 and {rounds}")
    return marks.astype(np.int64)
