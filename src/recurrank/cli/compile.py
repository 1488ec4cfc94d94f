"""``recurrank compile``: compile rankers beforehand."""

from __future__ import annotations

import click

from recurrank.cli.shared import progress_bar


@click.command()
@click.option("--rankers", default="", help="Names, with commas between them; all that can be served by default.")
def command(rankers: str) -> None:
    """Compile what `recurrank serve` needs, so that it starts in seconds. Run it once after installing or updating.

    Machine code is kept beside the package where that can be written, else in the home folder; set NUMBA_CACHE_DIR for another
    one, the same for this command and for the server.
    """
    from recurrank.serving.warm import warm

    names = [name.strip() for name in rankers.split(",") if name.strip()]
    seconds = 0.0
    with progress_bar("compiling", max(len(names), 1)) as show:
        for done, (name, took) in enumerate(warm(names), start=1):
            seconds += took
            show(done, name)
            click.echo(f"{name}: {took:.1f} s")
    click.echo(f"compiled in {seconds:.1f} s")
