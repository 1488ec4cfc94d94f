"""A ranker or a click model with its options as one word: ``name:option=value:option=value``.

A value is a number, a word, or a list of numbers with slashes between them: ``position-based:examination=1/0.5/0.25``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


def parse(label: str, field: str) -> tuple[str, dict[str, Any]]:
    """The name, and the options as values; ValueError, which names the field, where an option has no value or two.

    >>> parse("position-based:examination=1/0.5/0.25", "clicks")
    ('position-based', {'examination': [1, 0.5, 0.25]})
    """
    name, *pairs = label.split(":")
    return name.strip(), options(pairs, f"{field}: {label!r}")


def options(pairs: Iterable[str], where: str) -> dict[str, Any]:
    """The values of ``name=value`` pairs by name; ``where`` names the source in errors."""
    found: dict[str, Any] = {}
    for text in pairs:
        name, value = pair(text, where)
        if name in found:
            raise ValueError(f"{where}: {name} is given twice; give it once")
        found[name] = value
    return found


def pair(text: str, where: str) -> tuple[str, Any]:
    """Split ``name=value``; ``where`` names the source in errors."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f"{where}: {text!r} is not an option; write name=value, for example design=spanner")
    return name.strip().replace("-", "_"), read(value)


def read(text: str) -> Any:
    """A value as people write it.

    >>> read("0.5"), read("spanner"), read("1/0.5"), read("T^-1")
    (0.5, 'spanner', [1, 0.5], 'T^-1')
    """
    parts = text.split("/") if "/" in text and text[:1] not in '[{"' else [text]
    try:
        values = [json.loads(part) for part in parts]
    except json.JSONDecodeError:
        return text
    return values if len(parts) > 1 else values[0]
