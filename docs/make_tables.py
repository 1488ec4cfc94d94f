"""Write the documentation's tables: ``python docs/make_tables.py [REPORT]``. Tests check that they are up to date.

The table of assumptions comes from checks made now. With REPORT, a folder that ``recurrank paper --out`` has filled, the
results in README.md and docs/evaluation.md and the picture of the curves come from there, by way of docs/results.json.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np

from recurrank import clicks, rankers
from recurrank.clicks.assumptions import check
from recurrank.experiments import paper
from recurrank.experiments.figures import pretty
from recurrank.experiments.report import number
from recurrank.experiments.results import read_results
from recurrank.experiments.summary import summary
from recurrank.rankers.options import REQUIRED

DOCS = Path(__file__).parent
ALPHA = np.array([0.9, 0.7, 0.5, 0.3, 0.1])


def cases() -> list[tuple[str, str, clicks.ClickModel]]:
    """Each model with the parameters that decide."""
    opposite = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    return [
        ("document-based", "", clicks.DocumentBased(ALPHA)),
        ("position-based", "examination falls: 1, 1/2, 1/3", clicks.PositionBased(ALPHA, [1, 1 / 2, 1 / 3])),
        ("position-based", "examination rises: 1/2, 1, 1/3", clicks.PositionBased(ALPHA, [1 / 2, 1, 1 / 3])),
        ("cascade", "", clicks.Cascade(ALPHA)),
        ("dependent click", "continuation 0.6 everywhere", clicks.DependentClick(ALPHA, [0.6, 0.6, 0.6])),
        ("dependent click", "continuation 0.9, 0.5, 0.1", clicks.DependentClick(ALPHA, [0.9, 0.5, 0.1])),
        ("user browsing", "the default matrix", clicks.make("user-browsing", ALPHA, 3)),
        ("dynamic Bayesian", "satisfaction 0.5 everywhere", clicks.DynamicBayesian(ALPHA, np.full(5, 0.5), 0.9)),
        ("dynamic Bayesian", "the attractive satisfy least", clicks.DynamicBayesian(ALPHA, opposite, 0.9)),
        ("click chain", "alpha = 0.95, 0.6, 0.3", clicks.ClickChain(ALPHA, 0.95, 0.6, 0.3)),
        ("click chain", "alpha = 0.5, 0.9, 0.9", clicks.ClickChain(ALPHA, 0.5, 0.9, 0.9)),
    ]


def assumptions_table() -> str:
    """From checks of every ranking of 3 out of 5 items."""
    lines = [
        "| model | parameters | 1: set above only | 2: decreasing | 3: least at A* | A* has most clicks |",
        "|---|---|---|---|---|---|",
    ]
    for name, parameters, model in cases():
        marks = ["yes" if finding.holds else "**no**" for finding in check(model, 3)]
        lines.append(f"| {name} | {parameters} | {' | '.join(marks)} |")
    return "\n".join(lines)


def results_table() -> str:
    """The paper's evaluation, as it was last measured."""
    rows: list[dict[str, Any]] = json.loads((DOCS / "results.json").read_text(encoding="utf-8"))
    lines = [
        f"| {rows[0]['runs']} runs, mean ± standard error | ranker | regret | paper's regret | seconds | paper's seconds |",
        "|---|---|---:|---:|---:|---:|",
    ]
    last = None
    for row in rows:
        name = f"{row['environment']}, {row['rounds']:,} rounds" if row["environment"] != last else ""
        regret = f"{number(row['regret_mean'])} ± {number(row['regret_se'])}"
        paper_regret, paper_seconds = number(row["paper_regret"]), number(row["paper_seconds"])
        cells = [name, pretty(row["ranker"]), regret, paper_regret, f"{row['seconds_mean']:.2f}", paper_seconds]
        lines.append(f"| {' | '.join(cells)} |")
        last = row["environment"]
    return "\n".join(lines)


def options_table() -> str:
    """From the declarations of all rankers."""
    lines = ["| ranker | option | default | give | what it is |", "|---|---|---|---|---|"]
    for name in rankers.names("catalogue"):
        for option in rankers.registered()[name].declared().values():
            default = "required" if option.default is REQUIRED else "" if option.default is None else f"`{option.default}`"
            cells = [f"`{name}`", f"`{option.name}`", default, option.wanted.replace("'", "`"), option.help.replace("|", r"\|")]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


PAGES = {
    DOCS / "rankers.md": ("options", options_table),
    DOCS / "clicks.md": ("assumptions", assumptions_table),
    DOCS / "evaluation.md": ("results", results_table),
    DOCS.parent / "README.md": ("results", results_table),
}


def with_table(page: Path) -> str:
    """A page's text with its table as it should be."""
    name, table = PAGES[page]
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, rest = page.read_text(encoding="utf-8").split(begin)
    _, tail = rest.split(end)
    return f"{head}{begin}\n{table()}\n{end}{tail}"


def take_results(report: Path) -> None:
    """Keep the summary of a report, and its picture."""
    rows, _ = read_results(report / "results.parquet")
    lines = [json.dumps(row._asdict()) for row in summary(rows, paper.published())]
    (DOCS / "results.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")
    shutil.copyfile(report / "regret.png", DOCS / "img" / "regret.png")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        take_results(Path(sys.argv[1]))
    for page in PAGES:
        page.write_text(with_table(page), encoding="utf-8")
