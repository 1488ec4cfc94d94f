"""The pages: frames without data, rendered from ``templates/``. Their scripts fetch the data."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

import jinja2

from recurrank import __version__
from recurrank.dashboard import assets
from recurrank.serving.http.routes import Answer
from recurrank.serving.http.schema import Name

HEADERS = {
    # No inline scripts or styles, nothing from other origins, no frames. plotly adds its rules to one of our style sheets.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@functools.cache
def _templates() -> jinja2.Environment:
    loader = jinja2.PackageLoader("recurrank.dashboard")
    return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)


def render(template: str, here: str, status: int = 200, script: str | None = None, **values: Any) -> Answer:
    """A page; ``here`` is its address in the navigation, ``script`` the script that fills it."""
    loaded = list(dict.fromkeys(name for one in ("key.js", script) if one for name in assets.modules(one)))
    common: Mapping[str, Any] = {**assets.addresses(), "version": __version__, "here": here, "modules": loaded}
    text = _templates().get_template(template).render({**common, **values})
    return Answer(text.encode(), "text/html; charset=utf-8", status, HEADERS)


def is_name(name: str) -> bool:
    """Whether this is a valid name of a ranker."""
    return re.fullmatch(Name, name) is not None
