"""Write the table of assumptions into docs/clicks.md: ``python docs/make_tables.py``. A test checks that it is up to date."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from recurrank import clicks
from recurrank.clicks.assumptions import check

PAGE = Path(__file__).parent / "clicks.md"
BEGIN, END = "<!-- assumptions: begin -->", "<!-- assumptions: end -->"
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


def table() -> str:
    """The table, from checks of every ranking of 3 out of 5 items."""
    lines = [
        "| model | parameters | 1: set above only | 2: decreasing | 3: least at A* | A* has most clicks |",
        "|---|---|---|---|---|---|",
    ]
    for name, parameters, model in cases():
        marks = ["yes" if finding.holds else "**no**" for finding in check(model, 3)]
        lines.append(f"| {name} | {parameters} | {' | '.join(marks)} |")
    return "\n".join(lines)


def page_with_table(text: str) -> str:
    """The page's text with the table as it should be."""
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
