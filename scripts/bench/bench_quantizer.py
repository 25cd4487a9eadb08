# SPDX-License-Identifier: Apache-2.0
"""Our quantizer beside AMD Quark's XINT8 and onnxruntime's quantize_static, as JSON.

All get the same model and the same calibration samples, one after the other, each in a process of
its own; the float network's results on other samples are what they are compared with. Quark runs in
an environment of its own, which is made with ``pip`` the first time. Detectors and readers of text
are those of the extra ``networks``.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
import platformdirs

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from network_survey.samples import samples  # noqa: E402
from networks.packaged import PACKAGED  # noqa: E402
from quantizers.prepare import prepare  # noqa: E402

Array = npt.NDArray[Any]

QUARK = ("amd-quark==0.13", "onnxruntime<=1.28", "torch>=2.9,<3")
"""What its environment holds."""
CONTENDERS = {
    "quark": ("with_quark.py", "plain"),
    "quark adaround": ("with_quark.py", "adaround"),
    "quark adaround 100": ("with_quark.py", "adaround 100"),
    "quark adaquant": ("with_quark.py", "adaquant"),
    "onnxruntime": ("with_onnxruntime.py", "plain"),
    "opendpu": ("with_opendpu.py", "plain"),
    "opendpu hard": ("with_opendpu.py", "hard"),
    "opendpu adaround": ("with_opendpu.py", "adaround"),
    "opendpu adaquant": ("with_opendpu.py", "adaquant"),
}
"""Programs and methods, by name."""
CALIBRATION, TEST = 100, 500
"""Samples."""
FEW_CALIBRATION, FEW_TEST = 32, 16
"""Samples of networks that take long."""
LEAST = 1e-6
"""Least probability: below that, differences do not count."""


@dataclasses.dataclass(frozen=True)
class Data:
    """Samples in the model's layout, and labels of the test samples where there are some."""

    calibration: Array
    test: Array
    labels: Array | None = None


def keywords(models: pathlib.Path, seed: int) -> Data:
    """Return clips: 100 to calibrate with, all others to test with."""
    data = np.load(models / "kws01.npz")
    clips = ((data["x"].astype(np.float32) - data["zero_point"]) * data["scale"]).astype(np.float32)
    order = np.random.default_rng(seed).permutation(len(clips))
    test = order[CALIBRATION:]
    return Data(clips[order[:CALIBRATION]], clips[test], data["y"][test])


def pictures(size: int, largest: float, seed: int) -> Data:
    """Return crops of photographs, channels last."""
    found = [
        samples(
            "photographs, 0 to 1",
            (1, 3, size, size),
            np.dtype(np.float32),
            count,
            number,
            whole=whole,
        )
        for count, number, whole in ((CALIBRATION, seed, True), (TEST, seed + 1000, False))
    ]
    ready = [np.ascontiguousarray(part.transpose(0, 2, 3, 1)) * largest for part in found]
    return Data(ready[0].astype(np.float32), ready[1].astype(np.float32))


def images(form: str, shape: tuple[int, ...], seed: int) -> Data:
    """Return samples of a form, channels first, for a network that takes long."""
    found = [
        samples(form, shape, np.dtype(np.float32), count, number, whole=whole)
        for count, number, whole in ((FEW_CALIBRATION, seed, True), (FEW_TEST, seed + 1000, False))
    ]
    return Data(found[0].astype(np.float32), found[1].astype(np.float32))


def classes(floating: Array, found: Array, labels: Array | None) -> dict[str, Any]:
    """Return how well probabilities agree with those of the float network."""
    wanted, made = (np.log(np.maximum(a.astype(np.float64), LEAST)) for a in (floating, found))
    figures = {
        "agreement": round(float((floating.argmax(-1) == found.argmax(-1)).mean()), 4),
        "sqnr_of_logarithms": decibels(wanted, made),
        "largest_difference": round(float(np.abs(floating - found).max()), 3),
    }
    if labels is not None:
        figures["accuracy"] = round(float((found.argmax(-1) == labels).mean()), 4)
        figures["accuracy_of_float"] = round(float((floating.argmax(-1) == labels).mean()), 4)
    return figures


def marks(floating: Array, found: Array, threshold: float) -> dict[str, Any]:
    """Return how much of what either network scores above a threshold both do, and the error."""
    one, other = floating > threshold, found > threshold
    either = one | other
    error = (found - floating)[either]
    return {
        "both_of_either": round(float((one & other).sum() / max(either.sum(), 1)), 4),
        "float_finds": int(one.sum()),
        "mean_error": round(float(np.abs(error).mean()), 3) if error.size else 0.0,
        "bias": round(float(error.mean()), 3) if error.size else 0.0,
        "sqnr": decibels(floating.astype(np.float64), found.astype(np.float64)),
    }


def decibels(wanted: Array, made: Array) -> float:
    """Return the signal to noise ratio."""
    noise = np.square(made - wanted).sum()
    return round(float(10 * np.log10(np.square(wanted).sum() / noise)), 2)


def text_map(floating: Array, found: Array, _: Array | None) -> dict[str, Any]:
    """Compare maps of where text is, as PP-OCR reads them."""
    return marks(floating, found, 0.3)


def boxes(floating: Array, found: Array, _: Array | None) -> dict[str, Any]:
    """Compare the scores of YOLOv8's boxes, which come behind four coordinates."""
    return marks(floating[:, 4:], found[:, 4:], 0.25)


@dataclasses.dataclass(frozen=True)
class Subject:
    """A network, its data, and how results are compared.

    ``model`` is a file of MLPerf Tiny, or a name of the packaged networks; ``shape`` is that of the
    input where the model leaves it open.
    """

    model: str
    data: Callable[[pathlib.Path, int], Data]
    compare: Callable[[Array, Array, Array | None], dict[str, Any]] = classes
    shape: tuple[int, ...] = ()

    def path(self, models: pathlib.Path) -> pathlib.Path:
        """Return the model's file."""
        return PACKAGED[self.model].path() if self.model in PACKAGED else models / self.model


def packaged(model: str, form: str, shape: tuple[int, ...], compare: Any) -> Subject:
    """Return a network of a package, and samples for it."""
    return Subject(model, lambda models, seed: images(form, shape, seed), compare, shape)


SUBJECTS: Mapping[str, Subject] = {
    "kws": Subject("kws_dscnn.onnx", keywords),
    "ic": Subject("ic_resnet8.onnx", lambda models, seed: pictures(32, 255, seed)),
    "vww": Subject("vww_mobilenetv1_025.onnx", lambda models, seed: pictures(96, 1, seed)),
    "nudenet": packaged("nudenet", "photographs, 0 to 1", (1, 3, 320, 320), boxes),
    "ppocr-det": packaged("ppocr-det", "scanned text, -1 to 1", (1, 3, 320, 320), text_map),
    "ppocr-rec": packaged("ppocr-rec", "lines of text, -1 to 1", (1, 3, 48, 320), classes),
    "ppocr-cls": packaged("ppocr-cls", "lines of text, -1 to 1", (1, 3, 48, 192), classes),
}


def quark_python() -> str:
    """Return the interpreter of Quark's environment, which is made if there is none."""
    folder = platformdirs.user_cache_path("opendpu") / "bench_quark"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *QUARK], check=True)
        (folder / "ready").touch()
    return str(python)


def measured(
    contender: str, model: pathlib.Path, subject: Subject, data: Data, floating: Array
) -> dict[str, Any]:
    """Let one quantizer work, and compare its network with the float one."""
    script, method = CONTENDERS[contender]
    quark = "quark" in script
    python = quark_python() if quark else sys.executable
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        np.save(folder / "calibration.npy", data.calibration)
        np.save(folder / "test.npy", data.test)
        files = [str(folder / f"{part}.npy") for part in ("calibration", "test", "found")]
        command = [python, str(HERE / "quantizers" / script), method, str(model), *files]
        others = "" if quark else os.environ.get("PYTHONPATH", "")  # our own package quark
        paths = os.pathsep.join([str(HERE), *filter(None, [others])])
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=folder,
            env={**os.environ, "PYTHONPATH": paths},
        )  # fmt: skip
        if done.returncode:
            return {"error": done.stderr.strip().splitlines()[-1]}
        figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        found = np.load(files[-1])
    return figures | subject.compare(floating, found, data.labels)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    place = HERE.parents[2] / "shared" / "models" / "mlperf_tiny"
    parser.add_argument("--models", type=pathlib.Path, default=place, help="MLPerf Tiny's files")
    parser.add_argument("--networks", nargs="+", choices=SUBJECTS, default=list(SUBJECTS))
    parser.add_argument("--quantizers", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0], help="draws of samples")
    given = parser.parse_args()
    rows = []
    folder = tempfile.TemporaryDirectory()
    for network in given.networks:
        subject = SUBJECTS[network]
        model = pathlib.Path(folder.name) / f"{network}.onnx"
        prepare(subject.path(given.models), model, subject.shape)
        session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        for seed in given.seeds:
            data = subject.data(given.models, seed)
            floating = np.concatenate([session.run(None, {name: x[None]})[0] for x in data.test])
            for contender in given.quantizers:
                figures = measured(contender, model, subject, data, floating)
                rows.append({"network": network, "seed": seed, "quantizer": contender, **figures})
                print(json.dumps(rows[-1]), file=sys.stderr)
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
