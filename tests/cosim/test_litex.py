# SPDX-License-Identifier: Apache-2.0
"""The digits of the demo on the LiteX system, in LiteX's simulator, through its bridge."""

import pathlib
import socket

import numpy as np
import pytest

from opendpu import api
from opendpu.runtime import Runner
from opendpu.runtime.device import Job
from opendpu.runtime.program import dpu_subgraphs
from opendpu_arch import errors
from opendpu_arch.target import Target
from opendpu_sim.device import IssDevice
from opendpu_sim.progen import random_program

pytestmark = [pytest.mark.cosim, pytest.mark.slow]
for package in ("litex", "litedram", "litex_boards"):
    pytest.importorskip(package, reason="needs the extra opendpu[boards]")

from opendpu.runtime.board import LitexDevice  # noqa: E402
from opendpu_sim import litex_simulation  # noqa: E402

TARGET = Target.from_name("B64")
DIGITS = pathlib.Path(__file__).parents[2] / "scripts/demo/digits.onnx"
IMAGES = 20


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    try:
        litex_simulation.check_host()
    except errors.ToolError as error:
        pytest.skip(str(error))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    folder = tmp_path_factory.mktemp("litex")
    litex_simulation.build(TARGET, folder, port=port)
    with litex_simulation.running(folder, port=port):
        made = LitexDevice(
            TARGET, port=f"socket://localhost:{port}", soc=folder / "soc.json", timeout_seconds=300
        )
        yield made
        made.close()


@pytest.mark.parametrize("engine", ["mixed", "conv", "misc", "save"])
def test_random_programs(device, engine):
    for seed in range(3):
        code, segments = random_program(engine, TARGET, seed)
        expected = {reg_id: memory.copy() for reg_id, memory in segments.items()}
        IssDevice(TARGET).run(Job(code, expected))
        device.run(Job(code, segments))
        for reg_id in expected:
            assert np.array_equal(segments[reg_id], expected[reg_id]), (engine, seed, reg_id)


def test_digits(device, tmp_path):
    sklearn = pytest.importorskip("sklearn.datasets")
    digits = sklearn.load_digits()
    images = (digits.images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    path = tmp_path / "digits.xmodel"
    api.compile_onnx(DIGITS, calibration={"image": images[:200]}, target=TARGET, output=path)
    [subgraph] = dpu_subgraphs(api.load(path))
    right = 0
    with Runner(subgraph, device=device) as runner, Runner(subgraph, device="iss") as iss:
        [name] = [tensor.name for tensor in runner.get_input_tensors()]
        for image, label in zip(images[-IMAGES:], digits.target[-IMAGES:], strict=True):
            given = {name: image.reshape(1, 8, 8, 1)}
            [found] = runner.run(given).values()
            [expected] = iss.run(given).values()
            assert np.array_equal(found, expected)
            right += int(np.argmax(found)) == int(label)
        statistics = runner.last_statistics
    assert right >= IMAGES - 2
    assert statistics is not None
    assert statistics.cycles > 0
    print(f"{right} of {IMAGES} right, {statistics.cycles} cycles an image")
