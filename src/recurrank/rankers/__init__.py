"""How to rank: one algorithm per file, all behind the same few methods."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from recurrank.catalogue import Catalogue
from recurrank.rankers import (  # noqa: F401  (they register)
    balanced,
    batchrank,
    c3_ucb,
    cascade_lints,
    cascade_linucb,
    cascade_ucb,
    dcm_klucb,
    gl_cdcm,
    linucb,
    pbm_pie,
    pbm_ucb,
    pie,
    ranked_bandits,
    recurrank,
    toprank,
    yardsticks,
)
from recurrank.rankers.ranker import Ranker, Seed, registered
from recurrank.rankers.recurrank import RecurRank
from recurrank.rankers.saving import load

__all__ = ["DEFAULT", "Ranker", "RecurRank", "load", "make", "names"]


DEFAULT = "balanced"
"""The algorithm wherever none is named."""


def names() -> list[str]:
    """Every algorithm's registry name.

    >>> "recurrank" in names()
    True
    """
    return sorted(registered())


def make(
    name: str, *, features: ArrayLike | Catalogue, positions: int, rounds: int, seed: Seed = None, **options: Any
) -> Ranker:
    """A ranker by its registry name.

    >>> import numpy as np
    >>> make("recurrank", features=np.eye(4), positions=2, rounds=100, seed=0).name
    'recurrank'
    """
    if not isinstance(name, str) or name not in registered():
        raise ValueError(f"ranker: {name!r} is unknown; choose from {', '.join(names())}")
    try:
        return registered()[name](features, positions=positions, rounds=rounds, seed=seed, **options)
    except TypeError as error:
        raise ValueError(f"{name}: {error}; see `recurrank rankers` for its options") from error
