"""How to rank: one algorithm per file, all behind the same few methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from recurrank.catalogue import Catalogue
from recurrank.rankers import documents as documents
from recurrank.rankers.anchored import Anchored as Anchored
from recurrank.rankers.balanced import Balanced as Balanced
from recurrank.rankers.batchrank import BatchRank as BatchRank
from recurrank.rankers.bubblerank import BubbleRank as BubbleRank
from recurrank.rankers.c3_ucb import C3UCB as C3UCB
from recurrank.rankers.cascade_ducb import CascadeDUCB as CascadeDUCB
from recurrank.rankers.cascade_ducb import CascadeSWUCB as CascadeSWUCB
from recurrank.rankers.cascade_lints import CascadeLinTS as CascadeLinTS
from recurrank.rankers.cascade_linucb import CascadeLinUCB as CascadeLinUCB
from recurrank.rankers.cascade_ucb import CascadeKLUCB as CascadeKLUCB
from recurrank.rankers.cascade_ucb import CascadeUCB1 as CascadeUCB1
from recurrank.rankers.cascade_ucb_v import CascadeUCBV as CascadeUCBV
from recurrank.rankers.cascade_woful import CascadeWOFUL as CascadeWOFUL
from recurrank.rankers.club_cascade import CLUBCascade as CLUBCascade
from recurrank.rankers.dcm_klucb import DCMKLUCB as DCMKLUCB
from recurrank.rankers.gl_cdcm import GLCDCM as GLCDCM
from recurrank.rankers.grab import GRAB as GRAB
from recurrank.rankers.linucb import LinUCB as LinUCB
from recurrank.rankers.options import REQUIRED, Option
from recurrank.rankers.pb_mhb import PBMHB as PBMHB
from recurrank.rankers.pbm_pie import PBMPIE as PBMPIE
from recurrank.rankers.pbm_ucb import PBMUCB as PBMUCB
from recurrank.rankers.pie import PIE as PIE
from recurrank.rankers.plain import plain
from recurrank.rankers.rank1_elim import Rank1Elim as Rank1Elim
from recurrank.rankers.rank1_elim import Rank1ElimKL as Rank1ElimKL
from recurrank.rankers.ranked_bandits import RankedBandits as RankedBandits
from recurrank.rankers.ranked_zooming import RankedZooming as RankedZooming
from recurrank.rankers.ranker import Ranker, Seed, registered
from recurrank.rankers.recurrank import RecurRank as RecurRank
from recurrank.rankers.registry import Ranks as Ranks
from recurrank.rankers.registry import kinds as kinds
from recurrank.rankers.registry import names as names
from recurrank.rankers.saving import load
from recurrank.rankers.toprank import TopRank as TopRank
from recurrank.rankers.unirank import UniRank as UniRank
from recurrank.rankers.vac2_ucb import VAC2UCB as VAC2UCB
from recurrank.rankers.yardsticks import EpsilonGreedy as EpsilonGreedy
from recurrank.rankers.yardsticks import Oracle as Oracle
from recurrank.rankers.yardsticks import Random as Random

__all__ = ["DEFAULT", "Option", "Ranker", "kinds", "load", "make", "names", "plain", "registered"]
__all__ += [kind.__name__ for kind in registered().values()]


DEFAULT = "balanced"
"""The algorithm that is used when none is named."""


def make(
    name: str,
    *,
    features: ArrayLike | Catalogue | None = None,
    positions: int,
    rounds: int,
    seed: Seed = None,
    told: Mapping[str, Any] | None = None,
    **options: Any,
) -> Ranker:
    """A ranker by its registry name.

    Args:
        name: see :func:`names`.
        features: the items; a ranker of requests or queries may have the option ``dim`` instead.
        positions: K.
        rounds: T.
        seed: the seed of its random choices.
        told: the truth about the problem, as a simulation knows it, for the options of yardsticks that need it.
        options: the algorithm's own; ``recurrank rankers`` lists them.

    >>> import numpy as np
    >>> make("recurrank", features=np.eye(4), positions=2, rounds=100, seed=0).name
    'recurrank'
    >>> make("pdgd", dim=136, positions=10, rounds=100_000, seed=0).rank(np.ones((30, 136))).items.shape
    (10,)

    """
    everything = kinds()
    if not isinstance(name, str) or name not in everything:
        raise ValueError(f"ranker: {name!r} is unknown; choose from {', '.join(names())}")
    kind: Any = everything[name]
    declared = kind.declared()
    if features is None and "dim" not in declared:
        raise ValueError(f"features: missing; {name} ranks a catalogue, give a matrix with one row per item")
    truths = {option: truth for option, truth in (told or {}).items() if option in declared and declared[option].told}
    for option in (given := {**truths, **options}):
        if option not in declared:
            raise ValueError(f"{name}: {option!r} is not one of its options; it takes {', '.join(declared) or 'none'}")
    for option, declaration in declared.items():
        if declaration.default is REQUIRED and option not in given:
            raise ValueError(f"{option}: {name} needs it; give {declaration.wanted}")
    ranker: Ranker = kind(features, positions=positions, rounds=rounds, seed=seed, **given)
    return ranker
