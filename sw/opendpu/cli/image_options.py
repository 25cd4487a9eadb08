# SPDX-License-Identifier: Apache-2.0
"""Options that say what is done to images before a network sees them; of several commands."""

from typing import Annotated

import typer

from opendpu.calibration.preprocessing import Channels, Layout

IMAGES = "Images"
"""Panel of the help."""

Mean = Annotated[
    str | None,
    typer.Option(
        metavar="M[,M,M]",
        rich_help_panel=IMAGES,
        help="Taken off pixels (0..255), for all channels or each in the network's order.",
    ),
]
Scale = Annotated[
    str | None,
    typer.Option(
        metavar="S[,S,S]", rich_help_panel=IMAGES, help="What pixels are multiplied by then."
    ),
]
Resize = Annotated[
    str | None,
    typer.Option(
        metavar="N|HxW",
        rich_help_panel=IMAGES,
        help="Shorter side, or height and width; by default what the network takes.",
    ),
]
Crop = Annotated[
    str | None,
    typer.Option(metavar="N|HxW", rich_help_panel=IMAGES, help="Part in the middle to take."),
]
ImageLayout = Annotated[
    Layout, typer.Option(rich_help_panel=IMAGES, help="Axes of the network's input.")
]
ImageChannels = Annotated[
    Channels, typer.Option(rich_help_panel=IMAGES, help="Channels of the network's input.")
]
SampleLimit = Annotated[
    int | None,
    typer.Option(min=1, help="How many samples are taken at most; of a folder spread evenly."),
]
