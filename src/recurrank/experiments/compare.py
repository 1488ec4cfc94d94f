"""Several rankers on a problem of the user's own: features from a file, and the truth about them if it is known."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from recurrank._arrays import Features, Floats, as_array, as_count, as_probabilities
from recurrank.catalogue.files import read_features
from recurrank.clicks.fitted import from_file, is_file
from recurrank.experiments.experiment import (
    Environment,
    Experiment,
    Setting,
    Source,
    Synthetic,
    cross,
    parse_rankers,
    split_names,
    try_options,
)
from recurrank.problem import Problem, transform
from recurrank.seeds import stream


@dataclass(frozen=True)
class Own:
    """Features in a file, with the attraction or theta in another, or, without either, a random theta each run.

    Each run has the items in an order of its own, so that no ranker gains from the order in the file.
    A random theta needs features that it cannot lead out of [0, 1]: then they are transformed as in the paper
    (equation transform x), which adds a constant feature.
    """

    clicks: str
    features: Path
    attraction: Path | None = None
    theta: Path | None = None
    units: ClassVar[None] = None

    @cached_property
    def data(self) -> str:
        """The files' names and a fingerprint of their contents."""
        files = [path for path in (self.features, self.attraction, self.theta) if path is not None]
        digest = hashlib.sha256()
        for path in files:
            with open(path, "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return f"{', '.join(path.name for path in files)}, {digest.hexdigest()[:12]}"

    def setting(self, run: int, seed: np.random.SeedSequence, positions: int) -> Setting:
        import recurrank as rr

        features, attraction = self.problem(seed)
        order = stream(seed, "items").permutation(len(features))
        features, attraction = features[order], attraction[order]
        return Setting(features, rr.clicks.make(self.clicks, attraction, positions))

    def problem(self, seed: np.random.SeedSequence) -> tuple[Features, Floats]:
        """Features and attraction."""
        features = read_features(self.features)
        if self.attraction is not None:
            return features, as_probabilities(str(self.attraction), _vector(self.attraction, len(features)))
        if self.theta is not None:
            return features, Problem(features, _vector(self.theta, features.shape[1])).attraction
        moved = transform(features)
        theta = transform(stream(seed, "problem").standard_normal(features.shape[1]))
        return moved, Problem(moved, theta).attraction

    @property
    def truth(self) -> str:
        """Where the attraction comes from, in words."""
        if self.theta is not None:
            return f"attraction: features times {self.theta.name}"
        if self.attraction is None:
            return "attraction: a random theta each run, on features transformed as in the paper"
        features, attraction = self.problem(np.random.SeedSequence(0))
        fitted = features @ np.linalg.lstsq(np.asarray(features, np.float64), attraction, rcond=None)[0]
        return f"attraction: {self.attraction.name}, linear in the features up to {np.abs(fitted - attraction).max():.2g}"


@dataclass(frozen=True)
class Logged:
    """A click model from a file of fitted ones, its items without features; each run has them in an order of its own."""

    clicks: str
    units: ClassVar[None] = None

    @cached_property
    def data(self) -> str:
        """The file's name and a fingerprint of its content."""
        path = Path(self.clicks.partition(":")[0])
        return f"{path.name}, {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"

    def setting(self, run: int, seed: np.random.SeedSequence, positions: int) -> Setting:
        model = from_file(self.clicks, stream(seed, "items"))
        return Setting(np.eye(len(model.attraction)), model)


def plan(
    rankers: str,
    clicks: str,
    positions: int,
    rounds: int,
    runs: int,
    features: Path | None = None,
    attraction: Path | None = None,
    theta: Path | None = None,
    items: int = 1000,
    dim: int = 5,
    seed: int = 0,
) -> list[Experiment]:
    """Every ranker under every click model, runs numbered from ``seed``.

    Without ``features`` the problems are the paper's synthetic ones.
    """
    from recurrank.clicks.presets import canonical, make

    runs, rounds, positions = as_count("runs", runs), as_count("rounds", rounds), as_count("positions", positions)
    seed = as_count("seed", seed, least=0)
    labels = parse_rankers(rankers)
    if attraction is not None and theta is not None:
        raise ValueError("attraction: theta is given as well; give one of them")
    if features is None and (attraction is not None or theta is not None):
        raise ValueError("features: none given; attraction and theta are about the rows of a file of features")
    experiments = []
    for name in split_names(clicks) or [clicks]:
        source: Source
        if is_file(name):
            size = len(from_file(name).attraction)
            environment = Environment(Path(name).name, Logged(name), size, size, positions, rounds)
            try_options(labels, environment)
            experiments += cross("compare", environment, labels, runs, seed)
            continue
        full = canonical(name)
        if features is None:
            source = Synthetic(full, as_count("items", items), as_count("dim", dim, least=2))
            alpha = np.full(items, 0.5)
        else:
            truth = [path and path.absolute() for path in (attraction, theta)]
            source = Own(full, features.absolute(), *truth)
            matrix, alpha = source.problem(np.random.SeedSequence(0))  # complains now about what will not do
            items, dim = matrix.shape
        if items < positions:
            raise ValueError(f"positions: {positions} is more than the {items} items; show fewer")
        make(full, alpha, positions)
        environment = Environment(full, source, items, dim, positions, rounds)
        try_options(labels, environment)
        experiments += cross("compare", environment, labels, runs, seed)
    return experiments


def _vector(path: Path, length: int) -> np.ndarray[Any, Any]:
    """A vector in a .npy file, or in a .parquet file of one column."""
    if path.suffix == ".npy":
        if not path.is_file():
            raise ValueError(f"{path}: no such file; give a .npy or .parquet file of {length:,} numbers")
        try:
            vector = np.load(path, allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
            raise ValueError(f"{path}: not a .npy file of numbers, or a truncated one ({error})") from error
    else:
        vector = read_features(path)
    vector = as_array(str(path), vector)
    if vector.size != length:
        raise ValueError(f"{path}: shape is {vector.shape}; it should be {length:,} numbers")
    return vector.reshape(length)
