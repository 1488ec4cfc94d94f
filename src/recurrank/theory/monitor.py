"""A monitor of the proof: a simulation that checks Lemmas 1 to 5 on every block and splits the regret as the proof does.

| paper | code |
|---|---|
| F, the failure event | ``Verdict.failed``: an estimate is off by Delta or more, or a best item is not in its block |
| Lemma 2 (adjacent gap) | ``adjacent``: chi (alpha(a*_k) - alpha(a*_{k+1})) <= 8 Delta within the block |
| Lemma 3 (suboptimal gap) | ``suboptimal``: chi (alpha(a*_K) - alpha(a)) <= 8 Delta for every item of the last block |
| Lemma 4 (first position) | ``first``: chi (alpha(a*_k) - alpha(a)) <= 8 m Delta for every explored item (as in its proof) |
| Lemma 5 (lower positions) | ``lower``: chi (alpha(a*_k) - alpha(a)) <= 4 Delta for every item shown below the first |
| R^(1), R^(2) | ``regret_first``, ``regret_lower`` |

chi is the examination of the block's first position under the best ranking, chi_{ell i}.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Floats, as_array, as_count
from recurrank.catalogue.rows import Rows, products
from recurrank.clicks.model import ClickModel
from recurrank.rankers.balanced import Balanced
from recurrank.rankers.blocks import Block
from recurrank.rankers.recurrank import RecurRank
from recurrank.simulation.loop import Simulation

ROUNDING = 1e-12


class Verdict(NamedTuple):
    """The proof's claims about one finished block, and whether they held."""

    block: int
    phase: int
    chi: float
    error: float  # the largest |<theta_hat, a> - chi alpha(a)| of its items
    failed: bool
    adjacent: bool
    suboptimal: bool
    first: bool
    lower: bool
    rounds: int
    regret_first: float
    regret_lower: float

    @property
    def lemmas_hold(self) -> bool:
        """Whether Lemmas 2 to 5 held."""
        return self.adjacent and self.suboptimal and self.first and self.lower


class Watch(NamedTuple):
    """A watched run. The regrets include the blocks that were still open at the end; ``verdicts`` only finished ones."""

    verdicts: list[Verdict]
    regret_first: float
    regret_lower: float

    @property
    def failed(self) -> bool:
        """Whether F happened in any block."""
        return any(verdict.failed for verdict in self.verdicts)


def watch(ranker: RecurRank, model: ClickModel, theta: ArrayLike, rounds: int, seed: int | np.random.SeedSequence = 0) -> Watch:
    """Simulate like :func:`recurrank.simulate`, checking every block that finishes against the true ``theta``.

    >>> import recurrank as rr
    >>> problem = rr.synthetic(items=30, dim=3, seed=0)
    >>> ranker = rr.RecurRank(problem.features, positions=3, rounds=5000, seed=0)
    >>> seen = watch(ranker, rr.clicks.Cascade(problem.attraction), problem.theta, rounds=5000)
    >>> seen.failed, all(verdict.lemmas_hold for verdict in seen.verdicts)
    (False, True)
    """
    rounds = as_count("rounds", rounds)
    truth = as_array("theta", theta)
    if truth.shape != (ranker.catalogue.dim,):
        raise ValueError(f"theta: shape is {truth.shape}; it should be ({ranker.catalogue.dim},), one number per feature")
    attraction = ranker.catalogue.features @ truth
    if attraction.shape != model.attraction.shape or np.abs(attraction - model.attraction).max() > 1e-6:
        raise ValueError("theta: <theta, a> is not the click model's attraction; give the theta that the model was made with")
    simulation = Simulation(ranker, model, seed)
    judge = _Truth(model, ranker.positions)
    verdicts: list[Verdict] = []
    lost: dict[int, Floats] = {}
    first = lower = 0.0
    while simulation.round < rounds:
        before, blocks, finished = simulation.lost.copy(), ranker.blocks, len(ranker.history)
        simulation.advance(rounds)
        for block in blocks:
            own = (simulation.lost - before)[block.first : block.first + block.width]
            pair = np.array([own[0], own[1:].sum()])
            lost[block.id] = lost.get(block.id, np.zeros(2)) + pair
            first, lower = first + pair[0], lower + pair[1]
        by_id = {block.id: block for block in blocks}
        for closed in ranker.history[finished:]:
            estimates = products(Rows(ranker.catalogue.features, by_id[closed.id].items), closed.theta)
            verdicts.append(judge.judge(by_id[closed.id], estimates, closed.closed - closed.opened, lost.pop(closed.id)))
    return Watch(verdicts, first, lower)


class Certificates(NamedTuple):
    """Balanced's certified decisions: items dropped and blocks cut, and the number of wrong ones."""

    certified: int
    wrong: int


def certificates(ranker: Balanced, model: ClickModel, rounds: int, seed: int | np.random.SeedSequence = 0) -> Certificates:
    """Simulate like :func:`recurrank.simulate`, checking every item that is dropped and every cut against the truth.

    Dropping an item is wrong if it is one of the best m of its block of m positions; a cut is wrong if an item below it is
    better than one above.

    >>> import recurrank as rr
    >>> ranker = rr.rankers.make("balanced", features=np.eye(4), positions=2, rounds=20_000, seed=0)
    >>> certificates(ranker, rr.clicks.DocumentBased([0.9, 0.5, 0.1, 0.0]), rounds=20_000).wrong
    0
    """
    rounds = as_count("rounds", rounds)
    simulation, alpha = Simulation(ranker, model, seed), model.attraction
    certified = wrong = 0
    while simulation.round < rounds:
        before = ranker.blocks
        simulation.advance(rounds)
        for block in before if ranker.blocks is not before else []:
            parts = [part.items for part in ranker.blocks if part.first in block.positions]
            dropped = np.setdiff1d(block.items, np.concatenate(parts))
            worst_shown = np.sort(alpha[block.items])[::-1][block.width - 1]
            certified += len(dropped) + len(parts) - 1
            wrong += int((alpha[dropped] > worst_shown + ROUNDING).sum())
            wrong += sum(bool(alpha[upper].min() < alpha[lower].max() - ROUNDING) for upper, lower in pairwise(parts))
    return Certificates(certified, wrong)


class _Truth:
    """The true attraction and examination of a click model, to judge blocks by."""

    def __init__(self, model: ClickModel, positions: int) -> None:
        best = model.best(positions)
        self.attraction = model.attraction
        self.best = model.attraction[best]  # alpha(a*_k)
        self.chi = model.examine(best)  # chi*_k

    def judge(self, block: Block, estimates: Floats, rounds: int, lost: Floats) -> Verdict:
        first, width, precision = block.first, block.width, 2.0**-block.phase
        chi = float(self.chi[first])
        alpha = self.attraction[block.items]
        best = self.best[first : first + width]
        error = float(np.abs(estimates - chi * alpha).max())
        # Ties make a*_k a choice: its block has it if its m best items are as good as a*_k, ..., a*_{k+m-1}.
        present = len(alpha) >= width and np.array_equal(np.sort(alpha)[::-1][:width], best)
        last = first + width == len(self.best)

        def within(gap: Floats, limit: float) -> bool:
            return bool((chi * gap <= limit + ROUNDING).all())

        return Verdict(
            block=block.id,
            phase=block.phase,
            chi=chi,
            error=error,
            failed=error >= precision or not present,
            adjacent=within(best[:-1] - best[1:], 8 * precision),
            suboptimal=not last or within(self.best[-1] - alpha, 8 * precision),
            first=within(best[0] - self.attraction[block.explored], 8 * width * precision),
            lower=all(within(best[1:] - self.attraction[row], 4 * precision) for row in _rows_below(block)),
            rounds=rounds,
            regret_first=float(lost[0]),
            regret_lower=float(lost[1]),
        )


def _rows_below(block: Block) -> list[np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """The items that a block can show below its first position: its leaders but the last, or but the explored one."""
    leaders = block.leaders
    rows = []
    for tried in block.explored:
        others = leaders[leaders != tried]
        rows.append(others[: block.width - 1])
    return rows
