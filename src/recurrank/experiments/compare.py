"""Several rankers on a user's problem: features from a file, and their true attraction if it is known."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from recurrank._arrays import Features, Floats, as_array, as_count, as_probabilities
from recurrank.catalogue.files import read_features
from recurrank.clicks.fitted import from_file, is_file
from recurrank.experiments.comparison import Comparison
from recurrank.experiments.experiment import CatalogueSource, Environment, Setting, Source, Synthetic, as_names
from recurrank.experiments.report import Report
from recurrank.experiments.suite import Suite
from recurrank.problem import Problem, transform
from recurrank.seeds import stream

RANKERS = "balanced,recurrank,cascade-linucb,toprank,epsilon-greedy,random"


@dataclass(frozen=True)
class Own(CatalogueSource):
    """Features in a file, with the attraction or theta in another, or, without either, a random theta each run.

    Each run has the items in its own order, so that no ranker gains from the order in the file.
    With a random theta, features are transformed as in the paper (equation transform x), which adds a constant feature,
    so that every attraction is in [0, 1].
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
        transformed = transform(features)
        theta = transform(stream(seed, "problem").standard_normal(features.shape[1]))
        return transformed, Problem(transformed, theta).attraction

    @property
    def truth(self) -> str:
        """The origin of the attraction, in words."""
        if self.theta is not None:
            return f"attraction: features times {self.theta.name}"
        if self.attraction is None:
            return "attraction: a random theta each run, on features transformed as in the paper"
        features, attraction = self.problem(np.random.SeedSequence(0))
        fitted = features @ np.linalg.lstsq(np.asarray(features, np.float64), attraction, rcond=None)[0]
        return f"attraction: {self.attraction.name}, linear in the features up to {np.abs(fitted - attraction).max():.2g}"


@dataclass(frozen=True)
class Logged(CatalogueSource):
    """A click model from a file of fitted ones, its items without features and in another order each run."""

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


def compare(
    rankers: str | Iterable[str] = RANKERS,
    clicks: str | Iterable[str] = "position-based",
    *,
    jobs: int = -1,
    engine: str = "local",
    out: str | Path | None = None,
    **problem: Any,
) -> Comparison:
    """Run every ranker under every click model. In each run all rankers meet the same problem and the same users.

    Args:
        rankers: registry names, with options as in ``"toprank:delta=T^-1"``; a list, or one string with commas.
        clicks: click models by name, with parameters as in ``"position-based:examination=1/0.5/0.25"``; a list, or one
            string with commas.
        jobs: processes on this machine; -1 means one per core.
        engine: ``"local"``, or ``"dask:ADDRESS"``.
        out: a folder for results and a report; if stopped, the same call continues from there.
        problem: further arguments of :func:`suite`: ``positions``, ``rounds``, ``runs``, ``items``, ``dim``, ``seed``, or files
            ``features``, ``attraction`` and ``theta``.

    >>> import recurrank as rr
    >>> found = rr.compare(["oracle", "random"], runs=3, rounds=200, items=20, dim=3, positions=3, jobs=1)
    >>> [row.ranker for row in found.rows], found.rows[0].regret_mean
    (['oracle', 'random'], 0.0)

    """
    rankers = rankers if isinstance(rankers, str) else as_names("rankers", rankers)
    clicks = clicks if isinstance(clicks, str) else as_names("clicks", clicks)
    plain = {name: str(value) if isinstance(value, os.PathLike) else value for name, value in problem.items()}
    call = ", ".join([repr(rankers), repr(clicks), *(f"{name}={value!r}" for name, value in plain.items())])
    return suite(rankers, clicks, **problem).run(out, jobs=jobs, engine=engine, command=f"recurrank.compare({call})")


def suite(
    rankers: str | Iterable[str] = RANKERS,
    clicks: str | Iterable[str] = "position-based",
    positions: int = 10,
    rounds: int = 100_000,
    runs: int = 10,
    *,
    features: str | Path | None = None,
    attraction: str | Path | None = None,
    theta: str | Path | None = None,
    items: int = 1000,
    dim: int = 5,
    seed: int = 0,
) -> Suite:
    """Every ranker under every click model on one kind of problem.

    Args:
        rankers: registry names, with options as in ``"toprank:delta=T^-1"``; a list, or one string with commas.
        clicks: click models by name, with parameters as in ``"position-based:examination=1/0.5/0.25"``; a list, or one
            string with commas.
        positions: K.
        rounds: T.
        runs: runs of each ranker.
        features: a file of items; by default the paper's synthetic problems.
        attraction: a file with the attraction of these items.
        theta: or a file with its parameter; without either each run draws a random one.
        items: L of a synthetic problem.
        dim: d of a synthetic problem.
        seed: the number of the first run; the next ones count up.

    """
    from recurrank.clicks.presets import canonical, make

    rounds, positions = as_count("rounds", rounds), as_count("positions", positions)
    if attraction is not None and theta is not None:
        raise ValueError("attraction: theta is given as well; give one of them")
    if features is None and (attraction is not None or theta is not None):
        raise ValueError("features: none given; attraction and theta are about the rows of a file of features")
    for field, path in (("features", features), ("attraction", attraction), ("theta", theta)):
        if path is not None and not isinstance(path, str | os.PathLike):
            raise ValueError(f"{field}: {type(path).__name__} is not a file; give the path of a .npy, .csv or .parquet file")
    environments, lead = [], "Synthetic problems as in the paper, a new one each run."
    for name in as_names("clicks", clicks):
        source: Source
        if is_file(name):
            size = len(from_file(name).attraction)
            environments.append(Environment(Path(name).name, Logged(name), size, size, positions, rounds))
            continue
        full = canonical(name)
        if features is None:
            source = Synthetic(full, as_count("items", items), as_count("dim", dim, least=2))
            alpha = np.full(items, 0.5)
        else:
            source = Own(full, *(path and Path(path).absolute() for path in (features, attraction, theta)))  # type: ignore[arg-type]
            matrix, alpha = source.problem(np.random.SeedSequence(0))  # reports bad files now, not during the runs
            items, dim = matrix.shape
            lead = f"{source.truth[0].upper()}{source.truth[1:]}."
        if items < positions:
            raise ValueError(f"positions: {positions} is more than the {items} items; show fewer")
        make(full, alpha, positions)
        environments.append(Environment(full, source, items, dim, positions, rounds))
    return Suite(environments, rankers, Report("Rankers compared", lead), runs=runs, first=seed, name="compare")


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
