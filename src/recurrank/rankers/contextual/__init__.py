"""Published rankers of requests to compare with, behind the interface of :class:`recurrank.Anchored`; and an oracle."""

from __future__ import annotations

from typing import Any

from recurrank.rankers.contextual.cascade import RequestC3UCB as RequestC3UCB
from recurrank.rankers.contextual.cascade import RequestCascadeLinTS as RequestCascadeLinTS
from recurrank.rankers.contextual.first import FirstThompson as FirstThompson
from recurrank.rankers.contextual.naive import NaiveThompson as NaiveThompson
from recurrank.rankers.contextual.pbm_rank import LinTSPBMRank as LinTSPBMRank
from recurrank.rankers.contextual.told import Told as Told

BASELINES: dict[str, Any] = {
    kind.name: kind for kind in (NaiveThompson, FirstThompson, LinTSPBMRank, RequestCascadeLinTS, RequestC3UCB)
}
"""The published rankers of requests, by name."""
__all__ = ["BASELINES", "FirstThompson", "LinTSPBMRank", "NaiveThompson", "RequestC3UCB", "RequestCascadeLinTS", "Told"]
