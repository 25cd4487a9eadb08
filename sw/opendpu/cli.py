# SPDX-License-Identifier: Apache-2.0
"""The command line, thin over :mod:`opendpu.api`."""

import functools
import importlib.metadata
import json
import pathlib
import time
from collections.abc import Callable, Iterable
from typing import Annotated, Any, ParamSpec

import typer
from rich.console import Console
from rich.table import Table

from opendpu import api
from opendpu.runtime import listing, npz
from opendpu_arch.errors import DPUError
from opendpu_arch.target import Target, registered

Parameters = ParamSpec("Parameters")

app = typer.Typer(
    name="opendpu",
    help="Compile networks for the DPU, run compiled models, look inside them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"opendpu {importlib.metadata.version('opendpu')}")
        raise typer.Exit


@app.callback()
def _global(
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of every command; ``--debug`` is read where errors are caught."""


def _errors_in_one_line(
    function: Callable[Parameters, None],
) -> Callable[Parameters, None]:
    """Turn errors of our family into one line on stderr and exit code 1."""

    @functools.wraps(function)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except DPUError as error:
            context: Any = kwargs["context"]
            if context.find_root().params["debug"]:
                raise
            typer.echo(f"opendpu: error: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(1) from None

    return run


File = Annotated[pathlib.Path, typer.Argument(metavar="FILE", show_default=False)]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
@_errors_in_one_line
def run(
    context: typer.Context,
    file: File,
    input_file: Annotated[
        pathlib.Path,
        typer.Option(
            "--input",
            "-i",
            metavar="IN.npz",
            help="Inputs by tensor name; a leading extra axis is a batch of jobs.",
        ),
    ],
    output_file: Annotated[
        pathlib.Path,
        typer.Option("--output", "-o", metavar="OUT.npz", help="Where outputs go, by tensor name."),
    ],
    device: Annotated[
        str | None, typer.Option(help="iss, rtl; else $OPENDPU_DEVICE, else iss.")
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(help="kv260, ideal, stall:<seed>; else $OPENDPU_MEMORY, else kv260."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="DPU of the device; by default the one the model was compiled for."),
    ] = None,
    subgraph: Annotated[
        int | None,
        typer.Option(
            help="Run only this DPU subgraph, counted from 0; by default the names of "
            "the inputs decide between the whole graph and a DPU subgraph."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print statistics as JSON.")] = False,
) -> None:
    """Run a compiled model."""
    arrays = npz.read(input_file)
    graph = api.load(file)
    chosen = subgraph if subgraph is not None else api.subgraph_of_inputs(graph, arrays)
    start = time.perf_counter()
    with api.create_runner(
        graph,
        subgraph=chosen,
        device=device,
        memory=memory,
        target=api.find_target(target) if target else None,
    ) as runner:
        outputs, statistics = api.run_batch(runner, arrays)
    seconds = time.perf_counter() - start
    npz.write(output_file, outputs)
    report = {
        "file": str(file),
        "jobs": len(statistics),
        "wall_seconds": seconds,
        "total": _total(part for job in statistics for part in job.values()),
        "outputs": {name: list(array.shape) for name, array in outputs.items()},
        "statistics": statistics,
    }
    typer.echo(json.dumps(report) if as_json else _summary(report))


def _total(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Add up the figures of DPU subgraphs and jobs."""
    total: dict[str, Any] = dict.fromkeys(
        ("instructions", "cycles", "bytes_read", "bytes_written", "wall_seconds"), 0
    )
    busy: dict[str, int] = {}
    for part in parts:
        for key in total:
            total[key] += part[key]
        for name, cycles in part["busy_cycles"].items():
            busy[name] = busy.get(name, 0) + cycles
    return {**total, "busy_cycles": busy}


def _summary(report: dict[str, Any]) -> str:
    lines = [f"{report['jobs']} job(s) in {report['wall_seconds']:.3f} s"]
    for name, job in (report["statistics"][0] if report["statistics"] else {}).items():
        cycles = f", {job['cycles']} cycles" if job["cycles"] else ""
        lines.append(
            f"{name}: {job['device']}, {job['instructions']} instructions{cycles}, "
            f"{job['bytes_read']} bytes read, {job['bytes_written']} written (first job)"
        )
    lines += [f"{name}: {shape}" for name, shape in report["outputs"].items()]
    return "\n".join(lines)


@app.command("disasm")
@_errors_in_one_line
def disassemble(
    context: typer.Context,
    file: File,
    numbers: Annotated[
        bool, typer.Option(help="Instruction numbers; without them the text can be assembled.")
    ] = True,
) -> None:
    """List the instructions of an .xmodel, or of raw machine code (.bin, .mc)."""
    typer.echo(listing.disassemble_file(file, numbers=numbers), nl=False)


@app.command()
@_errors_in_one_line
def targets(context: typer.Context, as_json: JsonFlag = False) -> None:
    """List the DPUs that have a name."""
    entries = [_describe(Target.from_fingerprint(value)) for value in registered().values()]
    if as_json:
        typer.echo(json.dumps(entries, indent=2))
        return
    table = Table(box=None)
    for column in ("target", "fingerprint"):
        table.add_column(column, no_wrap=True)
    for column in ("MACs/cycle", "PP", "CP", "ALU PP", "banks"):
        table.add_column(column, justify="right")
    for entry in entries:
        table.add_row(*(str(value) for value in entry.values()))
    Console().print(table)


def _describe(target: Target) -> dict[str, Any]:
    return {
        "name": target.name,
        "fingerprint": f"{target.fingerprint:#x}",
        "macs_per_cycle": target.macs_per_cycle,
        "pixel_parallel": target.pixel_parallel,
        "channel_parallel": target.channel_parallel,
        "alu_pixel_parallel": target.alu_pixel_parallel,
        "banks": target.bank_count,
    }


@app.command("compile")
@_errors_in_one_line
def compile_model(
    context: typer.Context,
    file: Annotated[pathlib.Path, typer.Argument(metavar="MODEL.onnx", show_default=False)],
    calibration: Annotated[
        pathlib.Path,
        typer.Option("--calib", metavar="DATA.npz", help="Samples by input name, along axis 0."),
    ],
    target: Annotated[str, typer.Option(help="Name, fingerprint (0x...) or arch.json of the DPU.")],
    output: Annotated[pathlib.Path, typer.Option("--output", "-o", metavar="OUT.xmodel")],
) -> None:
    """Quantize a float ONNX model and compile it for a DPU."""
    report = api.compile_onnx(
        file, calibration=npz.read(calibration), target=api.find_target(target), output=output
    )
    typer.echo(str(report))


def main() -> None:
    """Run the command line."""
    app(prog_name="opendpu")


if __name__ == "__main__":
    main()
