# SPDX-License-Identifier: Apache-2.0
"""Workers end with the process that has begun them, even where that is killed."""

import pathlib
import signal
import subprocess
import sys
import time

SCRIPT = """
import os, signal
from opendpu.processes import worker_pool

with worker_pool(1, os.getpid, ()) as pool:
    print(pool.submit(os.getpid).result(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def is_running(process: int) -> bool:
    """Tell whether a process is there, and no zombie that nobody has waited for."""
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def test_workers_end_where_their_owner_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        worker = int(owner.stdout.readline())
        assert owner.wait() == -signal.SIGKILL
    for _ in range(200):
        if not is_running(worker):
            break
        time.sleep(0.1)
    assert not is_running(worker)
