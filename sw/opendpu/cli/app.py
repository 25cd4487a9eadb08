# SPDX-License-Identifier: Apache-2.0
"""What all commands share: the program, its options, and errors in one line."""

import functools
import importlib.metadata
import pathlib
from collections.abc import Callable
from typing import Annotated, Any, ParamSpec

import typer

from opendpu_arch.errors import DPUError

Parameters = ParamSpec("Parameters")

File = Annotated[pathlib.Path, typer.Argument(metavar="FILE", show_default=False)]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.")]

app = typer.Typer(
    name="opendpu",
    help="Compile networks for the DPU, run compiled models, look inside them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def version(wanted: bool) -> None:
    """Print the version and end, if it is wanted."""
    if wanted:
        typer.echo(f"opendpu {importlib.metadata.version('opendpu')}")
        raise typer.Exit


@app.callback()
def _global(
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of every command; ``--debug`` is read where errors are caught."""


def errors_in_one_line(
    function: Callable[Parameters, None],
) -> Callable[Parameters, None]:
    """Turn errors of our family into one line on stderr and exit code 1."""

    @functools.wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except DPUError as error:
            context: Any = kwargs["context"]
            root = context.find_root()
            if root.params.get("debug"):
                raise
            name = root.info_name or "opendpu"
            typer.echo(f"{name}: error: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(1) from None

    return run
