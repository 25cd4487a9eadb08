# SPDX-License-Identifier: Apache-2.0
"""Devices, the runner of a DPU subgraph, and the runners of CPU subgraphs and whole graphs."""

from opendpu.runtime.cpu_runner import CpuRunner
from opendpu.runtime.device import Device, Job, JobStatistics, Timeline
from opendpu.runtime.devices import known_devices, open_device
from opendpu.runtime.graph_runner import GraphRunner, GraphStatistics
from opendpu.runtime.runner import Runner

__all__ = [
    "CpuRunner",
    "Device",
    "GraphRunner",
    "GraphStatistics",
    "Job",
    "JobStatistics",
    "Runner",
    "Timeline",
    "known_devices",
    "open_device",
]
