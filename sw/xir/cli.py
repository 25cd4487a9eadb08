# SPDX-License-Identifier: Apache-2.0
"""The command ``xir``: looks inside ``.xmodel`` files, with the commands of AMD's."""

import functools
import os
import pathlib
from collections.abc import Callable
from typing import Annotated, ParamSpec

import typer

from opendpu_arch import outputs
from opendpu_arch.errors import DPUError
from xir import dump
from xir.graph import Graph

Parameters = ParamSpec("Parameters")

Model = Annotated[pathlib.Path, typer.Argument(metavar="XMODEL", show_default=False)]
Folder = Annotated[pathlib.Path, typer.Argument(metavar="DIR", show_default=False)]

app = typer.Typer(
    name="xir",
    help="Look inside .xmodel files.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _errors_in_one_line(function: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """Turn errors of our family into one line on stderr and exit code 1."""

    @functools.wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except DPUError as error:
            typer.echo(f"xir: error: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(1) from None

    return run


@app.command("graph")
@_errors_in_one_line
def show_graph(xmodel: Model) -> None:
    """Show the attributes of the graph."""
    typer.echo(dump.attributes(Graph.deserialize(xmodel)), nl=False)


@app.command("subgraph")
@_errors_in_one_line
def show_subgraphs(xmodel: Model) -> None:
    """Show the tree of subgraphs."""
    typer.echo(dump.tree(Graph.deserialize(xmodel).get_root_subgraph()), nl=False)


@app.command("dump_reg")
@_errors_in_one_line
def show_registers(xmodel: Model) -> None:
    """Show what the registers of each subgraph for the DPU are for."""
    typer.echo(dump.registers(Graph.deserialize(xmodel).get_root_subgraph()), nl=False)


@app.command("dump_txt")
@_errors_in_one_line
def dump_txt(
    xmodel: Model,
    txt: Annotated[pathlib.Path | None, typer.Argument(metavar="[TXT]", show_default=False)] = None,
) -> None:
    """Write everything as text, to the standard output or to a file.

    With ENABLE_DUMP=1 in the environment, byte values are written to <MD5>.bin as well.
    """
    if txt is not None:
        outputs.check(txt, inputs=[xmodel])
    folder = pathlib.Path() if os.environ.get("ENABLE_DUMP") == "1" else None
    text = dump.text(xmodel, folder)
    if txt is None:
        typer.echo(text, nl=False)
        return
    outputs.write(txt, text)


@app.command("dump_bin")
@app.command("dump_code")
@_errors_in_one_line
def dump_code(xmodel: Model, folder: Folder) -> None:
    """Write machine code, assembly and parameters to a folder.

    The files are <subgraph>.mc, <subgraph>.ac and <register>.bin; <subgraph>.<register>.bin
    where several subgraphs have parameters.
    """
    for file in dump.code(Graph.deserialize(xmodel), folder):
        typer.echo(f"dump to {file}")


@app.command("png")
@_errors_in_one_line
def draw_png(
    xmodel: Model, png: Annotated[pathlib.Path, typer.Argument(show_default=False)]
) -> None:
    """Draw the graph as PNG."""
    outputs.check(png, inputs=[xmodel])
    Graph.deserialize(xmodel).save_as_image(png, "png")


@app.command("svg")
@_errors_in_one_line
def draw_svg(
    xmodel: Model, svg: Annotated[pathlib.Path, typer.Argument(show_default=False)]
) -> None:
    """Draw the graph as SVG."""
    outputs.check(svg, inputs=[xmodel])
    Graph.deserialize(xmodel).save_as_image(svg, "svg")


@app.command("help")
def show_help(context: typer.Context) -> None:
    """Show this."""
    assert context.parent is not None
    typer.echo(context.parent.get_help())


def main() -> None:
    """Run the command line."""
    app(prog_name="xir")
