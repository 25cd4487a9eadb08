# SPDX-License-Identifier: Apache-2.0
"""Random numbers as calibration data of a model, for a quick test."""

import os
from collections.abc import Mapping, Sequence

import onnx

import vai_q_onnx
from opendpu.frontend import load_onnx
from opendpu.frontend.model_file import read_model
from vai_q_onnx.sizes import of_random_data

SAMPLES = 1
"""Batches that Quark's reader has."""


class RandomDataReader(vai_q_onnx.RandomDataReader):
    """Random numbers in the shapes of a model's inputs.

    Parameters
    ----------
    model_input
        The model, or its file.
    input_shape
        Shapes by input, where the model leaves sizes open.
    input_data_range
        Least and largest value by input.

    Raises
    ------
    UnsupportedError
        Shapes or ranges that are none, or of no input.
    """

    def __init__(
        self,
        model_input: str | os.PathLike[str] | onnx.ModelProto,
        input_shape: Mapping[str, Sequence[int]] | None = None,
        input_data_range: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        source = read_model(model_input)
        graph = load_onnx(source, of_random_data(source.proto, input_shape))
        super().__init__(graph, SAMPLES, ranges=input_data_range)
