# SPDX-License-Identifier: Apache-2.0
"""Runners for the model that the ``meta.json`` of a folder names, as Vitis AI 1.0 and 1.1."""

import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

import vart
import xir
from opendpu.runtime.arrays import Arrays
from opendpu.runtime.program import dpu_subgraphs
from opendpu_arch.errors import ModelFormatError, TensorError, UnsupportedError

META = "meta.json"
"""The file of a folder that names the model; ``vai_c_xir`` writes it."""
MOST_META = 1 << 20
"""Bytes of the longest one."""
AXES = 4
"""Dimensions of the tensors of this interface."""


class FeatureMap(xir.Tensor):
    """A tensor of a runner, for batch, rows, columns and channels.

    What has fewer dimensions gets some of 1 behind the batch.
    """

    def __init__(self, tensor: xir.Tensor) -> None:
        first, *rest = tensor.dims
        dims = [first, *[1] * (AXES - 1 - len(rest)), *rest]
        super().__init__(tensor.name, dims, tensor.data_type)
        self.set_attrs(tensor)

    @property
    def ndims(self) -> int:
        """The number of dimensions."""
        return len(self.dims)


class BatchRunner(vart.Runner):
    """A runner that computes as many samples as there are in the arrays it is given.

    The first axis of the first input tells how many, as in AMD's runners of this interface: each
    sample is a job. The array of an output holds the results of all, in any shape of as many
    elements; of arrays without samples, or for one of them, this is a :class:`vart.Runner`.
    """

    def get_input_tensors(self) -> list[xir.Tensor]:
        """Return the input tensors, by name."""
        return list(map(FeatureMap, super().get_input_tensors()))

    def get_output_tensors(self) -> list[xir.Tensor]:
        """Return the output tensors, by name."""
        return list(map(FeatureMap, super().get_output_tensors()))

    def execute_async(
        self, inputs: Arrays, outputs: Arrays, enable_dynamic_array: bool = False
    ) -> tuple[int, int]:
        """Start the jobs of a batch; return the number of the last one, others are done then.

        Raises
        ------
        TensorError
            An array has fewer samples than the first input, or its memory is not in one piece.
        """
        count = self._samples_in(inputs)
        if count <= 1:
            return super().execute_async(inputs, outputs, enable_dynamic_array)
        given = _by_sample(inputs, count, "input")
        results = _by_sample(outputs, count, "output")
        start = super().execute_async
        jobs = [start(sources, targets) for sources, targets in zip(given, results, strict=True)]
        for job in jobs[:-1]:
            self.wait(job)
        return jobs[-1]

    def _samples_in(self, inputs: Arrays) -> int:
        """Return how many samples inputs hold: 1 where they are no list of batches."""
        first = inputs[0] if isinstance(inputs, list | tuple) and len(inputs) else None
        dims = self.get_input_tensors()[0].dims
        if not isinstance(first, np.ndarray) or first.ndim < 2 or first.ndim != len(dims):
            return 1
        return int(first.shape[0]) // dims[0]


def _by_sample(arrays: Arrays, count: int, role: str) -> list[list[Any]]:
    """Return for each of ``count`` samples its part of the memory of every array."""
    parts = []
    for i, array in enumerate(arrays):
        if not isinstance(array, np.ndarray) or not array.flags.c_contiguous or array.size % count:
            what = f"shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            raise TensorError(
                f"{role} {i} is {what}, but must be an array of {count} samples in C order"
            )
        parts.append(array.reshape(count, -1))
    return [[part[sample] for part in parts] for sample in range(count)]


class FolderRunners(Sequence[BatchRunner]):
    """The runners of a folder's model, one for each of its subgraphs for the DPU, in their order.

    Of a model with one of them this is also its runner: the interface of 1.0 gave it alone.
    """

    def __init__(self, folder: str | os.PathLike[str], mode: str = "", **options: Any) -> None:
        path = _model_of(pathlib.Path(folder))
        subgraphs = dpu_subgraphs(xir.Graph.deserialize(path))
        if not subgraphs:
            raise ModelFormatError(f"{path}: there is no subgraph for the DPU")
        self._runners = [BatchRunner.create_runner(part, mode, **options) for part in subgraphs]

    @overload
    def __getitem__(self, index: int) -> BatchRunner: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[BatchRunner]: ...
    def __getitem__(self, index: int | slice) -> BatchRunner | Sequence[BatchRunner]:
        return self._runners[index]

    def __len__(self) -> int:
        return len(self._runners)

    def __getattr__(self, name: str) -> Any:
        """Return what the one runner has by this name."""
        runners = self.__dict__.get("_runners", [])
        if len(runners) != 1 or name.startswith("_"):
            raise AttributeError(
                f"{len(runners)} runners have no attribute {name!r}; choose one by its index"
            )
        return getattr(runners[0], name)


def _model_of(folder: pathlib.Path) -> pathlib.Path:
    """Return the file that a folder's ``meta.json`` names.

    Raises
    ------
    ModelFormatError
        There is no such file, it is damaged, or it names none in the folder.
    UnsupportedError
        It names a file of DNNDK's compiler.
    """
    meta = folder / META
    try:
        with meta.open("rb") as file:
            told = json.loads(file.read(MOST_META))
        name = told["filename"]
        if not isinstance(name, str) or name != pathlib.PurePath(name).name or not name:
            raise ValueError(f"filename is {name!r}, but must be that of a file beside it")
    except OSError as error:
        raise ModelFormatError(f"{meta}: {error.strerror}") from error
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        problem = "it names no 'filename'" if isinstance(error, KeyError | TypeError) else error
        raise ModelFormatError(f"{meta} is no description of a model: {problem}") from error
    if name.endswith(".elf"):
        raise UnsupportedError(
            f"{meta} names {name!r}, a file of DNNDK's compiler; compile the network again, with "
            "opendpu compile or vai_c_xir"
        )
    return folder / name
