# SPDX-License-Identifier: Apache-2.0
"""Options of a run: arrays or a photograph, the device, what is printed."""

import pathlib
from typing import Annotated

import typer

from opendpu.cli.image_options import IMAGES
from opendpu.runtime import feeds

InputFile = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--input",
        "-i",
        metavar="IN.npz|IN.npy",
        help="Inputs by tensor name, or the only input; a leading extra axis is a batch of "
        "jobs. Floats are quantized.",
    ),
]
OutputFile = Annotated[
    pathlib.Path | None,
    typer.Option("--output", "-o", metavar="OUT.npz", help="Where outputs go, by tensor name."),
]
Device = Annotated[
    str | None,
    typer.Option(help="ref, iss, rtl, cycle, board, litex; else $OPENDPU_DEVICE, else iss."),
]
Memory = Annotated[
    str | None,
    typer.Option(help="kv260, ideal, stall:<seed>; else $OPENDPU_MEMORY, else kv260."),
]
TargetOfDevice = Annotated[
    str | None,
    typer.Option(help="DPU of the device; by default the one the model was compiled for."),
]
SubgraphIndex = Annotated[
    int | None,
    typer.Option(
        help="Run only this DPU subgraph, counted from 0; by default the names of "
        "the inputs decide between the whole graph and a DPU subgraph."
    ),
]
ArrayLayout = Annotated[
    feeds.Layout,
    typer.Option(
        case_sensitive=False,
        help="Axes of images: nhwc as the model has them; nchw as ONNX has them, outputs too; "
        "auto takes inputs as they fit and gives nhwc.",
    ),
]
Floats = Annotated[bool, typer.Option("--float", help="Give fixed-point outputs as float32.")]
Image = Annotated[
    pathlib.Path | None,
    typer.Option(
        rich_help_panel=IMAGES,
        help="Run on a photograph and print the answer; the model may be ONNX then, and is "
        "quantized and compiled first.",
    ),
]
Labels = Annotated[
    pathlib.Path | None,
    typer.Option(metavar="FILE.txt", rich_help_panel=IMAGES, help="Names of classes, a line each."),
]
Top = Annotated[int, typer.Option(min=1, rich_help_panel=IMAGES, help="Classes that are printed.")]
ImageCalibration = Annotated[
    pathlib.Path | None,
    typer.Option(
        "--calib",
        metavar="DATA.npz|FOLDER",
        rich_help_panel=IMAGES,
        help="Samples for a float model; without them the image itself.",
    ),
]
OpenShapes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=1,3,224,224",
        rich_help_panel=IMAGES,
        help="Shape that an ONNX model leaves open.",
    ),
]
FixedValues = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        rich_help_panel=IMAGES,
        help="What an input beside the image always is, as when compiling.",
    ),
]
