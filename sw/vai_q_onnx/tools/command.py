# SPDX-License-Identifier: Apache-2.0
"""What the command lines of all tools share: a model in, a model out, errors in one line."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import onnx
from onnx.external_data_helper import load_external_data_for_model

from opendpu.export.files import write_onnx
from opendpu.frontend.model_file import read_model
from opendpu_arch import outputs
from opendpu_arch.errors import DPUError, ModelFormatError

Path = str | os.PathLike[str]
INPUT_MODEL, OUTPUT_MODEL = "--input_model", "--output_model"


def run(
    convert: Callable[..., onnx.ModelProto], *, source: str = INPUT_MODEL,
    target: str = OUTPUT_MODEL, options: Sequence[str] = (),
) -> None:  # fmt: skip
    """Read a model, convert it, write it; exit with a message where that fails.

    Parameters
    ----------
    convert
        Gets the model and the options by name; its documentation is that of the command.
    source, target
        Names of the arguments with the files, with dashes or without.
    options
        Further options, which have to be given.
    """
    parser = argparse.ArgumentParser(description=(convert.__doc__ or "").partition("\n")[0])
    for name in (*options, source, target):
        required: dict[str, Any] = {"required": True} if name.startswith("-") else {}
        parser.add_argument(name, **required)
    given: dict[str, Any] = vars(parser.parse_args())
    before, after = given.pop(source.lstrip("-")), given.pop(target.lstrip("-"))
    try:
        outputs.check(after, inputs=[before])
        write_onnx(convert(loaded(before), **given), after)
    except DPUError as error:
        sys.exit(f"error: {error}")


def loaded(model: Path | onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model, or what a file holds, weights in other files included.

    Raises
    ------
    ModelFormatError
        A file cannot be read.
    """
    made = onnx.ModelProto()
    label, proto, folder = read_model(model)
    made.CopyFrom(proto)
    try:
        load_external_data_for_model(made, str(folder))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise ModelFormatError(f"{label}: weights cannot be read: {error}") from None
    return made
