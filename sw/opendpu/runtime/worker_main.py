# SPDX-License-Identifier: Apache-2.0
"""What a worker process does: opens a device, and runs the jobs that come in."""

import multiprocessing.connection
import signal
import sys
from typing import Any

import numpy as np

from opendpu.runtime.device import Device, Job, Segment
from opendpu.runtime.devices import open_device
from opendpu.runtime.worker import Sent
from opendpu_arch.errors import DPUError
from xir import Graph, Subgraph


def main() -> None:
    """Serve the process at the other end of the socket that the command line names."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the other process's business
    connection = multiprocessing.connection.Connection(int(sys.argv[1]))
    try:
        name, target, memory, options = connection.recv()
        try:
            device = open_device(name, target, memory, cores=0, **options)
        except Exception as error:
            connection.send(("error", _described(error)))
            return
        computes = getattr(device, "computes", True)
        connection.send(("opened", (computes, getattr(device, "takes_subgraphs", False))))
        _serve(connection, device)
        device.close()
    except (EOFError, OSError):
        pass  # nobody wants anything any more


def _serve(connection: Any, device: Device) -> None:
    kept = _Kept()
    while True:
        message = connection.recv()
        try:
            answer: tuple[str, Any] = ("done", _run(message, device, kept))
        except Exception as error:
            answer = ("error", _described(error))
        connection.send(answer)


class _Kept:
    """What the other process sends once, by its number."""

    def __init__(self) -> None:
        self._contents: dict[int, bytes] = {}
        self._graphs: dict[int, Graph] = {}

    def content(self, sent: Sent) -> bytes:
        """Return bytes that come with this message, or came with an earlier one."""
        number, content = sent
        if content is not None:
            self._contents[number] = content
        return self._contents[number]

    def subgraph(self, sent: tuple[Sent, str] | None) -> Subgraph | None:
        """Return a subgraph by name, out of the graph that is sent for it."""
        if sent is None:
            return None
        (number, content), name = sent
        if content is not None:
            self._graphs[number] = Graph.from_bytes(content)
        children = self._graphs[number].get_root_subgraph().get_children()
        return next(child for child in children if child.get_name() == name)

    def forget(self, numbers: list[int]) -> None:
        """Drop what the other process will send again."""
        for number in numbers:
            self._contents.pop(number, None)
            self._graphs.pop(number, None)


def _run(message: dict[str, Any], device: Device, kept: _Kept) -> tuple[Any, dict[int, bytes]]:
    """Run one job; return its statistics and the segments that are wanted."""
    code = kept.content(message["code"])
    segments: dict[int, Segment] = {
        register: np.frombuffer(kept.content(sent), np.uint8)
        for register, sent in message["constants"].items()
    }
    for register, content in message["segments"].items():
        segments[register] = np.frombuffer(bytearray(content), np.uint8)
    for register, size in message["empty"].items():
        segments[register] = np.zeros(size, np.uint8)
    subgraph = kept.subgraph(message["subgraph"])
    kept.forget(message["forget"])
    statistics = device.run(Job(code, segments, subgraph))
    return statistics, {r: segments[r].tobytes() for r in message["wanted"]}


def _described(error: Exception) -> tuple[str, str, str | None]:
    if isinstance(error, DPUError):
        return type(error).__name__, error.message, error.code
    return type(error).__name__, str(error), None
