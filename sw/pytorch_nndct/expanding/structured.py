# SPDX-License-Identifier: Apache-2.0
"""Fills up the channels of a network's convolutions."""

from collections.abc import Iterable
from typing import Any

from torch import nn

from opendpu.pruning.arguments import whole
from opendpu_arch.errors import ModelFormatError
from pytorch_nndct.expanding.spec import ExpandingSpec


class ExpandingRunner:
    """A network that can be filled up; it stays as it is.

    Parameters
    ----------
    model
        The network.
    input_signature
        What it is called with: a tensor, or several.
    """

    def __init__(self, model: nn.Module, input_signature: Any) -> None:
        from opendpu.optimize.groups import check_module

        check_module(model)
        self._model, self._inputs = model, input_signature

    def expand(
        self, channel_divisible: int, exclude_nodes: Iterable[str | nn.Module] = ()
    ) -> tuple[nn.Module, ExpandingSpec]:
        """Return the network with zero channels, and what was added.

        Convolutions whose channels cannot be more (a reader fixes their number, say) stay; the
        specification says why.

        Raises
        ------
        UnsupportedError
            The number is below one, the network cannot be traced, or has no such node.
        """
        from opendpu.optimize.expansion import expandable, expanded
        from opendpu.optimize.groups import excluded_paths

        whole("channel_divisible", channel_divisible)
        paths = excluded_paths(self._model, exclude_nodes)
        found, added = expandable(self._model, self._inputs, channel_divisible, paths)
        spec = ExpandingSpec(channel_divisible, added, found.kept)
        return expanded(self._model, found, added), spec

    def expand_from_spec(self, expanding_spec: ExpandingSpec) -> nn.Module:
        """Return the network as an earlier expansion made it.

        Raises
        ------
        ModelFormatError
            The specification is for another network.
        """
        from opendpu.optimize.expansion import expanded
        from opendpu.optimize.groups import analyze

        found = analyze(self._model, self._inputs, results_too=True)
        strange = sorted(set(expanding_spec.added) - set(found.groups))
        if strange:
            raise ModelFormatError(
                f"the specification has {strange[0]!r}, which {type(self._model).__name__} has not",
                code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
            )
        return expanded(self._model, found, expanding_spec.added)
