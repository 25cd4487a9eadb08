# SPDX-License-Identifier: Apache-2.0
"""Files of the optimizer: a dataclass as JSON, and which format it is."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from opendpu_arch import inputs, outputs
from opendpu_arch.errors import ModelFormatError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")


def save(
    path: str | os.PathLike[str], form: str, content: "DataclassInstance", indent: int | None = None
) -> None:
    """Write a dataclass, complete or not at all; folders are made."""
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": form, **dataclasses.asdict(content)}, indent=indent)
    outputs.write(path, text + "\n")


def load(
    path: pathlib.Path, form: str, parse: Callable[[dict[str, Any]], T], fault: str, code: str
) -> T:
    """Return what ``parse`` makes of the content of a file.

    Parameters
    ----------
    parse
        May raise what wrong content leads to: ``ValueError``, ``KeyError``, ``TypeError`` or
        ``AttributeError``.
    fault
        What the message says of a damaged file, as ``holds no subnets``.

    Raises
    ------
    OSError
        It cannot be read.
    ModelFormatError
        It is damaged, or of another format.
    """
    try:
        content = inputs.json_value(inputs.read_text(path))
        found = content.pop("format")
        if found != form:
            raise ValueError(f"its format is {found!r}, not {form!r}")
        return parse(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelFormatError(f"{path} {fault}: {error}", code=code) from None
