# SPDX-License-Identifier: Apache-2.0
"""``python -m opendpu.cpp``: installs the C++ library, and tells build tools where it is."""

import pathlib
from typing import Annotated

import typer

from opendpu.cpp import ai_library_build, build, packages
from opendpu_arch.errors import DPUError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    prefix: Annotated[
        pathlib.Path | None,
        typer.Option(help="Install there: include, lib, pkg-config and CMake files."),
    ] = None,
    ai_library: Annotated[
        bool,
        typer.Option("--ai-library", help="With the AI Library, which needs OpenCV and Protobuf."),
    ] = False,
    cflags: Annotated[bool, typer.Option("--cflags", help="Print what a compiler needs.")] = False,
    libs: Annotated[bool, typer.Option("--libs", help="Print what a linker needs.")] = False,
    cmake_dir: Annotated[
        bool, typer.Option("--cmake-dir", help="Print the folder for CMAKE_PREFIX_PATH.")
    ] = False,
    pkgconfig_dir: Annotated[
        bool, typer.Option("--pkgconfig-dir", help="Print the folder for PKG_CONFIG_PATH.")
    ] = False,
) -> None:
    """Build VART for C++; without --prefix it is kept in the cache, which may be cleared."""
    try:
        built = ai_library_build.prefix() if ai_library else build.prefix()
        if prefix is not None:
            build.install(prefix, built)
        folder = prefix.absolute() if prefix is not None else built
    except DPUError as error:
        typer.echo(f"opendpu.cpp: error: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(1) from None
    words: list[str] = []
    for flag, part in (
        (cflags, packages.cflags(folder) + (ai_library_build.cflags() if ai_library else [])),
        (libs, packages.ai_libs(folder) if ai_library else packages.libs(folder)),
        (cmake_dir, [str(folder)]),
        (pkgconfig_dir, [str(folder / "lib" / "pkgconfig")]),
    ):
        words += part if flag else []
    typer.echo(" ".join(words or [str(folder)]))


if __name__ == "__main__":
    app(prog_name="python -m opendpu.cpp")
