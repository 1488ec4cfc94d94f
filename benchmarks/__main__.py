"""Run the benchmarks: ``python -m benchmarks [NAME ...] [--json]``."""

from __future__ import annotations

import importlib
import json
import sys

from rich.console import Console
from rich.table import Table

NAMES = [
    "simulation",
    "requests",
    "queries",
    "design",
    "embedding",
    "rankers",
    "copies",
    "start",
    "movielens",
    "paper",
    "serving",
    "algorithms",
    "asking",
    "dashboard",
    "scale",
    "seeds",
    "logs",
    "rollout",
    "interleaving",
    "brake",
    "shadow",
    "retention",
    "servers",
    "experiment",
    "field",
]


def main(arguments: list[str]) -> None:
    chosen = [name for name in arguments if name != "--json"] or NAMES
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        sys.exit(f"benchmarks: {unknown[0]!r} is unknown; choose from {', '.join(NAMES)}")
    figures = []
    for name in chosen:
        print(f"{name} ...", file=sys.stderr)
        figures += importlib.import_module(f"benchmarks.{name}").run()
    if "--json" in arguments:
        print(json.dumps([figure._asdict() for figure in figures]))
        return
    table = Table()
    for heading in ("what", "measured", "limit", "", "detail"):
        table.add_column(heading, justify="right" if heading == "measured" else "left")
    for figure in figures:
        mark = "[green]holds[/]" if figure.holds else "[red]missed[/]"
        table.add_row(figure.name, f"{figure.value:,.2f} {figure.unit}", figure.limit, mark, figure.detail)
    Console(width=170).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
