# SPDX-License-Identifier: Apache-2.0
"""How build tools find the C++ library: pkg-config and CMake, under our names and AMD's."""

import pathlib

from opendpu_arch import outputs

AMDS_LIBRARIES = (
    "vart-runner", "vart-util", "vart-mem-manager", "xir", "unilog",
    "vitis_ai_library-graph_runner", "vitis_ai_library-runner_helper",
    "vitis_ai_library-runner-helper",
)  # fmt: skip
"""Libraries that programs for AMD's name to the linker; here they are all one."""

_PKG_CONFIGS = ("opendpu-vart", "vart", "xir")

_CMAKE = {
    "OpenDPU": ("OpenDPU::vart",),
    "xir": ("xir::xir",),
    "unilog": ("unilog::unilog",),
    "vart": ("vart::runner", "vart::util", "vart::mem-manager"),
    "vitis_ai_library": (
        "vitis_ai_library::graph_runner", "vitis_ai_library::runner_helper",
    ),
}  # fmt: skip
"""CMake's packages and their targets."""


def write(prefix: pathlib.Path) -> None:
    """Write the package files of an installation."""
    for name in _PKG_CONFIGS:
        folder = prefix / "lib" / "pkgconfig"
        folder.mkdir(parents=True, exist_ok=True)
        outputs.write(folder / f"{name}.pc", _pkg_config(name))
    for name, targets in _CMAKE.items():
        folder = prefix / "lib" / "cmake" / name
        folder.mkdir(parents=True, exist_ok=True)
        outputs.write(folder / f"{name}Config.cmake", _cmake(name, targets))
        outputs.write(
            folder / f"{name}ConfigVersion.cmake", "set(PACKAGE_VERSION_COMPATIBLE TRUE)\n"
        )


def cflags(prefix: pathlib.PurePath) -> list[str]:
    """Return what a compiler needs."""
    return ["-std=c++17", f"-I{prefix / 'include'}"]


def libs(prefix: pathlib.PurePath) -> list[str]:
    """Return what a linker needs."""
    folder = prefix / "lib"
    return [f"-L{folder}", f"-Wl,-rpath,{folder}", "-lopendpu-vart"]


def _pkg_config(name: str) -> str:
    place = pathlib.PurePosixPath("${prefix}")
    return (
        "prefix=${pcfiledir}/../..\n"
        f"Name: {name}\n"
        "Description: VART and XIR in C++, on simulated DPUs\n"
        "Version: 3.5.0\n"
        f"Cflags: {' '.join(cflags(place))}\n"
        f"Libs: {' '.join(libs(place))}\n"
    )


def _cmake(package: str, targets: tuple[str, ...]) -> str:
    lines = ['get_filename_component(_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)']
    for target in targets:
        lines += [
            f"if(NOT TARGET {target})",
            f"  add_library({target} SHARED IMPORTED)",
            f"  set_target_properties({target} PROPERTIES",
            '    IMPORTED_LOCATION "${_prefix}/lib/libopendpu-vart.so"',
            '    INTERFACE_INCLUDE_DIRECTORIES "${_prefix}/include"',
            "    INTERFACE_COMPILE_FEATURES cxx_std_17)",
            "endif()",
        ]
    return "\n".join([*lines, f"set({package}_FOUND TRUE)", ""])
