# SPDX-License-Identifier: Apache-2.0
"""Frozen graphs (``.pb``) of TensorFlow 1 and 2; TensorFlow is not needed."""

import pathlib
from collections.abc import Sequence

from opendpu.frontend.binding import Sizes
from opendpu.frontend.input_values import Values
from opendpu.frontend.tensorflow.graph_file import read
from opendpu.frontend.tensorflow.importer import load_nodes
from opendpu.ir import FloatGraph


def load_frozen(
    path: str | pathlib.Path,
    input_shapes: Sizes | None = None,
    *,
    input_values: Values | None = None,
    outputs: Sequence[str] | None = None,
) -> FloatGraph:
    """Convert a frozen graph to a float graph; inputs are its placeholders.

    Parameters
    ----------
    path
        The file.
    input_shapes, input_values
        As of :func:`opendpu.frontend.load_onnx`.
    outputs
        Names of the nodes that make outputs; by default those whose results nobody reads.

    Raises
    ------
    ModelFormatError, UnsupportedError
        As of :func:`opendpu.frontend.tensorflow.importer.load_nodes`.
    """
    path = pathlib.Path(path)
    wanted = None if outputs is None else {name: name for name in outputs}
    return load_nodes(
        read(path), str(path), path.stem, input_shapes, input_values=input_values, outputs=wanted
    )
