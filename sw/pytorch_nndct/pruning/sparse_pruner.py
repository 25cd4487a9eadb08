# SPDX-License-Identifier: Apache-2.0
"""Fine-grained N:M sparsity, which the DPUs of this project make no use of."""

import copy
from collections.abc import Iterable
from typing import Any

from torch import nn

from opendpu.ops.inference import reason_of
from opendpu.pruning.arguments import one_of
from opendpu_arch.errors import UnsupportedError
from pytorch_nndct.nn.modules.sparse_ops import SparseConv2d, SparseLinear, make_plain

W_SPARSITY, A_SPARSITY, BLOCK_SIZES = (0, 0.5, 0.75), (0, 0.5), (4, 8, 16)
FEWEST_INPUTS = 16
"""Layers with more input channels than this become sparse."""


class SparsePruner:
    """Makes networks with zeros in every block of input channels.

    Parameters
    ----------
    model
        The network; it stays as it is.
    inputs
        What it is called with; values do not matter.

    Raises
    ------
    UnsupportedError
        The network is in a ``DataParallel``, or cannot be called with the inputs.
    """

    def __init__(self, model: nn.Module, inputs: Any) -> None:
        from opendpu.optimize.groups import check_module
        from opendpu.optimize.layers import layers_of

        check_module(model)
        try:
            self._layers = layers_of(model, inputs)
        except Exception as error:  # whatever the user's code raises
            reason = reason_of(error)
            raise UnsupportedError(
                f"{type(model).__name__} cannot be called with these inputs: {reason}",
                code="OPTIMIZER_PARSE_GRAPH_FAILED",
            ) from error
        self._model = model

    def sparse_model(
        self,
        w_sparsity: float = 0.5,
        a_sparsity: float = 0,
        block_size: int = 16,
        excludes: Iterable[str | nn.Module] | None = None,
    ) -> nn.Module:
        """Return a network whose layers have zeros where weights, or activations, are smallest.

        Of ``block_size`` consecutive input channels, the part ``w_sparsity`` with the smallest
        magnitudes counts as zero; which these are follows the weights in training, and gradients
        reach all of them.

        Parameters
        ----------
        w_sparsity
            0, 0.5 or 0.75.
        a_sparsity
            0 or 0.5; 0.5 only with ``w_sparsity`` 0.75.
        block_size
            4, 8 or 16.
        excludes
            Modules, or their names, that stay as they are.

        Raises
        ------
        UnsupportedError
            An argument is none of these.
        """
        from opendpu.optimize.groups import excluded_paths

        for name, value, allowed in (
            ("w_sparsity", w_sparsity, W_SPARSITY),
            ("a_sparsity", a_sparsity, A_SPARSITY),
            ("block_size", block_size, BLOCK_SIZES),
        ):
            one_of(name, value, allowed)
        if a_sparsity and w_sparsity != W_SPARSITY[-1]:
            raise UnsupportedError(
                f"a_sparsity is {a_sparsity}, which needs w_sparsity 0.75, not {w_sparsity}",
                code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
            )
        left_out = excluded_paths(self._model, excludes)
        made = copy.deepcopy(self._model)
        for path, module in made.named_modules():
            if any(path == item or path.startswith(f"{item}.") for item in left_out):
                continue
            layer = self._layers.get(path)
            if layer is None or layer.inputs // layer.groups <= FEWEST_INPUTS:
                continue
            if type(module) in (nn.Conv2d, nn.Linear):
                sparse: Any = module
                module.__class__ = SparseConv2d if layer.kernel else SparseLinear
                sparse.w_sparsity, sparse.a_sparsity = w_sparsity, a_sparsity
                sparse.block_size = block_size
        return made

    def export_sparse_model(self, model: nn.Module) -> nn.Module:
        """Return the network with plain layers, whose weights have the zeros."""
        from opendpu.optimize.groups import need_module

        need_module(model)
        made = copy.deepcopy(model)
        make_plain(made)
        return made
