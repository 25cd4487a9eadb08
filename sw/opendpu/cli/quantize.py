# SPDX-License-Identifier: Apache-2.0
"""``opendpu quantize``."""

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from opendpu import api
from opendpu.calibration.preprocessing import Channels, Layout, Preprocessing
from opendpu.cli.app import (
    InputShapes,
    InputValues,
    JsonFlag,
    OnnxLibraries,
    Requantize,
    Signature,
    app,
    errors_in_one_line,
)
from opendpu.cli.image_options import (
    Crop,
    ImageChannels,
    ImageLayout,
    Mean,
    Resize,
    SampleLimit,
    Scale,
)
from opendpu.cli.input_values import input_shapes, input_values
from opendpu.cli.progress import progress
from opendpu.cli.quantize_summary import as_json, summary
from opendpu.cli.quantizer_options import (
    ActivationSubstitution,
    Batch,
    BiasCorrection,
    Bits,
    Calibration,
    ConfigFile,
    CrossLayer,
    DeployCheck,
    Dump,
    Finetune,
    FinetuneIterations,
    JoinOutputs,
    Kept,
    LayerSettings,
    LimitsOf,
    Method,
    OnnxExact,
    OnnxForm,
    Refinement,
    Relu6ToRelu,
    Report,
    Seed,
    Sensitivity,
    Settings,
)
from opendpu.frontend.formats import signed
from opendpu.quantize.config import FinetuneConfig, QuantizeConfig
from opendpu.quantize.journal import summary as summary_of
from opendpu.quantize.settings import override, with_settings
from opendpu_arch import outputs

INTERRUPTED = 130
"""Exit code of what Ctrl-C has ended, as shells have it."""


@app.command()
@errors_in_one_line
def quantize(
    context: typer.Context,
    file: Annotated[pathlib.Path, typer.Argument(metavar="MODEL|QUANTIZED", show_default=False)],
    output: Annotated[
        pathlib.Path, typer.Option("--output", "-o", metavar="QUANTIZED.xmodel|.onnx")
    ],
    calibration: Calibration = None,
    samples: SampleLimit = None,
    mean: Mean = None,
    scale: Scale = None,
    resize: Resize = None,
    crop: Crop = None,
    layout: ImageLayout = Layout.AUTO,
    channels: ImageChannels = Channels.AUTO,
    config_file: ConfigFile = None,
    method: Method = None,
    bits: Bits = None,
    settings: Settings = None,
    layers: LayerSettings = None,
    cross_layer: CrossLayer = None,
    bias_correction: BiasCorrection = None,
    refinement: Refinement = None,
    activation_substitution: ActivationSubstitution = None,
    relu6_to_relu: Relu6ToRelu = None,
    join_outputs: JoinOutputs = None,
    batch: Batch = None,
    seed: Seed = None,
    finetune: Finetune = None,
    finetune_iterations: FinetuneIterations = None,
    kept: Kept = None,
    target: LimitsOf = None,
    form: OnnxForm = "native",
    exact: OnnxExact = True,
    report: Report = None,
    sensitivity: Sensitivity = False,
    check: DeployCheck = None,
    dump: Dump = None,
    input_shape: InputShapes = None,
    input_value: InputValues = None,
    signature: Signature = None,
    onnx_library: OnnxLibraries = None,
    requantize: Requantize = False,
    json_wanted: JsonFlag = False,
) -> None:
    """Quantize a model of any framework, so that it compiles for any target without data."""
    config = QuantizeConfig() if config_file is None else QuantizeConfig.from_json(config_file)
    config = with_settings(config, _spec_settings(method, bits, settings or ()))
    config = dataclasses.replace(
        config,
        overrides=(*config.overrides, *(override(config, text) for text in layers or ())),
        **_given(
            cross_layer=cross_layer, bias_correction=bias_correction, refinement=refinement,
            activation_substitution=activation_substitution, relu6_to_relu=relu6_to_relu,
            join_outputs=join_outputs, batch=batch, seed=seed,
            target=None if target is None else api.find_target(target),
            finetune=_finetune(finetune, finetune_iterations),
        ),
    )  # fmt: skip
    preprocessing = Preprocessing.parse(
        mean=mean, scale=scale, resize=resize, crop=crop, layout=layout, channels=channels
    )
    given = (file, *(path for path in (calibration, config_file) if path is not None))
    outputs.check_all((output, report, kept), inputs=given)
    values = input_values(input_value)
    file = signed(file, signature)
    with progress(f"quantizing {file.name}") as show, _resumable(kept):
        found = api.quantize_onnx(
            file, calibration=calibration, output=output, config=config,
            preprocessing=preprocessing, limit=samples, form=form, exact=exact, report=report,
            sensitivity=sensitivity, dump=dump,
            check=None if check is None else api.find_target(check), progress=kept,
            onnx_libraries=onnx_library or (), requantize=requantize, show=show,
            input_shapes=input_shapes(input_shape),
            input_values=values,
        )  # fmt: skip
    text = json.dumps(as_json(found)) if json_wanted else summary(found)
    typer.echo(text, err=outputs.is_standard_output(output))


@contextlib.contextmanager
def _resumable(kept: pathlib.Path | None) -> Iterator[None]:
    """Say, when it is interrupted, what is kept and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        if kept is None:
            raise
        has = summary_of(kept)
        text = f"{kept} has: {has}; the same command goes on from there" if has else (
            "no step is finished yet"
        )  # fmt: skip
        typer.echo(f"interrupted: {text}", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _spec_settings(
    method: str | None, bits: int | None, settings: list[str] | tuple[str, ...]
) -> list[str]:
    """Return what short options say as settings; biases have their own."""
    roles = ("input", "weights", "activation")
    found = [f"{role}.method={method}" for role in roles if method is not None]
    found += [f"{role}.bits={bits}" for role in roles if bits is not None]
    return [*found, *settings]


def _finetune(method: str | None, iterations: int | None) -> FinetuneConfig | None:
    if method is None and iterations is None:
        return None
    return FinetuneConfig(**_given(method=method, iterations=iterations))


def _given(**options: Any) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in options.items() if value is not None}
