# SPDX-License-Identifier: Apache-2.0
"""Shared libraries with operators of other domains than ONNX's own, for onnxruntime."""

import pathlib
import warnings
from collections.abc import Iterable, Sequence

import onnx

from opendpu.frontend.model_file import all_nodes
from opendpu.ops.foreign import DEFAULT_DOMAINS
from opendpu_arch.errors import ModelFormatError


def check(
    libraries: Sequence[str | pathlib.Path], label: str, nodes: Iterable[onnx.NodeProto] = ()
) -> None:
    """Check that libraries exist; warn of them where no node has an operator that may be theirs.

    ``label`` is the model's name in messages, ``nodes`` are its nodes if it is an ONNX model.

    Raises
    ------
    ModelFormatError
        There is no such file.
    """
    for library in libraries:
        if not pathlib.Path(library).is_file():
            raise ModelFormatError(f"{library}, a library of operators: there is no such file")
    if libraries and all(node.domain in DEFAULT_DOMAINS for node in all_nodes(nodes)):
        warnings.warn(
            f"{label} has no operators of other domains than ONNX's own: not used: "
            f"{', '.join(map(str, libraries))} (--onnx-library)",
            stacklevel=2,
        )
