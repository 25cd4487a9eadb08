# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of what reads files of others, with atheris.

An input has to be taken or refused with an error of our family; any other exception is a finding,
as are a second of time and a gigabyte of memory. By hand, for hours (options are libFuzzer's)::

    python tests/fuzz/fuzz.py xmodel --seconds 3600

What was found lies in the folder of ``--findings`` and can be given again as an argument; new
inputs are beside it in a folder of the reader, not in the repository.
"""

import argparse
import contextlib
import io
import itertools
import pathlib
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable

import atheris

# atheris 3.0 keeps every result of a comparison that is neither a number nor text: 49 to 8000 bytes
# for arrays. The columns of machine code compare arrays, and have hardly a branch to cover.
with atheris.instrument_imports(
    exclude=["opendpu_arch.columns"],
    include=[
        "opendpu_arch",
        "opendpu_sim.model",
        "xir",
        "opendpu.runtime",
        "opendpu.frontend",
        "opendpu.ir",
    ],
):
    import numpy as np

    from opendpu.frontend import load_onnx
    from opendpu.runtime import npz
    from opendpu.runtime.description import describe
    from opendpu.runtime.device import Job
    from opendpu.runtime.program import Program, dpu_subgraphs
    from opendpu_arch import asm, isa
    from opendpu_arch.errors import DPUError
    from opendpu_arch.target import Target
    from opendpu_sim.device import IssDevice
    from xir import Graph, dump

SECONDS, MEGABYTES = 1, 1024
"""What one input may take, of processor time and memory."""
HANG = 60
"""Seconds after which an input hangs, on a machine that does other things, too."""
LENGTH = {"xmodel": 4096, "code": 512, "iss": 512, "npz": 2048, "onnx": 1024}
"""Bytes of the longest input."""
B64 = Target.from_name("B64")
NUMPY = b"\x93NUMPY"
"""What files of NumPy begin with."""


def read_xmodel(data: bytes) -> None:
    """Read a graph, look at it as our commands do, and write it again."""
    graph = Graph.from_bytes(data)
    describe(graph)
    dump.tree(graph.get_root_subgraph())
    for subgraph in dpu_subgraphs(graph):
        with contextlib.suppress(DPUError):
            Program.from_subgraph(subgraph)
    Graph.from_bytes(graph.to_bytes())


def read_code(data: bytes) -> None:
    """Decode machine code; what is a program is assembled from its listing to the same bytes."""
    program = isa.decode(data)
    text = "\n".join(asm.format_instruction(instruction) for instruction in program)
    assert asm.assemble(text) == isa.encode(program)


def run_code(data: bytes) -> None:
    """Run machine code on the functional simulator, with little memory."""
    segments = {register: np.zeros(4096, np.uint8) for register in range(4)}
    IssDevice(B64).run(Job(data, segments))


def read_npz(data: bytes) -> None:
    """Read an archive of arrays: the input itself, or a good archive of what the input holds.

    That is names, one a line, and the arrays as files of NumPy one after the other.
    """
    with tempfile.NamedTemporaryFile(dir="/dev/shm", suffix=".npz") as file:
        if data.startswith(b"PK"):
            file.write(data)
        else:  # the checksum would keep most changes of an archive from being looked at
            names, *arrays = data.split(NUMPY)
            given = names.replace(b"\0", b"").decode("utf-8", "replace").split("\n")
            with zipfile.ZipFile(file, "w") as archive, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of names that come twice
                for name, content in itertools.zip_longest(given, arrays, fillvalue=None):
                    archive.writestr(name or "x.npy", NUMPY + (content or b""))
        file.flush()
        npz.read(file.name)


def read_onnx(data: bytes) -> None:
    """Read a network, as commands do that are given a file."""
    with tempfile.NamedTemporaryFile(dir="/dev/shm", suffix=".onnx") as file:
        file.write(data)
        file.flush()
        load_onnx(file.name)


READERS: dict[str, Callable[[bytes], None]] = {
    "xmodel": read_xmodel, "code": read_code, "iss": run_code, "npz": read_npz, "onnx": read_onnx,
}  # fmt: skip


def main() -> None:
    """Fuzz one reader until the runs or seconds are over, or something is found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("inputs", nargs="*", help="Only try these files.")
    parser.add_argument("--runs", type=int, default=-1)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--corpus", type=pathlib.Path, help="Of new inputs.")
    parser.add_argument("--findings", type=pathlib.Path, default=pathlib.Path("build/fuzz"))
    given = parser.parse_args()
    kept = pathlib.Path(__file__).parent / "corpus" / given.reader
    new = given.corpus or given.findings / given.reader
    new.mkdir(parents=True, exist_ok=True)
    folders = [str(new), str(kept)]  # libFuzzer writes to the first
    given.findings.mkdir(parents=True, exist_ok=True)
    read = READERS[given.reader]

    def one(data: bytes) -> None:
        start = time.process_time()
        with contextlib.suppress(DPUError), contextlib.redirect_stdout(io.StringIO()):
            read(data)
        took = time.process_time() - start
        assert took < SECONDS, f"{took:.1f} seconds"

    options = [
        f"-runs={given.runs}", f"-max_total_time={given.seconds}", f"-seed={given.seed}",
        f"-timeout={HANG}", f"-rss_limit_mb={MEGABYTES}", f"-max_len={LENGTH[given.reader]}",
        f"-artifact_prefix={given.findings}/{given.reader}-", "-print_final_stats=1",
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, *(given.inputs or folders)], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
