# SPDX-License-Identifier: Apache-2.0
"""Quantized networks as TorchScript: one operator, which this package registers, and its network.

The operator computes what the compiled program computes. A file of it is read by ``torch.jit.load``
after ``import pytorch_nndct``.
"""

import collections
import contextlib
import io
import pathlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from opendpu.export.golden import make_folder
from opendpu.frontend.pytorch import Traced
from opendpu.frontend.pytorch.batch import array_of
from opendpu.ir import Array
from opendpu_arch import outputs
from opendpu_arch.errors import DPUError, UnsupportedError
from opendpu_arch.target import Target
from pytorch_nndct import messages
from pytorch_nndct.program import IntegerNetwork
from pytorch_nndct.storage import constants, restored, stored

KEPT = 4
"""Networks that are kept ready at a time."""
QUANTIZED = "quantized"
"""Form of a network that says none."""

Ready = Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]
readers: dict[str, Callable[[Mapping[str, Any]], Ready]] = {}
"""What makes a network, by its form, out of what ``torch.load`` gives; others may add theirs."""


@torch.library.custom_op("vai::quantized_network", mutates_args=())
def quantized_network(inputs: list[torch.Tensor], network: torch.Tensor) -> list[torch.Tensor]:
    """Return the outputs of a network, given its inputs in order.

    ``network`` is a file of ``torch.save`` as bytes, see :func:`write`.
    """
    _failed.error = None
    try:
        return ready(network)(inputs)
    except DPUError as error:
        _failed.error = error
        raise


def _refuse(context: object, *gradients: object) -> None:
    raise UnsupportedError(
        "gradients are asked for, but a quantized network has none: train the float module"
    )


quantized_network.register_autograd(_refuse)
_failed = threading.local()


@contextlib.contextmanager
def in_one_line() -> Iterator[None]:
    """Raise what failed in a network itself, not the text that TorchScript makes of it."""
    _failed.error = None
    try:
        yield
    except RuntimeError:
        error, _failed.error = _failed.error, None
        if error is None:
            raise
        raise error from None


class _Quantized:
    """A quantized network out of a file, computed as the compiled program computes it."""

    def __init__(self, saved: Mapping[str, Any]) -> None:
        target = Target.from_name(saved["target"]) if saved["target"] else None
        self._network = IntegerNetwork(restored(saved["graph"], saved["constants"]), target)
        self._names: list[str] = saved["names"]
        self._batched: bool = saved["batched"]

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return the outputs, given the inputs in order."""
        arrays = [array_of(tensor) for tensor in inputs]
        count = len(arrays[0]) if self._batched else None
        results = self._network.run(dict(zip(self._names, arrays, strict=True)), count)
        device = inputs[0].device
        return [torch.from_numpy(np.array(array)).to(device) for array in results]


readers[QUANTIZED] = _Quantized
_kept: "collections.OrderedDict[tuple[int, int, int], tuple[torch.Tensor, Ready]]"
_kept = collections.OrderedDict()
_LOCK = threading.Lock()


def ready(network: torch.Tensor) -> Ready:
    """Return a network ready to run, given its file.

    One that was used lately is known by the memory that its file lies in, which is held as long.
    """
    key = (network.data_ptr(), network.numel(), network._version)
    with _LOCK:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key][1]
        saved = torch.load(io.BytesIO(network.cpu().numpy().tobytes()), weights_only=True)
        form = saved.get("form", QUANTIZED)
        if form not in readers:
            raise UnsupportedError(
                f"the module was {form} by wego_torch, which is not imported: import wego_torch"
            )
        _kept[key] = (network, readers[form](saved))
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
        return _kept[key][1]


class _Exported(torch.nn.Module):
    """A network as a module that ``torch.jit.trace`` takes."""

    def __init__(self, content: bytes, traced: Traced) -> None:
        super().__init__()
        network = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        self.register_buffer("network", network)
        self._signature = traced.signature

    def forward(self, *args: Any) -> Any:
        """Return the results, nested as those of the float module."""
        given = self._signature.tensors(args, {})
        found = torch.ops.vai.quantized_network(list(given.values()), self.network)
        return self._signature.nested(found)


def write(
    network: IntegerNetwork, folder: pathlib.Path, name: str, last: Mapping[str, Array],
    traced: Traced, *, verbose: bool,
) -> torch.jit.ScriptModule:  # fmt: skip
    """Write ``<name>_int.pt``; return the module in it.

    Raises
    ------
    VAIQError
        The module's arguments are not plain tensors, so that TorchScript cannot call it, or
        what it returns has None or other objects in it.
    OutputError
        The file cannot be written.
    """
    names = [given for given in traced.signature.inputs if given is not None]
    content = io.BytesIO()
    target = network.target.name if network.target else ""
    torch.save({
        "graph": stored(network.quantized), "constants": constants(network.quantized),
        "names": names, "batched": traced.batched, "target": target,
    }, content)  # fmt: skip
    examples = tuple(torch.from_numpy(last[given]) for given in names)
    if len(traced.signature.inputs) != len(names) or not traced.signature.is_flat(len(names)):
        raise messages.error(
            "QUANTIZER_TORCH_NO_SCRIPT_MODEL",
            f"{name} takes more than tensors as positional arguments, which TorchScript cannot",
        )
    try:
        module = scripted(content.getvalue(), traced, examples)
    except RuntimeError as error:  # what torch.jit.trace says of results that it does not know
        raise messages.error(
            "QUANTIZER_TORCH_NO_SCRIPT_MODEL",
            f"{name} returns {_form_of(traced)}, but TorchScript can return only tensors, lists "
            "and tuples of them, and dictionaries of tensors",
        ) from error
    if verbose:
        sys.stdout.write(f"{module.graph}\n")
    path = make_folder(folder) / f"{name}_int.pt"
    written = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(module, written)
    outputs.write(path, written.getvalue())
    messages.note(f"the TorchScript model is {path}")
    return module


def _form_of(traced: Traced) -> str:
    """Return how a module nests its results, with the types of what is nested."""

    def told(value: Any) -> str:
        if isinstance(value, dict):
            inside = ", ".join(f"{key!r}: {told(one)}" for key, one in value.items())
        elif isinstance(value, list | tuple):
            inside = ", ".join(map(told, value))
        else:
            return type(value).__name__
        return f"{type(value).__name__}({inside})"

    return told(traced.signature.nested([torch.empty(0)] * len(traced.graph.outputs)))


def scripted(
    content: bytes, traced: Traced, examples: Sequence[torch.Tensor]
) -> torch.jit.ScriptModule:
    """Return a network, given its file, as a TorchScript module that is called with tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(  # type: ignore[no-untyped-call]
            _Exported(content, traced), tuple(examples), strict=False, check_trace=False
        )
