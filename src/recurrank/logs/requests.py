"""A log as a stream of requests: its pages in order, with the attractions of their items under a fitted click model."""

from __future__ import annotations

import numpy as np

from recurrank.catalogue import Catalogue
from recurrank.clicks.fitted import Fitted
from recurrank.logs.sessions import Sessions
from recurrank.requests import Log


def requests_of(log: Sessions, catalogue: Catalogue, fitted: Fitted, model: str | None = None) -> Log:
    """The pages of a log as requests, for :func:`recurrank.simulate`.

    A page becomes a request for its query: the candidates are all items that the model knows for it.

    Args:
        log: pages, whose order of queries is used.
        catalogue: the features of the items, by id.
        fitted: click models of the log's queries: ``rr.fit(log).models()``, or the result of :func:`recurrank.clicks.load`.
        model: the click model of the attractions; by default the best.

    Raises ValueError for a query without a model and for an item without features.

    """
    if not len(log):
        raise ValueError("log: no pages in it")
    if catalogue.ids is None:
        raise ValueError("catalogue: it has no ids; the items of a log have to be found by theirs")
    index_of = {name: index for index, name in enumerate(catalogue.ids)}
    models = fitted[model or fitted.best]
    queries, order = np.unique(log.query, return_inverse=True)
    features, attraction = [], []
    for query in (log.query_ids[number] for number in queries):
        if query not in models:
            raise ValueError(f"fitted: query {query!r} has no model; fit the models to this log")
        missing = [item for item in fitted.item_ids[query] if item not in index_of]
        if missing:
            raise ValueError(f"catalogue: {missing[0]!r} of query {query!r} has no features; add it to the catalogue")
        features.append(np.asarray(catalogue.features[[index_of[item] for item in fitted.item_ids[query]]], np.float64))
        attraction.append(models[query].attraction)
    return Log(features, attraction, order=order)
