"""Two orders in one slate: which do users prefer? If the orders are close, this needs far fewer sessions than two arms.

Each visitor sees one list that is drawn from both orders, and each click is credited to the order that the item came from. Each
visitor compares the two, so that differences between visitors cancel.

*Team draft* (F. Radlinski, M. Kurup, T. Joachims: How does clickthrough data reflect retrieval quality?, CIKM 2008): as two
captains choose teams. In each round a coin decides which order picks first; each picks its best item not yet in the list.

*Probabilistic* (K. Hofmann, S. Whiteson, M. de Rijke: A probabilistic method for inferring preferences from clicks, CIKM 2011):
at each position a coin chooses an order, and an item is drawn from it with probability proportional to ``1 / rank^tau``,
without replacement. Every list can occur, and credit is given by expectation over all coins that explain the list.

| paper | code | what it is |
|---|---|---|
| ``l`` | ``Interleaved.items`` | the list that is shown |
| ``a`` (assignment) | ``Interleaved.share`` | the probability, given the list, that the *first* order contributed each item |
| ``tau = 3`` | ``tau`` | decay of the softmax over ranks |
| ``o(l, a, c)`` in {-1, 0, 1} | ``credit`` | the first order's clicks minus the second's, expected over ``a``, over ``most`` |

Two things differ from the papers (docs/deviations.md). An item that both captains of team draft would pick at the same turn is
credited to neither: the coin that gave one of them the turn says nothing about the orders. And ``credit`` is the expected
difference of clicks instead of the expected sign, which counts a click on an item that nearly surely came from one order as
much as one that may have come from either. If users click equally often at a position whatever is shown there, its mean is 0:
at each position, coins credit the first order as often as the second. It is divided by ``most``, the largest difference that
any coins and clicks can give, so that it is within [-1, 1]. A sign, or a difference cut off at 1, would be wrong: whether a
later item is credited to neither may depend on an earlier coin, so the difference has the mean 0 but is not symmetric.

The test (I. Waudby-Smith, A. Ramdas: Estimating means of bounded random variables by betting, JRSS B 2023): if users have no
preference, credits have mean 0 given the past, and ``prod (1 + lambda x_t)``, the capital of a gambler who bets the share
lambda on the first order, is a martingale; so is a weighted average over a grid of lambda. It ever exceeds ``2 / alpha``, on
either side, with probability at most ``alpha``. It assumes nothing else: clicks of a session may depend on each other, and half
of the users may prefer one order and half the other. (Bets on each round of a draft would need more assumptions, since a user
with a preference clicks the same order's items in every round.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Floats, Ints

BETS: Floats = 0.9 * 2.0 ** -np.arange(10.0)
"""The grid of lambda: shares of the capital to bet; the largest are for long lists, whose credits are small."""
STAKES: Floats = 1 / np.arange(1.0, 1 + len(BETS))
"""Initial shares of the capital per bet; large bets find clear preferences soon, so they get the most."""
STAKES /= STAKES.sum()


class Interleaved(NamedTuple):
    """A list from two orders, and for each position the probability that the first order contributed its item.

    For an item that says nothing about the orders, it is 0.5. ``most`` is the largest difference of clicks that such a list
    can have for any coins: in each round of team draft one click counts for either order, so it is the number of rounds; for a
    probabilistic list it is the number of positions.
    """

    items: Ints
    share: Floats
    most: int

    def credit(self, clicked: ArrayLike) -> float:
        """The first order's clicks against the second's, between -1 and 1; ``clicked`` has the clicked positions, from 0.

        >>> Interleaved(np.array([7, 3, 5]), np.array([1.0, 0.0, 1.0]), most=2).credit([0, 2])
        1.0
        """
        given = np.asarray(clicked)
        if given.size and not np.issubdtype(given.dtype, np.integer):  # of a mask, each True would be position 1
            raise ValueError(f"clicked: {given.tolist()} are not positions; give whole numbers (np.flatnonzero of a mask)")
        positions = np.unique(given.astype(np.int64))
        if len(positions) and not 0 <= positions[0] <= positions[-1] < len(self.items):
            raise ValueError(f"clicked: {positions.tolist()} are not all positions from 0 to {len(self.items) - 1}")
        # E[C_1 - C_2 | l, c] / most
        return float((2 * self.share[positions] - 1).sum()) / self.most


def team_draft(first: ArrayLike, second: ArrayLike, positions: int, rng: np.random.Generator) -> Interleaved:
    """A list from both orders (items by index, best first), drafted by two captains.

    >>> team_draft([1, 2, 3], [1, 2, 3], 2, np.random.default_rng(0)).items.tolist()
    [1, 2]
    """
    orders = _orders(first, second, positions)
    picked, team = np.empty(positions, np.int64), np.empty(positions)
    used: set[int] = set()
    at, turn, neither = [0, 0], 0, False
    for position in range(positions):
        # a coin in every round of two picks; the other captain comes second
        turn = 1 - turn if position % 2 else int(rng.integers(2))
        for captain in (0, 1):
            while at[captain] < len(orders[captain]) and orders[captain][at[captain]] in used:
                at[captain] += 1
        heads = [order[index] if index < len(order) else None for order, index in zip(orders, at, strict=True)]
        # an item that both would pick first in this round, and then one that both would pick second, says nothing about either
        neither = heads[0] == heads[1] and (neither or position % 2 == 0)
        picked[position], team[position] = orders[turn][at[turn]], 0.5 if neither else 1 - turn
        used.add(int(picked[position]))
    return Interleaved(picked, team, rounds_of(positions))


def rounds_of(positions: int) -> int:
    """Rounds of a team draft: each fills two positions, the last one possibly one.

    Also the largest difference of clicks: a round's two items are credited to different orders, or the first of them to
    neither, so its difference is -1, 0 or 1.
    """
    return (positions + 1) // 2


def probabilistic(
    first: ArrayLike, second: ArrayLike, positions: int, rng: np.random.Generator, tau: float = 3.0
) -> Interleaved:
    """A list from both orders; each item is drawn from one of them with probability proportional to ``1 / rank^tau``.

    Both orders must have the same items. The larger ``tau``, the closer the list is to the orders.
    """
    items, other = (np.asarray(order) for order in _orders(first, second, positions))
    if set(items.tolist()) != set(other.tolist()):
        raise ValueError("first, second: the orders must have the same items")
    if not (math.isfinite(tau) and tau > 0):
        raise ValueError(f"tau is {tau}; it should be above 0")
    # rank[a, i] of items[i] in order a; infinite once it is drawn
    rank = np.empty((2, len(items)))
    rank[0], rank[1] = np.arange(1, len(items) + 1), 1 + np.argsort(other)[np.searchsorted(np.sort(other), items)]
    picked, share = np.empty(positions, np.int64), np.empty(positions)
    for position in range(positions):
        # 1 / rank^tau relative to the best item left: some weight is 1 for any tau
        weights = (rank / rank.min(axis=1, keepdims=True)) ** -tau
        chances = weights / weights.sum(axis=1, keepdims=True)
        index = rng.choice(len(items), p=chances[rng.integers(2)])
        # P(a_r = first | l) = P(l_r | first) / (P(l_r | first) + P(l_r | second))
        picked[position], share[position] = items[index], chances[0, index] / chances[:, index].sum()
        rank[:, index] = np.inf
    return Interleaved(picked, share, positions)


@dataclass
class Preference:
    """Whether users prefer the first order, from the credits of sessions; the result is valid at all times.

    >>> test = Preference()
    >>> for _ in range(20):
    ...     test.observe(1.0)
    >>> test.mean, test.p_value() < 0.01
    (1.0, True)
    """

    sessions: int = 0
    total: float = 0.0
    capital: Floats = field(default_factory=lambda: np.zeros((2, len(BETS))))
    """Logarithms of the capital: a row of bets on the first order, one on the second; one column per share."""

    def observe(self, credit: float) -> None:
        """Count one session."""
        if not -1 <= credit <= 1:
            raise ValueError(f"credit is {credit}; it should be between -1 and 1")
        self.sessions += 1
        self.total += credit
        # log prod (1 + lambda x_t), and the same for -x_t
        self.capital += np.log1p(np.outer([credit, -credit], BETS))

    @property
    def mean(self) -> float:
        """Credit per session: above 0 if users prefer the first order."""
        return self.total / self.sessions if self.sessions else 0.0

    def p_value(self) -> float:
        """Evidence against "no preference": if there is none, this is ever below alpha with probability at most alpha."""
        largest = float(self.capital.max())
        average = (np.exp(self.capital - largest) @ STAKES).max()
        return min(1.0, 2 * math.exp(-min(700.0, largest + math.log(average))))


def _orders(first: ArrayLike, second: ArrayLike, positions: int) -> tuple[list[int], list[int]]:
    """Both orders as lists, checked."""
    checked = []
    for name, order in (("first", first), ("second", second)):
        array = np.asarray(order)
        if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer) or len(np.unique(array)) < len(array):
            raise ValueError(f"{name}: an order has indices of items, each once")
        if not 1 <= positions <= len(array):
            raise ValueError(f"positions is {positions}; it should be between 1 and {len(array)}, the length of {name}")
        checked.append(array.astype(np.int64).tolist())
    return checked[0], checked[1]
