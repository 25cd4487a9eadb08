# SPDX-License-Identifier: Apache-2.0
"""A tiny compiled graph, and a device that runs Python functions instead of programs."""

import dataclasses
import threading
from collections.abc import Callable

import numpy as np
import pytest

import xir
from opendpu.runtime.device import Job, JobStatistics
from opendpu_arch import isa
from opendpu_arch.target import Target

IN_ADDRESS, IN_ROW, OUT_ADDRESS, OUT_ROW = 8, 16, 5, 20
"""Where rows of the [1, 2, 3, 4] tensors lie: both have gaps, and neither starts at 0."""


def copy_program() -> bytes:
    """Return code for B64 that copies two rows of three pixels of four bytes."""
    load, save = isa.Engine.LOAD, isa.Engine.SAVE
    program: list[isa.Instruction] = []
    for row in range(2):
        last = row == 1
        program.append(
            isa.Load(
                dpdby=1 << save if last else 0, bank_id=0, bank_addr=3 * row, jump_read=4,
                jump_write=1, pad_idx=1, channel=4, length=3, pad_start=0, pad_end=0, mode_avg=0,
                broadcast=0, const_value=0, reg_id=2, ddr_addr=IN_ADDRESS + IN_ROW * row, dpdon=0,
            )
        )  # fmt: skip
    for row in range(2):
        program.append(
            isa.Save(
                dpdon=0 if row else 1 << load, dpdby=0, bank_id=0, bank_addr=3 * row, hp_id=0,
                argmax=0, jump_write=4, jump_read=1, channel=4, length=3, const_en=0, const_value=0,
                reg_id=3, ddr_addr=OUT_ADDRESS + OUT_ROW * row,
            )
        )  # fmt: skip
    return isa.encode([*program, isa.End(dpdon=0, dpdby=0)])


@pytest.fixture
def copy_graph() -> xir.Graph:
    """Return data-fix -> upload -> identity -> download -> fix2float, the middle on a B64 DPU."""
    graph = xir.Graph("copy")
    fixed = {"fix_point": 2, "bit_width": 8, "if_signed": True, "round_mode": "DPU_ROUND"}
    source = graph.create_op("x", "data-fix", {"shape": [1, 2, 3, 4], "data_type": "XINT8"})
    upload = graph.create_op("x_upload", "upload", {}, {"input": [source]})
    middle = graph.create_op("y", "identity", {}, {"input": [upload]})
    download = graph.create_op("y_download", "download", {}, {"input": [middle]})
    result = graph.create_op("z", "fix2float", fixed, {"input": [download]})
    for op in (source, upload, middle, download):
        for key, value in fixed.items():
            op.get_output_tensor().set_attr(key, value)
    for op, reg, address, row in (
        (upload, 2, IN_ADDRESS, IN_ROW),
        (middle, 3, OUT_ADDRESS, OUT_ROW),
    ):
        tensor = op.get_output_tensor()
        tensor.set_attr("reg_id", reg).set_attr("ddr_addr", address)
        tensor.set_attr("location", 1).set_attr("stride", [2 * row, row, 4, 1])
    middle.get_output_tensor().rename("y_inner")
    download.get_output_tensor().rename("y")
    children = graph.get_root_subgraph().split(
        [
            ("subgraph_x", [source]),
            ("subgraph_y", [upload, middle, download]),
            ("subgraph_z", [result]),
        ]
    )
    for child, device in zip(children, ("USER", "DPU", "CPU"), strict=True):
        child.set_attr("device", device)
    children[1].set_attrs(
        {
            "device": "DPU",
            "dpu_fingerprint": Target.from_name("B64").fingerprint,
            "mc_code": copy_program(),
            "reg_id_to_context_type": {
                "REG_0": "CONST", "REG_1": "DATA", "REG_2": "DATA", "REG_3": "DATA",
            },
            "reg_id_to_size": {"REG_0": 4, "REG_1": 16, "REG_2": 64, "REG_3": 64},
            "reg_id_to_parameter_value": {"REG_0": b"\1\2\3"},
        }
    )  # fmt: skip
    return graph


@pytest.fixture
def copy_subgraph(copy_graph: xir.Graph) -> xir.Subgraph:
    """Return the DPU subgraph of the copying graph."""
    return copy_graph.get_root_subgraph().get_children()[1]


def copy_rows(job: Job) -> None:
    """Do what :func:`copy_program` does."""
    for row in range(2):
        source = job.segments[2][IN_ADDRESS + IN_ROW * row :][:12]
        job.segments[3][OUT_ADDRESS + OUT_ROW * row :][:12] = source


@dataclasses.dataclass
class FakeDevice:
    """Runs a function for each job, and notes what it got."""

    work: Callable[[Job], None] = copy_rows
    target: Target = dataclasses.field(default_factory=lambda: Target.from_name("B64"))
    name: str = "fake"
    jobs: list[Job] = dataclasses.field(default_factory=list)
    closed: int = 0
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    def run(self, job: Job) -> JobStatistics:
        with self.lock:
            self.jobs.append(job)
            number = len(self.jobs)
        self.work(job)
        return JobStatistics(device=self.name, cycles=number)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def fake_device() -> FakeDevice:
    """Return a device that copies."""
    return FakeDevice()


@pytest.fixture
def image() -> np.ndarray:
    """Return an input of the copying graph."""
    return np.arange(-12, 12, dtype=np.int8).reshape(1, 2, 3, 4)
