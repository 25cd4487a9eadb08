# SPDX-License-Identifier: Apache-2.0
"""Builds the library of tasks (AMD's AI Library), which needs OpenCV and Protobuf."""

import concurrent.futures
import os
import pathlib
import shutil
import tempfile

from opendpu.cpp import build, packages
from opendpu_arch import cache, outputs
from opendpu_arch.errors import ToolError

ROOT = pathlib.Path(__file__).parent / "ai_library"
SCHEMA = ROOT / "proto" / "dpu_model_param.proto"
GENERATED = pathlib.PurePath("vitis", "ai", "proto")
"""Where programs look for the header that is made from the schema."""


def prefix() -> pathlib.Path:
    """Return a folder of the cache with VART and the library of tasks; built where it is missing.

    Raises
    ------
    ToolError
        OpenCV, Protobuf or a tool is missing, or the compiler fails; see also :func:`build.prefix`.
    """
    includes = _includes()
    base = build.prefix()
    parts = [str(base), *includes, build.run(["protoc", "--version"], "tell its version")]
    parts += packages.ai_files(includes).values()
    contents = [path.read_bytes() for path in [*_files(), pathlib.Path(__file__)]]
    names = [str(path.relative_to(ROOT)) for path in _files()]

    def make(folder: pathlib.Path) -> None:
        shutil.copytree(base, folder, dirs_exist_ok=True)
        _make(folder, includes)

    return cache.entry("cpp-ai", cache.digest(*parts, *names, *contents), make)


def cflags() -> list[str]:
    """Return what a compiler needs for the headers of OpenCV and Protobuf."""
    return [f"-I{folder}" for folder in _includes()]


def _files() -> list[pathlib.Path]:
    return sorted(path for path in ROOT.rglob("*") if path.is_file())


def _includes() -> list[str]:
    """Return the folders of headers that are not where compilers look."""
    missing = [tool for tool in ("pkg-config", "protoc") if shutil.which(tool) is None]
    if missing:
        raise ToolError(
            f"the AI Library needs {' and '.join(missing)}; Debian has what it needs in"
            " libopencv-dev, libprotobuf-dev, protobuf-compiler and pkg-config"
        )
    flags = build.run(
        ["pkg-config", "--cflags-only-I", "opencv4", "protobuf"],
        "find OpenCV and Protobuf, which the AI Library needs",
    )
    return [flag.removeprefix("-I") for flag in flags.split()]


def _make(folder: pathlib.Path, includes: list[str]) -> None:
    shutil.copytree(ROOT / "include", folder / "include", dirs_exist_ok=True)
    for place, text in packages.ai_files(includes).items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        outputs.write(folder / place, text)
    generated = folder / "include" / GENERATED
    generated.mkdir(parents=True)
    build.run(
        ["protoc", f"--proto_path={SCHEMA.parent}", f"--cpp_out={generated}", SCHEMA.name],
        "make a header of the schema",
    )
    flags = ["-O1", "-fPIC", "-Wall", "-Wextra", *packages.cflags(folder)]
    flags += [f"-I{generated}", *cflags()]
    source = generated / f"{SCHEMA.stem}.pb.cc"
    with tempfile.TemporaryDirectory() as objects:

        def compile_one(path: pathlib.Path) -> str:
            target = pathlib.Path(objects, f"{path.stem}.o")
            command = [build.compiler(), *flags, "-c", str(path), "-o", str(target)]
            build.run(command, f"compile {path.name} of the AI Library")
            return str(target)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            made = list(pool.map(compile_one, [source, *sorted((ROOT / "src").glob("*.cpp"))]))
        library = folder / "lib" / f"lib{packages.AI_LIBRARY}.so"
        build.run(
            [build.compiler(), "-shared", f"-Wl,-soname,{library.name}", "-o", str(library), *made,
             f"-L{library.parent}", f"-l{packages.LIBRARY}", "-Wl,-rpath,$ORIGIN",
             "-lopencv_imgproc", "-lopencv_core", "-lprotobuf", "-Wl,--no-undefined"],
            "link the AI Library",
        )  # fmt: skip
    source.unlink()
