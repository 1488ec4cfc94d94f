"""All algorithms by name, for those who make, list and load rankers."""

from __future__ import annotations

from typing import Literal, get_args

from recurrank.rankers.anchored import Anchored
from recurrank.rankers.contextual import BASELINES, Told
from recurrank.rankers.documents.ranker import registered as document_rankers
from recurrank.rankers.ranker import Ranker, registered
from recurrank.rankers.request_ranker import RequestRanker

Ranks = Literal["catalogue", "requests", "queries"]
"""What a ranker ranks: one catalogue, the candidates of requests, or the documents of queries."""


def kinds(ranks: Ranks | None = None) -> dict[str, type[Ranker]]:
    """All algorithms by name, or only those that rank ``ranks``; registered algorithms of your own are included.

    >>> "pdgd" in kinds(), "pdgd" in kinds("catalogue"), "anchored" in kinds("queries")
    (True, False, True)
    """
    if ranks is None:
        return {**registered(), **kinds("requests"), **kinds("queries")}
    if ranks == "catalogue":
        return registered()
    if ranks == "requests":
        own = {name: kind for name, kind in registered().items() if issubclass(kind, RequestRanker)}
        return {"anchored": Anchored, "told": Told, **BASELINES, **own}
    if ranks == "queries":
        return {**document_rankers(), "anchored": Anchored, **BASELINES}
    raise ValueError(f"ranks: {ranks!r} is unknown; choose from {', '.join(get_args(Ranks))}")


def names(ranks: Ranks | None = "catalogue", *, served: bool = False) -> list[str]:
    """The registry names of the algorithms that rank ``ranks`` (None: all); ``served`` keeps those that a service can use.

    >>> "oracle" in names(), "oracle" in names(served=True)
    (True, False)
    >>> "pdgd" in names(), "pdgd" in names("queries")
    (False, True)
    """
    return sorted(name for name, kind in kinds(ranks).items() if not (served and kind.not_served))
