# SPDX-License-Identifier: Apache-2.0
"""Work on a Ray cluster: many calls of one function, whose results come as they are ready."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from opendpu_arch.errors import DPUError, ToolError

TRIES = 3
"""How often a call is begun again that a worker was lost with."""
AHEAD = 2
"""Calls that wait for each processor."""

TOKENS = (
    "a cluster that was started with a token takes the one in RAY_AUTH_TOKEN or in the file "
    "RAY_AUTH_TOKEN_PATH, one without is reached with RAY_AUTH_MODE=disabled"
)

Key = TypeVar("Key")
Result = TypeVar("Result")


def calls(
    function: Callable[..., Result],
    shared: Sequence[Any],
    work: Iterable[tuple[Key, int, tuple[Any, ...]]],
    address: str,
) -> Iterator[tuple[Key, Result]]:
    """Yield each key with ``function(shared[number], *arguments)``, in the order of their ends.

    Parameters
    ----------
    shared
        What calls have in common, sent to the cluster once.
    work
        Keys, which are different, with the number of what is shared and the other arguments.
    address
        Of the cluster, ``auto`` for the one of this host, ``local`` for one of its own.

    Raises
    ------
    ToolError
        Ray is missing, or there is no such cluster.
    DPUError
        A call fails, or its workers are lost again and again.
    """
    try:
        import ray
    except ModuleNotFoundError:
        raise ToolError("--ray needs Ray: pip install 'opendpu[ray]'") from None
    refused = getattr(ray.exceptions, "AuthenticationError", ())  # of newer releases
    own = not ray.is_initialized()
    if own:
        try:
            ray.init(address=address, log_to_driver=False, include_dashboard=False,
                     logging_level=logging.ERROR)  # fmt: skip
        except refused as error:
            first = str(error).strip().splitlines()[0]
            raise ToolError(
                f"the Ray cluster at {address!r} asks who you are: {first}; {TOKENS}"
            ) from error
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise ToolError(
                f"there is no Ray cluster at {address!r} for this user: {error}; {TOKENS}"
            ) from error
    cluster: Any = ray  # which has types only where it is installed, and not for all
    try:
        remote = cluster.remote(max_retries=TRIES, num_cpus=1)(function)
        held = [cluster.put(value) for value in shared]
        ahead = AHEAD * max(int(cluster.cluster_resources().get("CPU", 1)), 1)
        running: dict[Any, Key] = {}
        coming = iter(work)
        while True:
            while len(running) < ahead and (one := next(coming, None)) is not None:
                key, number, arguments = one
                running[remote.remote(held[number], *arguments)] = key
            if not running:
                return
            ready, _ = cluster.wait(list(running), num_returns=1)
            for reference in ready:
                try:
                    yield running.pop(reference), cluster.get(reference)
                except cluster.exceptions.RayError as error:
                    cause = getattr(error, "cause", None) or error
                    if isinstance(cause, DPUError):
                        raise cause from error
                    raise DPUError(f"a worker of Ray failed: {cause}") from error
    finally:
        if own:
            ray.shutdown()
