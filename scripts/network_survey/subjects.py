# SPDX-License-Identifier: Apache-2.0
"""The networks of the page: where each comes from, what it is given, how results are compared."""

import dataclasses
from collections.abc import Mapping

import networks
import numpy as np
from networks.packaged import PACKAGED

from opendpu.frontend import load_onnx
from opendpu.ir import FloatGraph
from opendpu.quantize.placement.tables import tabulated
from opendpu_arch.target import Target

PHOTOGRAPHS = "photographs, normalized"
SUBSTITUTED = ("swish", "sigmoid")
"""Kinds of ops that activation substitution replaces."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
    """A network and how it is measured."""

    name: str
    task: str
    form: str = PHOTOGRAPHS
    """Samples of its first input, see :mod:`network_survey.samples`."""
    measure: str = ""
    """How results are compared beside the error, see :mod:`network_survey.agreement`."""
    others: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Value of all elements of every other input."""

    @property
    def source(self) -> str:
        """Where the network comes from."""
        if self.name in PACKAGED:
            found = PACKAGED[self.name]
            return f"`{found.package}` {found.version()}"
        return "own definition"

    def load(self) -> FloatGraph:
        """Return the float graph.

        Raises
        ------
        importlib.metadata.PackageNotFoundError
            Its package is not installed.
        """
        if self.name in PACKAGED:
            found = PACKAGED[self.name]
            return load_onnx(found.path(), found.sizes)
        return load_onnx(networks.NETWORKS[self.name]())


def _classifier(name: str, task: str = "classification", form: str = PHOTOGRAPHS) -> Subject:
    return Subject(name=name, task=task, form=form, measure="classes")


_ALL = (
    *(_classifier(name) for name in (
        "resnet50", "mobilenetv1", "mobilenetv2", "mobilenetv3", "squeezenet", "vgg16",
        "inceptionv3", "efficientnetb0", "convnexttiny", "vittiny", "swintiny")),
    Subject(name="yolov3", task="detection", form="photographs, 0 to 1"),
    Subject(name="yolov8n", task="detection", form="photographs, 0 to 1"),
    Subject(name="yoloxtiny", task="detection"),
    Subject(name="nudenet", task="detection", form="photographs, 0 to 1", measure="boxes"),
    Subject(name="ddddocr-det", task="detection", form="photographs, BGR 0 to 255"),
    Subject(name="deeplabv3", task="segmentation", measure="pixels"),
    Subject(name="unet", task="segmentation", measure="pixels"),
    Subject(name="espcn", task="super-resolution", form="photographs, luminance"),
    Subject(name="fsrcnn", task="super-resolution", form="photographs, luminance"),
    Subject(name="ppocr-det", task="text detection", form="scanned text, -1 to 1", measure="mask"),
    Subject(name="ppocr-rec", task="text", form="lines of text, -1 to 1", measure="text"),
    _classifier("ppocr-cls", "text direction", "lines of text, -1 to 1"),
    Subject(name="ddddocr", task="text", form="lines of text, luminance", measure="text"),
    Subject(name="crnn", task="text", form="lines of text, luminance", measure="text"),
    _classifier("m5", "sound", "sound"),
    _classifier("logmelcnn", "sound", "sound"),
    Subject(name="silero-vad", task="sound", form="sound", others={"state": 0, "sr": 16000}),
    _classifier("magika", "type of a file", "files"),
)  # fmt: skip

SUBJECTS: dict[str, Subject] = {subject.name: subject for subject in _ALL}
"""By name."""


def substitutable(graph: FloatGraph) -> bool:
    """Tell whether substitution of activations has something to replace."""
    return any(node.kind in SUBSTITUTED for node in graph)


def has_functions(graph: FloatGraph) -> bool:
    """Tell whether a target with tables computes something that a plain one does not."""
    return bool(tabulated(graph, Target.from_name("B512+table")))


def onnx_shape(graph: FloatGraph, name: str) -> tuple[int, ...]:
    """Return the shape that ONNX has for an input."""
    shape = graph[name].shape
    order = graph.attrs.get("onnx_order", {}).get(name)
    return shape if order is None else tuple(np.array(shape)[np.argsort(order)].tolist())
