# SPDX-License-Identifier: Apache-2.0
"""The command ``vaitrace``."""

import datetime
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from opendpu.cli.app import end_on_signals, errors_in_one_line, version
from opendpu.runtime import tracing
from opendpu.runtime.devices import DEVICE_VARIABLE, known_devices
from opendpu_arch import outputs
from opendpu_arch.errors import ToolError, UnsupportedError
from vaitrace import calls, launch, summary, timeline
from vaitrace.config import Config

DEFAULT_SECONDS = 30.0
COUNTING_DEVICE = "cycle"
"""Device for programs that do not choose one: it computes, and counts cycles."""

app = typer.Typer(
    name="vaitrace",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "allow_interspersed_args": False},
)


@app.command(no_args_is_help=True)
@errors_in_one_line
def vaitrace(
    context: typer.Context,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="CMD...", show_default=False)
    ] = None,
    config: Annotated[
        pathlib.Path | None, typer.Option("-c", help="Configuration, which has priority.")
    ] = None,
    output: Annotated[
        pathlib.Path | None, typer.Option("-o", help="Where the summary goes; else it is printed.")
    ] = None,
    timeout: Annotated[
        float, typer.Option("-t", min=0.001, help="Seconds that are traced; the program goes on.")
    ] = DEFAULT_SECONDS,
    version: Annotated[
        bool, typer.Option("-v", callback=version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("-d", "--debug", help="Say what is run, and keep the raw records.")
    ] = False,
    bypass: Annotated[bool, typer.Option("-b", help="Only run the command.")] = False,
    python: Annotated[bool, typer.Option("-p", help="CMD is a Python program.")] = False,
    va: Annotated[
        bool, typer.Option("--va", help="Files for Vitis Analyzer; the default.")
    ] = False,
    txt: Annotated[
        bool, typer.Option("--txt_summary", "--txt", help="A table, also with --json_summary.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json_summary", help="The table as JSON.")] = False,
    perfetto: Annotated[
        pathlib.Path | None, typer.Option("--perfetto", help="A timeline for ui.perfetto.dev.")
    ] = None,
    xat: Annotated[bool, typer.Option("--xat", hidden=True)] = False,
    fine_grained: Annotated[bool, typer.Option("--fine_grained", hidden=True)] = False,
) -> None:
    """Run a program, and report the jobs that it gave to DPUs.

    Programs that choose no device (OPENDPU_DEVICE) get the one that counts cycles.
    """
    if va and (txt or as_json):
        raise UnsupportedError("--va cannot work together with --txt_summary or --json_summary")
    if xat or fine_grained:
        raise UnsupportedError(
            f"{'--xat' if xat else '--fine_grained'} is not there: -d keeps the raw records, and "
            "opendpu profile says where the cycles of each layer go"
        )
    if txt and as_json:
        typer.echo("vaitrace: warning: --json_summary has no effect beside --txt_summary", err=True)
    asked = Config.read(config) if config else Config()
    program = [*(asked.command or command or ())]
    if not program:
        raise UnsupportedError(
            "there is no command, neither after the options nor as options.cmd of a configuration"
        )
    if asked.functions and not python:
        typer.echo(
            f"vaitrace: warning: {', '.join(asked.functions)} are not traced: only functions of "
            "Python programs are, with -p", err=True,
        )  # fmt: skip
    target = pathlib.Path(asked.output) if asked.output else output
    if target is not None and not (txt or as_json or bypass):
        typer.echo(
            f"vaitrace: warning: {target} is not written: -o is for --txt_summary and "
            "--json_summary", err=True,
        )  # fmt: skip
    outputs.check_all((target, perfetto))
    seconds = asked.timeout or timeout
    line = [sys.executable, "-m", "vaitrace.launch", *program] if python else program
    _check_program(program[0], python)
    if debug:
        typer.echo(f"vaitrace: running {' '.join(line)}", err=True)
    if bypass:
        raise typer.Exit(subprocess.run(line, check=False).returncode)
    with tempfile.TemporaryDirectory(prefix="vaitrace-") as name:
        folder = pathlib.Path(name)
        start = time.time()
        process = subprocess.Popen(line, env=_environment(folder, asked))
        try:
            code = process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        records = [job for job in tracing.read(folder) if job.start < start + seconds]
        traced = [call for call in calls.read(folder) if call.start < start + seconds]
        if debug:
            kept = shutil.copytree(folder, pathlib.Path(f"vaitrace_{process.pid}"))
            typer.echo(f"raw records in {kept}", err=True)
    _warn_of_uncalled(asked.functions if python else (), traced)
    if perfetto is not None:
        outputs.write(perfetto, timeline.perfetto_json(records, traced))
    if txt or as_json:
        lines = summary.summarize(records)
        _give(summary.text(lines, traced) if txt else summary.as_json(lines), target)
    else:
        _write_analyzer_files(records, process.pid)
    raise typer.Exit(code)


def _check_program(name: str, python: bool) -> None:
    """Raise ToolError if there is no such program, or none of this kind."""
    is_file = pathlib.Path(name).is_file()
    if python and not is_file:
        raise ToolError(f"{name!r} is no file, but with -p must be a Python program")
    if not python and shutil.which(name) is None:
        hint = "; with -p it is run by Python" if is_file and name.endswith(".py") else ""
        raise ToolError(f"{name!r} is not found, or cannot be run{hint}")


def _warn_of_uncalled(functions: Sequence[str], traced: Sequence[calls.Call]) -> None:
    """Say which functions of a configuration were never called."""
    called = {call.function for call in traced}
    if uncalled := [name for name in functions if launch.full_name(name) not in called]:
        typer.echo(
            f"vaitrace: warning: never called as module.function: {', '.join(uncalled)}", err=True
        )


def _environment(folder: pathlib.Path, config: Config) -> dict[str, str]:
    """Return the program's environment."""
    found = dict(os.environ) | {tracing.DIRECTORY_VARIABLE: str(folder)}
    if config.functions:
        found[launch.FUNCTIONS_VARIABLE] = ",".join(config.functions)
    if not found.get(DEVICE_VARIABLE) and COUNTING_DEVICE in known_devices():
        found[DEVICE_VARIABLE] = COUNTING_DEVICE
    return found


def _give(text: str, target: pathlib.Path | None) -> None:
    if target is None:
        typer.echo(text, nl=False)
    else:
        outputs.write(target, text)


def _write_analyzer_files(records: list[tracing.Record], pid: int) -> None:
    """Write what Vitis Analyzer opens into the current folder."""
    lines = summary.summarize(records)
    for name, text in (
        ("vart_trace.csv", timeline.trace_csv(records, pid, datetime.datetime.now())),
        ("profile_summary.csv", timeline.profile_summary_csv(lines)),
        ("vitis_ai_profile.csv", timeline.throughput_csv(records)),
    ):
        outputs.write(name, text)
        typer.echo(f"vaitrace: wrote {name}", err=True)


def main() -> None:
    """Run the command line."""
    end_on_signals()
    app(prog_name="vaitrace")
