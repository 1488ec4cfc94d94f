"""Fitted parameters as click models, one per query, and as the document that ``recurrank fit --out`` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recurrank.clicks.fitted import CLASSES
from recurrank.clicks.model import ClickModel
from recurrank.logs.fit.models import FittedModel
from recurrank.logs.sessions import Pairs


def by_query(
    fitted: Mapping[str, FittedModel], pairs: Pairs, query_ids: Sequence[str], item_ids: Sequence[str]
) -> list[dict[str, Any]]:
    """For the file: every query with its items and the parameters of its models."""
    order = np.argsort(pairs.query, kind="stable")
    bounds = np.searchsorted(pairs.query[order], np.arange(len(query_ids) + 1))
    queries = []
    for number, query in enumerate(["*"] if pairs.shared else query_ids):
        members = np.arange(len(pairs)) if pairs.shared else order[bounds[number] : bounds[number + 1]]
        if len(members):
            models = {name: parameters(model, number, members) for name, model in fitted.items()}
            items = [item_ids[item] for item in pairs.item[members]]
            queries.append({"query": query, "items": items, "models": models})
    return queries


def parameters(fitted: FittedModel, query: int, members: Any) -> dict[str, Any]:
    """The arguments of a click model for one query and its items."""
    attraction = fitted.attraction[members]
    behaviour: dict[str, Any] = {}
    if fitted.name in ("pbm", "ubm"):
        table = fitted.behaviour["examination"][query]
        scale = float(table.max())  # only the product is identified: the most examined position counts as always examined
        attraction, table = attraction * scale, table / scale
        behaviour["examination"] = (table if fitted.name == "pbm" else table.reshape(int(len(table) ** 0.5), -1)).tolist()
    elif fitted.name == "ccm":
        behaviour = {name: float(fitted.behaviour[name][query, 0]) for name in ("alpha1", "alpha2", "alpha3")}
    elif fitted.name == "dcm":
        behaviour["continuation"] = fitted.behaviour["continuation"][query].tolist()
    elif fitted.satisfaction is not None:
        behaviour["satisfaction"] = fitted.satisfaction[members].tolist()
        behaviour["continuation"] = float(fitted.behaviour["continuation"][query, 0])
    return {"attraction": attraction.tolist(), **behaviour}


def click_model(fitted: FittedModel, query: int, members: Any) -> ClickModel:
    """One query's click model."""
    model: ClickModel = CLASSES[fitted.name](**parameters(fitted, query, members))
    return model
