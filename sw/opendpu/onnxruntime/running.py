# SPDX-License-Identifier: Apache-2.0
"""Compiled models on a device: arrays as ONNX has them in and out."""

from collections.abc import Mapping, Sequence

import numpy as np

from opendpu.ir import Array
from opendpu.onnxruntime.executable import Executable
from opendpu.onnxruntime.options import ProviderOptions
from opendpu.runtime import GraphRunner
from opendpu.runtime.batch import run_batch
from opendpu_arch.errors import TensorError


class Session:
    """An executable on a device; several threads may use it at a time.

    The device has the target that the options say, or else the executable's own.
    """

    def __init__(self, executable: Executable, options: ProviderOptions) -> None:
        self.executable = executable
        target = options.target if options.chosen else None
        self._runner = GraphRunner(executable.graph, device=options.device, target=target)
        self._tensors = executable.tensors()

    def run(
        self, arrays: Mapping[str, Array], wanted: Sequence[str] | None = None
    ) -> dict[str, Array]:
        """Return outputs by name, all or those wanted; with a batch in front where inputs have one.

        Inputs that nothing reads may be missing: ONNX Runtime keeps them to itself. A batch of
        nothing gives nothing.

        Raises
        ------
        TensorError
            Inputs do not fit, or are several samples of a model that mixes them.
        """
        given = {
            port.name: port.to_runner(arrays[port.name])
            for port in self.executable.inputs
            if port.name in arrays or port.name not in self._runner.optional_inputs
        }
        heads = self._runner.get_input_names()
        many = {n: len(a) for n, a in given.items() if _is_batch(a, heads[n].dims)}
        if self.executable.mixes_batch and many:
            name, count = next(iter(many.items()))
            raise TensorError(
                f"input {name!r} holds {count} samples, but the model's results for several are "
                "not those of each, and the DPU computes one at a time: give it one"
            )
        if 0 in many.values():
            found = self._nothing(given)
        elif many and len(many) < len(given):
            found = self._with_shared(given, many)
        else:
            found, _ = run_batch(self._runner, given, floats=True)
        return {
            port.name: port.from_runner(found[tensor])
            for port, tensor in zip(self.executable.outputs, self._tensors, strict=True)
            if wanted is None or port.name in wanted
        }

    def _with_shared(self, given: Mapping[str, Array], many: Mapping[str, int]) -> dict[str, Array]:
        """Return the results for several samples, where some inputs are the same for each."""
        count = next(iter(many.values()))
        every = {
            name: array[:, None] if name in many else np.repeat(array[None], count, 0)
            for name, array in given.items()
        }
        found, _ = run_batch(self._runner, every, floats=True)
        single = {
            tensor.name for tensor in self._runner.get_output_tensors() if tensor.dims[0] == 1
        }
        return {
            name: array.reshape(count, *array.shape[2:]) if name in single else array
            for name, array in found.items()
        }

    def _nothing(self, given: Mapping[str, Array]) -> dict[str, Array]:
        """Return the results for no sample.

        Raises
        ------
        TensorError
            An input has another shape, or a result no axis for samples.
        """
        for name, tensor in self._runner.get_input_names().items():
            if name in given and given[name].shape != (0, *tensor.dims[1:]):
                raise TensorError(
                    f"input {name!r} has shape {given[name].shape}, but must be of no sample, "
                    f"{(0, *tensor.dims[1:])}, as others are"
                )
        found: dict[str, Array] = {}
        for tensor in self._runner.get_output_tensors():
            if tensor.dims[0] != 1:
                raise TensorError(
                    f"the inputs hold no sample, but output {tensor.name!r} has shape "
                    f"{tuple(tensor.dims)} for any"
                )
            found[tensor.name] = np.empty((0, *tensor.dims[1:]), np.float32)
        return found

    def close(self) -> None:
        """Free the device."""
        self._runner.close()


def _is_batch(array: Array, dims: Sequence[int]) -> bool:
    """Tell whether an array holds another number of samples than one, along its first axis."""
    return array.shape[1:] == tuple(dims[1:]) and tuple(dims[:1]) == (1,) and len(array) != 1
