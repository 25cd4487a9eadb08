# SPDX-License-Identifier: Apache-2.0
"""Files of the optimizer: a dataclass as JSON, and which format it is."""

import dataclasses
import json
import os
import pathlib
from typing import TYPE_CHECKING

from opendpu_arch import outputs

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def save(
    path: str | os.PathLike[str], form: str, content: "DataclassInstance", indent: int | None = None
) -> None:
    """Write a dataclass, complete or not at all; folders are made."""
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": form, **dataclasses.asdict(content)}, indent=indent)
    outputs.write(path, text + "\n")
