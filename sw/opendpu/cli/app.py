# SPDX-License-Identifier: Apache-2.0
"""What all commands share: the program, its options, and errors in one line."""

import contextlib
import functools
import importlib.metadata
import pathlib
import signal
import warnings
from collections.abc import Callable, Iterator
from typing import Annotated, Any, ParamSpec

import typer

from opendpu.cli.commands import Commands
from opendpu_arch.errors import DPUError

Parameters = ParamSpec("Parameters")

File = Annotated[pathlib.Path, typer.Argument(metavar="FILE", show_default=False)]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.")]
InputShapes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=1,3,224,224",
        help="Shape of an input, or size of a named dimension (height=224), that the model "
        "leaves open. May be given several times.",
    ),
]
InputValues = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="What an input always is, which then is no input any more: a number, numbers with "
        "commas between, or an .npy or .npz file. May be given several times.",
    ),
]
Signature = Annotated[
    str | None,
    typer.Option(
        "--signature",
        metavar="NAME",
        help="Which signature of a SavedModel; by default serving_default, or the only one.",
    ),
]
OnnxLibraries = Annotated[
    list[pathlib.Path] | None,
    typer.Option(
        metavar="LIBRARY.so",
        help="Operators of other domains, for onnxruntime. May be given several times.",
    ),
]
Requantize = Annotated[
    bool,
    typer.Option(
        "--requantize",
        help="Change the scales of a TFLite or ONNX file that are no powers of two, and say what "
        "that costs: with --calib by quantizing anew, else to what holds the file's ranges.",
    ),
]

app = typer.Typer(
    name="opendpu",
    cls=Commands,
    help="Compile networks for the DPU, run compiled models, look inside them.",
    no_args_is_help=True,
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


def end_on_signals() -> None:
    """Let what ends a process end it as Ctrl-C does, so that files and programs are cleaned up."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)


@contextlib.contextmanager
def _warnings_in_one_line(name: str) -> Iterator[None]:
    """Show warnings as one line on stderr, without the place in the code that gave them."""

    def show(message: Warning | str, *_where: Any, **_more: Any) -> None:
        typer.echo(f"{name}: warning: {' '.join(str(message).split())}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def errors_in_one_line(
    function: Callable[Parameters, None],
) -> Callable[Parameters, None]:
    """Turn errors of our family, and lack of memory, into one line on stderr and exit code 1."""

    @functools.wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        context: Any = kwargs["context"]
        root = context.find_root()
        name = root.info_name or "opendpu"
        try:
            with _warnings_in_one_line(name):
                function(*args, **kwargs)
        except (DPUError, MemoryError) as error:
            if root.params.get("debug"):
                raise
            short = isinstance(error, MemoryError)
            reason = f"not enough memory: {error or 'allocation failed'}" if short else str(error)
            typer.echo(f"{name}: error: {' '.join(reason.split())}", err=True)
            raise typer.Exit(1) from None

    return run
