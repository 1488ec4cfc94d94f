"""Click models by name, with parameters for when none are given."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Floats, as_count, as_probabilities
from recurrank.clicks import builtin  # noqa: F401  (its models register)
from recurrank.clicks.model import ClickModel, models

SHORT = {
    "document": "document-based",
    "dbm": "document-based",
    "position": "position-based",
    "pbm": "position-based",
    "cm": "cascade",
    "dependent": "dependent-click",
    "dcm": "dependent-click",
    "browsing": "user-browsing",
    "ubm": "user-browsing",
    "bayesian": "dynamic-bayesian",
    "dbn": "dynamic-bayesian",
    "chain": "click-chain",
    "ccm": "click-chain",
}
"""Other names that people use."""


def names() -> list[str]:
    """The names that :func:`make` takes; ``Factored`` is not among them, since it needs a function.

    >>> "cascade" in names()
    True
    """
    return sorted(set(models()) - {"factored"})


def make(name: str, attraction: ArrayLike, positions: int, **parameters: Any) -> ClickModel:
    """A click model by its name (or short name) for lists of ``positions`` items, by default with textbook parameters.

    >>> make("position", [0.9, 0.5, 0.1], positions=2).examine([0, 1]).tolist()
    [1.0, 0.5]
    """
    full = SHORT.get(name, name) if isinstance(name, str) else ""
    if full not in names():
        raise ValueError(f"clicks: {name!r} is not a click model; choose from {', '.join(names())}")
    alpha = as_probabilities("attraction", attraction)
    settings = defaults(full, len(alpha), as_count("positions", positions))
    unknown = sorted(set(parameters) - {*settings, *_parameters_of(full)})
    if unknown:
        takes = ", ".join(settings) or "no parameters"
        raise ValueError(f"{unknown[0]}: the {full} model has no such parameter; it takes {takes}")
    try:
        model: ClickModel = models()[full](alpha, **{**settings, **parameters})  # type: ignore[call-arg]
    except TypeError as error:  # a model of the user's own
        raise ValueError(f"clicks: {full}: {error}; its class needs defaults() for the parameters that nobody gives") from error
    return model


def parameters(name: str) -> list[str]:
    """The parameters of a model besides the attraction."""
    return _parameters_of(name)


def _parameters_of(name: str) -> list[str]:
    return list(inspect.signature(models()[name].__init__).parameters)[2:]


def defaults(name: str, items: int, positions: int) -> dict[str, Any]:
    """Parameters for a model when none are given."""
    rank = np.arange(1, positions + 1)
    table: dict[str, dict[str, Any]] = {
        "document-based": {},
        "position-based": {"examination": 1 / rank},  # the paper's experiment
        "cascade": {},
        "dependent-click": {"continuation": np.full(positions, 0.6)},
        "user-browsing": {"examination": _browsing(positions)},
        "dynamic-bayesian": {"satisfaction": np.full(items, 0.5), "continuation": 0.9},
        "click-chain": {"alpha1": 0.95, "alpha2": 0.6, "alpha3": 0.3},
    }
    return table[name] if name in table else models()[name].defaults(items, positions)


def _browsing(positions: int) -> Floats:
    """Examination falls with the distance from the last click (from the top when there is none)."""
    k, j = np.indices((positions, positions))
    distance = np.where(j == positions - 1, k + 1, np.maximum(k - j, 1))
    gamma: Floats = distance**-0.5
    return gamma
