# SPDX-License-Identifier: Apache-2.0
"""The demo: digits, quantized and compiled, on the RTL next to the ISS and the float network."""

import argparse
import math
import pathlib
import sys
import time

import digits
import numpy as np
import numpy.typing as npt
import onnxruntime
import show
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from opendpu import api
from opendpu.runtime import npz
from opendpu_arch import outputs
from opendpu_arch.errors import DPUError
from opendpu_arch.target import Target
from xir import Graph

HERE = pathlib.Path(__file__).resolve().parent
MODEL = HERE / "digits.onnx"
BUILD = HERE.parent.parent / "build" / "demo"
CALIBRATION_IMAGES = 200
PICTURES = 8

Image = npt.NDArray[np.float32]


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description="Run a small network for handwritten digits on the simulated RTL."
    )
    parser.add_argument("--target", default="B512", help="which DPU, B64 to B4096 (%(default)s)")
    parser.add_argument("--images", type=int, default=100, help="how many, 1..360 (%(default)s)")
    parser.add_argument(
        "--memory", default="kv260", help="kv260, ideal or stall:<seed> (%(default)s)"
    )
    parser.add_argument(
        "--output", type=pathlib.Path, default=BUILD, help="where files go (build/demo)"
    )
    arguments = parser.parse_args()
    if not 1 <= arguments.images <= digits.TEST_IMAGES:
        parser.error(f"--images is {arguments.images}, but must be in 1..{digits.TEST_IMAGES}")
    return arguments


def multiply_accumulates(graph: Graph) -> int:
    """Return the multiplications that the convolutions of a compiled graph need."""
    total = 0
    for op in graph.get_ops():
        if op.get_type() == "conv2d-fix":
            weights = op.get_input_tensor("weights").dims
            total += math.prod(op.get_output_tensor().dims) * math.prod(weights[1:])
    return total


def compile_model(target: Target, data: digits.Digits, folder: pathlib.Path) -> Graph:
    """Quantize on training images, compile, and return the compiled model as loaded from file.

    Leaves what ``opendpu compile`` and ``opendpu run`` need in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"digits_{target.name}.xmodel"
    calibration = {"image": data.train_images[:CALIBRATION_IMAGES]}
    api.compile_onnx(MODEL, calibration=calibration, target=target, output=path)
    npz.write(folder / "calibration.npz", calibration)
    npz.write(folder / "images.npz", {"image": data.test_images.reshape(-1, 1, 8, 8, 1)})
    return api.load(path)


def run_images(
    graph: Graph, data: digits.Digits, options: argparse.Namespace, progress: Progress
) -> list[show.Result]:
    """Run images one by one on the float network, the ISS and the RTL."""
    session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    opening = progress.add_task(f"building the RTL of {options.target} (first time: minutes)")
    results = []
    with (
        api.create_runner(graph, device="iss") as iss,
        api.create_runner(graph, device="rtl", memory=options.memory) as rtl,
    ):
        progress.remove_task(opening)
        name, shape = iss.get_input_tensors()[0].name, iss.get_input_tensors()[0].dims
        running = progress.add_task("running", total=options.images)
        for image, label in zip(data.test_images, data.test_labels[: options.images], strict=False):
            [logits] = session.run(None, {"image": image[np.newaxis]})
            [expected] = iss.run({name: image.reshape(shape)}).values()
            start = time.perf_counter()
            [found] = rtl.run({name: image.reshape(shape)}).values()
            seconds = time.perf_counter() - start
            statistics = rtl.last_statistics
            results.append(
                show.Result(
                    label=int(label),
                    float_class=int(np.argmax(logits)),
                    iss_class=int(np.argmax(expected)),
                    rtl_class=int(np.argmax(found)),
                    same_bytes=expected.tobytes() == found.tobytes(),
                    cycles=statistics.cycles if statistics else 0,
                    seconds=seconds,
                )
            )
            progress.advance(running)
    return results


def main() -> int:
    """Run the demo; returns its exit code, zero if RTL and ISS agree on every image."""
    start = time.perf_counter()
    options = parse_arguments()
    console = Console()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    try:
        target = api.find_target(options.target)
        api.check_device("rtl")
        outputs.check_folder(options.output)
        data = digits.load_digits()
        with Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        ) as progress:
            compiling = progress.add_task("quantizing and compiling")
            graph = compile_model(target, data, options.output)
            progress.remove_task(compiling)
            results = run_images(graph, data, options, progress)
    except DPUError as error:
        console.print(f"demo: error: {error}", style="red", markup=False)
        return 1
    except KeyboardInterrupt:
        console.print("demo: interrupted")
        return 130
    pictures = data.test_images[:PICTURES, 0]
    console.print(show.gallery(pictures, results[:PICTURES]))
    console.print(
        show.summary(
            results,
            target=f"{target.name}, memory {options.memory}",
            macs=multiply_accumulates(graph),
            macs_per_cycle=target.macs_per_cycle,
        )
    )
    show.closing(console, time.perf_counter() - start)
    return 0 if all(r.same_bytes for r in results) else 1


if __name__ == "__main__":
    sys.exit(main())
