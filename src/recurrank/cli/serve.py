"""``recurrank serve``: rank and learn over HTTP."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import click

from recurrank.cli.shared import console, plugin_option


def read_options(path: Path, command: click.Command, skip_wrong: bool = False) -> dict[str, Any]:
    """Options of a command from a TOML file; ValueError for an invalid file or, unless they are to be skipped, option."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"{path}: no such file; give a TOML file with options") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a TOML file ({error})") from error
    parameters = {parameter.name: parameter for parameter in command.params}
    settings = {name.replace("-", "_"): value for name, value in found.items()}
    wrong = {name: why for name, value in settings.items() if (why := _fault(parameters.get(name), value))}
    if wrong and not skip_wrong:
        name, why = next(iter(wrong.items()))
        raise ValueError(f"{path}: {name!r} {why}")
    return {name: value for name, value in settings.items() if name not in wrong}


def _fault(parameter: click.Parameter | None, value: Any) -> str | None:
    """What is wrong with an option in a file, beyond what click checks: it takes true for the number 1."""
    if parameter is None or parameter.name == "config":
        return "is not an option; see `recurrank serve --help`"
    if isinstance(value, bool) and isinstance(parameter.type, (type(click.INT), type(click.FLOAT))):
        return f"is {str(value).lower()}; give a number"
    return None


def _from_file(context: click.Context, _: click.Parameter, path: Path | None) -> Path | None:
    """Options from a TOML file, where neither the command line nor the environment has them."""
    if path is not None:
        settings = read_options(path, context.command, skip_wrong=context.resilient_parsing)
        context.default_map = {**(context.default_map or {}), **settings}
    return path


@click.command(context_settings={"auto_envvar_prefix": "RECURRANK"})
@click.option("--config", type=click.Path(path_type=Path), callback=_from_file, is_eager=True, help="A TOML file with options.")
@click.option(
    "--store", default="sqlite:///recurrank.db", show_default=True, help="Where the log is: sqlite:/// or postgresql://."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; any other than this needs keys.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="Which port.")
@click.option("--allow-host", multiple=True, help="A host name that clients may use for the server; may be repeated.")
@click.option("--allow-origin", multiple=True, help="An origin whose pages may call it (CORS); may be repeated.")
@click.option("--max-body", default=64, show_default=True, type=click.IntRange(1), help="Of a request, in MB.")
@click.option(
    "--max-catalogue", default=256, show_default=True, type=click.IntRange(1), help="Of an uploaded catalogue, decoded, in MB."
)
@click.option("--max-connections", default=4_000, show_default=True, type=click.IntRange(2), help="Open at the same time.")
@click.option(
    "--max-waiting", default=64, show_default=True, type=click.IntRange(1), help="Requests waiting for their answers."
)
@click.option("--rate", type=float, help="Requests per second with one key; by default without limit.")
@click.option(
    "--retain", metavar="TIME|EVENTS", help="What stays in the log: 30d, 12h, or so many events; by default everything."
)
@click.option("--archive", metavar="FOLDER", help="Where older events go: a folder or s3://...; by default they are dropped.")
@click.option("--drop", is_flag=True, help="Drop older events though earlier ones of the log went to an archive.")
@click.option("--fitted", help="What recurrank fit --out wrote: your log's users in the playground.")
@plugin_option
@click.option("--demo", is_flag=True, help="A catalogue and simulated users, to see it learn; nothing is kept.")
def command(store: str, host: str, port: int, fitted: str | None, demo: bool, **options: Any) -> None:
    """Serve rankers over HTTP until stopped. What was answered is on disk.

    Every option can also be set in the environment, as RECURRANK_PORT, or in a TOML file.
    """
    from recurrank.serving.json_log import log_as_json

    checked = check_options(host=host, **options)
    log, code = log_as_json(), 0
    try:
        _serve(store, host, port, checked, demo, fitted)
    except (ValueError, OSError) as error:  # the options were valid, so the server itself failed: its log says why
        log.critical("the server cannot run", why=" ".join(str(error).split()))
        code = 2
    if click.get_current_context().obj:
        from recurrank.serving.run import end_process

        end_process(code)
    raise SystemExit(code)


class Checked(NamedTuple):
    """The options as objects: limits of requests and of connections, and the retention of the log."""

    limits: Any
    crowd: Any
    policy: Any


def check_options(**options: Any) -> Checked:
    """The options of ``recurrank serve`` as objects; ValueError for values that a server refuses."""
    from recurrank.serving.auth import checked_origin
    from recurrank.serving.http.connections import Crowd
    from recurrank.serving.http.gate import Limits

    rate, most = options["rate"], options["max_connections"]
    if rate is not None and not 0 < rate < float("inf"):
        raise ValueError(f"rate: {rate} is not a number of requests per second; give a number above 0")
    hosts = (options["host"], *options["allow_host"])
    limits = Limits(
        body=options["max_body"] << 20,
        catalogue=options["max_catalogue"] << 20,
        rate=rate,
        hosts=("127.0.0.1", "localhost", "[::1]", *(name.lower() for name in hosts)),
        origins=tuple(checked_origin(origin, "allow-origin") for origin in options["allow_origin"]),
    )
    crowd = Crowd(connections=most, per_address=max(1, most // 2), waiting=options["max_waiting"])
    return Checked(limits, crowd, _policy(options["retain"], options["archive"], options["drop"]))


def _policy(retain: str | None, archive: str | None, drop: bool) -> Any:
    from recurrank.serving.archive import Archive
    from recurrank.serving.retention import parse

    if retain is None:
        if archive is not None:
            raise ValueError("archive: nothing goes there without --retain; give both")
        if drop:
            raise ValueError("drop: nothing is dropped without --retain; give both")
        return None
    if archive is not None and drop:
        raise ValueError("drop: events that go to --archive are not dropped; give one of both")
    if archive is not None:
        Archive(archive).check_usable()
    return parse(retain, archive, drop)


def _serve(store: str, host: str, port: int, checked: Checked, demo: bool, fitted: str | None) -> None:
    from threadpoolctl import threadpool_limits

    from recurrank.serving.auth import check_guarded, open_keys
    from recurrank.serving.demo import Demo
    from recurrank.serving.http.keyring import KeyRing
    from recurrank.serving.retention import Retention
    from recurrank.serving.run import serve
    from recurrank.serving.service import Service
    from recurrank.serving.store import StoreError, open_store

    if demo:
        threadpool_limits(1)  # its matrices are small: BLAS threads would only take processors from the visitors
    showing = Demo() if demo else None
    address = showing.address if showing else store
    try:
        keys = open_keys(address)
        check_guarded(keys, host)
        opened = open_store(address)
        ring = KeyRing(keys, opened)
        service = Service(opened, wait=demo, retention=Retention(opened, address, checked.policy))
    except StoreError as error:
        raise ValueError(f"store: {error}") from error
    try:
        if showing:
            showing.start(service)
        announce, pages = _announce(address, demo), _pages(service, ring, showing, fitted)
        serve(service, ring, checked.limits, host, port, announce, pages, checked.crowd)
    finally:
        if showing:
            showing.stop()
        service.close()
        if showing:
            showing.clean()


def _pages(service: Any, keys: Any, showing: Any, fitted: str | None) -> Any:
    """The dashboard; in the demo it is given the true attraction."""
    from recurrank.dashboard.app import Dashboard
    from recurrank.serving.demo import NAME

    truths: dict[str, Any] = {"truths": showing.truths, "demo": NAME} if showing else {}
    return Dashboard(service, keys, fitted=fitted, **truths)


def _announce(address: str, demo: bool) -> Any:
    from recurrank.serving.demo import NAME

    def say(url: str) -> None:
        kept = "nothing is kept" if demo else f"log in {address.partition('@')[2] or address}"
        look = f"see it learn: {url}/rankers/{NAME}" if demo else f"{url}/docs says how to use it"
        console().print(f"recurrank serves at {url} ({kept}); {look}; Ctrl-C stops it", highlight=False)

    return say
