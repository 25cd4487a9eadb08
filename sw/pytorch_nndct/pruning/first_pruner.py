# SPDX-License-Identifier: Apache-2.0
"""The pruner of Vitis AI 1 (``Pruner``, ``InputSpec``), over iterative pruning.

``get_pruning_runner`` took its place in Vitis AI 2; scripts for it go on working.
"""

import copy
import dataclasses
import pathlib
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from opendpu.pruning.arguments import path_of, wrong
from opendpu_arch import outputs
from pytorch_nndct.pruning.iterative import IterativePruningRunner
from pytorch_nndct.pruning.runner import DIVISIBLE, Excludes
from pytorch_nndct.pruning.script import rebuilding_script
from pytorch_nndct.utils import slim


@dataclasses.dataclass(frozen=True)
class InputSpec:
    """What one input of a network is.

    Parameters
    ----------
    shape
        Its sizes, without that of the batch.
    dtype
        Its type.
    """

    shape: Sequence[int]
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        """Check both."""
        sizes = self.shape if isinstance(self.shape, Sequence) else ()
        if not sizes or not all(isinstance(size, int) and size > 0 for size in sizes):
            raise wrong("shape", self.shape, "sizes above 0, without the batch")
        if not isinstance(self.dtype, torch.dtype):
            raise wrong("dtype", self.dtype, "a type of PyTorch's, such as torch.float32")

    def tensor(self) -> torch.Tensor:
        """Return one sample of it; values do not matter."""
        shape = (1, *self.shape)
        if self.dtype.is_floating_point:
            return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(self.dtype)
        return torch.zeros(shape, dtype=self.dtype)


class Pruner:
    """Prunes channels by an analysis of single groups, a little more each time.

    Parameters
    ----------
    module
        The network; for another round one with the parameters that the last round saved.
    input_specs
        :class:`InputSpec`, or several of them; tensors with a batch are taken, too.
    """

    def __init__(self, module: nn.Module, input_specs: Any) -> None:
        several = input_specs if isinstance(input_specs, (list, tuple)) else [input_specs]
        self._inputs = tuple(_tensor(one) for one in several)
        self._module = module
        self._runner = IterativePruningRunner(module, self._inputs)

    def ana(
        self,
        eval_fn: Callable[..., Any],
        args: Sequence[Any] = (),
        gpus: Sequence[Any] | None = None,
        excludes: Excludes = None,
    ) -> None:
        """Find out what pruning single groups costs, as :meth:`IterativePruningRunner.ana`."""
        self._runner.ana(eval_fn, args, gpus=gpus, excludes=excludes)

    def prune(
        self,
        ratio: float | None = None,
        threshold: float | None = None,
        excludes: Excludes = None,
        output_script: str | pathlib.Path | None = None,
        channel_divisible: int = DIVISIBLE,
    ) -> nn.Module:
        """Return the network with zeros in place of channels, which stay zero in training.

        Its ``save(path)`` writes the parameters as they are, for the next round;
        ``pruned_state_dict()`` are those without the channels, for
        :func:`pytorch_nndct.utils.slim.load_state_dict` and for the script.

        Parameters
        ----------
        ratio, threshold, excludes, channel_divisible
            As for :meth:`IterativePruningRunner.prune`.
        output_script
            Where a program is written whose class makes the network without the channels, if the
            network can be traced by ``torch.fx`` and its layers are PyTorch's own.

        Raises
        ------
        UnsupportedError
            An argument is out of range, or the network cannot be written as a program.
        ModelFormatError
            There is no analysis, or it is of another network.
        """
        path = None
        if output_script is not None:
            path = pathlib.Path(path_of("output_script", output_script))
            path.parent.mkdir(parents=True, exist_ok=True)
            outputs.check(path)
        made: Any = self._runner.prune(
            removal_ratio=ratio, threshold=threshold, excludes=excludes,
            channel_divisible=channel_divisible,
        )  # fmt: skip
        if path is not None:
            outputs.write(path, rebuilding_script(self._slim(made)))
        for function in (save, pruned_state_dict):
            if not hasattr(type(made), function.__name__):
                setattr(made, function.__name__, types.MethodType(function, made))
        return made  # type: ignore[no-any-return]

    def summary(self, pruned_model: nn.Module) -> None:
        """Print layers, MACs and parameters of the network as it was, and of a pruned one."""
        from opendpu.optimize.layers import layers_of

        if not hasattr(pruned_model, "slim_state_dict"):
            raise wrong("pruned_model", type(pruned_model).__name__, "what prune returned")
        before = layers_of(self._module, self._inputs)
        after = layers_of(self._slim(pruned_model), self._inputs)
        rows = [f"{'layer':40} {'MACs':>26} {'parameters':>22}"]
        for name, layer in before.items():
            less = after[name]
            rows.append(
                f"{name:40} {layer.macs:>12} {less.macs:>13} {layer.parameters:>10} "
                f"{less.parameters:>11}"
            )
        macs, left = (sum(one.macs for one in some.values()) for some in (before, after))
        rows.append(f"MACs: {macs} before, {left} after ({1 - left / max(macs, 1):.1%} less)")
        sys.stdout.write("\n".join(rows) + "\n")

    def _slim(self, pruned: Any) -> nn.Module:
        return slim.load_state_dict(copy.deepcopy(self._module), pruned.slim_state_dict())


def save(self: nn.Module, path: str | pathlib.Path) -> None:
    """Write the parameters of a pruned network, zeros included."""
    torch.save(self.state_dict(), path)


def pruned_state_dict(self: Any) -> dict[str, torch.Tensor]:
    """Return the parameters of a pruned network without the channels that are zero."""
    return self.slim_state_dict()  # type: ignore[no-any-return]


def _tensor(given: Any) -> torch.Tensor:
    if isinstance(given, InputSpec):
        return given.tensor()
    if isinstance(given, torch.Tensor):
        return given
    raise wrong("input_specs", type(given).__name__, "InputSpec, or tensors")
