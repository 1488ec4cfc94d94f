"""Files of the pages: our own, and plotly's script from its package. Addresses carry a digest, so that browsers keep them."""

from __future__ import annotations

import asyncio
import functools
import gzip
import hashlib
import ipaddress
import re
from importlib import resources
from typing import Any, NamedTuple

from litestar import Request, Response, get
from litestar.params import FromPath

from recurrank.serving.http.problems import Refused

KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
FOREVER = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}


class File(NamedTuple):
    """A file as it is sent."""

    kind: str
    content: bytes


@functools.cache
def files() -> dict[str, File]:
    """Our own, by name."""
    folder = resources.files("recurrank.dashboard").joinpath("static")
    kinds = {path.name: KINDS.get(f".{path.name.rpartition('.')[2]}") for path in folder.iterdir()}
    return {name: File(kind, folder.joinpath(name).read_bytes()) for name, kind in sorted(kinds.items()) if kind}


@functools.cache
def digest() -> str:
    """Of all our own together: scripts fetch each other from the folder they are in."""
    together = hashlib.sha256()
    for name, file in files().items():
        together.update(name.encode() + b"\0" + file.content)
    return together.hexdigest()[:16]


@functools.cache
def modules(script: str) -> list[str]:
    """The scripts that a script needs, itself first: a page names them all, so that they are fetched at once."""
    found, new = [script], [script]
    while new:
        text = files()[new.pop()].content.decode()
        fresh = [name for name in re.findall(r'^import .*?"\./([a-z]+\.js)";', text, flags=re.M) if name not in found]
        found += fresh
        new += fresh
    return found


@functools.cache
def plotly() -> File:
    """The script of plotly, as its package ships it."""
    path = resources.files("plotly").joinpath("package_data", "plotly.min.js")
    return File("text/javascript", path.read_bytes())


@functools.cache
def plotly_digest() -> str:
    return hashlib.sha256(plotly().content).hexdigest()[:16]


@functools.cache
def unused_styles() -> list[str]:
    """The ids of style elements that plotly adds for its maps, which we do not draw, unless there are elements with these ids.

    The pages' Content-Security-Policy would refuse them, and the browser complain to the person about it.
    """
    return sorted({found.decode() for found in re.findall(rb'getElementById\("([0-9a-f]{64})"\)', plotly().content)})


@functools.cache
def _small() -> bytes:
    return gzip.compress(plotly().content, 6, mtime=0)


@functools.cache
def addresses() -> dict[str, Any]:
    """Where the files are, for templates."""
    script = f"/static/{plotly_digest()}/plotly.min.js"
    return {"static": f"/static/{digest()}", "plotly": script, "unused_styles": unused_styles()}


@get("/static/{version:str}/{name:str}", include_in_schema=False)
async def static(version: FromPath[str], name: FromPath[str], request: Request[Any, Any, Any]) -> Response[bytes]:
    """A file; one of another version is the present one, and is not kept."""
    kept = FOREVER if version in (digest(), plotly_digest()) else {**FOREVER, "cache-control": "no-store"}
    if name == "plotly.min.js":
        return await _plotly(request, kept)
    file = files().get(name)
    if file is None:
        raise Refused(404, f"static: there is no file {name[:60]!r}")
    return Response(file.content, media_type=file.kind, headers=kept)


async def _plotly(request: Request[Any, Any, Any], headers: dict[str, str]) -> Response[bytes]:
    """Five megabytes: made small for the way over a network, and as it is for who is on this machine."""
    file = await asyncio.to_thread(plotly)
    if "gzip" in request.headers.get("accept-encoding", "") and not _near(request):
        small = await asyncio.to_thread(_small)
        return Response(small, media_type=file.kind, headers={**headers, "content-encoding": "gzip", "vary": "accept-encoding"})
    return Response(file.content, media_type=file.kind, headers=headers)


def _near(request: Request[Any, Any, Any]) -> bool:
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
