"""Click models by name, with default parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from recurrank import labels
from recurrank._arrays import as_count, as_probabilities
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
    "set": "set-dependent",
}
"""Other names that people use."""


def names() -> list[str]:
    """The names that :func:`make` takes; ``Factored`` is not among them, since it needs a function.

    >>> "cascade" in names()
    True
    """
    return sorted(set(models()) - {"factored"})


def named(label: str) -> tuple[str, dict[str, Any]]:
    """The full name and the parameters of a model as people write it; ValueError for an unknown model or parameter.

    >>> named("pbm:examination=1/0.5/0.25")
    ('position-based', {'examination': [1, 0.5, 0.25]})
    """
    name, parameters = labels.parse(label, "clicks") if isinstance(label, str) else ("", {})
    full = SHORT.get(name, name)
    if full not in names():
        raise ValueError(f"clicks: {name or label!r} is not a click model; choose from {', '.join(names())}")
    return full, parameters


def canonical(label: str) -> str:
    """The label of a model in results, for any of its names.

    >>> canonical("pbm:examination=1/0.5")
    'position-based:examination=1/0.5'
    """
    return "".join([named(label)[0], *label.partition(":")[1:]])


def make(name: str, attraction: ArrayLike, positions: int, **parameters: Any) -> ClickModel:
    """A click model by its name (or short name) for lists of ``positions`` items, by default with textbook parameters.

    The name may carry parameters, ``"position-based:examination=1/0.5/0.25"``: a number, or numbers with slashes between
    them. One number stands for all positions or items; a matrix is given row by row.

    >>> make("position", [0.9, 0.5, 0.1], positions=2).examine([0, 1]).tolist()
    [1.0, 0.5]
    >>> make("dcm:continuation=0.5", [0.5, 0.5], positions=2).examine([0, 1]).tolist()
    [1.0, 0.75]
    """
    full, written = named(name)
    alpha, kind = as_probabilities("attraction", attraction), models()[full]
    usual = kind.defaults(len(alpha), as_count("positions", positions))
    unknown = sorted(set(written | parameters) - set(kind.parameters()))
    if unknown:
        takes = ", ".join(kind.parameters()) or "no parameters"
        raise ValueError(f"{unknown[0]}: the {full} model has no such parameter; it takes {takes}")
    written = {key: _shaped(value, usual.get(key)) for key, value in written.items()}
    try:
        model: ClickModel = kind(alpha, **{**usual, **written, **parameters})  # type: ignore[call-arg]
    except TypeError as error:  # a model of the user's own
        raise ValueError(f"clicks: {full}: {error}; its class needs defaults() for parameters that are not given") from error
    if model.positions is not None and model.positions < positions:
        raise ValueError(f"clicks: {name} has parameters for {model.positions} positions; give them for all {positions}")
    return model


def _shaped(value: Any, usual: Any) -> Any:
    """A value from a label, in the shape of the parameter's default."""
    if isinstance(usual, np.ndarray) and isinstance(value, int | float):
        return np.full(usual.shape, float(value))
    if isinstance(usual, np.ndarray) and usual.ndim == 2 and isinstance(value, list) and len(value) == usual.size:
        return np.reshape(value, usual.shape)
    return value
