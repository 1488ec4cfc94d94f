"""The benchmark of the field: every registered ranker on every kind of problem, in one call.

A *family* is a suite whose rankers meet the same kind of problem:

| family | problems | rankers |
|---|---|---|
| ``paper`` | the paper's three | all that rank a catalogue |
| ``robustness`` | the robustness suite | the same |
| ``queries`` | ten documents without features, under click models fitted to a log, or with textbook parameters | the same |
| ``requests`` | the requests suite | those that take requests |
| ``documents`` | LETOR files, if they are given | those that take queries |

Each family has a folder with its rows, so that a stopped benchmark can continue, and a report with curves. A user's own
ranker takes part once it is registered.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from recurrank._arrays import as_count
from recurrank.experiments import paper, queries, requests, robustness, yandex
from recurrank.experiments.comparison import Comparison
from recurrank.experiments.experiment import CatalogueSource, Environment, Result, Setting, split_names
from recurrank.experiments.figures import pretty
from recurrank.experiments.ranks import Ranks, draw_ranks, mean_ranks
from recurrank.experiments.report import Report, number, write_text
from recurrank.experiments.suite import Suite
from recurrank.experiments.summary import standard_error
from recurrank.rankers import kinds, names
from recurrank.rankers.contextual import BASELINES
from recurrank.seeds import stream

FAMILIES = ("paper", "robustness", "queries", "requests", "documents")
LEFT_OUT = ("oracle",)
"""Rankers that are not compared: the oracle is told the truth, and loses nothing."""
PRESETS = {"PBM": "position-based", "CM": "cascade", "DCM": "dependent-click", "DBN": "dynamic-bayesian"}
PRESETS |= {"CCM": "click-chain", "UBM": "user-browsing"}
QUICK_ROUNDS = 1000
IMPRESSIONS = 10_000
"""Impressions of a run with documents."""
QUICK = {
    "robustness": "orthogonal,leader,chain-dependent",
    "queries": "PBM,CM,DBN",
    "requests": "position,cascade",
}
"""Environments of the quick benchmark; families that are missing here run all of theirs."""


class Family(NamedTuple):
    """Rankers on one kind of problem."""

    name: str
    title: str
    suite: Suite


class FieldRow(NamedTuple):
    """A ranker within a family. A ranker that raised an error has no numbers.

    Attributes:
        lost_mean: clicks lost per 1,000 rounds, mean over environments and runs; in ``documents``, 100 (1 - NDCG@10).
        lost_se: its standard error over the runs.
        rank: the mean rank over all problems, 1 for the best.
        seconds: seconds of a run, mean over environments.
        rounds_per_second: over all runs.
        failed: its first failed run, and the error; None if every run has finished.

    """

    family: str
    ranker: str
    lost_mean: float | None
    lost_se: float | None
    rank: float | None
    seconds: float | None
    rounds_per_second: float | None
    failed: str | None = None

    def cells(self) -> tuple[str, ...]:
        """The cells of a table after the ranker's name."""
        lost = (number(self.lost_mean), number(self.lost_se))
        forms = ((self.rank, ".2f"), (self.seconds, ".2f"), (self.rounds_per_second, ",.0f"))
        return *lost, *("" if value is None else format(value, form) for value, form in forms)


@dataclass(frozen=True)
class Presets(CatalogueSource):
    """Ten documents without features, under a click model with textbook parameters; new attractions each run."""

    clicks: str
    units: ClassVar[None] = None

    @property
    def data(self) -> str:
        return "synthetic"

    def setting(self, run: int, seed: np.random.SeedSequence, positions: int) -> Setting:
        import recurrank as rr

        attraction = stream(seed, "problem").uniform(0.02, 0.6, yandex.ITEMS)
        return Setting(np.eye(yandex.ITEMS), rr.clicks.make(self.clicks, attraction, positions))


def families(
    quick: bool = False,
    families: str | None = None,
    rankers: str | None = None,
    runs: int | None = None,
    rounds: int | None = None,
    log: str | Path | None = None,
    train: str | Path | None = None,
    test: str | Path | None = None,
) -> list[Family]:
    """The suites that the benchmark runs.

    Args:
        quick: few and short runs, to check that everything works.
        families: which, separated by commas; by default all.
        rankers: which, separated by commas; by default all. Each runs in the families that it can take part in.
        runs: of each ranker in each environment; by default 5, and 2 in the quick benchmark.
        rounds: the most rounds (impressions) of a run; by default as many as each problem has, 1,000 in the quick benchmark.
        log: a log that click models are fitted to, or a ``.json`` file of fitted ones.
        train: a LETOR file, for the family ``documents``.
        test: the LETOR file that NDCG is measured on.

    Raises ValueError, in one line, for a family or ranker that does not exist.

    """
    wanted = list(FAMILIES) if families is None else split_names(families)
    for name in wanted:
        if name not in FAMILIES:
            raise ValueError(f"families: {name!r} is unknown; choose from {', '.join(FAMILIES)}")
    if test is not None and train is None:
        raise ValueError("test: train is not given; give both LETOR files, or none")
    count = (2 if quick else 5) if runs is None else as_count("runs", runs)
    most = (QUICK_ROUNDS if quick else None) if rounds is None else as_count("rounds", rounds)
    requested = None if rankers is None else split_names(rankers)
    _check_names(requested)
    chosen: list[Family] = []
    for name in wanted:
        labels = candidates(name) if requested is None else _of(requested, name)
        if labels and (name != "documents" or train is not None):
            family = _FAMILY[name](labels, count, quick, log=log, train=train, test=test, rounds=most)
            chosen.append(family._replace(suite=_shortened(family.suite, most)))
    if not chosen:
        raise ValueError("families: nothing to run; choose families that these rankers take part in")
    return chosen


def candidates(family: str) -> list[str]:
    """The names of the rankers that run in a family by default."""
    left_out = {"requests": ["told"], "documents": list(BASELINES)}.get(family, LEFT_OUT)
    return [name for name in takers(family) if name not in left_out]


def takers(family: str) -> list[str]:
    """Every ranker that can take part in a family, by name."""
    if family in ("requests", "documents"):
        return list(kinds("requests" if family == "requests" else "queries"))
    return names()


def _of(requested: list[str], family: str) -> list[str]:
    return [label for label in requested if label.partition(":")[0] in takers(family)]


def _check_names(requested: list[str] | None) -> None:
    everything = sorted({name for family in FAMILIES for name in takers(family)})
    for label in requested or ():
        if label.partition(":")[0] not in everything:
            raise ValueError(f"rankers: {label!r} is unknown; choose from {', '.join(everything)}")


def _paper(labels: list[str], runs: int, quick: bool, **_: Any) -> Family:
    suite = paper.suite(rankers=",".join(labels), runs=runs)
    return Family("paper", "The paper's three problems", suite)


def _robustness(labels: list[str], runs: int, quick: bool, **_: Any) -> Family:
    suite = robustness.suite(",".join(labels), QUICK["robustness"] if quick else None, runs)
    return Family("robustness", "The robustness suite", suite)


def _queries(labels: list[str], runs: int, quick: bool, log: str | Path | None = None, **_: Any) -> Family:
    environments = fitted(Path(log)) if log is not None else _presets()
    wanted = [name for name in environments if not quick or log is not None or name in split_names(QUICK["queries"])]
    title = f"Queries of {Path(log).name}" if log is not None else "Queries without features, textbook click models"
    units = [environments[name].source.units for name in wanted]
    most = min([runs, *(unit for unit in units if unit is not None)])
    suite = Suite([environments[name] for name in wanted], labels, Report(title, ""), runs=most, name="field-queries")
    return Family("queries", title, suite)


def _requests(labels: list[str], runs: int, quick: bool, **_: Any) -> Family:
    suite = requests.suite(",".join(labels), QUICK["requests"] if quick else None, runs)
    return Family("requests", "Every visitor's own candidates", suite)


def _documents(labels: list[str], runs: int, quick: bool, *, train: Any, test: Any, rounds: int | None, **_: Any) -> Family:
    users, impressions = "perfect" if quick else queries.USERS, min(IMPRESSIONS, rounds or IMPRESSIONS)
    suite = queries.suite(train, test, ",".join(labels), users, impressions, runs)
    return Family("documents", "Documents of judged queries", suite)


_FAMILY: dict[str, Callable[..., Family]] = {
    "paper": _paper,
    "robustness": _robustness,
    "queries": _queries,
    "requests": _requests,
    "documents": _documents,
}


def _presets() -> dict[str, Environment]:
    return {
        name: Environment(name, Presets(clicks), yandex.ITEMS, yandex.ITEMS, yandex.POSITIONS, yandex.ROUNDS)
        for name, clicks in PRESETS.items()
    }


def fitted(path: Path) -> dict[str, Environment]:
    """Environments of click models: those in a ``.json`` file, or fitted to a log now."""
    if path.suffix == ".json":
        return yandex.environments(path)
    import tempfile

    from recurrank.logs.fit.report import fit

    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "fitted.json"
        fit(path).save(models)
        return yandex.environments(models)


def _shortened(suite: Suite, most: int | None) -> Suite:
    if most is not None:
        short = [
            replace(run, environment=replace(run.environment, rounds=min(most, run.environment.rounds)))
            for run in suite.experiments
        ]
        object.__setattr__(suite, "experiments", short)
    return suite


def losses(family: str, results: Iterable[Result]) -> dict[tuple[str, int, str], float]:
    """The loss of each ranker, by environment, run and ranker."""
    if family == "documents":
        return {(row.environment, row.run, row.ranker): 100 * (1 - row.measures["ndcg"][-1]) for row in results}
    return {(row.environment, row.run, row.ranker): 1000 * float(row.regret[-1]) / row.rounds for row in results}


def finished(found: Comparison) -> list[Result]:
    """The rows of rankers without failures: ranks need all rankers on all problems."""
    broken = {failure.ranker for failure in found.failures}
    return [row for row in found.results if row.ranker not in broken]


def ranks_of(family: str, results: list[Result]) -> Ranks:
    """Mean ranks over all problems: runs of an environment, or their means if all runs have the same documents."""
    lost: dict[tuple[str, int, str], list[float]] = {}
    for (environment, run, name), loss in losses(family, results).items():
        lost.setdefault((environment, 0 if family == "documents" else run, name), []).append(loss)
    names, blocks = list(dict.fromkeys(key[2] for key in lost)), list(dict.fromkeys(key[:2] for key in lost))
    return mean_ranks(names, [[float(np.mean(lost[(*block, name)])) for name in names] for block in blocks])


def field_rows(family: str, found: Comparison) -> list[FieldRow]:
    """One row per ranker, the best mean rank first, those that failed last."""
    results, rows = finished(found), []
    ranked = ranks_of(family, results) if results else Ranks([], np.zeros(0), np.inf, np.nan, 0)
    lost = losses(family, results)
    for name, rank in zip(ranked.names, ranked.ranks, strict=True):
        own = [row for row in results if row.ranker == name]
        by_run = [
            float(np.mean([lost[row.environment, row.run, name] for row in own if row.run == run]))
            for run in sorted({row.run for row in own})
        ]
        seconds, rounds = sum(row.seconds for row in own), sum(row.rounds for row in own)
        speed = rounds / max(seconds, 1e-9)
        error = standard_error(np.array(by_run))
        rows.append(FieldRow(family, name, float(np.mean(by_run)), error, float(rank), seconds / len(own), speed))
    first = {failure.ranker: failure for failure in reversed(found.failures)}
    lines = {name: f"{failure.environment}, run {failure.run}: {failure.error}" for name, failure in sorted(first.items())}
    return rows + [FieldRow(family, name, None, None, None, None, None, line) for name, line in lines.items()]


def lost_heading(family: str) -> str:
    """The heading of a family's losses."""
    return "100 (1 - NDCG@10)" if family == "documents" else "clicks lost per 1,000 rounds"


def write_field(out: Path, found: dict[str, Comparison], titles: dict[str, str], command: str = "") -> None:
    """The page over all families: tables, critical-difference diagrams, and links to the families' reports."""
    sections = [_section(out, name, titles[name], comparison) for name, comparison in found.items()]
    style = "body{font:15px/1.5 system-ui;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    style += "td{text-align:right}th,td.failed{text-align:left}td,th{padding:.15rem .7rem}"
    page = f"<!doctype html><html lang=en><meta charset=utf-8><title>The field</title><style>{style}</style><h1>The field</h1>"
    page += f"<p><code>{html.escape(command)}</code></p>" if command else ""
    write_text(out / "field.html", page + "".join(sections) + "</html>\n")


def _section(out: Path, name: str, title: str, comparison: Comparison) -> str:
    heads = ("ranker", lost_heading(name), "s.e.", "mean rank", "seconds per run", "rounds per second")
    lines = [f"<h2 id={name}>{html.escape(title)}</h2><table><tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>"]
    for row in field_rows(name, comparison):
        cells = "".join(f"<td>{cell}</td>" for cell in row.cells())
        if row.failed is not None:
            cells = f"<td class=failed colspan=5>failed: {html.escape(row.failed)}</td>"
        lines.append(f"<tr><th scope=row>{html.escape(pretty(row.ranker))}</th>{cells}</tr>")
    lines.append("</table>")
    if results := finished(comparison):
        ranked = ranks_of(name, results)
        draw_ranks(ranked, out / f"ranks-{name}.png", out / f"ranks-{name}.pdf")
        test = "" if np.isnan(ranked.p) else f" Friedman's test that all are alike: p = {ranked.p:.2g}."
        lines.append(
            f'<p>{ranked.blocks} problems.{test} <a href="{name}/report.html">Curves and every environment</a></p>'
            f'<img src="ranks-{name}.png" alt="Critical-difference diagram, {name}" width=760>'
        )
    return "".join(lines)
