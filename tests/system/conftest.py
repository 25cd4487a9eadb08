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
