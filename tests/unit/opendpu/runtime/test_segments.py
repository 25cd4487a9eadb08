# SPDX-License-Identifier: Apache-2.0
"""Memory of jobs: what is copied, what is lent, and what a device is told of it."""

from typing import Any

import numpy as np
import pytest

import xir
from opendpu.runtime import GraphRunner, Runner, cpu
from opendpu.runtime.device import Job
from opendpu_arch import isa
from opendpu_arch.target import Target

SHAPE = [1, 1, 2, 4]


def dense_graph(code: bytes) -> xir.Graph:
    """Return Before (CPU) -> upload, download (DPU) -> After (CPU), without gaps in memory."""
    graph = xir.Graph("dense")
    data = {"shape": SHAPE, "data_type": "XINT8"}
    source = graph.create_op("x", "data-fix", data)
    before = graph.create_op("before", "Before", data, {"input": [source]})
    upload = graph.create_op("up", "upload", {}, {"input": [before]})
    download = graph.create_op("down", "download", {}, {"input": [upload]})
    after = graph.create_op("after", "After", data, {"input": [download]})
    for op, register in ((upload, 2), (download, 3)):
        op.get_output_tensor().set_attr("reg_id", register).set_attr("ddr_addr", 0)
    parts = [("user", [source]), ("first", [before]), ("dpu", [upload, download]), ("l", [after])]
    children = graph.get_root_subgraph().split(parts)
    for child, device in zip(children, ("USER", "CPU", "DPU", "CPU"), strict=True):
        child.set_attr("device", device)
    children[2].set_attrs(
        {
            "device": "DPU",
            "dpu_fingerprint": Target.from_name("B64").fingerprint,
            "mc_code": code,
            "reg_id_to_context_type": {"REG_1": "DATA", "REG_2": "DATA", "REG_3": "DATA"},
            "reg_id_to_size": {"REG_1": 16, "REG_2": 8, "REG_3": 8},
        }
    )
    return graph


def code(register: int) -> bytes:
    """Return a program that writes a register."""
    save = isa.Save(
        dpdon=0, dpdby=0, bank_id=0, bank_addr=0, hp_id=0, argmax=0, jump_write=4, jump_read=1,
        channel=4, length=2, const_en=0, const_value=0, reg_id=register, ddr_addr=0,
    )  # fmt: skip
    return isa.encode([save, isa.End(dpdon=0, dpdby=0)])


@pytest.fixture
def arrays() -> Any:
    """Make the ops of :func:`dense_graph` keep the arrays that they give and get."""
    kept: dict[str, Any] = {}

    @cpu.register("Before")
    def before(op, inputs):
        kept["given"] = inputs[0] + 1
        return kept["given"]

    @cpu.register_class("After")
    class After:
        def __init__(self, op):
            pass

        def calculate(self, output, input):
            kept["taken"] = np.asarray(input[0])
            output[...] = input[0]

    yield kept
    cpu.unregister("Before")
    cpu.unregister("After")


def copy(job: Job) -> None:
    job.segments[3][:] = job.segments[2]


def test_nothing_is_copied_between_subgraphs(arrays, fake_device):
    fake_device.work = copy
    values = np.arange(8, dtype=np.int8).reshape(SHAPE)
    with GraphRunner(dense_graph(code(3)), device=fake_device) as runner:
        assert (runner.run([values])["after"] == values + 1).all()
    (job,) = fake_device.jobs
    assert np.shares_memory(job.segments[2], arrays["given"])
    assert np.shares_memory(job.segments[3], arrays["taken"])
    assert (job.given, job.wanted) == ({2}, {3})


@pytest.mark.parametrize("program", [code(2), b"\xff" * 4])
def test_what_the_program_writes_is_copied(arrays, fake_device, program):
    fake_device.work = copy
    values = np.arange(8, dtype=np.int8).reshape(SHAPE)
    with GraphRunner(dense_graph(program), device=fake_device) as runner:
        runner.run([values])
    (job,) = fake_device.jobs
    assert not np.shares_memory(job.segments[2], arrays["given"])


def test_inputs_of_a_job_are_copied_before_it_begins(fake_device):
    fake_device.work = copy
    (dpu,) = (
        child
        for child in dense_graph(code(3)).get_root_subgraph().get_children()
        if child.get_attr("device") == "DPU"
    )
    runner = Runner(dpu, device=fake_device)
    values, result = np.full(SHAPE, 7, np.int8), np.zeros(SHAPE, np.int8)
    job = runner.execute_async([values], [result])
    runner.wait(job)
    values[...] = 9
    assert (result == 7).all()
    assert not np.shares_memory(fake_device.jobs[0].segments[2], values)
    assert fake_device.jobs[0].segments[1].tolist() == [0] * 16
