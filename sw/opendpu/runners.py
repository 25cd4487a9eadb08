# SPDX-License-Identifier: Apache-2.0
"""Compiled models from files, and what runs them.

All of it is in :mod:`opendpu.api` too, which brings the compiler with it; programs that only run
models start sooner with this.
"""

import os
from typing import Any

from opendpu.runtime import Device, GraphRunner, Runner
from opendpu.runtime.program import dpu_subgraphs
from opendpu_arch.errors import GraphError
from opendpu_arch.target import Target
from xir import Graph


def load(path: str | os.PathLike[str]) -> Graph:
    """Return the graph in an ``.xmodel`` file.

    Raises
    ------
    ModelFormatError
        The file cannot be read, is truncated or corrupt, or is no ``.xmodel``.
    """
    return Graph.deserialize(path)


def create_runner(
    model: Graph | str | os.PathLike[str],
    *,
    subgraph: int | None = None,
    device: Device | str | None = None,
    memory: str | None = None,
    target: Target | str | None = None,
    workers: int | None = None,
    **options: Any,
) -> GraphRunner | Runner:
    """Return a runner for a whole graph, or for the DPU subgraph with index ``subgraph``.

    ``device`` (``ref``, ``iss``, ``rtl``, ``cycle``) and ``memory`` (``kv260``, ``ideal``,
    ``stall:<seed>``) default to the environment's ``OPENDPU_DEVICE`` and ``OPENDPU_MEMORY``;
    ``target`` to the DPU the model was compiled for. ``workers`` bounds the jobs that run at a
    time.

    Raises
    ------
    GraphError
        There is no such subgraph.
    UnsupportedError
        The device is unknown, or the CPU cannot compute an op of a whole graph.
    FingerprintError
        The model was compiled for another DPU than ``target``.
    """
    graph = model if isinstance(model, Graph) else load(model)
    settings: dict[str, Any] = {
        "device": device,
        "memory": memory,
        "target": target,
        "workers": workers,
        **options,
    }
    if subgraph is None:
        return GraphRunner(graph, **settings)
    found = dpu_subgraphs(graph)
    if not 0 <= subgraph < len(found):
        raise GraphError(
            f"DPU subgraph {subgraph} was asked for, but graph {graph.get_name()!r} has "
            f"{len(found)}: {', '.join(s.get_name() for s in found) or 'none'}",
            code="VART_OUT_OF_RANGE",
        )
    return Runner(found[subgraph], **settings)
