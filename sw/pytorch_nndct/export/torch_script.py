# SPDX-License-Identifier: Apache-2.0
"""Quantized networks as TorchScript: one operator, which this package registers, and its network.

The operator computes what the compiled program computes. A file of it is read by ``torch.jit.load``
after ``import pytorch_nndct``.
"""

import functools
import io
import pathlib
import sys
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from opendpu.export.golden import make_folder
from opendpu.frontend.pytorch import Traced
from opendpu.ir import Array
from opendpu_arch import outputs
from opendpu_arch.target import Target
from pytorch_nndct import messages
from pytorch_nndct.program import IntegerNetwork
from pytorch_nndct.storage import constants, restored, stored

KEPT = 4
"""Networks that are kept ready at a time."""


@torch.library.custom_op("vai::quantized_network", mutates_args=())
def quantized_network(inputs: list[torch.Tensor], network: torch.Tensor) -> list[torch.Tensor]:
    """Return the outputs of a network, given its inputs in order.

    ``network`` is a file of ``torch.save`` as bytes, see :func:`write`.
    """
    found = _network(network.cpu().numpy().tobytes())
    arrays = [tensor.detach().cpu().numpy() for tensor in inputs]
    count = len(arrays[0]) if found.batched else None
    given = dict(zip(found.names, arrays, strict=True))
    results = found.network.run(given, count)
    device = inputs[0].device
    return [torch.from_numpy(np.array(array)).to(device) for array in results]


class _Network:
    """A network out of a file."""

    def __init__(self, content: bytes) -> None:
        saved = torch.load(io.BytesIO(content), weights_only=True)
        target = Target.from_name(saved["target"]) if saved["target"] else None
        self.network = IntegerNetwork(restored(saved["graph"], saved["constants"]), target)
        self.names: list[str] = saved["names"]
        self.batched: bool = saved["batched"]


@functools.lru_cache(maxsize=KEPT)
def _network(content: bytes) -> _Network:
    return _Network(content)


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
        The module's arguments are not plain tensors, so that TorchScript cannot call it.
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.jit.trace(  # type: ignore[no-untyped-call]
            _Exported(content.getvalue(), traced), examples, strict=False, check_trace=False
        )
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
