# SPDX-License-Identifier: Apache-2.0
"""``opendpu quantize``."""

import dataclasses
import json
import pathlib
from typing import Annotated, Any

import typer

from opendpu import api
from opendpu.calibration.preprocessing import Channels, Layout, Preprocessing
from opendpu.cli.app import (
    InputShapes,
    JsonFlag,
    OnnxLibraries,
    Requantize,
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
from opendpu.cli.progress import progress
from opendpu.cli.quantize_summary import as_json, summary
from opendpu.compiler.options import Options
from opendpu.export.forms import FORMS
from opendpu.quantize.config import FinetuneConfig, QuantizeConfig
from opendpu.quantize.settings import override, with_settings
from opendpu.quantize.tensor_spec import METHODS
from opendpu_arch import outputs

QUANTIZER, OUTPUT = "Quantizer", "Output"
"""Panels of the help."""


@app.command()
@errors_in_one_line
def quantize(
    context: typer.Context,
    file: Annotated[pathlib.Path, typer.Argument(metavar="MODEL|QUANTIZED", show_default=False)],
    output: Annotated[
        pathlib.Path, typer.Option("--output", "-o", metavar="QUANTIZED.xmodel|.onnx")
    ],
    calibration: Annotated[
        pathlib.Path | None,
        typer.Option(
            "--calib",
            metavar="DATA.npz|DATA.npy|FOLDER",
            help="Samples by input name, along axis 0, or a folder of images.",
        ),
    ] = None,
    samples: SampleLimit = None,
    mean: Mean = None,
    scale: Scale = None,
    resize: Resize = None,
    crop: Crop = None,
    layout: ImageLayout = Layout.AUTO,
    channels: ImageChannels = Channels.AUTO,
    config_file: Annotated[
        pathlib.Path | None,
        typer.Option(
            "--config",
            metavar="FILE.json",
            rich_help_panel=QUANTIZER,
            help="Configuration in the JSON of vai_q_pytorch; other options come on top of it.",
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(METHODS),
            rich_help_panel=QUANTIZER,
            help="How scales of inputs, weights and activations are chosen.",
        ),
    ] = None,
    bits: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=QUANTIZER, help="Bits of inputs, weights and activations; DPUs have 8."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[ROLE.]FIELD=VALUE",
            rich_help_panel=QUANTIZER,
            help="Any setting of a tensor, for example weights.granularity=per_channel; roles are "
            "input, weights, bias, activation. May be given several times.",
        ),
    ] = None,
    layers: Annotated[
        list[str] | None,
        typer.Option(
            "--layer",
            metavar="PATTERN:SETTING[,SETTING]",
            rich_help_panel=QUANTIZER,
            help="Other settings for layers by name ('*/head/*:bits=16') or operator "
            "('@Conv:weights.bits=4'). May be given several times.",
        ),
    ] = None,
    cross_layer: Annotated[
        bool | None, typer.Option(rich_help_panel=QUANTIZER, help="Equalize channels of layers.")
    ] = None,
    bias_correction: Annotated[
        bool | None, typer.Option(rich_help_panel=QUANTIZER, help="Keep the means of channels.")
    ] = None,
    refinement: Annotated[
        bool | None, typer.Option(rich_help_panel=QUANTIZER, help="Try scales next to the chosen.")
    ] = None,
    activation_substitution: Annotated[
        str | None,
        typer.Option(
            metavar="none|hard",
            rich_help_panel=QUANTIZER,
            help="hard: sigmoid and swish (SiLU) become hard ones where the DPU computes them.",
        ),
    ] = None,
    relu6_to_relu: Annotated[
        bool | None, typer.Option(rich_help_panel=QUANTIZER, help="Replace every ReLU6 by ReLU.")
    ] = None,
    join_outputs: Annotated[
        bool | None,
        typer.Option(
            rich_help_panel=QUANTIZER,
            help="Concatenations for outputs on the DPU, as AMD's quantizers do, at one scale.",
        ),
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, rich_help_panel=QUANTIZER, help="Samples at a time.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(rich_help_panel=QUANTIZER, help="Seed of what is random.")
    ] = None,
    finetune: Annotated[
        str | None,
        typer.Option(
            metavar="adaquant|adaround",
            rich_help_panel=QUANTIZER,
            help="Finetune layer by layer on the samples; needs opendpu[torch].",
        ),
    ] = None,
    finetune_iterations: Annotated[
        int | None, typer.Option(min=1, rich_help_panel=QUANTIZER, help="Steps a layer at most.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=QUANTIZER,
            help="Name, fingerprint or arch.json of the DPU whose limits hold; by default those "
            "that all have.",
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--onnx-form",
            metavar="|".join(FORMS),
            rich_help_panel=OUTPUT,
            help="Operators that quantize, in .onnx files.",
        ),
    ] = "native",
    exact: Annotated[
        bool,
        typer.Option(
            "--onnx-exact/--onnx-plain",
            rich_help_panel=OUTPUT,
            help="Round as the DPU does, or as ONNX's own QuantizeLinear does: halves to even.",
        ),
    ] = True,
    report: Annotated[
        pathlib.Path | None,
        typer.Option(metavar="FILE.html", rich_help_panel=OUTPUT, help="Write a page to look at."),
    ] = None,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            rich_help_panel=OUTPUT,
            help="Measure what leaving single layers in float would bring.",
        ),
    ] = False,
    check: Annotated[
        str | None,
        typer.Option(
            "--deploy-check",
            metavar="TARGET",
            rich_help_panel=OUTPUT,
            help="Compare the network, its program for this DPU and the .onnx file on a sample.",
        ),
    ] = None,
    dump: Annotated[
        pathlib.Path | None,
        typer.Option(
            metavar="FOLDER",
            rich_help_panel=OUTPUT,
            help="Write golden results: weights, and what every layer makes of the first sample.",
        ),
    ] = None,
    input_shape: InputShapes = None,
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
    outputs.check_all((output, report), inputs=given)
    with progress(f"quantizing {file.name}") as show:
        found = api.quantize_onnx(
            file, calibration=calibration, output=output, config=config,
            preprocessing=preprocessing, limit=samples, form=form, exact=exact, report=report,
            sensitivity=sensitivity, dump=dump,
            check=None if check is None else api.find_target(check),
            onnx_libraries=onnx_library or (), requantize=requantize, show=show,
            input_shapes=Options().with_input_shapes(input_shape or ()).input_shape,
        )  # fmt: skip
    text = json.dumps(as_json(found)) if json_wanted else summary(found)
    typer.echo(text, err=outputs.is_standard_output(output))


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
