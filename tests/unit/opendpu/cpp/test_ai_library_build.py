# SPDX-License-Identifier: Apache-2.0
"""What the AI Library adds to an installation, and what it says of a machine without its needs."""

from typer.testing import CliRunner

from opendpu.cpp import __main__ as command
from opendpu.cpp import ai_library_build, packages


def test_names_of_amds_libraries_and_targets():
    found = packages.ai_files(["/usr/include/opencv4"])
    assert found["lib/libvitis_ai_library-yolov3.so"] == (
        "INPUT(-lopendpu-ai-library AS_NEEDED(-lopendpu-vart -lprotobuf))\n"
    )
    assert set(found).isdisjoint(
        name for name in packages.files() if name.startswith(("lib/lib", "lib/pkgconfig"))
    )
    config = found["lib/cmake/vitis_ai_library/vitis_ai_libraryConfig.cmake"]
    for target in ("dpu_task", "classification", "graph_runner"):
        assert f"add_library(vitis_ai_library::{target} SHARED IMPORTED)" in config
    assert "/lib/libopendpu-ai-library.so" in config and "/usr/include/opencv4" in config
    package = found["lib/pkgconfig/vitis_ai_library.pc"]
    assert "-I${prefix}/include -I/usr/include/opencv4\n" in package
    assert "-lopendpu-ai-library -lopendpu-vart" in package


def test_a_machine_without_its_needs(monkeypatch):
    monkeypatch.setattr(
        ai_library_build.shutil, "which", lambda tool: None if tool == "protoc" else f"/bin/{tool}"
    )
    done = CliRunner().invoke(command.app, ["--ai-library", "--cflags"])
    assert done.exit_code == 1
    assert done.output.startswith("opendpu.cpp: error: the AI Library needs protoc; Debian has ")


def test_opencv_that_is_not_found(monkeypatch, tmp_path):
    tool = tmp_path / "pkg-config"
    tool.write_text("#!/bin/sh\necho \"Package 'opencv4' not found\" >&2\nexit 1\n")
    tool.chmod(0o755)
    (tmp_path / "protoc").symlink_to(tool)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    done = CliRunner().invoke(command.app, ["--ai-library"])
    assert done.exit_code == 1
    assert "pkg-config failed to find OpenCV and Protobuf" in done.output
    assert "Package 'opencv4' not found" in done.output
