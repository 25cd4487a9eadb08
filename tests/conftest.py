# SPDX-License-Identifier: Apache-2.0
"""What all tests share: where the models are, and how random tests say their seed."""

import gc
import os
import pathlib
import random
import signal
import zlib
from collections.abc import Generator

import hypothesis
import numpy as np
import pytest

# Time is no matter of tests. With a seed given, hypothesis draws the same examples each time too.
hypothesis.settings.register_profile(
    "any machine", deadline=None, derandomize="OPENDPU_SEED" in os.environ
)
hypothesis.settings.load_profile("any machine")

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    """Build simulators quickly, and let processes that tests start end by SIGINT.

    Most tests simulate for less time than a compiler needs to optimize. SIGINT is ignored where the
    tests run in a shell's background.
    """
    os.environ.setdefault("OPT_FAST", "-O1")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import and collect without looking for garbage; what is there then stays to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def repository() -> pathlib.Path:
    """The root of the work tree."""
    return REPOSITORY


@pytest.fixture(scope="session")
def models() -> pathlib.Path:
    """The folder of models that are not part of the project; skips where it is absent."""
    folder = pathlib.Path(os.environ.get("OPENDPU_MODELS", REPOSITORY.parent / "shared" / "models"))
    if not folder.is_dir():
        pytest.skip(f"no models in {folder} (set OPENDPU_MODELS)")
    return folder


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers, others in each test; a failing one shows the seed that repeats it."""
    seed = int(os.environ.get("OPENDPU_SEED", random.randrange(1 << 32)))
    print(f"OPENDPU_SEED={seed}")
    return np.random.default_rng([seed, zlib.crc32(request.node.nodeid.encode())])
