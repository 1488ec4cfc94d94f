"""``recurrank keys``: API keys of a server."""

from __future__ import annotations

import time

import click

from recurrank.cli.shared import console, json_option, print_json

store_option = click.option(
    "--store", envvar="RECURRANK_STORE", default="sqlite:///recurrank.db", show_default=True, help="The server's store."
)


@click.group()
def command() -> None:
    """Create, list and revoke API keys. A running server notices within seconds."""


@command.command(short_help="Make a key and print its secret, once.")
@click.argument("name")
@click.option("--role", "roles", multiple=True, required=True, help="rank, feedback or admin; may be repeated.")
@click.option("--ranker", help="Only this ranker's slates: for a key in a page, which is public.")
@click.option("--origin", help="Only pages of this origin, as https://shop.example; it need not be allowed in another way.")
@click.option("--rate", type=float, help="Requests per second at most, below the server's own limit.")
@store_option
@json_option
def create(
    name: str, roles: tuple[str, ...], ranker: str | None, origin: str | None, rate: float | None, store: str, as_json: bool
) -> None:
    """Make a key called NAME and print its secret, which is not kept and cannot be shown again."""
    from recurrank.serving import auth

    secret = auth.create(auth.open_keys(store), name, list(roles), ranker, origin, rate)
    if as_json:
        print_json({"name": name, "roles": list(dict.fromkeys(roles)), "secret": secret})
    else:
        click.echo(secret)


@command.command("list")
@store_option
@json_option
def list_(store: str, as_json: bool) -> None:
    """Show all keys: names, roles, when they were made."""
    from recurrank.serving import auth

    keys = auth.open_keys(store).all()
    if as_json:
        print_json([{"name": key.name, "roles": list(key.roles), "created": key.created} for key in keys])
        return
    from rich.table import Table

    table = Table()
    for heading in ("name", "roles", "made"):
        table.add_column(heading)
    for key in keys:
        table.add_row(key.name, ", ".join(key.roles), time.strftime("%Y-%m-%d %H:%M", time.localtime(key.created)))
    console().print(table if keys else "no keys; make one with: recurrank keys create NAME --role admin")


@command.command()
@click.argument("name")
@store_option
def revoke(name: str, store: str) -> None:
    """Revoke the key called NAME."""
    from recurrank.serving import auth

    keys = auth.open_keys(store)
    auth.revoke(keys, name)
    click.echo(f"revoked: {name}")
    if not keys.all():
        click.echo("that was the last key: servers refuse all requests until there is another one", err=True)
