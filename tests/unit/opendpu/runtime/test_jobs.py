# SPDX-License-Identifier: Apache-2.0
"""Jobs in flight: what several threads do at once, and what is dropped."""

import concurrent.futures
import functools
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from opendpu.runtime import jobs
from opendpu.runtime.jobs import JobQueue
from opendpu_arch.errors import DPUError

PATIENCE = 0.2
"""Seconds that a thread gets to do what a lock should keep it from; only then it costs time."""


class Interrupted(dict[int, None]):
    """A dict that lets another thread run in the middle of an iteration."""

    def __init__(self, other: threading.Thread) -> None:
        super().__init__()
        self.other = other

    def __iter__(self) -> Iterator[int]:
        entries = super().__iter__()
        if not self.other.ident:
            self.other.start()
            self.other.join(PATIENCE)
        yield from entries


def test_a_result_is_taken_while_another_job_is_submitted(monkeypatch):
    """Of old jobs the oldest is looked for, and in that moment a thread takes a result."""
    monkeypatch.setattr(jobs, "REMEMBERED", 1)
    queue: JobQueue[str] = JobQueue(1)
    numbers = [queue.submit(lambda: "done") for _ in range(4)]
    other = threading.Thread(target=queue.result, args=(numbers[3],))
    queue._waited = Interrupted(other)
    for number in numbers[:3]:
        assert queue.result(number) == "done"
    last = queue.submit(lambda: "last")  # without its lock: dictionary changed size
    assert other.ident, "the other thread was there in the middle"
    other.join()
    assert queue.result(last) == "last"
    assert queue.result(numbers[3]) == "done"
    with pytest.raises(DPUError, match="is unknown; it was never started, or is forgotten"):
        queue.result(numbers[0])
    queue.close()


def test_cancelled_jobs_never_begin():
    queue: JobQueue[int] = JobQueue(1)
    begun, go_on = threading.Event(), threading.Event()
    ran: list[int] = []

    def first() -> int:
        begun.set()
        go_on.wait()
        ran.append(0)
        return 0

    number = queue.submit(first)
    waiting = [queue.submit(lambda: ran.append(1) or 1) for _ in range(3)]
    begun.wait()
    queue.cancel()
    with pytest.raises(DPUError, match="the runner is closed"):
        queue.submit(lambda: 2)
    go_on.set()
    queue.close()
    assert queue.result(number) == 0
    for job in waiting:
        with pytest.raises(concurrent.futures.CancelledError):
            queue.result(job)
    assert ran == [0]


def test_a_full_queue_waits():
    queue: JobQueue[int] = JobQueue(1, size=2)
    gate = threading.Event()
    for _ in range(3):
        queue.submit(lambda: gate.wait() and 1)
    late = threading.Thread(target=queue.submit, args=(lambda: 2,), daemon=True)
    late.start()
    late.join(PATIENCE)
    waits, jobs = late.is_alive(), len(queue._jobs)
    gate.set()
    late.join()
    assert waits, "there is no room before a job has finished"
    assert jobs == 3
    assert [queue.result(number) for number in (1, 2, 3, 4)] == [1, 1, 1, 2]
    queue.close()


def test_who_waits_for_room_learns_that_the_queue_is_closed():
    queue: JobQueue[bool] = JobQueue(1, size=0)
    gate = threading.Event()
    queue.submit(gate.wait)
    errors: list[DPUError] = []

    def submit() -> None:
        try:
            queue.submit(gate.wait)
        except DPUError as error:
            errors.append(error)

    late = threading.Thread(target=submit, daemon=True)
    late.start()
    late.join(PATIENCE)
    queue.cancel()
    late.join()
    gate.set()
    queue.close()
    assert [str(error) for error in errors] == ["the runner is closed"]


def test_threads_are_started_as_they_are_needed():
    queue: JobQueue[int] = JobQueue(8)
    for _ in range(20):
        queue.result(queue.submit(lambda: 1))
    assert len(queue._threads.threads) == 1
    queue.close()
    assert not queue._threads.threads[0].is_alive()


def test_threads_of_a_forgotten_queue_end():
    queue: JobQueue[int] = JobQueue(2)
    assert queue.result(queue.submit(lambda: 1)) == 1
    threads = queue._threads.threads
    del queue
    gc.collect()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_the_interpreter_ends_without_the_jobs():
    """What has not begun is dropped; what runs gets a while."""
    code = """if True:
        import threading, time
        from opendpu.runtime import jobs
        jobs.PATIENCE = 0.5
        queue = jobs.JobQueue(1)
        queue.submit(lambda: time.sleep(0.05) or print("done", flush=True))
        time.sleep(0.02)
        queue.submit(threading.Event().wait)
        queue.submit(lambda: print("never", flush=True))
        time.sleep(0.1)
    """
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "done\n"


def used_to_brief_jobs(workers: int) -> JobQueue[int]:
    """Return a queue whose jobs were brief and waited for, so that the next is held back."""
    queue: JobQueue[int] = JobQueue(workers)
    end = time.monotonic() + 60
    while queue._threads._held is None and time.monotonic() < end:
        queue.result(queue.submit(threading.get_ident))
    return queue


def test_who_waits_for_a_brief_job_executes_it(monkeypatch):
    queue = used_to_brief_jobs(1)
    here = threading.get_ident()
    assert here in {queue.result(queue.submit(threading.get_ident)) for _ in range(100)}
    assert queue.result(queue.submit(threading.get_ident), 60) != here, "who waits for so long only"
    failed = queue.submit(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        queue.result(failed)
    with pytest.raises(ZeroDivisionError):
        queue.result(failed)
    monkeypatch.setattr(jobs, "BRIEF", -1)
    assert queue.result(queue.submit(threading.get_ident)) != here, "Ctrl-C is not heard meanwhile"
    queue.close()


def test_a_brief_job_that_nobody_waits_for_begins():
    queue = used_to_brief_jobs(2)
    begun = threading.Event()
    queue.submit(begun.set)
    assert begun.wait(60)
    queue.close()


def test_jobs_that_are_held_back_are_not_forgotten():
    """The queue is closed, or nobody has it any more."""
    for end in (JobQueue.close, lambda queue: None):
        queue, done = used_to_brief_jobs(1), threading.Event()
        queue.submit(done.set)
        end(queue)
        del queue
        gc.collect()
        assert done.wait(60)


def test_who_waits_takes_the_place_of_a_worker():
    """With one worker there is never more than one job at a time."""
    queue = used_to_brief_jobs(1)
    first, go_on, second = threading.Event(), threading.Event(), threading.Event()
    number = queue.submit(lambda: first.set() or go_on.wait())
    waiting = threading.Thread(target=queue.result, args=(number,))
    waiting.start()
    first.wait()
    queue.submit(second.set)
    early = second.wait(PATIENCE)
    go_on.set()
    waiting.join()
    assert second.wait(60)
    assert not early
    queue.close()


def test_brief_jobs_of_several_threads():
    queue: JobQueue[int] = JobQueue(2)
    found: list[list[int]] = []

    def work(first: int) -> None:
        numbers = range(first, first + 200)
        found.append([queue.result(queue.submit(lambda n=n: n)) - n for n in numbers])

    threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [[0] * 200] * 4
    queue.close()


def test_memory_of_finished_jobs_is_freed():
    class Big:
        pass

    queue: JobQueue[None] = JobQueue(1)
    big = Big()
    freed = weakref.ref(big)
    queue.result(queue.submit(functools.partial(lambda _: None, big)))
    del big
    queue.result(queue.submit(lambda: None))
    gc.collect()
    assert freed() is None
    queue.close()


FORKED = """
import os, threading, warnings
from opendpu.runtime.jobs import JobQueue
from opendpu_arch.errors import DPUError
warnings.simplefilter("ignore")  # Python 3.12 warns of threads
queue, go_on = JobQueue(2), threading.Event()
finished = queue.submit(lambda: "before")
assert queue.result(finished) == "before"
begun = threading.Event()
running = queue.submit(lambda: (begun.set(), go_on.wait()) and "parent's")
begun.wait()
child = os.fork()
if child == 0:
    code = 1
    try:
        assert queue.result(finished) == "before"
        assert queue.result(queue.submit(lambda: "child's"), 20) == "child's"
        try:
            queue.result(running, 20)
        except DPUError as error:
            code = 0 if "that this one was forked from" in str(error) else 2
        queue.close()
    finally:
        os._exit(code)
go_on.set()
assert queue.result(running) == "parent's"
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
queue.close()
"""


def test_a_forked_process_has_threads_of_its_own():
    """What a queue is asked for in a child is done there; the parent's jobs stay the parent's."""
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("0\n", "")
