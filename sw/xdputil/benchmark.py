# SPDX-License-Identifier: Apache-2.0
"""``xdputil benchmark``: how many jobs a second a subgraph runs, or the whole graph."""

import os
import threading
import time
from typing import Annotated

import numpy as np
import typer

import vart
from opendpu.cli.app import errors_in_one_line
from opendpu.cli.progress import progress
from opendpu.runners import create_runner
from opendpu.runtime import GraphRunner, Runner
from opendpu_arch.errors import TensorError, UnsupportedError
from xdputil.app import WHOLE_GRAPH, Xmodel, app, subgraph_at
from xir import Graph, Subgraph

SLEEP_VARIABLE, DEFAULT_MILLISECONDS = "SLEEP_MS", 60_000
"""How long jobs are run."""
SEED = 1
MOST_THREADS = 1024
"""More than any host runs side by side, and few enough to start."""


@app.command("benchmark")
@errors_in_one_line
def benchmark(
    context: typer.Context,
    xmodel: Xmodel,
    threads: Annotated[
        int, typer.Argument(metavar="THREADS", min=1, max=MOST_THREADS, show_default=False)
    ],
    index: Annotated[
        int, typer.Option("-i", "--index", help="Subgraph, counted from 0; -1 for the whole graph.")
    ] = 1,
) -> None:
    """Run a subgraph on random inputs in some threads, for $SLEEP_MS milliseconds (60000).

    The last job of each thread has to give what its first one gave.
    """
    seconds = _milliseconds() / 1000
    graph = Graph.deserialize(xmodel)
    part = graph if index == WHOLE_GRAPH else subgraph_at(graph, index)
    counts = [0] * threads
    failures: list[BaseException] = []
    stop = threading.Event()

    def work(number: int) -> None:
        try:
            counts[number] = _jobs(part, SEED + number, stop)
        except BaseException as error:
            failures.append(error)
            stop.set()

    workers = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(threads)]
    with progress(f"running {part.get_name()} for {seconds:g} s"):
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        stop.wait(seconds)
        stop.set()
        for worker in workers:
            worker.join()
        taken = time.perf_counter() - start
    if failures:
        raise failures[0]
    frames = sum(counts)
    typer.echo(f"FPS= {frames / taken:.4f} number_of_frames= {frames} time= {taken:.6f} seconds.")
    typer.echo("Test PASS.")


def _milliseconds() -> int:
    text = os.environ.get(SLEEP_VARIABLE, str(DEFAULT_MILLISECONDS))
    if not text.isdecimal() or not int(text):
        raise UnsupportedError(f"{SLEEP_VARIABLE} is {text!r}, but must be milliseconds, 1 or more")
    return int(text)


def _jobs(part: Graph | Subgraph, seed: int, stop: threading.Event) -> int:
    """Run jobs until it is enough, one at least; return how many."""
    if isinstance(part, Graph):
        with create_runner(part) as whole:
            return _run(whole, seed, stop)
    return _run(vart.RunnerExt.create_runner(part, "run"), seed, stop)


def _run(runner: GraphRunner | Runner | vart.RunnerExt, seed: int, stop: threading.Event) -> int:
    random = np.random.default_rng(seed)
    inputs = [
        random.integers(-128, 128, tensor.dims).astype(tensor.data_type.numpy())
        for tensor in runner.get_input_tensors()
    ]
    results = [np.empty(t.dims, t.data_type.numpy()) for t in runner.get_output_tensors()]
    runner.wait(runner.execute_async(inputs, results))
    wanted, count = [array.copy() for array in results], 1
    while not stop.is_set():
        runner.wait(runner.execute_async(inputs, results))
        count += 1
    for tensor, array, first in zip(runner.get_output_tensors(), results, wanted, strict=True):
        if array.tobytes() != first.tobytes():
            raise TensorError(
                f"output {tensor.name!r} of job {count} is not that of the first one: Test FAIL."
            )
    return count
