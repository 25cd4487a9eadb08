# SPDX-License-Identifier: Apache-2.0
"""Compiles mutated ONNX files: each has to compile, or end in one error of our family.

The models are compiled in a process of their own with a limit to memory, so that a crash counts as
a finding too. By hand::

    python tests/system/onnx_fuzz.py --count 10000 --seed 1
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterator

MEMORY = 2 << 30
"""Bytes that a model may take beyond what the imported modules do."""
CPU_SECONDS = 10
"""Processor time that a model may take; the models are so small that most take 0.2 s."""
HANG_SECONDS = 300
"""Time after which the process is ended because it says nothing any more."""
TARGET = "B64"

COMPILED, REFUSED = "compiled", "refused"
"""Kinds of ends that are right; all others are findings."""


@dataclasses.dataclass(frozen=True)
class End:
    """What became of one mutated model."""

    index: int
    model: str
    """Base and what was done to it."""
    kind: str
    """:data:`COMPILED`, :data:`REFUSED`, or the name of an exception, a signal, a limit."""
    text: str
    """The message, or where a finding comes from."""

    @property
    def is_right(self) -> bool:
        return self.kind in (COMPILED, REFUSED)


LONGEST = 300
"""Characters of what a process said before it ended."""


class TooSlow(BaseException):
    """A model took more than :data:`CPU_SECONDS`."""


def ends(seed: int, count: int, start: int = 0) -> Iterator[End]:
    """Compile the mutated models ``start`` to ``count`` and yield what became of each."""
    index = start
    while index < count:
        with tempfile.TemporaryFile("w+", errors="replace") as said, subprocess.Popen(
            [sys.executable, __file__, "--work", "--seed", str(seed), "--start", str(index),
             "--count", str(count)],
            stdout=subprocess.PIPE, stderr=said, text=True,
        ) as process:  # fmt: skip
            begun = ""
            assert process.stdout is not None
            watch = threading.Timer(HANG_SECONDS, process.kill)
            watch.start()
            try:
                for line in process.stdout:
                    watch.cancel()
                    watch = threading.Timer(HANG_SECONDS, process.kill)
                    watch.start()
                    message = json.loads(line)
                    if isinstance(message, str):
                        begun = message
                        continue
                    yield End(**message)
                    index = message["index"] + 1
            finally:
                watch.cancel()
                process.kill()
            process.wait()
            said.seek(0)
            last = said.read().strip().rpartition("\n")[2][-LONGEST:]
        if index < count and process.returncode != 0:
            reason = f"the process ended with {process.returncode}; it said {last!r} at last"
            yield End(index, begun, "crash", reason)
            index += 1


def _work(seed: int, start: int, count: int) -> None:
    """Compile models one by one; print a line before and after each."""
    import numpy as np
    from onnx_bases import BASES
    from onnx_mutations import mutated

    from opendpu import api

    warnings.simplefilter("ignore")
    used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, _too_slow)
    bases = [make() for make in BASES]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for index in range(start, count):
            rng = np.random.default_rng([seed, index])
            base = bases[index % len(bases)]
            data, done = mutated(rng, base)
            label = f"{base.graph.name}: {done}"
            print(json.dumps(label), flush=True)
            path = folder / "model.onnx"
            path.write_bytes(data)
            samples = _samples(data, base)
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            try:
                end = _compile(api, path, samples, folder / "out.xmodel")
            except TooSlow:
                end = ("too slow", f"more than {CPU_SECONDS} s of processor time")
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            print(json.dumps(dataclasses.asdict(End(index, label, *end))), flush=True)


def _samples(data, base):
    """Return samples that fit what the file says of its inputs, where that is small; else none."""
    import numpy as np
    import onnx
    from google.protobuf.message import DecodeError

    if base.graph.name == "quantized":
        return None
    samples = {
        "x": _draw([dim.dim_value for dim in base.graph.input[0].type.tensor_type.shape.dim])
    }
    try:
        graph = onnx.ModelProto.FromString(data).graph
    except DecodeError:
        return samples
    constants = {tensor.name for tensor in graph.initializer}
    for item in graph.input:
        dims = [dim.dim_value or 1 for dim in item.type.tensor_type.shape.dim]
        fits = all(0 < dim < 10_000 for dim in dims) and np.prod(dims, dtype=float) < 1e5
        if item.name not in constants and fits and dims:
            samples[item.name] = _draw(dims)
    return {name: samples[name] for name in samples if name in {i.name for i in graph.input}}


def _draw(dims):
    import numpy as np

    return np.random.default_rng(0).normal(0, 1, (4, *dims[1:])).astype(np.float32)


def _compile(api, path, samples, output) -> tuple[str, str]:
    from opendpu_arch.errors import DPUError

    output.unlink(missing_ok=True)
    try:
        api.compile_onnx(path, calibration=samples, target=TARGET, output=output)
    except DPUError as error:
        if output.exists():
            return "left behind", str(output)
        if not str(error).strip():
            return "no message", type(error).__name__
        return REFUSED, f"{type(error).__name__}: {error}"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)
        own = [f for f in where if "site-packages" not in f.filename and f.filename != __file__]
        place = own[-1] if own else where[-1]
        name = pathlib.Path(place.filename).name
        return type(error).__name__, f"{name}:{place.lineno} {place.name}: {error}"[:300]
    return (COMPILED, "") if output.exists() else ("no file", "")


def _too_slow(*_: object) -> None:
    raise TooSlow


def main() -> int:
    """Run a campaign and print what is wrong, grouped by place; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        _work(options.seed, options.start, options.count)
        return 0
    kinds: collections.Counter[str] = collections.Counter()
    places: dict[str, list[End]] = {}
    for end in ends(options.seed, options.count, options.start):
        kinds[end.kind] += 1
        if not end.is_right:
            places.setdefault(f"{end.kind} {end.text.split(': ')[0]}", []).append(end)
    for place, found in sorted(places.items(), key=lambda item: -len(item[1])):
        print(f"{len(found):5} {place}")
        for end in found[:3]:
            print(f"        {end.index}: {end.model}: {end.text}")
    print(", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    return int(bool(places))


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    sys.exit(main())
