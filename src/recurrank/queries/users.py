"""Users who click by the label of a document: the simulated users of the field.

A user goes down the slate. A document of label l at position k is clicked with probability e_k c_l; after a click the user
stops with probability s_l.

| users | |
|---|---|
| ``perfect``, ``navigational``, ``informational`` | Guo et al. 2009, Hofmann et al. 2013: c and s by label, e = 1 |
| ``position`` | Joachims et al. 2017: e_k = 1/k, c_l = 0.1 + 0.9 (2^l - 1) / (2^top - 1), never stops |

The tables exist for labels up to 1, 2 and 4. ``leave="always"`` lets users stop after documents that they have not clicked,
as a widely used simulator does; the papers define s given a click.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Bools, Floats, Ints, as_count, as_probabilities
from recurrank._compiled import hot

TABLES: dict[str, dict[int, tuple[list[float], list[float]]]] = {
    "perfect": {
        1: ([0.0, 1.0], [0.0, 0.0]),
        2: ([0.0, 0.5, 1.0], [0.0, 0.0, 0.0]),
        4: ([0.0, 0.2, 0.4, 0.8, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0]),
    },
    "navigational": {
        1: ([0.05, 0.95], [0.2, 0.9]),
        2: ([0.05, 0.5, 0.95], [0.2, 0.5, 0.9]),
        4: ([0.05, 0.3, 0.5, 0.7, 0.95], [0.2, 0.3, 0.5, 0.7, 0.9]),
    },
    "informational": {
        1: ([0.4, 0.9], [0.1, 0.5]),
        2: ([0.4, 0.7, 0.9], [0.1, 0.3, 0.5]),
        4: ([0.4, 0.6, 0.7, 0.8, 0.9], [0.1, 0.2, 0.3, 0.4, 0.5]),
    },
}
"""Probabilities of a click and of stopping by label, by the collection's highest label."""
NAMES = (*TABLES, "position")
NOISE = 0.1
"""The attraction of an irrelevant document to users of ``position``."""


class Users(NamedTuple):
    """How users click, as compiled code sees it."""

    click: Floats  # (labels,) c
    stop: Floats  # (labels,) s
    examination: Floats  # (K,) e
    always: bool  # whether they may also stop after a document that they have not clicked

    @staticmethod
    def of(click: ArrayLike, stop: ArrayLike, examination: ArrayLike, leave: Literal["click", "always"] = "click") -> Users:
        """Users of your own; ValueError unless all are probabilities, with as many in ``stop`` as in ``click``."""
        clicks = as_probabilities("click", click)
        if leave not in ("click", "always"):
            raise ValueError(f"leave: {leave!r} is unknown; choose from 'click' and 'always'")
        return Users(
            clicks, as_probabilities("stop", stop, shape=clicks.shape), as_probabilities("examination", examination),
            leave == "always",
        )  # fmt: skip


def make_users(name: str, top: int, positions: int, leave: Literal["click", "always"] = "click") -> Users:
    """The users of this name, for labels from 0 to ``top``.

    >>> make_users("navigational", top=2, positions=3).click.tolist()
    [0.05, 0.5, 0.95]
    """
    positions = as_count("positions", positions)
    if name not in NAMES:
        raise ValueError(f"users: {name!r} is unknown; choose from {', '.join(NAMES)}")
    if name == "position":
        top = max(as_count("top", top, least=0), 1)
        attraction = NOISE + (1 - NOISE) * (2.0 ** np.arange(top + 1) - 1) / (2.0**top - 1)
        return Users.of(attraction, np.zeros(top + 1), 1 / np.arange(1.0, positions + 1), leave)
    fitting = [size for size in TABLES[name] if size >= top]
    if not fitting:
        raise ValueError(f"users: {name!r} are defined for labels up to {max(TABLES[name])}, and the file has {top}")
    return Users.of(*TABLES[name][fitting[0]], np.ones(positions), leave)


@hot
def click(users: Users, labels: Ints, rng: np.random.Generator, clicks: Bools) -> None:
    """The clicks on a slate of documents with these labels."""
    clicks[:] = False
    for k in range(len(labels)):
        clicks[k] = rng.random() < users.examination[k] * users.click[labels[k]]
        if (clicks[k] or users.always) and rng.random() < users.stop[labels[k]]:
            return


@hot
def expected(users: Users, labels: Ints) -> float:
    """The expected number of clicks on a slate of documents with these labels.

    sum_k r_k e_k c_k,    r_{k+1} = r_k (1 - e_k c_k s_k), or r_k (1 - s_k) if users may leave after any document
    """
    reached, total = 1.0, 0.0
    for k in range(len(labels)):
        clicked = users.examination[k] * users.click[labels[k]]
        total += reached * clicked
        reached *= 1 - users.stop[labels[k]] * (1.0 if users.always else clicked)
    return total
