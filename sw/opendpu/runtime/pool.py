# SPDX-License-Identifier: Apache-2.0
"""Several DPU cores behind one device; who waits for one gets it when it is their turn."""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from opendpu.runtime.device import Device, Job, JobStatistics
from opendpu_arch.errors import DPUError, UnsupportedError

MAX_CORES = 64


class DevicePool:
    """Cores that take jobs from any number of threads, each one job at a time.

    Jobs that find no core wait. Clients, see :meth:`lease`, take turns, and the jobs of one client
    begin in the order in which they came: a client with many jobs does not keep others waiting.

    Parameters
    ----------
    cores
        Devices for the same target; the pool closes them.
    """

    def __init__(self, cores: Sequence[Device]) -> None:
        if not cores:
            raise UnsupportedError("a pool needs at least one core")
        self.cores = tuple(cores)
        self.name = cores[0].name
        self.target = cores[0].target
        self.computes = all(getattr(core, "computes", True) for core in cores)
        self._free = deque(cores)
        self._waiting: OrderedDict[Hashable, deque[_Turn]] = OrderedDict()
        self._running: dict[int, Hashable] = {}
        self._lock = threading.Lock()
        self._closed = False

    def run(self, job: Job) -> JobStatistics:
        """Run a job on the next core that is free; errors are those of the core."""
        return self.run_for(None, job)

    def run_for(self, client: Hashable, job: Job) -> JobStatistics:
        """Run a job of one of several clients."""
        core = self._take(client)
        self._running[id(core)] = client
        try:
            return core.run(job)
        finally:
            del self._running[id(core)]
            self._give(core)

    def lease(self, on_close: Callable[[], None] = lambda: None) -> "Lease":
        """Return a device for one more client; ``on_close`` is called when it is closed."""
        return Lease(self, on_close)

    def cancel(self, client: Hashable = None) -> None:
        """End the jobs of a client: those that wait, and those that run where the cores can."""
        with self._lock:
            turns = self._waiting.pop(client, deque())
        for turn in turns:
            turn.gate.release()
        for core in self.cores:
            end = getattr(core, "cancel", None)
            if end is not None and self._running.get(id(core), self) == client:
                end()

    def close(self) -> None:
        """Free what the cores hold; jobs that wait fail."""
        with self._lock:
            self._closed = True
            turns = [turn for waiting in self._waiting.values() for turn in waiting]
            self._waiting.clear()
        for turn in turns:
            turn.gate.release()
        for core in self.cores:
            core.close()

    def _take(self, client: Hashable) -> Device:
        with self._lock:
            if self._closed:
                raise DPUError(f"the pool of {len(self.cores)} {self.name!r} cores is closed")
            if self._free:
                return self._free.popleft()
            turn = _Turn()
            self._waiting.setdefault(client, deque()).append(turn)
        try:
            turn.gate.acquire()
        except BaseException:
            self._leave(client, turn)
            raise
        if turn.core is None:
            raise DPUError(f"a job for {len(self.cores)} {self.name!r} cores was cancelled")
        return turn.core

    def _leave(self, client: Hashable, turn: "_Turn") -> None:
        """Forget a turn that nobody waits for any more."""
        with self._lock:
            waiting = self._waiting.get(client, deque())
            if turn in waiting:
                waiting.remove(turn)
                if not waiting:
                    del self._waiting[client]
        if turn.core is not None:
            self._give(turn.core)

    def _give(self, core: Device) -> None:
        with self._lock:
            if not self._waiting:
                self._free.append(core)
                return
            client, waiting = self._waiting.popitem(last=False)
            turn = waiting.popleft()
            if waiting:
                self._waiting[client] = waiting  # behind all others
            turn.core = core
        turn.gate.release()


class _Turn:
    """A job that waits for a core; the gate opens when it has one."""

    def __init__(self) -> None:
        self.core: Device | None = None
        self.gate = threading.Lock()
        self.gate.acquire()


class Lease:
    """A client's part in a pool; a device like any other."""

    def __init__(self, pool: DevicePool, on_close: Callable[[], None]) -> None:
        self.pool = pool
        self.name = pool.name
        self.target = pool.target
        self.computes = pool.computes
        self._on_close = on_close
        self._lock = threading.Lock()
        self._open = True

    def run(self, job: Job) -> JobStatistics:
        """Run a job on a core of the pool when it is this client's turn."""
        return self.pool.run_for(id(self), job)

    def cancel(self) -> None:
        """End the jobs of this client."""
        self.pool.cancel(id(self))

    def close(self) -> None:
        """Give the lease back."""
        with self._lock:
            was_open, self._open = self._open, False
        if was_open:
            self._on_close()


class SharedPools:
    """The pools of a process, by what they are made of; one is closed with its last lease."""

    def __init__(self) -> None:
        self._pools: dict[Hashable, tuple[DevicePool, int]] = {}
        self._lock = threading.Lock()

    def lease(self, key: Hashable, make: Callable[[], DevicePool]) -> Lease:
        """Return a lease of the pool called ``key``; without one, ``make`` makes it."""
        with self._lock:
            pool, leases = self._pools.get(key) or (make(), 0)
            self._pools[key] = (pool, leases + 1)
        return pool.lease(lambda: self._give_back(key))

    def _give_back(self, key: Hashable) -> None:
        with self._lock:
            pool, leases = self._pools[key]
            if leases > 1:
                self._pools[key] = (pool, leases - 1)
                return
            del self._pools[key]
        pool.close()


def check_cores(value: Any, source: str) -> int:
    """Return a number of cores; UnsupportedError if ``value`` is none."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_CORES:
        raise UnsupportedError(
            f"{source} is {value!r}, but must be a number of cores in 1..{MAX_CORES}"
        )
    return value


def cores_of_list(text: str, variable: str) -> int:
    """Return how many cores a list such as ``0,1,2`` names; UnsupportedError if it is none."""
    numbers = [part.strip() for part in text.split(",")]
    if not all(number.isdecimal() for number in numbers):
        raise UnsupportedError(
            f"{variable} is {text!r}, but must be numbers of cores with commas, such as 0,1,2"
        )
    return check_cores(len(set(map(int, numbers))), f"the number of cores in {variable}")
