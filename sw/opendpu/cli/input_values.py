# SPDX-License-Identifier: Apache-2.0
"""Options ``--input-shape`` and ``--input-value``: sizes of inputs, and what they always are."""

import pathlib
from collections.abc import Iterable, Mapping

import numpy as np

from opendpu.compiler.options import Options
from opendpu.frontend.input_values import OPTION
from opendpu.ir import Array
from opendpu.runtime import feeds
from opendpu_arch.errors import TensorError, UnsupportedError

FILES = (".npy", ".npz")
_WORDS = {"true": True, "false": False}


def input_shapes(texts: Iterable[str] | None) -> Mapping[str, tuple[int, ...]]:
    """Return the shapes in texts ``NAME=1,3,224,224`` by name.

    Raises
    ------
    UnsupportedError
        A text has another form.
    """
    return Options().with_input_shapes(texts or ()).input_shape


def input_values(texts: Iterable[str] | None) -> dict[str, Array]:
    """Return the values in texts ``NAME=VALUE`` by name.

    VALUE is a number, ``true`` or ``false``, several of these with commas between, or an ``.npy``
    or ``.npz`` file; of an ``.npz`` file the array of that name counts, or the only one. Without
    ``NAME=`` it is that of the only input. A file's path may have ``=`` in it, if NAME has none.

    Raises
    ------
    UnsupportedError
        A text has another form, or gives a value for a name again.
    TensorError
        A file cannot be read, or has no such array.
    """
    found: dict[str, Array] = {}
    for text in texts or ():
        name, equals, value = text.partition("=") if text.endswith(FILES) else text.rpartition("=")
        if not equals:
            name, value = "", text
        if name in found:
            raise UnsupportedError(
                f"{OPTION} is {text!r}, but input {name!r} has the value {found[name]} already",
                code="XCOM_USER_INVALID_CMD_PARAM",
            )
        found[name] = _in_file(name, value) if value.endswith(FILES) else _in_text(text, value)
    return found


def _in_file(name: str, path: str) -> Array:
    arrays = feeds.read(pathlib.Path(path))
    chosen = name if name in arrays else next(iter(arrays), "")
    if chosen not in arrays or (chosen != name and len(arrays) > 1):
        listed = ", ".join(arrays) or "none"
        raise TensorError(f"{path} has no array {name!r}, but: {listed}")
    return arrays[chosen]


def _in_text(text: str, value: str) -> Array:
    try:
        numbers = [_number(part.strip()) for part in value.split(",")]
    except ValueError:
        raise UnsupportedError(
            f"{OPTION} is {text!r}, but must be NAME=VALUE, where VALUE is a number, numbers with "
            "commas between, true, false, or an .npy or .npz file",
            code="XCOM_STR_PARSE_FAILED",
        ) from None
    return np.array(numbers[0] if len(numbers) == 1 else numbers)


def _number(text: str) -> float:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return int(text)
    except ValueError:
        return float(text)
