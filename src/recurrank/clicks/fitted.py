"""Fitted click models in a file: what ``recurrank fit --out`` writes, and the published models of the Yandex log.

Ours is ``{"format": ..., "version": 1, "best": NAME, "queries": [{"query", "items", "models": {NAME: parameters}}]}`` with
parameters by the names of the click models' arguments. The published file is a list of queries with arguments by position:

| in the file | arguments | here |
|---|---|---|
| PBM | attraction, examination by rank | ``PositionBased`` |
| CM | attraction | ``Cascade`` |
| DCM | attraction, probability of going on after a click, by rank | ``DependentClick`` |
| DBN | attraction, satisfaction, probability of giving up unsatisfied | ``DynamicBayesian``, continuation = 1 - the last |
| CCM | attraction, alpha1, alpha2, alpha3 | ``ClickChain`` |
| UBM | attraction, examination by rank and rank of the last click (last: none yet) | ``UserBrowsing`` |
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from recurrank._arrays import Ints
from recurrank.clicks.bayesian import DynamicBayesian
from recurrank.clicks.browsing import UserBrowsing
from recurrank.clicks.cascade import Cascade
from recurrank.clicks.chain import ClickChain
from recurrank.clicks.dependent import DependentClick
from recurrank.clicks.model import ClickModel
from recurrank.clicks.position import PositionBased

FORMAT = "recurrank click models"
VERSION = 1

CLASSES: dict[str, Any] = {
    "pbm": PositionBased,
    "cm": Cascade,
    "dcm": DependentClick,
    "sdbn": DynamicBayesian,
    "dbn": DynamicBayesian,
    "ccm": ClickChain,
    "ubm": UserBrowsing,
}
"""The class of each short name."""


class Fitted(Mapping[str, "Queries"]):
    """Fitted click models: ``fitted["ubm"]["9982_0"]`` is the user browsing model of a query.

    Attributes:
        best: the model that explains the log best.
        item_ids: by query, the ids of its items, in the order in which its models number them.
        largest: the query with the most pages; the first query if the file does not name it.
        scores: log-likelihood and perplexity by model, where the file has them.

    """

    def __init__(self, document: Any) -> None:
        queries = document["queries"]
        names = list(queries[0]["models"])
        self.best: str = document.get("best", names[0])
        self.item_ids: dict[str, list[str]] = {query["query"]: query["items"] for query in queries}
        self.largest: str = document.get("largest", queries[0]["query"])
        self.scores: dict[str, dict[str, float]] = document.get("scores", {})
        self._names = {name: {query["query"]: query["models"][name] for query in queries} for name in names}

    def __getitem__(self, name: str) -> Queries:
        if name not in self._names:
            raise KeyError(f"{name!r} was not fitted; choose from {', '.join(self._names)}")
        return Queries(name, self._names[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def model(self, name: str | None = None, query: str | None = None) -> ClickModel:
        """A query's click model; by default the best model, and the query with the most pages."""
        return self[name or self.best][query if query is not None else self.largest]


class Queries(Mapping[str, ClickModel]):
    """One kind of click model, by query; each is made on access."""

    def __init__(self, name: str, parameters: dict[str, dict[str, Any]]) -> None:
        self.name = name
        self._parameters = parameters

    def __getitem__(self, query: str) -> ClickModel:
        return self.ordered(query, None)

    def ordered(self, query: str, order: Ints | None) -> ClickModel:
        """A query's click model with its items in another order."""
        if query not in self._parameters:
            raise KeyError(f"no query {query!r} in it; there are {len(self)}, {', '.join(list(self)[:5])} among them")
        parameters = dict(self._parameters[query])
        for name in ("attraction", "satisfaction") if order is not None else ():
            if name in parameters:
                parameters[name] = np.asarray(parameters[name])[order]
        model: ClickModel = CLASSES[self.name](**parameters)
        return model

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)


def write(path: Path, document: dict[str, Any]) -> None:
    """Write a file of fitted models atomically."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(json.dumps({"format": FORMAT, "version": VERSION, **document}, allow_nan=False), encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load(path: str | Path) -> Fitted:
    """Click models from a file that ``recurrank fit --out`` wrote, or from the published models of the Yandex log.

    ValueError says in one line what is wrong with it.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such file; give what recurrank fit --out wrote")
    try:
        document = json.loads(path.read_bytes())
        if isinstance(document, list):
            document = {"queries": [_published(query) for query in document]}
        elif document.get("format") != FORMAT or document.get("version") != VERSION:
            raise ValueError(f"format {document.get('format')!r}, version {document.get('version')!r}")
        fitted = Fitted(document)
        for name in fitted:
            fitted.model(name)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path}: not a file of fitted click models ({what})") from error
    return fitted


def is_file(label: str) -> bool:
    """Whether a click model's name is that of a file: ``fitted.json``, ``fitted.json:ubm`` or ``fitted.json:ubm:QUERY``."""
    return ".json" in label


def from_file(label: str, shuffled: np.random.Generator | None = None) -> ClickModel:
    """The click model that a label names: by default the best model of the file, of the query with the most pages.

    With ``shuffled`` its items are in a random order, so that no ranker gains from their numbering.
    """
    path, name, query = (*label.split(":", 2), "", "")[:3]
    fitted = load(path)
    try:
        kind, query = fitted[name or fitted.best], query or fitted.largest
        model = kind[query]
    except KeyError as error:
        raise ValueError(f"clicks: {label}: {error.args[0]}") from error
    return model if shuffled is None else kind.ordered(query, shuffled.permutation(len(model.attraction)))


def _published(query: dict[str, Any]) -> dict[str, Any]:
    arguments = {name.lower(): model["args"] for name, model in query["models"].items()}
    count = len(arguments["pbm"][0])
    return {
        "query": str(query["query"]),
        "items": [str(index) for index in range(count)],
        "models": {name: _named(name, *args) for name, args in arguments.items() if name in CLASSES},
    }


def _named(name: str, attraction: list[float], *rest: Any) -> dict[str, Any]:
    match name:
        case "pbm":
            return {"attraction": attraction, "examination": rest[0]}
        case "dcm":
            return {"attraction": attraction, "continuation": rest[0]}
        case "dbn":
            return {"attraction": attraction, "satisfaction": rest[0], "continuation": 1 - rest[1]}
        case "ccm":
            return {"attraction": attraction, "alpha1": rest[0], "alpha2": rest[1], "alpha3": rest[2]}
        case "ubm":
            return {"attraction": attraction, "examination": np.asarray(rest[0]).tolist()}
        case _:
            return {"attraction": attraction}
