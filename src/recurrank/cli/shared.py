"""Code shared by several commands: options that describe a problem, printing, and progress."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from recurrank import labels

F = TypeVar("F", bound=Callable[..., Any])

OWN = ("ranker", "name", "features", "positions", "rounds", "seed")
"""Names that are options of the command, not of a ranker."""


def _load_plugins(_: click.Context, __: click.Parameter, paths: tuple[str, ...]) -> None:
    if paths:
        from recurrank import plugins

        plugins.load_all(paths)


plugin_option = click.option(
    "--plugin",
    multiple=True,
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=_load_plugins,
    help="A Python file with a ranker or click model of your own; may be repeated.",
)


def options_of(function: Callable[..., Any]) -> Callable[..., Callable[[F], F]]:
    """``click.option`` for the parameters of a function, with the defaults of the function."""
    parameters = inspect.signature(function).parameters

    def option(name: str, *called: str, **described: Any) -> Callable[[F], F]:
        default = parameters[name.removeprefix("--").replace("-", "_")].default
        return click.option(name, *called, default=default, show_default=default not in (None, False), **described)

    return option


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")


def problem_options(items: int, dim: int, positions: int, rounds: int, clicks: str = "position-based") -> Callable[[F], F]:
    """The options that describe a synthetic problem, with these defaults."""

    def add(function: F) -> F:
        for option in (
            click.option("--seed", default=0, show_default=True, help="Seed of the problem, the ranker and the users."),
            click.option("--rounds", default=rounds, show_default=True, help="T, how many rounds to play."),
            click.option("--positions", default=positions, show_default=True, help="K, how many items to show."),
            click.option("--dim", default=dim, show_default=True, help="d, how many features an item has."),
            click.option("--items", default=items, show_default=True, help="L, how many items there are."),
            click.option(
                "--clicks",
                default=clicks,
                show_default=True,
                help="A click model: see `recurrank clicks`; with parameters like dependent-click:continuation=0.7.",
            ),
        ):
            function = option(function)
        return function

    return add


class Settings(NamedTuple):
    """A synthetic problem with a ranker and a click model on it."""

    problem: Any
    ranker: Any
    model: Any


def set_up(
    *, ranker: str, clicks: str, items: int, dim: int, positions: int, rounds: int, seed: int, options: dict[str, Any]
) -> Settings:
    """The problem, ranker and click model that the options describe."""
    import numpy as np

    import recurrank as rr
    from recurrank.clicks.fitted import from_file, is_file
    from recurrank.seeds import stream

    if seed < 0:
        raise ValueError(f"seed: {seed} is negative; give a whole number of at least 0")
    size = {"positions": positions, "rounds": rounds, "seed": seed}
    if is_file(clicks):
        model = from_file(clicks, stream(seed, "items"))
        problem = rr.Problem(np.eye(len(model.attraction)), model.attraction)
    else:
        problem = rr.synthetic(items=items, dim=dim, seed=seed)
        model = rr.clicks.make(clicks, problem.attraction, positions)
    learner = rr.rankers.make(ranker, features=problem.features, **size, told={"attraction": problem.attraction}, **options)
    return Settings(problem, learner, model)


def parse_options(pairs: tuple[str, ...]) -> dict[str, Any]:
    """``name=value`` pairs as keyword arguments, with numbers parsed."""
    options = labels.options(pairs, "--option")
    for name in options:
        if name in OWN:
            raise ValueError(f"--option: {name} is not an option of the ranker; give --{name} instead")
    return options


def output_path(path: Path, endings: tuple[str, ...]) -> Path:
    """The path of a file to write, checked: one of these endings, in an existing folder."""
    if path.suffix.lower() not in endings:
        raise ValueError(f"{path}: ends in {path.suffix or 'nothing'}; give a name that ends in {' or '.join(endings)}")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{path}: its folder does not exist; make it first")
    return path


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, allow_nan=False))


def console() -> Console:
    """Standard output, as wide as the terminal, or wide enough for tables if it is not a terminal."""
    return Console() if sys.stdout.isatty() else Console(width=160, soft_wrap=True)


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Callable[..., None]]:
    """A bar on standard error if that is a terminal; the yielded function sets how much is done, and may retitle it."""
    times = (TimeElapsedColumn(), TextColumn("so far,"), TimeRemainingColumn(), TextColumn("left"))
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), *times)
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done, title=None: bar.update(task, completed=done, description=title)
