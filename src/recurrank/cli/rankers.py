"""``recurrank rankers``: list the ranking algorithms."""

from __future__ import annotations

from typing import Any, get_args

import click

from recurrank.cli.shared import console, json_option, plugin_option, print_json


@click.command()
@json_option
@plugin_option
def command(as_json: bool) -> None:
    """List the ranking algorithms: what they rank, paper, what feedback they believe in, regret bound and options."""
    from recurrank.rankers import kinds

    rankers = sorted(kinds().items())
    rows = [_describe(ranker) for _, ranker in rankers]
    if as_json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table()
    for heading in ("name", "ranks", "paper", "believes in", "features", "regret", "options"):
        table.add_column(heading)
    for row in rows:
        options = ", ".join(f"{name}={value}" for name, value in row["options"].items())
        cells = (row["name"], ", ".join(row["ranks"]), row["paper"], row["believes"], "yes" if row["features"] else "no")
        table.add_row(*cells, row["regret"], options)
    console().print(table)
    table = Table(title="options")
    for heading in ("ranker", "option", "default", "give", "what it is"):
        table.add_column(heading)
    for name, ranker in rankers:
        for option in ranker.declared().values():
            table.add_row(name, option.name, str(default_of(option)), option.wanted, option.help)
    console().print(table)


def default_of(option: Any) -> Any:
    """The default, as text."""
    from recurrank.rankers.options import REQUIRED

    return "required" if option.default is REQUIRED else option.default


def _describe(ranker: Any) -> dict[str, Any]:
    from recurrank.rankers import Ranks, kinds

    options = {name: default_of(option) for name, option in ranker.declared().items()}
    return {
        "name": ranker.name,
        "ranks": [ranks for ranks in get_args(Ranks) if ranker.name in kinds(ranks)],
        "paper": ranker.reference,
        "believes": ranker.believes,
        "features": ranker.uses_features,
        "regret": ranker.regret_bound,
        "options": options,
        "schema": ranker.options_schema(),
    }
