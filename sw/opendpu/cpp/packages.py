# SPDX-License-Identifier: Apache-2.0
"""How build tools find the C++ library: linkers, pkg-config and CMake, by our names and AMD's."""

import pathlib

LIBRARY = "opendpu-vart"
"""The library, as linkers name it."""

AMDS_LIBRARIES = (
    "vart-runner", "vart-util", "vart-mem-manager", "vart-dpu-runner", "vart-dpu-controller",
    "vart-xrt-device-handle", "vart-buffer-object", "vart-runner-assistant", "xir", "unilog",
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


def files() -> dict[str, str]:
    """Return the text files of an installation but for headers, by their place in it."""
    found = {
        f"lib/lib{name}.so": f"INPUT(-l{LIBRARY})\n"  # GNU ld reads these as scripts
        for name in AMDS_LIBRARIES
    }
    found |= {f"lib/pkgconfig/{name}.pc": _pkg_config(name) for name in _PKG_CONFIGS}
    for name, targets in _CMAKE.items():
        folder = f"lib/cmake/{name}"
        found[f"{folder}/{name}Config.cmake"] = _cmake(name, targets)
        found[f"{folder}/{name}ConfigVersion.cmake"] = "set(PACKAGE_VERSION_COMPATIBLE TRUE)\n"
    return found


def cflags(prefix: pathlib.PurePath) -> list[str]:
    """Return what a compiler needs."""
    return ["-std=c++17", f"-I{prefix / 'include'}"]


def libs(prefix: pathlib.PurePath) -> list[str]:
    """Return what a linker needs."""
    folder = prefix / "lib"
    return [f"-L{folder}", f"-Wl,-rpath,{folder}", f"-l{LIBRARY}"]


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
            f'    IMPORTED_LOCATION "${{_prefix}}/lib/lib{LIBRARY}.so"',
            '    INTERFACE_INCLUDE_DIRECTORIES "${_prefix}/include"',
            "    INTERFACE_COMPILE_FEATURES cxx_std_17)",
            "endif()",
        ]
    return "\n".join([*lines, f"set({package}_FOUND TRUE)", ""])
