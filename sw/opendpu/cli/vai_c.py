# SPDX-License-Identifier: Apache-2.0
"""The guide's compilers, ``vai_c_xir`` and those of TensorFlow, and ``vai_c_onnx``, like them."""

import hashlib
import json
import pathlib
from typing import Annotated

import typer

from opendpu import api
from opendpu.cli.app import end_on_signals, errors_in_one_line
from opendpu.cli.progress import progress
from opendpu.compiler.options import Options
from opendpu.frontend.formats import Format, format_of
from opendpu_arch import outputs
from opendpu_arch.errors import ModelFormatError, UnsupportedError

RUNNER = "libvart-dpu-runner.so"
"""What the guide's runtime loads for a DPU subgraph."""

Arch = Annotated[
    str, typer.Option("--arch", "-a", help="arch.json of the DPU; a name or fingerprint too.")
]
OutputDir = Annotated[
    pathlib.Path, typer.Option("--output_dir", "-o", help="Folder for the results.")
]
NetName = Annotated[str, typer.Option("--net_name", "-n", help="Name of the compiled model.")]
ExtraOptions = Annotated[
    list[str] | None, typer.Option("--options", "-e", help="Extra options: JSON, or key=value.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")]
Quiet = Annotated[bool, typer.Option("--quant_info", "-q", help="Taken, without effect.")]


def _app(name: str) -> typer.Typer:
    return typer.Typer(
        name=name,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


app, app_tensorflow, app_tensorflow2, app_onnx = map(
    _app, ("vai_c_xir", "vai_c_tensorflow", "vai_c_tensorflow2", "vai_c_onnx")
)


@app.command()
@errors_in_one_line
def vai_c_xir(
    context: typer.Context,
    xmodel: Annotated[pathlib.Path, typer.Option("--xmodel", "-x", help="Quantized model.")],
    arch: Arch,
    output_dir: OutputDir,
    net_name: NetName = "deploy",
    options: ExtraOptions = None,
    debug: Debug = False,
) -> None:
    """Compile a quantized XIR model for a DPU."""
    _check_format(xmodel, Format.XMODEL)
    _compile(xmodel, arch, output_dir, net_name, Options.parse(options or ()))


@app_tensorflow.command()
@errors_in_one_line
def vai_c_tensorflow(
    context: typer.Context,
    frozen_pb: Annotated[
        pathlib.Path, typer.Option("--frozen_pb", "-f", help="Quantized frozen graph.")
    ],
    arch: Arch,
    output_dir: OutputDir,
    net_name: NetName = "deploy",
    options: ExtraOptions = None,
    quant_info: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compile a quantized frozen graph of TensorFlow for a DPU."""
    _check_format(frozen_pb, Format.FROZEN_GRAPH)
    _compile(frozen_pb, arch, output_dir, net_name, Options.parse(options or ()))


@app_tensorflow2.command()
@errors_in_one_line
def vai_c_tensorflow2(
    context: typer.Context,
    model: Annotated[pathlib.Path, typer.Option("--model", "-m", help="Quantized Keras model.")],
    arch: Arch,
    output_dir: OutputDir,
    net_name: NetName = "deploy",
    options: ExtraOptions = None,
    debug: Debug = False,
) -> None:
    """Compile a quantized Keras model for a DPU."""
    _check_format(model, Format.KERAS)
    _compile(model, arch, output_dir, net_name, Options.parse(options or ()))


@app_onnx.command()
@errors_in_one_line
def vai_c_onnx(
    context: typer.Context,
    model: Annotated[pathlib.Path, typer.Option("--model", "-m", help="Quantized ONNX model.")],
    arch: Arch,
    output_dir: OutputDir,
    net_name: NetName = "deploy",
    options: ExtraOptions = None,
    debug: Debug = False,
) -> None:
    """Compile a quantized ONNX model for a DPU."""
    _check_format(model, Format.ONNX)
    _compile(model, arch, output_dir, net_name, Options.parse(options or ()))


def _check_format(model: pathlib.Path, wanted: Format) -> None:
    """Check that a file is a model of some kind: another kind than the command's compiles too.

    Raises
    ------
    ModelFormatError
        It is no model. That there is no such file, its reader says.
    """
    if model.exists() and format_of(model) is Format.ONNX and model.suffix != ".onnx":
        raise ModelFormatError(f"{model} is no model: a {wanted} is what this command compiles")


def _compile(
    model: pathlib.Path, arch: str, output_dir: pathlib.Path, net_name: str, asked: Options
) -> None:
    """Write the compiled model, and what the guide's compiler writes beside it."""
    if net_name in ("", "..") or net_name != pathlib.PurePath(net_name).name:
        raise UnsupportedError(f"--net_name is {net_name!r}, but must be a file's name")
    target = api.find_target(arch)
    file = output_dir / f"{net_name}.xmodel"
    meta_file, sum_file = output_dir / "meta.json", output_dir / "md5sum.txt"
    with outputs.making_folder(output_dir, code="XCOM_DIR_OPEN_FILE_FAILED"):
        outputs.check_all((file, meta_file, sum_file), inputs=(model,))
        translate = api.compile_xmodel if model.suffix == ".xmodel" else api.compile_onnx
        with progress(f"compiling {model.name}") as show:
            report = translate(
                model, target=target, output=file, options=asked, count=True, show=show
            )
        kernels = [part.name for part in report.subgraphs if part.device == "DPU"]
        meta = {"target": target.name, "lib": RUNNER, "filename": file.name, "kernel": kernels}
        digest = hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
        outputs.write(meta_file, json.dumps(meta) + "\n")
        outputs.write(sum_file, f"{digest}  {file.name}\n")
    typer.echo(str(report))


def main() -> None:
    """Run the command line of ``vai_c_xir``."""
    end_on_signals()
    app(prog_name="vai_c_xir")


def main_tensorflow() -> None:
    """Run the command line of ``vai_c_tensorflow``."""
    end_on_signals()
    app_tensorflow(prog_name="vai_c_tensorflow")


def main_tensorflow2() -> None:
    """Run the command line of ``vai_c_tensorflow2``."""
    end_on_signals()
    app_tensorflow2(prog_name="vai_c_tensorflow2")


def main_onnx() -> None:
    """Run the command line of ``vai_c_onnx``."""
    end_on_signals()
    app_onnx(prog_name="vai_c_onnx")
