# SPDX-License-Identifier: Apache-2.0
"""The DPU jobs of a program by subgraph: figures, the guide's text table, JSON."""

import dataclasses
import json
import statistics
from collections.abc import Sequence
from typing import Any

from opendpu.runtime.tracing import Record
from opendpu_arch.errors import TargetError
from opendpu_arch.target import CLOCK_MHZ, Target
from vaitrace.calls import Call

MEGABYTE = 1 << 20
_COLUMNS = (
    ("DPU Id", "dpu"), ("Bat", "batch"), ("DPU SubGraph", "subgraph"), ("WL", "workload_gop"),
    ("SW_RT", "software_ms"), ("HW_RT", "hardware_ms"), ("Effic", "efficiency"),
    ("LdWB", "weights_mb"), ("LdFM", "load_mb"), ("StFM", "store_mb"), ("AvgBw", "bandwidth_mb_s"),
)  # fmt: skip
_NOTES = """\
Notes:
WL (GOP): workload, two operations a multiply-accumulate
SW_RT (ms): time of a job in this program, on a simulated DPU; average
HW_RT (ms): cycles of a job at {clock:g} MHz; average; 0 where the device counts no cycles
Effic (%): WL / HW_RT of the operations that the DPU could do
LdWB, LdFM, StFM (MB): weights and biases, inputs and outputs of the subgraph
AvgBw (MB/s): bytes read and written / HW_RT"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Line:
    """The jobs of one subgraph on one DPU."""

    dpu: str
    subgraph: str
    runs: int
    workload_gop: float
    software_ms: float
    minimum_ms: float
    maximum_ms: float
    hardware_ms: float
    efficiency: float
    """In percent."""
    weights_mb: float
    load_mb: float
    store_mb: float
    moved_mb: float
    """Read and written in a job, by the device's count."""
    bandwidth_mb_s: float
    batch: int = 1


def summarize(records: Sequence[Record], clock_mhz: float = CLOCK_MHZ) -> list[Line]:
    """Return a line for each subgraph, in the order of their first jobs."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for job in records:
        groups.setdefault((job.dpu, job.subgraph), []).append(job)
    return [_line(jobs, clock_mhz) for jobs in groups.values()]


def _line(jobs: Sequence[Record], clock_mhz: float) -> Line:
    first = jobs[0]
    hardware = statistics.mean(job.cycles for job in jobs) / (clock_mhz * 1e6)
    peak = _operations_per_cycle(first.dpu) * clock_mhz * 1e6
    moved = statistics.mean(job.bytes_read + job.bytes_written for job in jobs)
    times = [job.seconds * 1e3 for job in jobs]
    return Line(
        dpu=first.dpu,
        subgraph=first.subgraph,
        runs=len(jobs),
        workload_gop=first.workload / 1e9,
        software_ms=statistics.mean(times),
        minimum_ms=min(times),
        maximum_ms=max(times),
        hardware_ms=hardware * 1e3,
        efficiency=100 * first.workload / hardware / peak if hardware and peak else 0.0,
        weights_mb=first.weight_bytes / MEGABYTE,
        load_mb=first.input_bytes / MEGABYTE,
        store_mb=first.output_bytes / MEGABYTE,
        moved_mb=moved / MEGABYTE,
        bandwidth_mb_s=moved / MEGABYTE / hardware if hardware else 0.0,
    )


def _operations_per_cycle(dpu: str) -> int:
    try:
        return 2 * Target.from_name(dpu).macs_per_cycle
    except TargetError:
        return 0


def text(lines: Sequence[Line], calls: Sequence[Call] = (), clock_mhz: float = CLOCK_MHZ) -> str:
    """Return the tables that ``--txt_summary`` shows: subgraphs, and functions if any."""
    rows = [[title for title, _ in _COLUMNS]]
    rows += [[_cell(getattr(line, field)) for _, field in _COLUMNS] for line in lines]
    parts = ["DPU Summary:", *_table(rows), "", *_NOTES.format(clock=clock_mhz).splitlines()]
    if calls:
        parts += [
            "",
            "CPU Functions:",
            *_table([["Function", "Num", "AVG(ms)"], *_functions(calls)]),
        ]
    return "\n".join([*(part.rstrip() for part in parts), ""])


def _functions(calls: Sequence[Call]) -> list[list[str]]:
    times: dict[str, list[float]] = {}
    for call in calls:
        times.setdefault(call.function, []).append(call.seconds * 1e3)
    return [[name, str(len(t)), _cell(statistics.mean(t))] for name, t in times.items()]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [" | ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)) for row in rows]
    rule = "-" * len(lines[0])
    return [rule, lines[0], rule, *lines[1:], rule]


def _cell(value: object) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def as_json(lines: Sequence[Line]) -> str:
    """Return the figures as ``--json_summary`` writes them: by DPU, a subgraph an entry."""
    units: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        units.setdefault(line.dpu, []).append(
            {
                "subg_name": line.subgraph,
                "runs": line.runs,
                "cu_name": line.dpu,
                "batch": line.batch,
                "min_time": line.minimum_ms,
                "avg_time": line.software_ms,
                "max_time": line.maximum_ms,
                "workload": line.workload_gop,
                "efficiency": line.efficiency,
                "hardware_time": line.hardware_ms,
                "read_weight_bias_size": line.weights_mb,
                "read_feature_map_size": line.load_mb,
                "write_feature_map_size": line.store_mb,
                "mem_io_bw": line.bandwidth_mb_s,
            }
        )
    return json.dumps({"dpu": {"profiling": units}}, indent=2) + "\n"
