"""CascadeLinUCB: Zong, Ni, Sung, Ke, Wen, Kveton, *Cascading Bandits for Large-Scale Recommendation Problems* (UAI 2016).

| paper                                | code                                                        |
|--------------------------------------|-------------------------------------------------------------|
| x_e, d                               | a row of ``features``                                       |
| M_t = I + sigma^-2 sum x x'          | ``Regression.gram``                                         |
| theta_bar = M^-1 B                   | ``Regression.theta``                                        |
| U_t(e) = min(x'theta + c sqrt(x'M^-1x), 1) | ``measured`` before the minimum                       |
| A_t                                  | the K items of largest U_t, ties by item index              |
| C_t                                  | the first click; items down to it are observed              |
| c                                    | ``width``; by default sqrt(d log(1 + T K / d) + 2 log(T K)) + 1 |

Guarantee: regret O(d K sqrt(T) log(T)) (Table 1 of the RecurRank paper: O(d sqrt(T K) log T)) under the cascade model with
linear attraction. It believes the cascade model, and under others settles on a wrong ranking.

How a round costs tens of nanoseconds instead of L d^2 operations, without changing one decision:

*A batch.* After a decision with theta_r, M_r = F F', let z = F^-1 x. Whatever is observed next, with n_k observations and c_k
clicks of the shown item k,

    |theta_t - theta_r|_{M_r}  <=  |sum_k z_k (c_k - n_k <x_k, theta_r>)| =: drift,
    |z| / sqrt(1 + S)  <=  sqrt(x' M_t^-1 x)  <=  |z|,      S = sum_k n_k |z_k|^2.

So two items i above j keep their order while  raw_i - raw_j > |z_i - z_j| drift + c |z_i| (1 - 1/sqrt(1 + S)). All such
conditions are turned into one limit on the drift and one on S; while both hold, the ranking cannot change, and a round is
only its sums.

*Candidates.* A scan of all items keeps those that could come into the ranking before |theta - theta_s|_{M_s} exceeds a
margin; widths only shrink. Decisions look at candidates alone until the margin is used up.

*Bounds.* Widths only shrink, and so raw_t <= raw_r + <x, theta_t - theta_r>: most candidates need no more than that.

*The truncation at 1* makes true ties: while K items reach 1, the K of these with the smallest indices are shown.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from recurrank._arrays import Bools, Floats, Ints
from recurrank._compiled import hot, inner, natural
from recurrank.rankers.engines.batches import (
    BATCH,
    CANDIDATES,
    DECISIONS,
    DRIFT_LIMIT,
    LAST,
    MARGIN,
    NO_LIMIT,
    OUTSIDE,
    PRECISION,
    ROUNDING,
    SCANNED,
    SCANS,
    SPREAD,
    SPREAD_LIMIT,
    STALE,
    WIDTH,
    certify,
    measured,
    shown,
    since_scan,
)
from recurrank.rankers.engines.optimism import insert
from recurrank.rankers.engines.propensity import certain
from recurrank.rankers.engines.regression import Regression, add, dot, no_data, solve, whiten
from recurrank.rankers.options import Option, Sigma
from recurrank.rankers.ranker import Buffer, Items, Ranker, Seed, register

SLACK = 0.02
GROWN = 1.01
"""A ranker that learns from its copies looks for candidates again when its data have grown by this factor."""


class State(NamedTuple):
    features: Floats  # (L, d)
    regression: Regression
    scanned_factor: Floats  # (d, d) F of the last scan
    scanned_theta: Floats  # (d,)
    centre: Floats  # (d,) a typical shown item: scores are compared after its own drift is taken out
    candidates: Ints  # (L,) the first CANDIDATES of these are in use, by item index
    raw: Floats  # (L,) raw scores of the candidates, in their order, or bounds on those that are not among the best
    distance: Floats  # (L,) at the last scan, |x - centre| in the norm of M^-1
    best: Ints  # (K,) what is shown
    score: Floats  # (K,)
    z: Floats  # (K + 1, d) the shown items whitened, and a scratch row
    length: Floats  # (K,) |z|^2 of the shown items
    estimate: Floats  # (K,) <x, theta_r> of the shown items
    drift: Floats  # (d,) sum z_k (c_k - n_k estimate_k)
    seen: Ints  # (K,) n_k
    clicked: Ints  # (K,) c_k
    numbers: Floats  # (7,)
    counts: Ints  # (7,)


@hot
def rank(state: State, rng: np.random.Generator, slate: Buffer) -> None:
    if state.counts[STALE]:
        decide(state)
    for k in range(len(slate.items)):
        slate.items[k] = state.best[k]
    slate.marks[0, 0] = state.counts[BATCH]


@hot
def served(state: State, slate: Buffer) -> None:
    """Copies decide for themselves, starting from the candidates here: these are renewed when the data have grown a little."""
    if state.counts[STALE] and _grown(state.regression) > GROWN:
        decide(state)


@inner
def _grown(regression: Regression) -> float:
    """By which factor the trace of M is larger than it was when F was computed: |F|^2 = trace(F F')."""
    now, then = 0.0, 0.0
    for i in range(len(regression.theta)):
        now += regression.gram[i, i]
        for j in range(i + 1):
            then += regression.factor[i, j] ** 2
    return now / then


@hot
def learn(state: State, slate: Buffer, clicks: Bools) -> bool:
    """Items down to the first click are observed."""
    if slate.marks[0, 0] != state.counts[BATCH] or not _is_best(state, slate):
        _learn_late(state, slate, clicks)
        return False
    drift, spread, precision = state.drift, state.numbers[SPREAD], state.numbers[PRECISION]
    for k in range(len(clicks)):
        residual = precision * (clicks[k] - state.estimate[k])
        for i in range(len(drift)):
            drift[i] += state.z[k, i] * residual
        spread += precision * state.length[k]
        state.seen[k] += 1
        if clicks[k]:
            state.clicked[k] += 1
            break
    state.numbers[SPREAD] = spread
    if spread > state.numbers[SPREAD_LIMIT] or dot(drift, drift) > state.numbers[DRIFT_LIMIT]:
        state.counts[STALE] = 1
    return False


@inner
def _is_best(state: State, slate: Buffer) -> bool:
    """Whether the slate is the present ranking: a copy may have given another one the same number."""
    differ = 0
    for k in range(len(slate.items)):
        differ |= slate.items[k] ^ state.best[k]
    return differ == 0


@inner
def _learn_late(state: State, slate: Buffer, clicks: Bools) -> None:
    """An answer to an earlier ranking goes into the sums at once."""
    for k in range(len(clicks)):
        x = state.features[slate.items[k]]
        add(state.regression, x, state.numbers[PRECISION], state.numbers[PRECISION] * clicks[k])
        if clicks[k]:
            break
    state.counts[STALE] = 1


@inner
def decide(state: State) -> None:
    """Close the batch, take its sums in, and choose the ranking of the next."""
    precision = state.numbers[PRECISION]
    for k in range(len(state.best)):
        if state.seen[k] > 0:
            x = state.features[state.best[k]]
            add(state.regression, x, precision * state.seen[k], precision * state.clicked[k])
            state.seen[k] = 0
            state.clicked[k] = 0
    for i in range(len(state.drift)):  # -theta_r, until the new one is added
        state.drift[i] = -state.regression.theta[i]
    solve(state.regression)
    for i in range(len(state.drift)):
        state.drift[i] += state.regression.theta[i]
    if not _from_last_ranking(state):
        _scan(state)
        _from_candidates(state)
    certify(state)
    state.z[len(state.best)] = 0.0  # the state must not depend on which bounds were computed
    state.counts[BATCH] += 1
    state.counts[DECISIONS] += 1
    state.counts[STALE] = 0


@inner
def _from_candidates(state: State) -> None:
    """The K best candidates."""
    count = 0
    for c in range(state.counts[CANDIDATES]):
        item = state.candidates[c]
        state.raw[c] = measured(state, item)[0]
        count = insert(state.best, state.score, count, item, min(state.raw[c], 1.0))


@inner
def _from_last_ranking(state: State) -> bool:
    """The K best candidates, when ``drift`` is what theta has moved by since the last ranking; False if others might be better.

    Widths only shrink, so that the score of an item is at most the last one plus <x, drift>: for those that cannot reach the
    K-th best of the last ranking, and so not the new one, that bound is enough.
    """
    size, drift = len(state.best), state.drift
    if state.counts[CANDIDATES] < size:
        return False
    for k in range(size):
        item = state.best[k]
        insert(state.best, state.score, k, item, min(measured(state, item)[0], 1.0))
    for c in range(state.counts[CANDIDATES]):
        item = state.candidates[c]
        state.raw[c] += dot(state.features[natural(item)], drift) + ROUNDING
        if min(state.raw[c], 1.0) >= state.score[size - 1] and not shown(state, item):
            state.raw[c] = measured(state, item)[0]
            insert(state.best, state.score, size, item, min(state.raw[c], 1.0))
    bar = state.score[size - 1]
    moved, shift = since_scan(state)
    if moved > state.numbers[MARGIN]:
        return False
    # Items beyond LAST were not looked at: fine while K items before them reach 1 and win every tie.
    if state.counts[LAST] < len(state.features) and bar < 1.0:
        return False
    return bool(bar > state.numbers[OUTSIDE] + shift + ROUNDING or state.counts[CANDIDATES] == len(state.features))


@inner
def _scan(state: State) -> None:
    """Scores of all items; candidates are those that may reach the ranking before theta has moved by the margin.

    While K items reach 1 the scan ends soon after them. The margin adapts: wider when the last scan did not last long,
    narrower until the candidates are few.
    """
    size, d = len(state.best), len(state.centre)
    lasted = state.counts[DECISIONS] - state.counts[SCANNED]
    state.counts[SCANNED] = state.counts[DECISIONS]
    state.counts[SCANS] += 1
    margin = max(min(state.numbers[MARGIN] * (1.5 if lasted < 300 else 0.9), 1e3), 1e-9)
    count, reached, last = 0, 0, len(state.features)
    for item in range(len(state.features)):
        raw = measured(state, item)[0]
        state.raw[item] = raw
        reached += raw >= 1.0
        count = insert(state.best, state.score, count, item, min(raw, 1.0))
        if reached >= 3 * size:
            last = item + 1
            break
    bar = state.score[size - 1]
    for i in range(d):
        state.centre[i] = 0.0
        for k in range(size):
            state.centre[i] += state.features[state.best[k], i] / size
        for j in range(d):
            state.scanned_factor[i, j] = state.regression.factor[i, j]
        state.scanned_theta[i] = state.regression.theta[i]
    offset, scratch = state.z[0], state.z[size]
    for item in range(last):
        for i in range(d):
            offset[i] = state.features[item, i] - state.centre[i]
        state.distance[item] = math.sqrt(whiten(state.scanned_factor, offset, scratch))
    few = 6 * size + len(state.features) // 100
    while True:
        kept = 0
        for item in range(last):
            kept += state.raw[item] + margin * state.distance[item] >= bar - SLACK * margin
        if kept <= few or margin <= 1e-6:
            break
        margin *= 0.7
    kept, outside = 0, -NO_LIMIT
    for item in range(last):
        reach = state.raw[item] + margin * state.distance[item]
        if reach >= bar - SLACK * margin:  # the bar may fall a little before the next scan
            state.candidates[kept] = item
            kept += 1
        else:
            outside = max(outside, reach)
    state.counts[CANDIDATES] = kept
    state.counts[LAST] = last
    state.numbers[OUTSIDE] = outside
    state.numbers[MARGIN] = margin


def proved(ranker: Ranker) -> float:
    d, total = ranker.catalogue.dim, ranker.rounds * ranker.positions
    return math.sqrt(d * math.log(1 + total / d) + 2 * math.log(total)) + 1


class CascadeLinUCB(Ranker):
    """CascadeLinUCB (Zong et al. 2016): linear attraction, cascade clicks, optimism."""

    name = "cascade-linucb"
    reference = "Zong, Ni, Sung, Ke, Wen, Kveton 2016"
    believes = "cascade"
    uses_features = True
    regret_bound = "O(d sqrt(T K) log(T))"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = served
    compiled_propensity = certain
    from_catalogue = ("features",)

    def __init__(
        self,
        features: Items,
        positions: int,
        rounds: int,
        seed: Seed = None,
        *,
        width: Annotated[
            float | None,
            Option(
                "c, how many standard widths of optimism, by default the proved sqrt(d log(1 + TK/d) + 2 log(TK)) + 1",
                least=0,
                usually=proved,
            ),
        ] = None,
        sigma: Sigma = 1.0,
    ) -> None:
        super().__init__(features, positions, rounds, seed)
        d = self.catalogue.dim
        width, sigma = self.record(width=width, sigma=sigma)
        items, size = len(self.catalogue), self.positions
        counts = np.zeros(7, np.int64)
        counts[STALE] = 1
        numbers = np.zeros(7)
        numbers[WIDTH], numbers[PRECISION], numbers[MARGIN] = width, sigma**-2.0, 0.1
        self.state = State(
            features=np.ascontiguousarray(self.catalogue.features, dtype=np.float64),
            regression=no_data(d),
            scanned_factor=np.eye(d),
            scanned_theta=np.zeros(d),
            centre=np.zeros(d),
            candidates=np.zeros(items, np.int64),
            raw=np.zeros(items),
            distance=np.zeros(items),
            best=np.arange(size),
            score=np.zeros(size),
            z=np.zeros((size + 1, d)),
            length=np.zeros(size),
            estimate=np.zeros(size),
            drift=np.zeros(d),
            seen=np.zeros(size, np.int64),
            clicked=np.zeros(size, np.int64),
            numbers=numbers,
            counts=counts,
        )

    def pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """All but the bounds, which are computed again; older versions kept the scores themselves."""
        values, arrays = super().pack()
        del arrays["state.raw"]
        return values, arrays

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        whitened = arrays["state.z"].copy()
        whitened[-1] = 0.0  # older versions left something there
        bounds = np.full(len(self.catalogue), NO_LIMIT)  # the next decision computes the scores
        super().unpack(values, {**arrays, "state.z": whitened, "state.raw": bounds})


register(State, CascadeLinUCB)
