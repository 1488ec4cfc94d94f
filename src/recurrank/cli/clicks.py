"""``recurrank clicks``: list the click models."""

from __future__ import annotations

from typing import Any

import click

from recurrank.cli.shared import console, json_option, plugin_option, print_json


@click.command()
@json_option
@plugin_option
def command(as_json: bool) -> None:
    """List the click models: paper, parameters, and which of the paper's assumptions they satisfy (checked now)."""
    from recurrank.clicks.model import models
    from recurrank.clicks.presets import names

    rows = [_describe(models()[name]) for name in [*names(), "factored"]]
    if as_json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table(
        caption="1, 2, 3: the paper's assumptions; max: equation (maximizer). Checked on 5 items with the default parameters; "
        "-: depends on the model's function."
    )
    for heading in ("name", "what it says", "1", "2", "3", "max"):
        table.add_column(heading, no_wrap=heading != "what it says")
    for row in rows:
        marks = [_mark(row["holds"].get(key)) for key in ("1", "2", "3", "max")]
        says = f"{row['describes']}\n{row['paper']}"
        table.add_row(row["name"], "\nparameters: ".join([says, *filter(None, [", ".join(row["parameters"])])]), *marks)
        table.add_section()
    console().print(table)


def _describe(model: Any) -> dict[str, Any]:
    from recurrank.clicks.assumptions import check
    from recurrank.clicks.presets import make, names

    holds: dict[str, bool] = {}
    if model.name in names():  # a factored model depends on its function
        try:
            preset = make(model.name, [0.9, 0.7, 0.5, 0.3, 0.1], positions=3)
        except ValueError:  # a user's model without defaults
            return {}
        report = check(preset, positions=3)
        holds = {key: finding.holds for key, finding in zip(("1", "2", "3", "max"), report, strict=True)}
    return {
        "name": model.name,
        "paper": model.reference,
        "describes": model.describes,
        "parameters": model.parameters(),
        "holds": holds,
    }


def _mark(holds: bool | None) -> str:
    return "-" if holds is None else "yes" if holds else "no"
