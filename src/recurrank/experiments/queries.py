"""Experiments with rankers of documents on judged queries (LETOR files), under simulated users."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from recurrank import labels
from recurrank._arrays import as_count
from recurrank.clicks.optimum import FOUND
from recurrank.experiments.experiment import Environment, Experiment, Result, making, split_names, worked_out
from recurrank.experiments.figures import draw_curves, pretty
from recurrank.experiments.report import Report, booktabs, number, write_report, write_text
from recurrank.experiments.suite import RequestsSuite
from recurrank.experiments.summary import curves, grouped, standard_error
from recurrank.queries.dataset import Queries, fingerprint, read
from recurrank.queries.simulation import simulate
from recurrank.queries.users import Users, make_users
from recurrank.rankers import Ranks, kinds
from recurrank.rankers.ranker import Ranker

RANKERS = "pdgd,pairrank,anchored,dbgd,mgd,pmgd"
USERS = "perfect,navigational,informational"
POSITIONS = 10
LARGE = 1 << 28
"""Bytes from which a file is converted to a map (a quarter of that for a compressed file)."""


class Played(NamedTuple):
    """The results of a run that experiments keep."""

    rounds: Any
    regret: Any
    clicks: Any
    seconds: float
    optimum: str
    measures: Mapping[str, list[float]]


@dataclass(frozen=True)
class QuerySource:
    """Files of judged queries, and users by name.

    Attributes:
        train: the file whose queries are asked.
        test: the file that NDCG is measured on.
        users: the users who ask, like ``navigational`` or ``navigational:leave=always``.
        maps: a folder for the maps of large files; if empty, maps are beside the files.
        prints: fingerprints of both files, which identify their content in any folder.
        top: the highest label of both, on which users' clicks depend.

    """

    train: str = field(compare=False)
    test: str = field(compare=False)
    users: str
    maps: str = field(compare=False)
    prints: str
    top: int
    units: ClassVar[None] = None

    @property
    def data(self) -> str:
        return f"{Path(self.train).name}, {Path(self.test).name} ({self.prints}), labels 0 to {self.top}"

    def play(self, experiment: Experiment, seed: np.random.SeedSequence) -> tuple[Ranker, Any]:
        """One run: the ranker at the end, and the results."""
        train, test = loaded(self.train, self.test, self.maps, self.prints)
        environment = experiment.environment
        kind: Any = kinds("queries")[experiment.ranker.partition(":")[0]]
        size = {"dim": train.dim, "positions": environment.positions, "rounds": environment.rounds}
        with making(experiment.ranker):
            ranker = kind(seed=seed, **size, **worked_out(experiment.options, environment.rounds))
        users = parse_users(self.users, self.top, environment.positions)
        run = simulate(ranker, train, users, environment.rounds, seed, test=test)
        measures = {"ndcg": run.ndcg.tolist(), "online": run.online.tolist()}
        return ranker, Played(run.rounds, run.regret, run.clicks, run.seconds, FOUND, measures)


@functools.lru_cache(maxsize=1)
def loaded(train: str, test: str, maps: str, prints: str) -> tuple[Queries, Queries]:
    """Both files, as wide as the wider one; cached until other files are opened (``prints`` identifies them)."""
    first = open_file(train, maps)
    second = first if test == train else open_file(test, maps)
    dim = max(first.dim, second.dim)
    return first.widened(dim), second.widened(dim)


def open_file(path: str, maps: str = "") -> Queries:
    """A file in memory, or as a map if it is large: beside it, or in the folder ``maps``."""
    file = Path(path)
    size = file.stat().st_size if file.is_file() else 0
    large = size > (LARGE // 4 if file.suffix == ".gz" else LARGE)
    folder = Path(maps) / f"{file.name}-{fingerprint(file)}.map" if maps else file.parent / f"{file.name}.map"
    return read(file, folder if large or maps else None)


def parse_users(label: str, top: int, positions: int) -> Users:
    """Users from a label, with the options ``leave`` and ``top``, the highest label of their collection."""
    name, options = labels.parse(label, "users")
    for option in options:
        if option not in ("leave", "top"):
            raise ValueError(f"users: {label!r}: {option!r} is not an option; users take leave=always and top=LABEL")
    highest = as_count("top", options.pop("top", top), least=top)
    return make_users(name, highest, positions, **options)


class QueryRow(NamedTuple):
    """The results of a ranker with one kind of users: means over the runs and their standard errors."""

    ranker: str
    users: str
    ndcg_mean: float
    ndcg_se: float | None
    online_mean: float
    seconds_mean: float
    online_se: float | None
    lost_mean: float
    lost_se: float | None
    impressions: int
    runs: int

    def cells(self) -> list[str]:
        """The numbers for display, the seconds last."""
        shown = [number(self.ndcg_mean, 4), number(self.ndcg_se, 4), number(self.online_mean, 1), number(self.online_se, 1)]
        return [*shown, number(self.lost_mean, 0), number(self.lost_se, 0), number(self.seconds_mean, 2)]


def query_rows(results: Iterable[Result]) -> list[QueryRow]:
    """One row per users and ranker."""
    rows = []
    for (environment, ranker), group in grouped(results).items():
        ndcg, online = (np.array([result.measures[name][-1] for result in group]) for name in ("ndcg", "online"))
        lost = np.array([result.regret[-1] for result in group])
        seconds = float(np.mean([result.seconds for result in group]))
        rows.append(
            QueryRow(
                ranker, environment, float(ndcg.mean()), standard_error(ndcg), float(online.mean()), seconds,
                standard_error(online), float(lost.mean()), standard_error(lost), group[0].rounds, len(group),
            )
        )  # fmt: skip
    return rows


class QuerySuite(RequestsSuite):
    """A suite of rankers on queries; its report has curves of NDCG as well as of clicks lost."""

    ranks: ClassVar[Ranks] = "queries"

    def write(self, folder: Path, results: list[Result], report: Report) -> None:
        """Write the usual report on clicks lost, with NDCG in words, and figures and a table of NDCG beside it."""
        remarks: dict[str, str] = {}
        for row in query_rows(results):
            remark = f"{pretty(row.ranker)}: NDCG@{POSITIONS} {row.ndcg_mean:.4f} (s.e. {number(row.ndcg_se, 4)})"
            remark += f", online {row.online_mean:.1f} ({number(row.online_se, 1)})"
            remarks[row.users] = "\n".join(filter(None, [remarks.get(row.users, ""), remark]))
        names = [f"{name}.{kind}" for name in ("ndcg", "online") for kind in ("png", "pdf")]
        write_report(folder, results, replace(report, remarks=remarks, files=(*names, "ndcg.tex")))
        for name, label in (("ndcg", f"NDCG@{POSITIONS}"), ("online", "discounted online NDCG")):
            drawn = curves([result._replace(regret=np.array(result.measures[name])) for result in results])
            draw_curves(drawn, folder / f"{name}.png", folder / f"{name}.pdf", label=label)
        write_text(folder / "ndcg.tex", ndcg_table(query_rows(results)))


def ndcg_table(rows: list[QueryRow]) -> str:
    """A table for a paper (booktabs)."""
    heads = ["users", "ranker", "NDCG", "s.e.", "online", "s.e.", "clicks lost", "s.e."]
    return booktabs(heads, [[row.users, pretty(row.ranker), *row.cells()[:-1]] for row in rows])


def suite(
    train: str | Path,
    test: str | Path | None = None,
    rankers: str = RANKERS,
    users: str = USERS,
    impressions: int = 10_000,
    runs: int = 5,
    seed: int = 0,
    maps: str | Path | None = None,
) -> QuerySuite:
    """Rankers on the queries of a LETOR file, NDCG measured on those of another.

    Args:
        train: the file whose queries are asked.
        test: the file that NDCG is measured on; by default ``train``.
        rankers: names with options, like ``pdgd:learning_rate=0.05``, separated by commas.
        users: names separated by commas: ``perfect``, ``navigational``, ``informational``, ``position``.
        impressions: the number of queries asked in each run.
        runs: runs of each ranker with each kind of users.
        seed: the number of the first run; the next ones count up.
        maps: a folder for the maps of the files; by default large files have theirs beside them.

    """
    paths = [Path(path) for path in (train, train if test is None else test)]
    for path in paths:
        if not path.is_file():
            raise ValueError(f"{path}: no such file; give a LETOR file")
    train_path, test_path = (str(path.absolute()) for path in paths)
    folder, prints = "" if maps is None else str(Path(maps).absolute()), " ".join(map(fingerprint, paths))
    asked, judged = loaded(train_path, test_path, folder, prints)
    rounds, environments, top = as_count("impressions", impressions), [], max(asked.top, judged.top)
    for label in split_names(users) or [users]:
        parse_users(label, top, POSITIONS)
        source = QuerySource(train_path, test_path, label, folder, prints, top)
        environments.append(Environment(label, source, asked.most, asked.dim, POSITIONS, rounds))
    lead = f"Simulated users ask the queries of {paths[0].name}; NDCG is measured on those of {paths[1].name}."
    return QuerySuite(environments, rankers, Report("Queries and documents", lead), runs=runs, first=seed, name="queries")
