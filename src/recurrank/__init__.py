"""recurrank: learn the best ranking of a large catalogue from clicks, without trusting one click model.

The public names. Each is loaded when it is first used, so that ``import recurrank`` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recurrank import clicks, queries, rankers, requests, rollout, theory
    from recurrank._compiled import hot
    from recurrank.catalogue import Catalogue
    from recurrank.client import AsyncClient, Client
    from recurrank.design.optimal import Design, g_optimal
    from recurrank.design.spanner import volumetric_spanner
    from recurrank.experiments.compare import compare
    from recurrank.experiments.comparison import Comparison
    from recurrank.logs.evaluate.report import Evaluation, evaluate
    from recurrank.logs.fit.report import fit
    from recurrank.logs.fit.result import Fit
    from recurrank.logs.sessions import Sessions
    from recurrank.problem import Problem, synthetic, transform
    from recurrank.rankers.anchored import Anchored
    from recurrank.rankers.balanced import Balanced
    from recurrank.rankers.prior import Prior
    from recurrank.rankers.ranker import Ranker
    from recurrank.rankers.recurrank import RecurRank
    from recurrank.rankers.saving import load
    from recurrank.simulation.run import Run, simulate
    from recurrank.slate import Slate

__version__ = "0.2.0.dev0"

_HOME = {
    "Anchored": "recurrank.rankers.anchored",
    "AsyncClient": "recurrank.client",
    "Balanced": "recurrank.rankers.balanced",
    "Catalogue": "recurrank.catalogue",
    "Client": "recurrank.client",
    "Comparison": "recurrank.experiments.comparison",
    "Design": "recurrank.design.optimal",
    "Evaluation": "recurrank.logs.evaluate.report",
    "Fit": "recurrank.logs.fit.result",
    "Prior": "recurrank.rankers.prior",
    "Problem": "recurrank.problem",
    "Ranker": "recurrank.rankers.ranker",
    "RecurRank": "recurrank.rankers.recurrank",
    "Run": "recurrank.simulation.run",
    "Sessions": "recurrank.logs.sessions",
    "Slate": "recurrank.slate",
    "compare": "recurrank.experiments.compare",
    "evaluate": "recurrank.logs.evaluate.report",
    "fit": "recurrank.logs.fit.report",
    "g_optimal": "recurrank.design.optimal",
    "hot": "recurrank._compiled",
    "load": "recurrank.rankers.saving",
    "simulate": "recurrank.simulation.run",
    "synthetic": "recurrank.problem",
    "transform": "recurrank.problem",
    "volumetric_spanner": "recurrank.design.spanner",
}
_MODULES = ("clicks", "queries", "rankers", "requests", "rollout", "theory")

__all__ = [
    "Anchored",
    "AsyncClient",
    "Balanced",
    "Catalogue",
    "Client",
    "Comparison",
    "Design",
    "Evaluation",
    "Fit",
    "Prior",
    "Problem",
    "Ranker",
    "RecurRank",
    "Run",
    "Sessions",
    "Slate",
    "clicks",
    "compare",
    "evaluate",
    "fit",
    "g_optimal",
    "hot",
    "load",
    "queries",
    "rankers",
    "requests",
    "rollout",
    "simulate",
    "synthetic",
    "theory",
    "transform",
    "volumetric_spanner",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"recurrank.{name}")
    else:
        raise AttributeError(f"module 'recurrank' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
