# SPDX-License-Identifier: Apache-2.0
"""Options that say how a network is quantized, and what is written of it."""

import pathlib
from typing import Annotated

import typer

from opendpu.export.forms import FORMS
from opendpu.quantize.tensor_spec import METHODS

QUANTIZER, OUTPUT = "Quantizer", "Output"
"""Panels of the help."""

Calibration = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--calib",
        metavar="DATA.npz|DATA.npy|FOLDER",
        help="Samples by input name, along axis 0, or a folder of images.",
    ),
]
ConfigFile = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--config",
        metavar="FILE.json",
        rich_help_panel=QUANTIZER,
        help="Configuration in the JSON of vai_q_pytorch; other options come on top of it.",
    ),
]
Method = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(METHODS),
        rich_help_panel=QUANTIZER,
        help="How scales of inputs, weights and activations are chosen.",
    ),
]
Bits = Annotated[
    int | None,
    typer.Option(
        rich_help_panel=QUANTIZER, help="Bits of inputs, weights and activations; DPUs have 8."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="[ROLE.]FIELD=VALUE",
        rich_help_panel=QUANTIZER,
        help="Any setting of a tensor, for example weights.granularity=per_channel; roles are "
        "input, weights, bias, activation. May be given several times.",
    ),
]
LayerSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--layer",
        metavar="PATTERN:SETTING[,SETTING]",
        rich_help_panel=QUANTIZER,
        help="Other settings for layers by name ('*/head/*:bits=16') or operator "
        "('@Conv:weights.bits=4'). May be given several times.",
    ),
]
CrossLayer = Annotated[
    bool | None, typer.Option(rich_help_panel=QUANTIZER, help="Equalize channels of layers.")
]
BiasCorrection = Annotated[
    bool | None, typer.Option(rich_help_panel=QUANTIZER, help="Keep the means of channels.")
]
Refinement = Annotated[
    bool | None, typer.Option(rich_help_panel=QUANTIZER, help="Try scales next to the chosen.")
]
ActivationSubstitution = Annotated[
    str | None,
    typer.Option(
        metavar="none|hard",
        rich_help_panel=QUANTIZER,
        help="hard: sigmoid and swish (SiLU) become hard ones where the DPU computes them.",
    ),
]
Relu6ToRelu = Annotated[
    bool | None, typer.Option(rich_help_panel=QUANTIZER, help="Replace every ReLU6 by ReLU.")
]
JoinOutputs = Annotated[
    bool | None,
    typer.Option(
        rich_help_panel=QUANTIZER,
        help="Concatenations for outputs on the DPU, as AMD's quantizers do, at one scale.",
    ),
]
Batch = Annotated[
    int | None, typer.Option(min=1, rich_help_panel=QUANTIZER, help="Samples at a time.")
]
Seed = Annotated[
    int | None, typer.Option(rich_help_panel=QUANTIZER, help="Seed of what is random.")
]
Finetune = Annotated[
    str | None,
    typer.Option(
        metavar="adaquant|adaround",
        rich_help_panel=QUANTIZER,
        help="Finetune layer by layer on the samples; needs opendpu[torch].",
    ),
]
FinetuneIterations = Annotated[
    int | None, typer.Option(min=1, rich_help_panel=QUANTIZER, help="Steps a layer at most.")
]
LimitsOf = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=QUANTIZER,
        help="Name, fingerprint or arch.json of the DPU whose limits hold; by default those "
        "that all have.",
    ),
]
OnnxForm = Annotated[
    str,
    typer.Option(
        "--onnx-form",
        metavar="|".join(FORMS),
        rich_help_panel=OUTPUT,
        help="Operators that quantize, in .onnx files.",
    ),
]
OnnxExact = Annotated[
    bool,
    typer.Option(
        "--onnx-exact/--onnx-plain",
        rich_help_panel=OUTPUT,
        help="Round as the DPU does, or as ONNX's own QuantizeLinear does: halves to even.",
    ),
]
Report = Annotated[
    pathlib.Path | None,
    typer.Option(metavar="FILE.html", rich_help_panel=OUTPUT, help="Write a page to look at."),
]
Sensitivity = Annotated[
    bool,
    typer.Option(
        "--sensitivity",
        rich_help_panel=OUTPUT,
        help="Measure what leaving single layers in float would bring.",
    ),
]
Kept = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--progress",
        metavar="FILE",
        rich_help_panel=QUANTIZER,
        help="Keep what is finished; the same command goes on from there when it is interrupted.",
    ),
]
DeployCheck = Annotated[
    str | None,
    typer.Option(
        "--deploy-check",
        metavar="TARGET",
        rich_help_panel=OUTPUT,
        help="Compare the network, its program for this DPU and the .onnx file on a sample.",
    ),
]
Dump = Annotated[
    pathlib.Path | None,
    typer.Option(
        metavar="FOLDER",
        rich_help_panel=OUTPUT,
        help="Write golden results: weights, and what every layer makes of the first sample.",
    ),
]
