"""Files of the pages: our own, and those of installed packages. Addresses contain a digest, so that browsers cache them."""

from __future__ import annotations

import asyncio
import functools
import gzip
import hashlib
import importlib.util
import ipaddress
import re
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from recurrank.serving.http.problems import Refused
from recurrank.serving.http.routes import PUBLIC, Answer, Request, route

KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
PACKAGED = {
    "plotly.min.js": ("plotly", "package_data"),
    "swagger-ui-bundle.js": ("swagger_ui", "static"),
    "swagger-ui.css": ("swagger_ui", "static"),
}
"""By name, files that other packages ship: the package and the folder in it."""
FOREVER = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}


class File(NamedTuple):
    """A file as it is sent."""

    kind: str
    content: bytes


@functools.cache
def files() -> dict[str, File]:
    """Our own files, by name."""
    folder = resources.files("recurrank.dashboard").joinpath("static")
    kinds = {path.name: KINDS.get(f".{path.name.rpartition('.')[2]}") for path in folder.iterdir()}
    return {name: File(kind, folder.joinpath(name).read_bytes()) for name, kind in sorted(kinds.items()) if kind}


@functools.cache
def digest() -> str:
    """The digest of all our own files: scripts import each other from the folder that they are in."""
    together = hashlib.sha256()
    for name, file in files().items():
        together.update(name.encode() + b"\0" + file.content)
    return together.hexdigest()[:16]


@functools.cache
def modules(script: str) -> list[str]:
    """A script and all scripts that it imports: a page names them all, so that they are fetched at once."""
    scripts, new = [script], [script]
    while new:
        text = files()[new.pop()].content.decode()
        fresh = [name for name in re.findall(r'^import .*?"\./([a-z]+\.js)";', text, flags=re.M) if name not in scripts]
        scripts += fresh
        new += fresh
    return scripts


@functools.cache
def packaged(name: str) -> File:
    """A file that an installed package ships; the package itself is not imported."""
    package, folder = PACKAGED[name]
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise Refused(404, f"static: {name} comes with the package {package}, which is not installed; install recurrank[serve]")
    return File(KINDS[f".{name.rpartition('.')[2]}"], (Path(spec.origin).parent / folder / name).read_bytes())


@functools.cache
def packaged_digest(name: str) -> str:
    return hashlib.sha256(packaged(name).content).hexdigest()[:16]


@functools.cache
def unused_styles() -> list[str]:
    """The ids of style elements that plotly adds for its maps, which we do not draw, unless elements with these ids exist.

    The pages' Content-Security-Policy would refuse them, and the browser would report that in its console.
    """
    return sorted(
        {digest.decode() for digest in re.findall(rb'getElementById\("([0-9a-f]{64})"\)', packaged("plotly.min.js").content)}
    )


@functools.cache
def _small(name: str) -> bytes:
    return gzip.compress(packaged(name).content, 6, mtime=0)


def address(name: str) -> str:
    """The address of a packaged file."""
    return f"/static/{packaged_digest(name)}/{name}"


@functools.cache
def addresses() -> dict[str, Any]:
    """The addresses of the files, for templates."""
    return {"static": f"/static/{digest()}", "plotly": address("plotly.min.js"), "unused_styles": unused_styles()}


@route("GET", "/static/{version}/{name}", PUBLIC)
async def static(request: Request) -> Answer:
    """A file. An address with an outdated digest returns the current file, which is then not cached."""
    version, name = request.parameters
    if name in PACKAGED:
        current = await asyncio.to_thread(packaged_digest, name)
    elif name in files():
        current = digest()
    else:
        raise Refused(404, f"static: there is no file {name[:60]!r}")
    headers = FOREVER if version == current else {**FOREVER, "cache-control": "no-store"}
    file = packaged(name) if name in PACKAGED else files()[name]
    # Packaged files have megabytes: compress them for the network, but not for a browser on this machine.
    if name in PACKAGED and b"gzip" in request.headers.get(b"accept-encoding", b"") and not _near(request.client):
        small = await asyncio.to_thread(_small, name)
        return Answer(small, _typed(file), headers={**headers, "content-encoding": "gzip", "vary": "accept-encoding"})
    return Answer(file.content, _typed(file), headers=headers)


def _typed(file: File) -> str:
    return f"{file.kind}; charset=utf-8"


def _near(client: str) -> bool:
    try:
        return ipaddress.ip_address(client).is_loopback
    except ValueError:
        return False
