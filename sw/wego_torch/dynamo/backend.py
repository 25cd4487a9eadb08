# SPDX-License-Identifier: Apache-2.0
"""The backend: what TorchDynamo calls with every graph that it finds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from wego_torch.dynamo.region import Region
from wego_torch.dynamo.session import session_of


def opendpu(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Return a function that computes a graph, its supported parts on the DPU.

    Parameters
    ----------
    graph, example_inputs
        From TorchDynamo.
    options
        See :class:`wego_torch.dynamo.options.Options`.
    mode
        Accepted: the modes of ``torch.compile`` are of its own code generator.

    Raises
    ------
    WegoError
        An option is wrong, or the module is in training mode.
    """
    del mode
    return Region(graph, example_inputs, session_of(options))
