# SPDX-License-Identifier: Apache-2.0
"""What the tests of the AI Library in C++ share; their modules say SOURCE and HEADS."""

import pathlib
import sys

import numpy as np
import pytest

sys.path.append(str(pathlib.Path(__file__).parent))


@pytest.fixture(scope="module")
def program(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """The compiled program of the module's SOURCE."""
    import ai_library

    source: pathlib.Path = request.module.SOURCE
    return ai_library.compiled_program(source, tmp_path_factory.mktemp("tasks") / source.stem)


@pytest.fixture(scope="module")
def xmodel(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> pathlib.Path:
    """A compiled model with the outputs of the module's HEADS."""
    import ai_library

    path = tmp_path_factory.mktemp("heads") / "heads.xmodel"
    return ai_library.compiled(request.module.HEADS, path)


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, np.ndarray]:
    """A picture of noise, and its pixels."""
    import ai_library

    return ai_library.noise(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="module")
def prefix() -> pathlib.Path:
    """The folder with headers and library of VART in C++; skips where it cannot be built."""
    import opendpu.cpp
    from opendpu_arch.errors import ToolError

    try:
        opendpu.cpp.compiler()
    except ToolError as error:
        pytest.skip(str(error))
    return opendpu.cpp.prefix()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A compiled model with a DPU subgraph of two outputs, and a softmax behind one."""
    import cpp_vart

    return cpp_vart.two_outputs(tmp_path_factory.mktemp("cpp") / "two.xmodel")


@pytest.fixture(scope="module")
def values(model: pathlib.Path) -> np.ndarray:
    """Elements for the model's input."""
    import xir
    from opendpu.runtime import Runner
    from opendpu.runtime.program import dpu_subgraphs

    (dpu,) = dpu_subgraphs(xir.Graph.deserialize(model))
    (tensor,) = Runner(dpu, device="ref").get_input_tensors()
    return np.random.default_rng(2).integers(-128, 128, tensor.dims).astype(np.int8)
