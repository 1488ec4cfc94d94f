"""``recurrank rankers``: the algorithms that there are."""

from __future__ import annotations

import inspect
from typing import Any

import click

from recurrank.cli.shared import console, json_option, plugin_option, print_json


@click.command()
@json_option
@plugin_option
def command(as_json: bool) -> None:
    """List the ranking algorithms: paper, what feedback they believe in, regret bound and options."""
    from recurrank.rankers.ranker import registered

    rows = [_describe(ranker) for _, ranker in sorted(registered().items())]
    if as_json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table()
    for heading in ("name", "paper", "believes in", "features", "regret", "options"):
        table.add_column(heading)
    for row in rows:
        options = ", ".join(f"{name}={value}" for name, value in row["options"].items())
        table.add_row(row["name"], row["paper"], row["believes"], "yes" if row["features"] else "no", row["regret"], options)
    console().print(table)


def _describe(ranker: Any) -> dict[str, Any]:
    signature = inspect.signature(ranker.__init__)
    only = [p for p in signature.parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    options = {p.name: "required" if p.default is inspect.Parameter.empty else p.default for p in only}
    return {
        "name": ranker.name,
        "paper": ranker.reference,
        "believes": ranker.believes,
        "features": ranker.uses_features,
        "regret": ranker.regret_bound,
        "options": options,
    }
