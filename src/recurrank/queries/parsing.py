"""Lines of an SVMrank (LETOR) file as numbers: one compiled pass over a block of bytes.

    <label> qid:<query> <feature>:<value> <feature>:<value> ...  # a comment

Labels are whole numbers from 0 on, features are counted from 1 and increase within a line, and a feature that is missing
from a line is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from recurrank._arrays import Floats, Ints
from recurrank._compiled import inner, sweep

MOST_LABEL = 31
"""Gains are 2^label - 1; labels of the public collections go to 4."""
MOST_FEATURES = 100_000
LARGEST = float(np.finfo(np.float32).max) * (1 + 1e-12)
"""Largest absolute value that a float32 can hold, with a margin for the rounding of parsing."""

OK, WIDER, BAD_LABEL, NO_QUERY, BAD_FEATURE, BAD_VALUE, NOT_INCREASING = range(7)
"""Results of parsing a block; all but the first stop at a line."""
REASONS = {
    BAD_LABEL: f"the label is not a whole number from 0 to {MOST_LABEL}",
    NO_QUERY: "no qid:NUMBER after the label",
    BAD_FEATURE: f"a feature is not written NUMBER:VALUE, its number from 1 to {MOST_FEATURES:,}",
    BAD_VALUE: "a value is not a finite number that fits single precision; leave features without a value out",
    NOT_INCREASING: "the numbers of its features do not increase",
}

SPACE, TAB, RETURN, NEWLINE, HASH, COLON, MINUS, PLUS, POINT, ZERO, NINE = 32, 9, 13, 10, 35, 58, 45, 43, 46, 48, 57
_POWERS: Floats = np.array([10.0**power for power in range(23)])
"""The powers of ten that a double represents exactly."""


@inner
def _blank(byte: int) -> bool:
    return byte in (SPACE, TAB, RETURN)


@inner
def _ends(byte: int) -> bool:
    """Whether a number may end before this byte."""
    return byte in (SPACE, NEWLINE, TAB, RETURN, HASH)


@inner
def _whole(data: Any, i: int) -> tuple[int, int]:
    """A whole number that begins at ``i``, and its end: ``i`` if there is none, -1 if it is too long."""
    value, start = 0, i
    while ZERO <= data[i] <= NINE:
        value = value * 10 + (data[i] - ZERO)
        i += 1
        if i - start > 18:
            return 0, -1
    return value, i


@inner
def _number(data: Any, i: int, powers: Floats) -> tuple[float, int]:
    """A decimal number that begins at ``i``, and its end; -1 if there is none.

    Up to 15 digits and powers of ten within 22 are rounded as Python rounds them, others to a few units in the last digit.
    """
    negative = data[i] == MINUS
    if negative or data[i] == PLUS:
        i += 1
    mantissa, exponent, digits, seen, after = 0, 0, 0, 0, False
    while True:
        byte = data[i]
        if ZERO <= byte <= NINE:
            seen += 1
            if digits < 18:
                mantissa = mantissa * 10 + (byte - ZERO)
                digits += mantissa > 0
                exponent -= after
            else:
                exponent += not after
        elif byte == POINT and not after:
            after = True
        else:
            break
        i += 1
    if seen == 0:
        return 0.0, -1
    if byte == 101 or byte == 69:  # e, E
        i += 1
        down = data[i] == MINUS
        if down or data[i] == PLUS:
            i += 1
        power, stop = _whole(data, i)
        if stop <= i:
            return 0.0, -1
        i = stop
        exponent += -min(power, 1000) if down else min(power, 1000)
    value = float(mantissa)
    if exponent < 0:
        value = value / powers[-exponent] if exponent >= -22 else value * 10.0**exponent
    elif exponent > 0:
        value = value * powers[exponent] if exponent <= 22 else value * 10.0**exponent
    return (-value if negative else value), i


@inner
def _is_qid(data: Any, i: int) -> bool:
    return bool(data[i] == 113 and data[i + 1] == 105 and data[i + 2] == 100 and data[i + 3] == COLON)


@sweep
def parse(
    data: NDArray[np.uint8], powers: Floats, values: Floats, labels: Ints, queries: Ints, lines: Ints
) -> tuple[int, int, int, int]:
    """Read the lines of ``data``, which ends in a newline and eight zero bytes.

    Fills one row of ``values`` (zero before), ``labels``, ``queries`` and ``lines`` (numbers of lines, from 0) per document.
    Returns the number of rows, the result (``OK``, ``WIDER`` or an error), a line, and the largest feature number. The line is
    that of the error, or else that of the largest feature number.
    """
    end, i, row, line, most, widest = len(data) - 8, 0, 0, 0, 0, 0
    width = values.shape[1]
    while i < end:
        while _blank(data[i]):
            i += 1
        if data[i] != NEWLINE and data[i] != HASH:
            label, i = _number(data, i, powers)
            if i < 0 or not _blank(data[i]) or not 0 <= label <= MOST_LABEL or label != int(label):
                return row, BAD_LABEL, line, most
            while _blank(data[i]):
                i += 1
            if not _is_qid(data, i):
                return row, NO_QUERY, line, most
            query, stop = _whole(data, i + 4)
            if stop <= i + 4 or not _ends(data[stop]):
                return row, NO_QUERY, line, most
            i, before = stop, 0
            labels[row], queries[row], lines[row] = int(label), query, line
            while True:
                while _blank(data[i]):
                    i += 1
                if data[i] == NEWLINE or data[i] == HASH:
                    break
                feature, stop = _whole(data, i)
                if stop <= i or data[stop] != COLON or not 1 <= feature <= MOST_FEATURES:
                    return row, BAD_FEATURE, line, most
                if feature <= before:
                    return row, NOT_INCREASING, line, most
                before = feature
                value, i = _number(data, stop + 1, powers)
                if i < 0 or not _ends(data[i]) or not abs(value) <= LARGEST:
                    return row, BAD_VALUE, line, most
                if feature <= width:
                    values[row, feature - 1] = value
            if before > most:
                most, widest = before, line
            row += 1
        while data[i] != NEWLINE:
            i += 1
        i += 1
        line += 1
    return row, WIDER if most > width else OK, widest, most


def powers_of_ten() -> Floats:
    """The powers of ten that :func:`parse` multiplies by."""
    return _POWERS


@sweep
def normalise(values: Floats, offsets: Ints) -> None:
    """Scale every feature to 0..1 within each query: (x - min) / (max - min), and 0 if all documents are equal in it."""
    dim = values.shape[1]
    for q in range(len(offsets) - 1):
        first, last = offsets[q], offsets[q + 1]
        for p in range(dim):
            low = high = values[first, p]
            for i in range(first + 1, last):
                low, high = min(low, values[i, p]), max(high, values[i, p])
            width = high - low
            for i in range(first, last):
                values[i, p] = (values[i, p] - low) / width if width > 0 else 0.0
