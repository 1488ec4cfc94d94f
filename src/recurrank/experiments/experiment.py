"""An experiment is data: an environment, a ranker with its options, a horizon, the number of the run.

Its id is like ``paper/position/recurrank/3``: suite, environment, ranker, run. Its random streams depend only on the
environment's name and the run, so that all rankers meet the same problems and users, and the result is the same in any
process, on any machine of a cluster and in any order.

A ranker is written ``name`` or ``name:option=value:option=value``, for example ``recurrank:design=spanner``. An option may be
a power of the horizon: ``toprank:delta=T^-1``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import threading
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np

from recurrank import labels, plugins
from recurrank._arrays import Features, Floats, Ints
from recurrank._sources import digest_behind
from recurrank.clicks.model import ClickModel

if TYPE_CHECKING:
    from recurrank.rankers import Ranks
    from recurrank.rankers.ranker import Ranker
    from recurrank.simulation.run import Run

POWER = re.compile(r"T\^(-?[0-9]*\.?[0-9]+)")
_ONE_AT_A_TIME = threading.Lock()


class Setting(NamedTuple):
    """The items and users of a run."""

    features: Features
    model: ClickModel


class Source(Protocol):
    """The source of an environment's problems, which also runs rankers on them; small, and unchanged by pickling."""

    @property
    def data(self) -> str:
        """A short description of the problems' data, with a fingerprint of any file."""

    @property
    def units(self) -> int | None:
        """The number of independent problems; None if each run has its own."""

    def play(self, experiment: Experiment, seed: np.random.SeedSequence) -> tuple[Ranker, Run]:
        """One run: the ranker at the end, and the results."""


class CatalogueSource:
    """A source whose runs each have one catalogue, of which every slate shows some items."""

    def setting(self, run: int, seed: np.random.SeedSequence, positions: int) -> Setting:
        """The problem of one run."""
        raise NotImplementedError

    def play(self, experiment: Experiment, seed: np.random.SeedSequence) -> tuple[Ranker, Run]:
        """One run: the ranker at the end, and the results."""
        import recurrank as rr

        environment = experiment.environment
        setting = self.setting(experiment.run, seed, environment.positions)
        with making(experiment.ranker):
            ranker = rr.rankers.make(
                experiment.ranker.partition(":")[0],
                features=setting.features,
                positions=environment.positions,
                rounds=environment.rounds,
                seed=seed,
                told={"attraction": setting.model.attraction},
                **worked_out(experiment.options, environment.rounds),
            )
        return ranker, rr.simulate(ranker, setting.model, environment.rounds, seed)


@dataclass(frozen=True)
class Synthetic(CatalogueSource):
    """The paper's synthetic problem, a new one each run, under a click model by name."""

    clicks: str
    items: int
    dim: int
    units: ClassVar[None] = None

    @property
    def data(self) -> str:
        return "synthetic"

    def setting(self, run: int, seed: np.random.SeedSequence, positions: int) -> Setting:
        import recurrank as rr

        problem = rr.synthetic(items=self.items, dim=self.dim, seed=seed)
        return Setting(problem.features, rr.clicks.make(self.clicks, problem.attraction, positions))


@dataclass(frozen=True)
class Environment:
    """Problems, a number of positions and a horizon."""

    name: str
    source: Source
    items: int
    dim: int
    positions: int
    rounds: int


@dataclass(frozen=True)
class Experiment:
    """One run of one ranker in one environment. ``options`` are the ranker's; ``ranker`` is the label that the user wrote."""

    suite: str
    environment: Environment
    ranker: str
    options: Mapping[str, Any]
    run: int
    plugins: tuple[str, ...] = ()  # the user's files that register its ranker or click model

    @property
    def id(self) -> str:
        return f"{self.suite}/{self.environment.name}/{self.ranker}/{self.run}"


class Result(NamedTuple):
    """The outcome of an experiment: a row of the results. All but the last six fields describe what was run.

    ``measures`` are further curves by name, at the same checkpoints as regret.
    """

    id: str
    environment: str
    ranker: str
    run: int
    items: int
    dim: int
    positions: int
    rounds: int
    data: str
    code: str
    checkpoints: Ints
    regret: Floats
    clicks: int
    seconds: float
    optimum: str
    measures: Mapping[str, Sequence[float]] = {}  # never changed


class Failure(NamedTuple):
    """An experiment that raised an error instead of giving a row."""

    id: str
    environment: str
    ranker: str
    run: int
    error: str  # its type and the first line of its message


def attempt(experiment: Experiment) -> Result | Failure:
    """Run one experiment; an error of the ranker or the click model becomes a :class:`Failure`."""
    try:
        return run_one(experiment)
    except Exception as error:
        return Failure(experiment.id, experiment.environment.name, experiment.ranker, experiment.run, in_a_line(error))


def in_a_line(error: Exception) -> str:
    """The type of an error and the first line of its message."""
    message = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


@contextmanager
def making(label: str) -> Iterator[None]:
    """Errors of a ranker's constructor as a ValueError of one line that names the ranker."""
    try:
        yield
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"rankers: {label!r} cannot be made ({in_a_line(error)})") from error


def run_one(experiment: Experiment) -> Result:
    """Run one experiment, on one thread, so that its result does not depend on other work of the machine."""
    for path in experiment.plugins:
        plugins.load(path)
    from threadpoolctl import threadpool_limits

    environment = experiment.environment
    seed = np.random.SeedSequence([zlib.crc32(environment.name.encode()), experiment.run])
    # threads of one process would reset each other's limits, and could not run in parallel anyway
    with _ONE_AT_A_TIME, threadpool_limits(1):
        _, played = environment.source.play(experiment, seed)
    return result_of(experiment, played)


def result_of(experiment: Experiment, played: Any) -> Result:
    """The row of an experiment from its :class:`~recurrank.simulation.run.Run`, or an object with the same attributes."""
    environment = experiment.environment
    return Result(
        id=experiment.id,
        environment=environment.name,
        ranker=experiment.ranker,
        run=experiment.run,
        items=environment.items,
        dim=environment.dim,
        positions=environment.positions,
        rounds=environment.rounds,
        data=environment.source.data,
        code=code_of(experiment),
        checkpoints=played.rounds,
        regret=played.regret,
        clicks=int(played.clicks[-1]),
        seconds=played.seconds,
        optimum=played.optimum,
        measures=getattr(played, "measures", {}),
    )


def kinds(ranker: str, source: Source) -> list[type[Any]]:
    """The classes of the ranker and click model that an experiment runs, if they are registered by name."""
    from recurrank.clicks.model import models
    from recurrank.rankers import kinds as registered

    classes = (registered().get(ranker.partition(":")[0]), models().get(getattr(source, "clicks", "").partition(":")[0]))
    return [kind for kind in classes if kind is not None]


def code_of(experiment: Experiment) -> str:
    """A fingerprint, 12 hexadecimal digits, of an experiment's sources, including the user's own, its problem and options."""
    environment = experiment.environment
    try:
        digest = hashlib.sha256(digest_behind(*kinds(experiment.ranker, environment.source)))
    except ValueError:  # a class defined interactively, whose changes cannot be detected
        return uuid.uuid4().hex[:12]
    digest.update(definition((environment, dict(experiment.options))).encode())
    return digest.hexdigest()[:12]


def definition(value: Any) -> str:
    """A text that defines a problem or an option, the same in every process, without fields that are not compared.

    A file contributes its name: ``Source.data`` has a fingerprint of its content.

    >>> definition(Synthetic("cascade", items=20, dim=3))
    "Synthetic(clicks='cascade', items=20, dim=3)"
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        named = [f"{part.name}={definition(getattr(value, part.name))}" for part in dataclasses.fields(value) if part.compare]
        return f"{type(value).__qualname__}({', '.join(named)})"
    if isinstance(value, Mapping):
        return definition([(name, value[name]) for name in sorted(value)])
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(definition, value))}]"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    if isinstance(value, Path):
        return value.name
    return repr(value) if isinstance(value, str | bytes | float | int | None) else type(value).__qualname__


def worked_out(options: Mapping[str, Any], rounds: int) -> dict[str, Any]:
    """Options with powers of the horizon computed."""
    return {name: _power(name, value, rounds) if isinstance(value, str) else value for name, value in options.items()}


def _power(name: str, value: str, rounds: int) -> Any:
    power = POWER.fullmatch(value)
    if power is None:
        return value
    try:
        return float(rounds) ** float(power[1])
    except OverflowError:
        raise ValueError(f"{name}: {value} is too large for {rounds:,} rounds; give a smaller exponent") from None


def cross(
    suite: str, environment: Environment, rankers: Mapping[str, Mapping[str, Any]], runs: int, first: int = 0
) -> list[Experiment]:
    """Every ranker ``runs`` times in one environment; ValueError for more runs than there are independent problems.

    Two runs on one split or query are not independent, and a standard error over them would be too small.
    """
    units = environment.source.units
    if units is not None and first + runs > units:
        raise ValueError(
            f"runs: {first + runs} are more than the {units} independent problems of {environment.name} "
            f"({environment.source.data}); give at most {units}"
        )
    numbers = range(first, first + runs)
    own = {label: plugins.files_of(kinds(label, environment.source)) for label in rankers}
    return [
        Experiment(suite, environment, label, options, run, own[label]) for label, options in rankers.items() for run in numbers
    ]


def parse_rankers(text: str | Iterable[str], ranks: Ranks = "catalogue") -> dict[str, dict[str, Any]]:
    """The requested rankers, with their options; ValueError for an unknown ranker or option.

    They must rank a catalogue, or what ``ranks`` says.

    >>> parse_rankers("recurrank, toprank:delta=T^-1")
    {'recurrank': {}, 'toprank:delta=T^-1': {'delta': 'T^-1'}}
    """
    from recurrank.rankers import kinds as registered

    available = registered(ranks)
    rankers: dict[str, dict[str, Any]] = {}
    for label in as_names("rankers", text):
        name, options = labels.parse(label, "rankers")
        if name not in available:
            wrong = (
                f"does not rank {'a catalogue' if ranks == 'catalogue' else ranks}" if name in registered() else "is unknown"
            )
            raise ValueError(f"rankers: {name!r} {wrong}; choose from {', '.join(sorted(available))}")
        takes = available[name].declared()
        for option in options:
            if option not in takes:
                raise ValueError(f"rankers: {label!r}: {option!r} is not an option; {name} takes {', '.join(takes) or 'none'}")
        rankers[label] = options
    return rankers


def split_names(text: str) -> list[str]:
    """Names separated by commas, each once."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def as_names(field: str, given: Any) -> list[str]:
    """Names as a list, from a list or a text with commas; ValueError for anything else, and for no name.

    >>> as_names("rankers", "recurrank, toprank")
    ['recurrank', 'toprank']
    """
    names = split_names(given) if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    for name in names:
        if not isinstance(name, str):
            own = getattr(name, "name", None)
            meant = f"its name, {own!r}" if isinstance(own, str) else "names, as text"
            raise ValueError(f"{field}: {type(name).__name__} is not a name; give {meant}")
    if not names:
        raise ValueError(f"{field}: none given; give one name or more")
    return names
