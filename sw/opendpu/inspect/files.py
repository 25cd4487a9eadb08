# SPDX-License-Identifier: Apache-2.0
"""The files of an inspection: ``inspect_<target>.txt`` and, where a picture is wanted, ``.gv``."""

import os
import pathlib

from opendpu.inspect.picture import dot, picture
from opendpu.inspect.result import Inspection
from opendpu.inspect.text import report
from opendpu_arch import outputs
from opendpu_arch.errors import UnsupportedError

FORMATS = ("svg", "png")
"""Formats of pictures."""


def check_format(image_format: str | None) -> None:
    """Raise UnsupportedError if pictures have no such format; nothing means no picture."""
    if image_format is not None and image_format not in FORMATS:
        raise UnsupportedError(
            f"image format {image_format!r} is unknown; choose one of {', '.join(FORMATS)}",
            code="QUANTIZER_TORCH_INSPECTOR_OUTPUT_FORMAT",
        )


def write_files(
    inspection: Inspection, folder: str | os.PathLike[str], image_format: str | None = None
) -> list[pathlib.Path]:
    """Write the report and, in a format of :data:`FORMATS`, the picture; return the files.

    The folder is made. With a picture comes its source in the DOT language, ``.gv``.

    Raises
    ------
    UnsupportedError
        Pictures have no such format.
    OutputError
        A file cannot be written.
    ToolError
        A package that the picture needs is missing.
    """
    check_format(image_format)
    outputs.check_folder(folder)
    stem = pathlib.Path(folder) / f"inspect_{inspection.target.name}"
    text = stem.with_name(f"{stem.name}.txt")
    contents: dict[pathlib.Path, str | bytes] = {text: report(inspection, file=str(text))}
    if image_format is not None:
        drawn = picture(inspection)
        contents[stem.with_name(f"{stem.name}.gv")] = dot(inspection)
        contents[stem.with_name(f"{stem.name}.{image_format}")] = (
            drawn.svg() if image_format == "svg" else drawn.png()
        )
    stem.parent.mkdir(parents=True, exist_ok=True)
    for path, content in contents.items():
        outputs.write(path, content)
    return list(contents)
