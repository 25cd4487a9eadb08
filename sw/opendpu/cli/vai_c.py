# SPDX-License-Identifier: Apache-2.0
"""``vai_c_xir``: the compiler with the options that the guide's command has."""

import hashlib
import json
import pathlib
from typing import Annotated

import typer

from opendpu import api
from opendpu.cli.app import end_on_signals, errors_in_one_line
from opendpu.cli.progress import progress
from opendpu.compiler.options import Options
from opendpu_arch import outputs
from opendpu_arch.errors import OutputError

RUNNER = "libvart-dpu-runner.so"
"""What the guide's runtime loads for a DPU subgraph."""

app = typer.Typer(
    name="vai_c_xir",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
@errors_in_one_line
def vai_c_xir(
    context: typer.Context,
    xmodel: Annotated[pathlib.Path, typer.Option("--xmodel", "-x", help="Quantized model.")],
    arch: Annotated[
        str, typer.Option("--arch", "-a", help="arch.json of the DPU; a name or fingerprint too.")
    ],
    output_dir: Annotated[
        pathlib.Path, typer.Option("--output_dir", "-o", help="Folder for the results.")
    ],
    net_name: Annotated[
        str, typer.Option("--net_name", "-n", help="Name of the compiled model.")
    ] = "deploy",
    options: Annotated[
        list[str] | None,
        typer.Option("--options", "-e", help="Extra options: JSON, or key=value."),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
) -> None:
    """Compile a quantized XIR model for a DPU."""
    target = api.find_target(arch)
    asked = Options.parse(options or ())
    file = output_dir / f"{net_name}.xmodel"
    try:
        output_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{output_dir} cannot be made: {error.strerror or error}",
            code="XCOM_DIR_OPEN_FILE_FAILED",
        ) from error
    outputs.check_all((file, output_dir / "meta.json", output_dir / "md5sum.txt"), inputs=(xmodel,))
    with progress(f"compiling {xmodel.name}") as show:
        report = api.compile_xmodel(
            xmodel, target=target, output=file, options=asked, count=True, show=show
        )
    kernels = [part.name for part in report.subgraphs if part.device == "DPU"]
    meta = {"target": target.name, "lib": RUNNER, "filename": file.name, "kernel": kernels}
    digest = hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
    outputs.write(output_dir / "meta.json", json.dumps(meta) + "\n")
    outputs.write(output_dir / "md5sum.txt", f"{digest}  {file.name}\n")
    typer.echo(str(report))


def main() -> None:
    """Run the command line."""
    end_on_signals()
    app(prog_name="vai_c_xir")
