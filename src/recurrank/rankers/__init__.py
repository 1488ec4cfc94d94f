"""How to rank: one algorithm per file, all behind the same few methods."""

from __future__ import annotations

from collections.abc import Mapping
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
from recurrank.rankers.options import REQUIRED, Option
from recurrank.rankers.ranker import Ranker, Seed, registered
from recurrank.rankers.recurrank import RecurRank
from recurrank.rankers.saving import load

__all__ = ["DEFAULT", "Option", "Ranker", "RecurRank", "load", "make", "names", "registered"]


DEFAULT = "balanced"
"""The algorithm wherever none is named."""


def names() -> list[str]:
    """Every algorithm's registry name.

    >>> "recurrank" in names()
    True
    """
    return sorted(registered())


def make(
    name: str,
    *,
    features: ArrayLike | Catalogue,
    positions: int,
    rounds: int,
    seed: Seed = None,
    told: Mapping[str, Any] | None = None,
    **options: Any,
) -> Ranker:
    """A ranker by its registry name.

    Args:
        name: see :func:`names`.
        features: the items.
        positions: K.
        rounds: T.
        seed: of its random choices.
        told: the truth about the problem, as a simulation knows it, for the options of yardsticks that need it.
        options: the algorithm's own; ``recurrank rankers`` lists them.

    >>> import numpy as np
    >>> make("recurrank", features=np.eye(4), positions=2, rounds=100, seed=0).name
    'recurrank'

    """
    if not isinstance(name, str) or name not in registered():
        raise ValueError(f"ranker: {name!r} is unknown; choose from {', '.join(names())}")
    kind = registered()[name]
    known = kind.declared()
    given = {**{option: truth for option, truth in (told or {}).items() if option in known and known[option].told}, **options}
    for option in given:
        if option not in known:
            raise ValueError(f"{name}: {option!r} is not one of its options; it takes {', '.join(known) or 'none'}")
    for option, what in known.items():
        if what.default is REQUIRED and option not in given:
            raise ValueError(f"{option}: {name} needs it; give {what.wanted}")
    return kind(features, positions=positions, rounds=rounds, seed=seed, **given)
