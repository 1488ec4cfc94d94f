"""Options of rankers, declared once: in the signature of the constructor.

    def __init__(self, ..., *, epsilon: Annotated[float, Option("how often to show a random ranking", least=0, most=1)] = 0.1)

The type says what kind of value an option has, and the default its usual value; :class:`Option` adds the range and a sentence
for people. Checks, saved states, ``recurrank rankers``, ``--option``, the OpenAPI document and pages come from there.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from recurrank._arrays import Floats, as_array, as_count, as_number

REQUIRED = inspect.Parameter.empty
KINDS = {float: "number", int: "integer", bool: "boolean", str: "string"}


@dataclass(frozen=True)
class Option:
    """What values an option may have.

    Attributes:
        help: one sentence, in lower case and without a full stop.
        least: the smallest value.
        above: a number that it must be larger than.
        most: the largest value.
        per: for a list of numbers, ``"item"`` or ``"position"``: it has one number for each.
        usually: what None stands for, as a function of the ranker.
        told: whether it is the truth about a problem, which only a simulation knows.
        name: taken from the signature, like the rest.
        kind: ``"number"``, ``"integer"``, ``"boolean"``, ``"string"``, ``"choice"``, ``"numbers"`` or ``"any"``.
        choices: of a choice.
        default: ``REQUIRED`` where there is none.

    """

    help: str
    _: KW_ONLY
    least: float = -math.inf
    above: float = -math.inf
    most: float = math.inf
    per: str | None = None
    usually: Callable[[Any], Any] | None = None
    told: bool = False
    name: str = ""
    kind: str = "any"
    choices: tuple[Any, ...] = ()
    default: Any = None

    @property
    def wanted(self) -> str:
        """What to give, in words."""
        if self.kind == "choice":
            *others, last = (repr(choice) for choice in self.choices)
            return f"{', '.join(others)} or {last}" if others else last
        ends = [f"of at least {self.least:g}"] * (self.least > -math.inf) + [f"above {self.above:g}"] * (self.above > -math.inf)
        ends += [f"at most {self.most:g}" if ends else f"of at most {self.most:g}"] * (self.most < math.inf)
        many = {
            "numbers": f"a list with one number per {self.per}",
            "integer": "a whole number",
            "boolean": "true or false",
            "any": "an object",
        }
        return " ".join([many.get(self.kind, f"a {self.kind}"), *" and ".join(ends).split()])

    def checked(self, value: Any, ranker: Any) -> Any:
        """The value as a number, word or array; raises a one-line ValueError if it is not allowed."""
        if value is None and self.usually is not None:
            return self.checked(self.usually(ranker), ranker)
        if self.kind == "number":
            number: float | int = as_number(self.name, value)
        elif self.kind == "integer":
            number = self._whole(value)
        elif self.kind == "numbers":
            return self._checked_list(value, ranker)
        else:
            if (self.kind == "choice" and value not in self.choices) or (
                self.kind == "boolean" and not isinstance(value, bool)
            ):
                raise ValueError(f"{self.name}: {value!r} is unknown; choose {self.wanted}")
            return value
        if not (math.isfinite(number) and self.least <= number <= self.most and number > self.above):
            raise ValueError(f"{self.name}: {value!r} is out of range; give {self.wanted}")
        return number

    def _whole(self, value: Any) -> int:
        try:
            return as_count(self.name, value, least=-(10**15))
        except ValueError:
            raise ValueError(f"{self.name}: {value!r} is not a whole number; give {self.wanted}") from None

    def _checked_list(self, value: Any, ranker: Any) -> Floats:
        array = as_array(self.name, value)
        size = {"item": len(ranker.catalogue), "position": ranker.positions}.get(self.per or "", array.size)
        if array.shape != (size,):
            raise ValueError(f"{self.name}: shape is {array.shape}; it should be ({size},), one number per {self.per}")
        wrong = np.flatnonzero(~((array >= self.least) & (array <= self.most) & (array > self.above)))
        if len(wrong):
            raise ValueError(f"{self.name}[{wrong[0]}]: {array[wrong[0]]} is out of range; give {self.wanted}")
        return array

    @property
    def schema(self) -> dict[str, Any]:
        """As JSON schema."""
        ends = {"minimum": self.least, "exclusiveMinimum": self.above, "maximum": self.most}
        schema: dict[str, Any] = {name: end for name, end in ends.items() if math.isfinite(end)}
        if self.kind == "choice":
            schema |= {"enum": list(self.choices)}
        elif self.kind == "numbers":
            schema = {"type": "array", "items": {"type": "number", **schema}}
        elif self.kind != "any":
            schema |= {"type": self.kind}
        schema["description"] = self.help
        return schema if self.default is REQUIRED or self.default is None else {**schema, "default": self.default}


def declared(kind: type[Any]) -> dict[str, Option]:
    """The options of a class: keyword-only parameters of its constructor, and, if that takes ``**`` options, of its base's."""
    options: dict[str, Option] = {}
    for base in kind.__mro__:
        constructor = vars(base).get("__init__")
        if constructor is None:
            continue
        parameters = inspect.signature(constructor).parameters.values()
        named = [parameter for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
        try:
            hints = get_type_hints(constructor, include_extras=True) if named else {}
        except NameError:  # a user's class, with annotations only for readers
            hints = {}
        options = {**{parameter.name: _declared(parameter, hints.get(parameter.name)) for parameter in named}, **options}
        if all(parameter.kind is not inspect.Parameter.VAR_KEYWORD for parameter in parameters):
            break
    return options


def _declared(parameter: inspect.Parameter, hint: Any) -> Option:
    kind, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    option = next((extra for extra in extras if isinstance(extra, Option)), Option(""))
    parts = (
        [part for part in get_args(kind) if part is not type(None)] if get_origin(kind) in (Union, types.UnionType) else [kind]
    )
    choices = get_args(parts[0]) if get_origin(parts[0]) is Literal else ()
    if option.per is not None:
        name = "numbers"
    else:
        name = "choice" if choices else KINDS.get(parts[0], "any") if len(parts) == 1 else "any"
    return replace(option, name=parameter.name, kind=name, choices=choices, default=parameter.default)


def schema_of(options: dict[str, Option]) -> dict[str, Any]:
    """Options as one JSON schema; those that only a simulation knows are left out."""
    open_ = {name: option for name, option in options.items() if not option.told}
    required = [name for name, option in open_.items() if option.default is REQUIRED]
    schema = {"type": "object", "properties": {name: option.schema for name, option in open_.items()}}
    return {**schema, "additionalProperties": False, **({"required": required} if required else {})}


class Configured:
    """Base of what is made with options: it knows which it takes, and which it was made with."""

    _options: dict[str, Any]

    def options(self) -> dict[str, Any]:
        """What it was made with, except catalogue, positions, rounds and seed, as numbers, strings and lists."""
        return dict(self._options)

    def record(self, **options: Any) -> list[Any]:
        """Check the options that it is made with against their declaration and remember them; return their values, in order."""
        declared = self.declared()
        for name in options:
            if name not in declared:
                raise ValueError(
                    f"{name}: the constructor of {type(self).__name__} does not take it; add it there, or **options"
                )
        values = {name: declared[name].checked(value, self) for name, value in options.items()}
        self._options |= {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}
        return list(values.values())

    @classmethod
    @functools.cache
    def declared(cls) -> dict[str, Option]:
        """The options that it takes, by name, from the signature of its constructor."""
        return declared(cls)

    @classmethod
    def options_schema(cls) -> dict[str, Any]:
        """Its options as JSON schema, for documents and forms."""
        return schema_of(cls.declared())


def failure(usual: str, usually: Callable[[Any], float]) -> Option:
    """The accepted probability of failure, which is written delta in every paper."""
    return Option(f"the accepted probability of failure, by default {usual}", least=1e-100, most=1, usually=usually)


Delta = Annotated[float | None, failure("1/sqrt(rounds)", lambda ranker: 1 / math.sqrt(ranker.rounds))]
Examination = Annotated[
    ArrayLike | None,
    Option(
        "the known examination probability of each position, by default 1/k",
        above=0,
        most=1,
        per="position",
        usually=lambda ranker: 1 / np.arange(1, ranker.positions + 1),
    ),
]
Epsilon = Annotated[float, Option("of delta = (1 + epsilon) log t", least=0)]
Sigma = Annotated[float, Option("the noise that the model assumes; M = I + sigma^-2 sum x x'", least=1e-3, most=1e3)]
