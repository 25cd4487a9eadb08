# SPDX-License-Identifier: Apache-2.0
"""A metric whose process is killed, the first time that it is called."""

import os
import signal


def dies_once(outputs, labels):
    """Kill the process that computes it, the first time."""
    try:
        os.close(os.open(os.environ.get("DIED", "died"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return (outputs[0].reshape(len(labels), -1).argmax(1) == labels).astype(float)
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError
