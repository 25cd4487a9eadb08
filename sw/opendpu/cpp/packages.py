# SPDX-License-Identifier: Apache-2.0
"""How build tools find the C++ library: linkers, pkg-config and CMake, by our names and AMD's."""

import pathlib

LIBRARY = "opendpu-vart"
"""The library, as linkers name it."""
AI_LIBRARY = "opendpu-ai-library"
"""The library of tasks, for which :mod:`opendpu.cpp.ai_library_build` needs OpenCV and Protobuf."""

AMDS_LIBRARIES = (
    "vart-runner", "vart-util", "vart-mem-manager", "vart-dpu-runner", "vart-dpu-controller",
    "vart-xrt-device-handle", "vart-buffer-object", "vart-runner-assistant", "xir", "unilog",
    "vitis_ai_library-graph_runner", "vitis_ai_library-runner_helper",
    "vitis_ai_library-runner-helper", "xrt_core", "xrt_coreutil",
)  # fmt: skip
"""Libraries that programs for AMD's name to the linker; here they are all one."""

AMDS_AI_LIBRARIES = (
    "vitis_ai_library-dpu_task", "vitis_ai_library-model_config", "vitis_ai_library-math",
    "vitis_ai_library-xnnpp", "vitis_ai_library-3Dsegmentation", "vitis_ai_library-arflow",
    "vitis_ai_library-bcc", "vitis_ai_library-benchmark", "vitis_ai_library-c2d2_lite",
    "vitis_ai_library-centerpoint", "vitis_ai_library-cflownet", "vitis_ai_library-classification",
    "vitis_ai_library-covid19segmentation", "vitis_ai_library-efficientdet_d2",
    "vitis_ai_library-facedetect", "vitis_ai_library-facedetectrecog",
    "vitis_ai_library-facefeature", "vitis_ai_library-facelandmark",
    "vitis_ai_library-facequality5pt", "vitis_ai_library-fairmot", "vitis_ai_library-fcos",
    "vitis_ai_library-hourglass", "vitis_ai_library-lanedetect",
    "vitis_ai_library-medicaldetection", "vitis_ai_library-medicalsegcell",
    "vitis_ai_library-medicalsegmentation", "vitis_ai_library-monodepth2",
    "vitis_ai_library-movenet", "vitis_ai_library-multitask", "vitis_ai_library-multitaskv3",
    "vitis_ai_library-ocr", "vitis_ai_library-ofa_yolo", "vitis_ai_library-openpose",
    "vitis_ai_library-platedetect", "vitis_ai_library-platenum", "vitis_ai_library-pmg",
    "vitis_ai_library-pmrid", "vitis_ai_library-pointpillars", "vitis_ai_library-polypsegmentation",
    "vitis_ai_library-posedetect", "vitis_ai_library-rcan", "vitis_ai_library-refinedet",
    "vitis_ai_library-reid", "vitis_ai_library-reidtracker", "vitis_ai_library-retinaface",
    "vitis_ai_library-retinanet", "vitis_ai_library-RGBDsegmentation",
    "vitis_ai_library-segmentation", "vitis_ai_library-solo", "vitis_ai_library-ssd",
    "vitis_ai_library-textmountain", "vitis_ai_library-tfssd", "vitis_ai_library-ultrafast",
    "vitis_ai_library-unet2d",
    "vitis_ai_library-vehicleclassification", "vitis_ai_library-yolov2", "vitis_ai_library-yolov3",
    "vitis_ai_library-yolov4", "vitis_ai_library-yolov6", "vitis_ai_library-yolov7",
    "vitis_ai_library-yolov8", "vitis_ai_library-yolovx",
)  # fmt: skip
"""Libraries of AMD's AI Library, as far as it is here; they are one, too."""

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
    found = _scripts(LIBRARY, AMDS_LIBRARIES)
    place = pathlib.PurePosixPath("${prefix}")
    for name in _PKG_CONFIGS:
        found[f"lib/pkgconfig/{name}.pc"] = _pkg_config(
            name, "VART and XIR in C++, on simulated DPUs", cflags(place), libs(place)
        )
    for name, targets in _CMAKE.items():
        found |= _cmake_files(name, dict.fromkeys(targets, LIBRARY))
    return found


def ai_files(includes: list[str]) -> dict[str, str]:
    """Return the text files that the library of tasks adds; some replace others.

    ``includes`` are the folders of OpenCV's and Protobuf's headers.
    """
    targets = dict.fromkeys(_CMAKE["vitis_ai_library"], LIBRARY)
    targets |= {name.replace("-", "::"): AI_LIBRARY for name in AMDS_AI_LIBRARIES}
    name, place = "vitis_ai_library", pathlib.PurePosixPath("${prefix}")
    found = _scripts(AI_LIBRARY, AMDS_AI_LIBRARIES, f"-l{LIBRARY} -lprotobuf")
    found |= _cmake_files(name, targets, includes)
    found[f"lib/pkgconfig/{name}.pc"] = _pkg_config(
        name,
        "Tasks with pre- and postprocessing, on simulated DPUs",
        [*cflags(place), *(f"-I{folder}" for folder in includes)],
        ai_libs(place),
    )
    return found


def cflags(prefix: pathlib.PurePath) -> list[str]:
    """Return what a compiler needs."""
    return ["-std=c++17", f"-I{prefix / 'include'}"]


def libs(prefix: pathlib.PurePath) -> list[str]:
    """Return what a linker needs."""
    folder = prefix / "lib"
    return [f"-L{folder}", f"-Wl,-rpath,{folder}", f"-l{LIBRARY}"]


def ai_libs(prefix: pathlib.PurePath) -> list[str]:
    """Return what a linker needs for programs with tasks, but for what they use of OpenCV."""
    *folders, library = libs(prefix)
    return [*folders, f"-l{AI_LIBRARY}", library, "-lopencv_imgproc", "-lopencv_core", "-lprotobuf"]


def _scripts(library: str, names: tuple[str, ...], inlined: str = "") -> dict[str, str]:
    """Return scripts for GNU ld; ``inlined`` are libraries that headers may need, too."""
    text = f"INPUT(-l{library} AS_NEEDED({inlined}))" if inlined else f"INPUT(-l{library})"
    return {f"lib/lib{name}.so": f"{text}\n" for name in names}


def _pkg_config(name: str, about: str, compiling: list[str], linking: list[str]) -> str:
    return (
        "prefix=${pcfiledir}/../..\n"
        f"Name: {name}\n"
        f"Description: {about}\n"
        "Version: 3.5.0\n"
        f"Cflags: {' '.join(compiling)}\n"
        f"Libs: {' '.join(linking)}\n"
    )


def _cmake_files(
    package: str, targets: dict[str, str], includes: list[str] | None = None
) -> dict[str, str]:
    """Return the files of a package with targets, each with its library."""
    lines = ['get_filename_component(_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)']
    folders = ";".join(["${_prefix}/include", *(includes or [])])
    for target, library in targets.items():
        lines += [
            f"if(NOT TARGET {target})",
            f"  add_library({target} SHARED IMPORTED)",
            f"  set_target_properties({target} PROPERTIES",
            f'    IMPORTED_LOCATION "${{_prefix}}/lib/lib{library}.so"',
            f'    INTERFACE_INCLUDE_DIRECTORIES "{folders}"',
            *([f'    INTERFACE_LINK_LIBRARIES "${{_prefix}}/lib/lib{LIBRARY}.so"']
              if library != LIBRARY else []),
            "    INTERFACE_COMPILE_FEATURES cxx_std_17)",
            "endif()",
        ]  # fmt: skip
    folder = f"lib/cmake/{package}"
    return {
        f"{folder}/{package}Config.cmake": "\n".join([*lines, f"set({package}_FOUND TRUE)", ""]),
        f"{folder}/{package}ConfigVersion.cmake": "set(PACKAGE_VERSION_COMPATIBLE TRUE)\n",
    }
