"""Anchored: every request brings its own candidates, under an unknown click model, learning from all positions.

In every model of the paper's class E[click at k | request, slate, clicks above] = e_k(what is above, clicks above) alpha(x_k).
With changing candidates the set above a position never repeats. So every answer is put into a *stratum* by what drives e_k: the
position, the position of the last click above, the third of the summed predicted attraction above, and the request's segment.
Within a stratum e is nearly one unknown scale. Position 1 has nothing above it: its scale is 1. It is the *anchor*, and lower
positions count as far as they agree with it.

A request:

    order = the K best by x'theta
    with probability 1/5:
        draw theta' of the anchor's posterior; pay 1/40 of what the order loses if theta' is true into the account
        y = the item that the two orders disagree about most
        if the account covers the cost of showing y first: pay; show y, then the order (*insurance*)
        else: show the K best by a sample of theta's posterior
    else: show the order

When answers have grown by 4 % (at least 8, at most 10,000), theta, scales and the samples of the coming rounds are recomputed
(``engines/anchoring.py`` has the formulas).

| here                           | code                                            |
|--------------------------------|-------------------------------------------------|
| stratum g                      | ``engines.anchoring.Strata``                    |
| V_g, b_g                       | ``engines.anchored_rounds.State.moments`` (lower triangles), ``sums``   |
| s_g                            | ``State.scale``                                 |
| theta, samples of theta, theta'| ``State.theta``, ``samples``, ``doubts``        |
| W_k, what a position is worth  | ``State.worth``                                 |
| account                        | ``State.account``                               |

What is proved, argued and measured is in docs/requests.md.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Floats, Ints
from recurrank.catalogue import Catalogue
from recurrank.catalogue.rows import one_thread
from recurrank.rankers.engines.anchored_requests import NOTHING, Recall, Room, answer
from recurrank.rankers.engines.anchored_rounds import (
    AGAIN,
    ANSWERS,
    CONSTANT,
    ESTIMATED,
    EXPLORE,
    KEPT,
    NEXT,
    Kept,
    Menu,
    State,
    again,
    choose,
    foresee,
    learn,
    propensity,
    rank,
    recall,
    served,
    take,
)
from recurrank.rankers.engines.anchoring import Estimate, Strata, estimate, strata_per_segment
from recurrank.rankers.engines.request_calls import register_requests
from recurrank.rankers.engines.requests import LINKS, Work
from recurrank.rankers.engines.solving import spread
from recurrank.rankers.knowledge import Coefficient, Examination, Knowledge
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import Seed, register
from recurrank.rankers.request import Choice
from recurrank.rankers.request_ranker import LARGE, ContextSize, Dim, Interactions, RequestRanker
from recurrank.rankers.states import finite, flatten, unflatten

SAMPLES, FEW_SAMPLES = 32, 16
"""Samples drawn at each estimate, for the rounds until the next one; FEW_SAMPLES for a large catalogue."""
GROW, LEAST, MOST = 0.04, 8, 10_000
"""Answers until the next estimate: the share GROW of those so far, at least LEAST and at most MOST."""
RESUMED = 64
"""How many of the answers before a change of mode count towards the next estimate."""
LARGE_GROW = 0.25
"""The same share for a large catalogue, all of which is read at every estimate."""
KEEP, KEPT_NUMBERS, RELINEARISE = 4096, 1 << 23, 64
"""A logistic ranker keeps up to so many first answers (or numbers) and linearises them anew at 64, 96, 144, ... of them."""
REMEMBERED = 64 << 20
"""Most bytes of a catalogue's scores to remember, for requests that name items."""
SEGMENTS = 256
"""The most segments that requests may name."""


class Anchored(RequestRanker):
    """Rank every request's own candidates under an unknown click model, learning from the clicks at all positions.

    Args:
        features: a catalogue (or a matrix, one row per item) whose items requests name; or None: requests bring features.
        positions: K, the most items that a slate shows.
        rounds: T, how many rounds are planned; nothing depends on it yet.
        seed: the seed of all its random choices.
        dim: where there is no catalogue, how many features a candidate has.
        context: how many numbers describe a visitor; 0 for none.
        interactions: ``"none"``: item and context are features side by side; ``"outer"``: their products, too.
        link: ``"linear"`` or ``"logistic"``: how attraction depends on the features.
        discount: what an answer's weight is multiplied by with every later answer; below 1 for tastes that drift.
        intercept: whether attraction has a constant term.
        ridge: the prior's precision of every coefficient.

    >>> import numpy as np
    >>> import recurrank as rr
    >>> ranker = rr.Anchored(dim=3, positions=2, seed=0)
    >>> slate = ranker.rank(np.eye(3))
    >>> ranker.learn(slate, [True, False])
    >>> len(slate), ranker.rank([[0.1, 0.2, 0.3]]).items.tolist()
    (2, [0])

    """

    name = "anchored"
    reference = "this project"
    believes = "general click model"
    learns_any_order = True
    regret_bound = "none proved; see docs/requests.md"
    compiled_rank = rank
    compiled_learn = learn
    compiled_served = served
    compiled_recall = recall
    compiled_propensity = propensity
    compiled_choose = choose
    compiled_take = take
    tells = True
    by_decisions = True

    told: ClassVar[bool] = False
    """Whether answers come with P(examined | slate, clicks above): an oracle's."""

    state: State

    def __init__(
        self,
        features: ArrayLike | Catalogue | None = None,
        positions: int = 10,
        rounds: int = 1_000_000,
        seed: Seed = None,
        *,
        dim: Dim = None,
        context: ContextSize = 0,
        interactions: Interactions = "none",
        link: Annotated[Literal["linear", "logistic"], Option("how attraction depends on the features")] = "linear",
        discount: Annotated[
            float, Option("what an answer's weight is multiplied by with every later answer", least=0.5, most=1)
        ] = 1.0,
        intercept: Annotated[bool, Option("whether attraction has a constant term")] = True,
        ridge: Annotated[float, Option("the prior's precision of every coefficient", least=1e-6, most=1e6)] = 4.0,
    ) -> None:
        self.begin(features, dim, positions, rounds, seed, context, interactions)
        self.link, self.discount = self.record(link=link, discount=discount)
        self.intercept, self.ridge = self.record(intercept=intercept, ridge=ridge)
        self.state = self._empty()
        self._since = 0  # the number of answers from which estimates became frequent again
        self._ranked_by: Floats | None = None  # the vectors of the coming rounds, once a request needs them
        self._recall: Recall | None = None
        self._room: Room | None = None
        self._strata = Strata.of(self.positions, 1)
        self._estimated = Estimate.none(len(self.state.theta), self.ridge, len(self.state.scale))
        self._sample()
        _ = self.identity  # computed now, from the initial items

    def _empty(self) -> State:
        k, d = self.positions, self.width
        size = d + 1 + (self.link == "logistic")
        strata, keep = strata_per_segment(k), min(KEEP, KEPT_NUMBERS // (k * d)) if self.link == "logistic" else 0
        return State(
            features=self._whole(),
            short=np.zeros(0, np.int64),
            theta=np.zeros(d + 1),
            samples=np.zeros((1, d + 1)),  # these are filled by _sample
            doubts=np.zeros((1, d + 1)),
            moments=np.zeros((strata, size, size)),
            sums=np.zeros((strata, size)),
            scale=np.ones(strata),
            worth=1 / np.arange(1.0, k + 1),
            shown=np.zeros(k),
            clicks=np.zeros(k),
            answered=np.zeros(k),
            cuts=np.zeros((k, 3)),
            account=np.zeros(1),
            numbers=np.array([float(self.intercept), LINKS.index(self.link), float(self.told), self.discount]),
            clock=np.array([0, LEAST, 0, RELINEARISE, 0], np.int64),
            kept=Kept(np.zeros((keep, k, d)), np.zeros((keep, k), np.int64), np.zeros((keep, k), np.bool_), np.ones((keep, k))),
            menu=Menu.of(1, k),
            work=self._work(64),
        )

    def _choose(self, features: Floats, rows: Ints, slots: Ints, share: float, tell: bool) -> Choice:
        if not tell:
            return super()._choose(features, rows, slots, share, tell)
        drawn, chosen, account = -1, np.empty(len(slots), np.int64), self.state.account
        if self.rng.random() < EXPLORE * share:
            drawn = int(self.rng.random() * len(self.state.samples))
        choice, paid, cost = self._outcome(features, rows, slots, share, drawn, float(account[0]), chosen)
        if drawn >= 0:
            account[0] += paid
            account[0] -= cost
        return choice

    def _outcome(
        self, features: Floats, rows: Ints, slots: Ints, share: float, drawn: int, account: float, chosen: Ints
    ) -> tuple[Choice, float, float]:
        """What a request is shown with this sample, what is paid into the account for it, and what it costs."""
        if self._ranked_by is None:
            self._ranked_by, self._recall = self._vectors(), None
        vectors, state, marginal = self._ranked_by, self.state, np.empty(len(slots))
        recalled = self._recalled(features, vectors)
        if self._room is None or self._room.scores.shape[0] != len(vectors) or self._room.scores.shape[1] < len(rows):
            self._room = Room.of(2 * len(rows), len(vectors), self.width, self.positions)
        done, paid, cost, joint = answer(
            features, rows, slots, vectors, state.worth, state.numbers[CONSTANT], LINKS.index(self.link), account, share, drawn,
            recalled.table, recalled.known, *self._room, chosen, marginal,
        )  # fmt: skip
        return Choice(chosen, done, marginal, joint), paid, cost

    def _recalled(self, features: Floats, vectors: Floats) -> Recall:
        """The remembered scores of these items; ``NOTHING`` if they are not the catalogue's."""
        if features is not self.catalogue.features:
            return NOTHING
        if self._recall is None or self._recall.features is not features:
            self._recall = Recall.of(features, len(vectors), REMEMBERED)
        return self._recall

    @one_thread()
    def plan(self) -> None:
        """Estimate, and draw the samples of the coming rounds."""
        state, answers = self.state, int(self.state.clock[ANSWERS])
        if self.discount < 1:
            kept = self.discount ** (answers - int(state.clock[ESTIMATED]))
            for array in (state.moments, state.sums, state.shown, state.clicks, state.answered):
                array *= kept
        self._estimate()
        if self.link == "logistic" and state.clock[AGAIN] <= answers == state.clock[KEPT]:
            for _ in range(2):
                again(state)
                self._estimate()
            state.clock[AGAIN] = answers + answers // 2
        self._sample()
        lasting = min(answers - self._since, 1 / max(1 - self.discount, 1e-9))
        large = len(self.catalogue) > LARGE and not self.context
        wait = max(LEAST, int(LARGE_GROW * lasting)) if large else min(MOST, max(LEAST, int(GROW * lasting)))
        state.clock[NEXT], state.clock[ESTIMATED] = answers + wait, answers

    def resume(self) -> None:
        state, answers = self.state, int(self.state.clock[ANSWERS])
        self._since = max(self._since, answers - RESUMED)
        state.clock[NEXT] = min(int(state.clock[NEXT]), answers + LEAST)

    def _estimate(self) -> None:
        state = self.state
        found = estimate(state.moments, state.sums, self._strata, state.theta, self._estimated.inflation, self.ridge)
        self._estimated = found
        state.theta[:], state.scale[:] = found.theta, found.scales

    def _sample(self) -> None:
        """Draw samples for the coming rounds; update what positions are worth, and the shortlist."""
        state, found = self.state, self._estimated
        count = FEW_SAMPLES if len(self.catalogue) > LARGE and not self.context else SAMPLES
        drawn = self.rng.standard_normal((count, len(state.theta)))
        samples, doubts = (
            found.theta + drawn @ spread(found.information),
            found.anchor + drawn @ spread(found.anchor_information),
        )
        # W_k = clicks at k / scores shown at k, falling
        worth = np.where(state.shown > 5, state.clicks / np.maximum(state.shown, 5), 1 / np.arange(1.0, self.positions + 1))
        self.state = state._replace(samples=samples, doubts=doubts, worth=np.minimum.accumulate(np.clip(worth, 1e-3, 1.5)))
        self._ranked_by = None
        self._shortlist()

    def _shortlist(self) -> None:
        super()._shortlist()
        if len(self.state.short) >= self.positions:
            self.state = self.state._replace(menu=Menu.of(len(self.state.samples), self.positions))
            foresee(self.state)

    def _vectors(self) -> Floats:
        return np.concatenate([self.state.theta[None], self.state.samples, self.state.doubts])

    def _work(self, candidates: int) -> Work:
        return Work.of(candidates, self.positions, self.width, self.width + 1 + (self.link == "logistic"))

    def _as_segment(self, segment: str | None) -> str | None:
        name = super()._as_segment(segment)
        if name not in self.segments and len(self.segments) > SEGMENTS:
            raise ValueError(f"segment: {name!r} would be one more than {SEGMENTS}; name fewer, coarser segments")
        return name

    def index_of(self, segment: str | None) -> int:
        """The index of a segment; a new one gets its strata."""
        if segment not in self.segments:
            self.segments[segment] = len(self.segments)
            state, added = self.state, strata_per_segment(self.positions)
            grown: dict[str, Any] = {
                name: np.concatenate([old, np.full((added, *old.shape[1:]), fill)])
                for name, old, fill in (("moments", state.moments, 0.0), ("sums", state.sums, 0.0), ("scale", state.scale, 1.0))
            }
            self.state = state._replace(**grown)
            self._strata = Strata.of(self.positions, len(self.segments))
        return self.segments[segment]

    def knowledge(self) -> Knowledge:
        """Coefficients with intervals, examination by segment and position, the guard; with a catalogue, its leaders."""
        found, state = self._estimated, self.state
        width = 2 * np.linalg.norm(spread(found.information), axis=0)  # the diagonal of R'R
        coefficients = [
            Coefficient(i - 1, float(found.theta[i]), float(found.theta[i] - width[i]), float(found.theta[i] + width[i]))
            for i in range(0 if self.intercept else 1, len(found.theta))
        ]
        leaders = None
        if len(state.short) >= self.positions:
            leaders = state.menu.order.tolist()
        examination = [
            Examination(segment, k, self._seen(index, k, 0), self._seen(index, k, 1))
            for segment, index in self.segments.items()
            for k in range(self.positions)
        ]
        guard = float(found.inflation[0]), float(found.inflation[1])
        return Knowledge(leaders=leaders, coefficients=coefficients, examination=examination, guard=guard)

    def _seen(self, segment: int, position: int, clicked: int) -> float | None:
        """The scales of some strata, weighted by how much was seen of them."""
        strata, state = self._strata, self.state
        of_segment = np.arange(len(strata.position)) // strata_per_segment(self.positions) == segment
        selected = of_segment & (strata.position == position) & (strata.clicked == clicked)
        weight = state.moments[selected].trace(axis1=1, axis2=2)
        return float(state.scale[selected] @ weight / weight.sum()) if weight.sum() > 0 else None

    def pack(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        found = self._estimated
        arrays = dict(flatten(self.state, self.from_catalogue))
        arrays |= {f"estimate.{name}": getattr(found, name) for name in Estimate._fields}
        values = {"segments": list(self.segments), "due": self.due}
        return values | ({"since": self._since} if self._since else {}), arrays

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        self.segments = {segment: index for index, segment in enumerate(values["segments"])}
        self._strata = Strata.of(self.positions, len(self.segments))
        self.state = finite(unflatten(self.state, self.from_catalogue, arrays))
        self._estimated = Estimate(*(arrays[f"estimate.{name}"] for name in Estimate._fields))
        self.make_room(len(self.state.short))
        self._ranked_by = None
        self.due, self._since = values["due"], values.get("since", 0)

    def copy(self, seed: Seed = None, *, into: Self | None = None) -> Self:
        reused = (None, None, None) if into is None else (into._ranked_by, into._recall, into._room)
        other = super().copy(seed, into=into)
        other._since = self._since
        other._ranked_by, other._recall, other._room = reused
        if other._ranked_by is not None and not np.array_equal(other._ranked_by, self._vectors()):
            other._ranked_by = None
        return other


register(State, Anchored)
register_requests(State, Anchored)
