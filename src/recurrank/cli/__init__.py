"""The command ``recurrank``: one module per command, imported when the command is called.

``recurrank --help`` therefore needs neither numba nor matplotlib.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from recurrank import __version__

COMMANDS = {
    "paper": "Repeat the paper's experiments, its numbers beside ours.",
    "compare": "Several rankers on one problem, your own or a synthetic one.",
    "suite": "Rankers in environments that are hard in different ways.",
    "field": "Every ranker on every kind of problem: the benchmark of the field.",
    "simulate": "One ranker against simulated users: regret and clicks.",
    "trace": "Draw how RecurRank split its positions (the paper's Figure 1).",
    "movielens": "Features and theta from your copy of MovieLens.",
    "yandex": "Rankers on click models fitted to real queries.",
    "queries": "Rankers of documents on judged queries (LETOR files).",
    "fit": "Click models fitted to a log, and which explains it best.",
    "evaluate": "What another ranking would have earned on a log.",
    "design": "Where to explore a catalogue: its G-optimal design.",
    "serve": "Rank and learn over HTTP.",
    "keys": "Create, list and revoke a server's API keys.",
    "log": "The log of a service: verify, replay, refold, export.",
    "backup": "A copy of a service's store while it runs.",
    "restore": "A store from a backup, as it was then or earlier.",
    "erase": "Remove what names a visitor from log, archive, exports.",
    "doctor": "Check what a server needs: store, keys, disk, clock.",
    "compile": "Compile rankers beforehand, at installation.",
    "rankers": "List the ranking algorithms.",
    "clicks": "List the click models.",
}
"""Every command with its line of help; its module has the rest."""


EXTRAS = {"serve": ("msgspec", "prometheus_client", "structlog", "uvicorn"), "client": ("httpx",)}
"""Modules that a command may lack, by the extra that installs them."""


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"recurrank.cli.{name}").command
        command.name, command.short_help = name, COMMANDS[name]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=_Lazy, invoke_without_command=False, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="recurrank")
def group() -> None:
    """Learn the best ranking of a large catalogue from clicks, without trusting one click model."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command; bad input is one line on standard error and exit code 2.

    Without ``arguments`` they are those of the process, which then is the command's own: ``obj`` of the context says so.
    """
    try:
        status: Any = group.main(args=arguments, prog_name="recurrank", standalone_mode=False, obj=arguments is None)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else error.format_message())
        status = 0
    except click.ClickException as error:
        _complain(error.format_message())
        status = 2
    except ModuleNotFoundError as error:
        extra = next((extra for extra, modules in EXTRAS.items() if error.name in modules), None)
        if extra is None:
            raise
        _complain(f"{error.name} is not installed; this command needs pip install 'recurrank[{extra}]'")
        status = 2
    except (ValueError, OSError, MemoryError) as error:
        _complain(str(error) or "out of memory; make the problem smaller")
        status = 2
    except (KeyboardInterrupt, click.Abort):
        _complain("stopped")
        status = 130
    except Exception as error:
        message = _message_of_module(error)
        if message is None:
            raise
        _complain(message)
        status = 2
    sys.exit(status if isinstance(status, int) else 0)


def _message_of_module(error: Exception) -> str | None:
    """The message for an error of the store or of a plugin; a module that is not loaded cannot have raised it."""
    records, plugins = sys.modules.get("recurrank.serving.store.records"), sys.modules.get("recurrank.plugins")
    if records is not None and isinstance(error, records.StoreError):
        return f"store: {error}"
    return None if plugins is None else plugins.blamed(error)


def _complain(message: str) -> None:
    click.echo("recurrank: " + " ".join(message.split()), err=True)
