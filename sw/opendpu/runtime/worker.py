# SPDX-License-Identifier: Apache-2.0
"""A device in a process of its own: a core that can use a core of the host, and may die.

Python programs of both sides exchange messages on a pair of sockets; what a job does not change
goes over once.
"""

import contextlib
import itertools
import logging
import multiprocessing.connection
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from opendpu.runtime.device import Job, JobStatistics, Segment
from opendpu_arch import errors
from opendpu_arch.errors import DPUError, ToolError
from opendpu_arch.target import Target
from xir import Graph, Subgraph

_LOG = logging.getLogger("opendpu.runtime")

KEPT = 64
"""Programs, constants and graphs that a process keeps; those used last."""

Sent = tuple[int, bytes | None]
"""Number of something that does not change; its bytes where they are sent the first time."""

_START = "from opendpu.runtime.worker_main import main; main()"


class WorkerDevice:
    """Runs jobs, one at a time, on a device that a process of its own has opened.

    A process that ends in the middle of a job makes this job fail; the next job starts another.

    Parameters
    ----------
    name, target, memory, options
        What :func:`opendpu.runtime.devices.open_device` gets in the other process; what is wrong
        with them is raised here.
    """

    def __init__(self, name: str, target: Target, memory: str, options: dict[str, Any]) -> None:
        self.name = name
        self.target = target
        self._setup = (name, target, memory, options)
        self._lock = threading.Lock()
        self._process: _Process | None = _Process(*self._setup)
        self.computes = self._process.computes

    @property
    def pid(self) -> int | None:
        """Number of the process, while there is one."""
        return self._process.pid if self._process else None

    def run(self, job: Job) -> JobStatistics:
        """Run a job in the process.

        Raises
        ------
        ToolError
            The process ended; the next job gets another.
        DPUError
            What the device there raises.
        """
        with self._lock:
            if self._process is None or not self._process.is_alive():
                if self._process is not None:
                    _LOG.warning("%s; another one takes its place", self._process.obituary())
                self._process = _Process(*self._setup)
            process = self._process
            try:
                return process.run(job)
            except (EOFError, OSError):
                self._process = None
                raise ToolError(
                    f"{process.obituary()} while it ran a job; another one takes its place",
                    code="VART_DPU_EXEC_ERROR",
                ) from None

    def cancel(self) -> None:
        """End the process, and with it the job that it runs."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            process.close()


class _Process:
    """One process, and what it has been sent."""

    def __init__(self, name: str, target: Target, memory: str, options: dict[str, Any]) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            environment = dict(os.environ)
            environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
            self._popen = subprocess.Popen(
                [sys.executable, "-c", _START, str(theirs.fileno())],
                pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self._connection = multiprocessing.connection.Connection(ours.detach())
        self._name = name
        self.pid = self._popen.pid
        self._numbers = itertools.count()
        self._sent: OrderedDict[int, tuple[Any, int]] = OrderedDict()
        try:
            self._connection.send((name, target, memory, options))
            self.computes, self._takes_subgraphs = self._receive()
        except (EOFError, OSError):
            raise ToolError(f"{self.obituary()} before it had opened its device") from None
        except BaseException:
            self.kill()
            self.close()
            raise

    def run(self, job: Job) -> JobStatistics:
        """Send a job, wait for it, and put what it has changed into its segments."""
        given = job.segments.keys() if job.given is None else job.given
        wanted = job.segments.keys() if job.wanted is None else job.wanted
        constant = {r for r in given if not job.segments[r].flags.writeable}
        message = {
            "code": self._once(job.code, lambda: bytes(job.code)),
            "constants": {r: self._constant(job.segments[r]) for r in constant},
            "segments": {r: job.segments[r].tobytes() for r in given if r not in constant},
            "empty": {r: s.size for r, s in job.segments.items() if r not in given},
            "wanted": [r for r in sorted(wanted) if r not in constant],
            "subgraph": self._subgraph(job.subgraph) if self._takes_subgraphs else None,
            "forget": self._forgotten(),
        }
        self._connection.send(message)
        statistics, changed = self._receive()
        for register, content in changed.items():
            job.segments[register][...] = np.frombuffer(content, np.uint8)
        made: JobStatistics = statistics
        return made

    def _once(self, thing: Any, content: Callable[[], bytes]) -> Sent:
        """Return a number for what never changes, and its bytes if the process has none of it."""
        found = self._sent.get(id(thing))
        if found is not None:
            self._sent.move_to_end(id(thing))
            return found[1], None
        number = next(self._numbers)
        self._sent[id(thing)] = (thing, number)  # kept, so that nothing else gets its id
        return number, content()

    def _constant(self, segment: Segment) -> Sent:
        return self._once(segment, segment.tobytes)

    def _subgraph(self, subgraph: Subgraph | None) -> tuple[Sent, str] | None:
        if subgraph is None:
            return None
        graph = subgraph.get_graph()
        assert isinstance(graph, Graph)
        return self._once(subgraph, graph.to_bytes), subgraph.get_name()

    def _forgotten(self) -> list[int]:
        """Return the numbers of what has not been used for longest, beyond what is kept."""
        surplus = max(len(self._sent) - KEPT, 0)
        return [self._sent.popitem(last=False)[1][1] for _ in range(surplus)]

    def _receive(self) -> Any:
        kind, content = self._connection.recv()
        if kind == "error":
            raise _made_again(*content)
        return content

    def is_alive(self) -> bool:
        """Tell whether the process still runs."""
        return self._popen.poll() is None

    def kill(self) -> None:
        """End the process at once."""
        self._popen.kill()

    def close(self) -> None:
        """Let the process end, and wait for it."""
        self._connection.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(5)
        self._popen.kill()
        self._popen.wait()

    def obituary(self) -> str:
        """Return what became of the process; it has ended, or is ended here."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(5)
        self.kill()
        code = self._popen.wait()
        self._connection.close()
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        return f"worker process {self.pid} of device {self._name!r} {how}"


def _made_again(kind: str, message: str, code: str | None) -> DPUError:
    """Return an error of the other process; what is none of our family says its type."""
    made = getattr(errors, kind, None)
    if isinstance(made, type) and issubclass(made, DPUError):
        return made(message, code=code)
    return DPUError(f"{kind}: {message}", code="VART_DPU_EXEC_ERROR")
