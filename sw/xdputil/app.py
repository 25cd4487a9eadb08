# SPDX-License-Identifier: Apache-2.0
"""What the commands of ``xdputil`` share."""

import json
import pathlib
import re
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from opendpu.runtime.description import children_of
from opendpu_arch.errors import GraphError, TensorError
from xir import Graph, Subgraph, Tensor

WHOLE_GRAPH = -1
"""Index that means all subgraphs, by the graph runner."""

Xmodel = Annotated[
    pathlib.Path, typer.Argument(metavar="XMODEL", help="Compiled model.", show_default=False)
]

app = typer.Typer(
    name="xdputil",
    help="Look inside compiled models and run them, as the tool of this name on a board.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def print_json(value: Any) -> None:
    """Print a value as the tool does: sorted keys, four spaces."""
    typer.echo(json.dumps(value, indent=4, sort_keys=True))


def file_name(name: str) -> str:
    """Return a tensor's name as part of a file's: what would be a path becomes ``_``."""
    return re.sub(r"[/\\\0]", "_", name)


def subgraph_at(graph: Graph, index: int) -> Subgraph:
    """Return the subgraph with an index, counted from 0 in the order they run.

    Raises
    ------
    GraphError
        The model is not compiled, or has no such subgraph.
    """
    children = children_of(graph)
    if not 0 <= index < len(children):
        names = ", ".join(f"{i} {child.get_name()}" for i, child in enumerate(children))
        raise GraphError(
            f"subgraph {index} was asked for, but graph {graph.get_name()!r} has {names or 'none'}"
        )
    return children[index]


def read_tensor(path: pathlib.Path, tensor: Tensor) -> npt.NDArray[Any]:
    """Return the elements of a tensor from a raw file, dense and in the tensor's order.

    Raises
    ------
    TensorError
        The file is missing, or has another size than the tensor.
    """
    dtype = tensor.data_type.numpy()
    wanted = tensor.get_element_num() * dtype.itemsize
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size == wanted else b""
    except OSError as error:
        raise TensorError(
            f"fail to read! filename={path};tensor={tensor.name}: {error.strerror}"
        ) from error
    if len(data) != wanted:
        raise TensorError(
            f"{path} has {size} bytes, but tensor {tensor.name!r} {list(tensor.dims)} "
            f"{tensor.dtype} has {wanted}"
        )
    return np.frombuffer(data, dtype).reshape(tensor.dims)
