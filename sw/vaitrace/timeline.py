# SPDX-License-Identifier: Apache-2.0
"""The DPU jobs of a program in time: Vitis Analyzer's files, and Perfetto's JSON."""

import collections
import csv
import datetime
import io
import json
from collections.abc import Sequence

from opendpu.runtime.tracing import Record
from vaitrace.calls import Call
from vaitrace.summary import Line

KERNEL = "VART_RUNNER"


def trace_csv(records: Sequence[Record], pid: int, when: datetime.datetime) -> str:
    """Return ``vart_trace.csv``: a start and an end event a job, in milliseconds."""
    origin = records[0].start if records else 0.0
    names = {name: n for n, name in enumerate(dict.fromkeys(r.subgraph for r in records), 1)}
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerows(
        [
            ["HEADER"],
            ["VTF File Version", "1.0"],
            ["VTF File Type", "0"],
            ["PID", pid],
            ["Generated on", when.strftime("%Y-%m-%d %H:%M:%S")],
            ["Resolution", "ms"],
            ["STRUCTURE"],
            ["Dynamic_Row", 1, "DPU", "Jobs of DPU subgraphs"],
            ["MAPPING"],
            *([number, name] for name, number in names.items()),
            ["EVENTS"],
        ]
    )
    event = 0
    for job in records:
        begin = (job.start - origin) * 1e3
        start, event = event + 1, event + 2
        number = names[job.subgraph]
        table.writerow([start, 0, f"{begin:.6f}", 1, KERNEL, number, job.thread, 1, job.workload])
        table.writerow([event, start, f"{begin + job.seconds * 1e3:.6f}", 1, KERNEL, number])
    return out.getvalue()


def profile_summary_csv(lines: Sequence[Line]) -> str:
    """Return ``profile_summary.csv``: the table of the guide's DPU summary."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["DPU Summary"])
    table.writerow(
        [
            "Kernel Name", "Number Of Runs", "CU Full Name", "Minimum Time (ms)",
            "Average Time (ms)", "Maximum Time (ms)", "Workload(GOP)", "DPU Performance(GOP/s)",
            "Mem IO(MB)", "Mem Bandwidth(MB/s)",
        ]
    )  # fmt: skip
    for line in lines:
        average = line.hardware_ms or line.software_ms
        table.writerow(
            [
                line.subgraph, line.runs, line.dpu, f"{line.minimum_ms:.3f}",
                f"{line.software_ms:.3f}", f"{line.maximum_ms:.3f}", f"{line.workload_gop:.6f}",
                f"{line.workload_gop / average * 1e3 if average else 0:.3f}",
                f"{line.moved_mb:.3f}", f"{line.bandwidth_mb_s:.3f}",
            ]
        )  # fmt: skip
    return out.getvalue()


def throughput_csv(records: Sequence[Record]) -> str:
    """Return ``vitis_ai_profile.csv``: jobs that ended in each second."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["DPU Throughput"])
    table.writerow(["timestamp", "FPS"])
    if records:
        origin = records[0].start
        ends = collections.Counter(int(job.start + job.seconds - origin) for job in records)
        for second in range(max(ends) + 1):
            table.writerow([second, ends[second]])
    return out.getvalue()


def perfetto_json(records: Sequence[Record], calls: Sequence[Call] = ()) -> str:
    """Return jobs and calls of functions as trace events, in microseconds, a track a thread."""
    starts = [job.start for job in records] + [call.start for call in calls]
    origin = min(starts, default=0.0)
    events = [
        {
            "name": job.subgraph, "cat": "dpu", "ph": "X", "pid": 1, "tid": job.thread,
            "ts": (job.start - origin) * 1e6, "dur": job.seconds * 1e6,
            "args": {"dpu": job.dpu, "device": job.device, "cycles": job.cycles},
        }
        for job in records
    ]  # fmt: skip
    events += [
        {
            "name": call.function, "cat": "function", "ph": "X", "pid": 1, "tid": call.thread,
            "ts": (call.start - origin) * 1e6, "dur": call.seconds * 1e6,
        }
        for call in calls
    ]  # fmt: skip
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}) + "\n"
