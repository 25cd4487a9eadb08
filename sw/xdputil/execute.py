# SPDX-License-Identifier: Apache-2.0
"""``xdputil run`` and ``run_op``: subgraphs and single ops on raw files."""

import enum
import pathlib
from typing import Annotated

import numpy as np
import typer

import vart
from opendpu.cli.app import errors_in_one_line
from opendpu.runners import create_runner
from opendpu.runtime.arrays import Array
from opendpu.runtime.cpu import evaluate
from opendpu_arch import outputs
from opendpu_arch.errors import GraphError, TensorError
from xdputil.app import WHOLE_GRAPH, Xmodel, app, file_name, read_tensor, subgraph_at
from xir import Graph, Tensor


class Mode(enum.StrEnum):
    """Modes of a runner."""

    RUN = "run"
    REF = "ref"
    SIM = "sim"


@app.command("run")
@errors_in_one_line
def run(
    context: typer.Context,
    xmodel: Xmodel,
    binaries: Annotated[
        list[pathlib.Path],
        typer.Argument(
            metavar="BIN...",
            help="Raw inputs, in the order of the tensors' names.",
            show_default=False,
        ),
    ],
    index: Annotated[
        int, typer.Option("-i", "--index", help="Subgraph, counted from 0; -1 for the whole graph.")
    ] = 1,
    mode: Annotated[Mode, typer.Option("-r", "--runner", help="Mode of the runner.")] = Mode.RUN,
) -> None:
    """Run a subgraph on raw files; outputs go to 0.TENSOR.bin in the current folder."""
    graph = Graph.deserialize(xmodel)
    if index == WHOLE_GRAPH:
        with create_runner(graph) as whole:
            inputs = _read_all(whole.get_input_tensors(), binaries)
            results = [np.empty(t.dims, t.data_type.numpy()) for t in whole.get_output_tensors()]
            whole.wait(whole.execute_async(inputs, results))
            tensors = whole.get_output_tensors()
    else:
        runner = vart.RunnerExt.create_runner(subgraph_at(graph, index), mode.value)
        inputs = _read_all(runner.get_input_tensors(), binaries)
        results = list(runner.get_outputs())
        runner.wait(runner.execute_async(inputs, results))
        tensors = runner.get_output_tensors()
    for tensor, array in zip(tensors, results, strict=True):
        path = pathlib.Path(f"0.{file_name(tensor.name)}.bin")
        outputs.write(path, np.ascontiguousarray(array).tobytes())
        typer.echo(f"dump output to {path}")


def _read_all(tensors: list[Tensor], binaries: list[pathlib.Path]) -> list[Array]:
    """Return the inputs of a job from files, one a tensor."""
    if len(binaries) != len(tensors):
        names = ", ".join(tensor.name for tensor in tensors)
        raise TensorError(f"{len(binaries)} files given, but the inputs are {names}")
    arrays = []
    for tensor, path in zip(tensors, binaries, strict=True):
        arrays.append(read_tensor(path, tensor))
        typer.echo(f"fillin {tensor.name} from {path}")
    return arrays


@app.command("run_op")
@errors_in_one_line
def run_op(
    context: typer.Context,
    xmodel: Xmodel,
    op_name: Annotated[str, typer.Argument(help="Name of the op.", show_default=False)],
    ref_dir: Annotated[
        pathlib.Path,
        typer.Option("-r", "--ref_dir", help="Folder with inputs, a file <TENSOR_NAME>.bin each."),
    ] = pathlib.Path("ref"),
    dump_dir: Annotated[
        pathlib.Path, typer.Option("-d", "--dump_dir", help="Folder for the output.")
    ] = pathlib.Path("dump"),
) -> None:
    """Run one op on the CPU, a custom one too, and write <TENSOR_NAME>.bin."""
    graph = Graph.deserialize(xmodel)
    op = graph.get_op(op_name)
    if op is None:
        raise GraphError(f"graph {graph.get_name()!r} has no op {op_name!r}")
    outputs.check_folder(dump_dir)
    typer.echo(f"try to test op: {op_name}")
    inputs = []
    for source in op.get_input_ops_list():
        tensor = source.get_output_tensor()
        typer.echo(f"input op: {source.get_name()} tensor: {tensor.name}")
        inputs.append(read_tensor(ref_dir / f"{file_name(tensor.name)}.bin", tensor))
    result = evaluate(op, inputs)
    path = dump_dir / f"{file_name(op.get_output_tensor().name)}.bin"
    dump_dir.mkdir(parents=True, exist_ok=True)
    outputs.write(path, np.ascontiguousarray(result).tobytes())
    typer.echo(f"write output to {path} size={result.nbytes}")
    typer.echo("test pass")
