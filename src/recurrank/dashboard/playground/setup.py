"""The settings of a simulation: fields of a form, which are also the address of the page. Each error belongs to a field."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec

from recurrank.clicks import names as click_models
from recurrank.clicks.fitted import load
from recurrank.labels import read as read_value
from recurrank.rankers import names as rankers
from recurrank.rankers.contextual import BASELINES
from recurrank.rankers.options import Option
from recurrank.rankers.ranker import registered

ITEMS, DIM, POSITIONS, ROUNDS, RANKERS, NUMBERS = 1_000_000, 100, 100, 20_000_000, 6, 20_000_000
"""Upper limits; NUMBERS limits items times features."""


class Parameter(NamedTuple):
    """A parameter of a click model as a field."""

    field: str
    label: str
    default: float
    least: float
    most: float


PARAMETERS: dict[str, list[Parameter]] = {
    "position-based": [Parameter("pbm_power", "Examination 1 / k^p", 1.0, 0.0, 5.0)],
    "dependent-click": [Parameter("dcm_continuation", "Goes on after a click", 0.6, 0.0, 1.0)],
    "user-browsing": [Parameter("ubm_power", "Examination 1 / distance^p", 0.5, 0.0, 5.0)],
    "dynamic-bayesian": [
        Parameter("dbn_satisfaction", "Satisfied by a click", 0.5, 0.0, 1.0),
        Parameter("dbn_continuation", "Goes on otherwise", 0.9, 0.0, 1.0),
    ],
    "click-chain": [
        Parameter("ccm_alpha1", "Goes on, no click", 0.95, 0.0, 1.0),
        Parameter("ccm_alpha2", "Goes on, not satisfied", 0.6, 0.0, 1.0),
        Parameter("ccm_alpha3", "Goes on, satisfied", 0.3, 0.0, 1.0),
    ],
}
"""By click model, its parameters; other models have none."""

DEFAULTS = {
    "problem": "synthetic",
    "items": "10000",
    "dim": "5",
    "positions": "10",
    "clicks": "position-based",
    "log_model": "",
    "rankers": "recurrank,balanced,toprank",
    "rounds": "1000000",
    "seed": "0",
    "candidates": "40",
    **{p.field: f"{p.default:g}" for ps in PARAMETERS.values() for p in ps},
}
MOVIELENS_ITEMS, MOVIELENS_DIM = 1000, 5
CANDIDATES, REQUEST_DIM, REQUEST_POSITIONS, CLUSTERS = 500, 30, 30, 40
"""Upper limits if every visitor has their own candidates, and the number of clusters of these."""
REQUEST_RANKERS = ["anchored", *BASELINES]
"""Rankers of requests."""


class YourLog(NamedTuple):
    """Click models fitted to a log, by name, and how many items its largest query has."""

    path: str
    models: list[str]
    items: int

    @staticmethod
    def read(path: str) -> YourLog:
        """Read a file of ``recurrank fit --out``; the best model comes first."""
        found = load(path)
        return YourLog(path, sorted(found, key=lambda name: name != found.best), len(found.model().attraction))


class Setup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A simulation, as it is sent to the worker."""

    problem: str
    items: int
    dim: int
    positions: int
    clicks: str
    parameters: dict[str, float]
    rankers: list[str]
    rounds: int
    seed: int
    fitted: str = ""
    options: dict[str, dict[str, Any]] = {}
    candidates: int = 0  # of each visitor; 0 if all have the whole catalogue


def options() -> dict[str, list[tuple[str, Option]]]:
    """The options of each ranker as fields called ``ranker.option``, empty for the default."""
    fields: dict[str, list[tuple[str, Option]]] = {}
    for name, kind in sorted(registered().items()):
        plain = [option for option in kind.declared().values() if not option.told and option.kind != "any"]
        fields[name] = [(f"{name}.{option.name}", option) for option in plain]
    return fields


def by_belief() -> list[tuple[str, list[str]]]:
    """All rankers, grouped by the click model that they assume, the first words of ``believes``; single ones come last."""
    kinds = {**{name: registered()[name] for name in rankers()}, **BASELINES}
    groups: dict[str, list[str]] = {}
    for name, kind in kinds.items():
        groups.setdefault(re.split("[,(:]", kind.believes)[0].strip(), []).append(name)
    odd = sorted(names[0] for names in groups.values() if len(names) == 1)
    return [*((belief, names) for belief, names in groups.items() if len(names) > 1), ("other", odd)]


def read(given: Mapping[str, Any], log: YourLog | None = None) -> tuple[Setup | None, dict[str, str]]:
    """The simulation that the fields describe, None if there are errors; and the errors by field."""
    errors: dict[str, str] = {}
    texts = {**DEFAULTS, **{name: str(value).strip() for name, value in given.items()}}
    known = {*DEFAULTS, *(field for several in options().values() for field, _ in several)}
    for name in given:
        if name not in known:
            errors["form"] = f"{name[:40]!r} is not a setting"

    def whole(field: str, least: int, most: int) -> int:
        try:
            number = int(texts[field].replace(",", "").replace("_", ""))
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            errors[field] = f"Give a whole number from {least:,} to {most:,}."
        return number

    def choice(field: str, known: list[str]) -> str:
        if texts[field] not in known:
            errors[field] = f"{texts[field][:40]!r} is unknown; choose from {', '.join(known)}."
        return texts[field]

    problems = ["synthetic", "movielens", "requests", *(["log"] if log else [])]
    problem, clicks, candidates = choice("problem", problems), choice("clicks", click_models()), 0
    if problem == "movielens":
        items, dim = MOVIELENS_ITEMS, MOVIELENS_DIM
    elif problem == "log" and log:
        items = dim = log.items
        clicks = choice("log_model", log.models) if texts["log_model"] else log.models[0]
    elif problem == "requests":
        candidates, dim = whole("candidates", 2, CANDIDATES), whole("dim", 2, REQUEST_DIM)
        items = CLUSTERS * max(50, candidates)
    else:
        items, dim = whole("items", 2, ITEMS), whole("dim", 2, DIM)
        if not errors and items * dim > NUMBERS:
            errors["dim"] = f"{items:,} items with {dim} features are too many numbers; at most {NUMBERS:,} in all."
    positions, most = whole("positions", 1, REQUEST_POSITIONS if candidates else POSITIONS), candidates or items
    if not {"items", "candidates", "positions"} & set(errors) and positions > most:
        what = "candidates" if candidates else "items"
        errors["positions"] = f"{positions} is more than the {most:,} {what}; show fewer."
    chosen = list(dict.fromkeys(name for name in texts["rankers"].split(",") if name))
    unknown = [name for name in chosen if name not in (REQUEST_RANKERS if problem == "requests" else rankers())]
    if unknown and unknown[0] in rankers():
        errors["rankers"] = f"{unknown[0]!r} shows everybody the same; choose from {', '.join(REQUEST_RANKERS)}."
    elif unknown:
        errors["rankers"] = f"{unknown[0][:40]!r} is not a ranker."
    elif not 1 <= len(chosen) <= RANKERS:
        errors["rankers"] = f"Choose 1 to {RANKERS} rankers."
    rounds, seed = whole("rounds", 100, ROUNDS), whole("seed", 0, 2**31 - 1)
    parameters = {p.field: _number(p, texts[p.field], errors) for p in PARAMETERS.get(clicks, [])}
    size = SimpleNamespace(catalogue=range(items), positions=positions, rounds=rounds)
    own = {name: _options(options().get(name, []), texts, size, errors) for name in chosen}
    if errors:
        return None, errors
    fitted = log.path if log else ""
    return Setup(problem, items, dim, positions, clicks, parameters, chosen, rounds, seed, fitted, own, candidates), {}


def _options(fields: list[tuple[str, Option]], texts: Mapping[str, str], size: Any, errors: dict[str, str]) -> dict[str, Any]:
    """The given options of a ranker, checked for a problem of this size."""
    given: dict[str, Any] = {}
    for field, option in fields:
        if texts.get(field):
            given[option.name] = texts[field] if option.kind == "choice" else read_value(texts[field])
            try:
                option.checked(given[option.name], size)
            except ValueError as error:
                errors[field] = f"{str(error).partition(': ')[2]}."
    return given


def _number(parameter: Parameter, text: str, errors: dict[str, str]) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not parameter.least <= number <= parameter.most:  # also refuses NaN
        errors[parameter.field] = f"Give a number from {parameter.least:g} to {parameter.most:g}."
    return number
