# SPDX-License-Identifier: Apache-2.0
"""``xdputil xmodel``: what is in a compiled model."""

import pathlib
from typing import Annotated

import typer

from opendpu.cli.app import errors_in_one_line
from opendpu.runtime.description import children_of, describe_subgraph
from opendpu_arch import outputs
from opendpu_arch.errors import GraphError
from xdputil.app import Xmodel, app, print_json
from xir import Graph, Op, Subgraph, dot, dump


@app.command("xmodel")
@errors_in_one_line
def show_xmodel(
    context: typer.Context,
    xmodel: Xmodel,
    as_list: Annotated[
        bool, typer.Option("-l", "--list", help="List the subgraphs, as JSON.")
    ] = False,
    op: Annotated[str | None, typer.Option("--op", help="Show an op, as JSON.")] = None,
    meta_info: Annotated[
        bool, typer.Option("-m", "--meta_info", help="Show where the model comes from.")
    ] = False,
    png: Annotated[pathlib.Path | None, typer.Option("-p", "--png", help="Draw as PNG.")] = None,
    svg: Annotated[pathlib.Path | None, typer.Option("-s", "--svg", help="Draw as SVG.")] = None,
    subgraph: Annotated[
        pathlib.Path | None, typer.Option("-S", "--subgraph", help="Draw the subgraphs as SVG.")
    ] = None,
    txt: Annotated[
        pathlib.Path | None, typer.Option("-t", "--txt", help="Write everything as text; - prints.")
    ] = None,
    binary: Annotated[
        pathlib.Path | None,
        typer.Option("-b", "--binary", help="Write machine code and parameters to a folder."),
    ] = None,
) -> None:
    """Show, draw or dump a model; the list of subgraphs if nothing is asked for."""
    printed = txt is not None and str(txt) == "-"
    outputs.check_all((png, svg, subgraph, None if printed else txt), inputs=(xmodel,))
    graph = Graph.deserialize(xmodel)
    anything = meta_info or op or png or svg or subgraph or txt or binary
    if as_list or not anything:
        children = children_of(graph)
        found = [describe_subgraph(child, index) for index, child in enumerate(children)]
        print_json({"subgraphs": found})
    if meta_info:
        print_json(_meta(graph))
    if op is not None:
        print_json(_described(_op(graph, op)))
    if png is not None:
        graph.save_as_image(png, "png")
    if svg is not None:
        graph.save_as_image(svg, "svg")
    if subgraph is not None:
        text = dot.render_subgraphs(graph.get_root_subgraph().picture())
        dot.draw(text, subgraph, "svg")
    if txt is not None:
        text = dump.text(xmodel)
        typer.echo(text, nl=False) if printed else outputs.write(txt, text)
    if binary is not None:
        for file in _write_code(graph, binary):
            typer.echo(f"dump to {file}")


def _meta(graph: Graph) -> dict[str, object]:
    """Return the attributes of a graph; of the files it was made from only the names."""
    found: dict[str, object] = dict(graph.get_attrs())
    files = found.get("files_md5sum")
    if isinstance(files, dict):
        found["files_md5sum"] = {pathlib.PurePath(name).name: md5 for name, md5 in files.items()}
    return {name: value for name, value in found.items() if _is_plain(value)}


def _is_plain(value: object) -> bool:
    """Return whether JSON can say a value: not machine code or parameters."""
    if isinstance(value, dict):
        return all(_is_plain(item) for item in value.values())
    if isinstance(value, list):
        return all(_is_plain(item) for item in value)
    return isinstance(value, str | int | float | bool)


def _op(graph: Graph, name: str) -> Op:
    found = graph.get_op(name)
    if found is None:
        raise GraphError(f"graph {graph.get_name()!r} has no op {name!r}")
    return found


def _described(op: Op) -> dict[str, object]:
    """Return an op with its inputs, output and attributes."""
    return {
        "name": op.get_name(),
        "type": op.get_type(),
        "inputs": {
            argument: [_tensor(source) for source in sources]
            for argument, sources in op.get_input_ops().items()
        },
        "output": _tensor(op),
        "attrs": {name: value for name, value in op.get_attrs().items() if _is_plain(value)},
        "fanout": [user.get_name() for user in op.get_fanout_ops()],
    }


def _tensor(op: Op) -> dict[str, object]:
    tensor = op.get_output_tensor()
    found: dict[str, object] = {
        "op_name": op.get_name(),
        "tensor_name": tensor.name,
        "shape": list(tensor.dims),
        "type": tensor.dtype,
    }
    if tensor.has_attr("fix_point"):
        found["fixpos"] = tensor.get_attr("fix_point")
    return found


def _write_code(graph: Graph, folder: pathlib.Path) -> list[pathlib.Path]:
    """Write ``sg_N/mc_code.bin`` and ``sg_N/REG_x.bin`` of each DPU subgraph; return the files."""
    outputs.check_folder(folder)
    written = []
    for index, child in enumerate(children_of(graph)):
        for name, content in _binaries(child).items():
            path = folder / f"sg_{index}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            outputs.write(path, content)
            written.append(path)
    if not written:
        raise GraphError(f"graph {graph.get_name()!r} has no machine code; is it compiled?")
    return written


def _binaries(child: Subgraph) -> dict[str, bytes]:
    attrs = child.get_attrs()
    if "mc_code" not in attrs:
        return {}
    parameters = attrs.get("reg_id_to_parameter_value", {})
    return {"mc_code.bin": attrs["mc_code"]} | {
        f"{name}.bin": value for name, value in parameters.items() if name.startswith("REG_")
    }
