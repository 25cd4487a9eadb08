# SPDX-License-Identifier: Apache-2.0
"""Extras that are not installed: one message, whichever package is imported."""

import json
import subprocess
import sys

import pytest

from opendpu_arch.errors import DPUError, MissingExtraError
from opendpu_arch.extras import needs

EXTRAS = {
    "OnBoard": "tensorboard",
    "opendpu.optimize": "optimizer",
    "pytorch_nndct": "torch",
    "tensorflow_model_optimization.quantization.keras.vitis_quantize": "tensorflow",
    "tf1_nndct": "tensorflow",
    "tf_nndct": "tensorflow",
    "vai_q_tensorflow2": "tensorflow",
    "vitis_vai": "tensorflow",
    "wego_torch": "torch",
}
"""Packages of ours, and the extra that each needs."""

PROGRAM = """
import importlib, json, sys

for name in ("onnxscript", "tensorboard", "tensorflow", "torch", "torch_pruning"):
    sys.modules[name] = None  # as if it were not installed
found = {}
for name in json.loads(sys.argv[1]):
    try:
        importlib.import_module(name)
    except ImportError as error:  # what programs look for that can do without
        found[name] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


def test_every_package_names_its_extra():
    command = [sys.executable, "-c", PROGRAM, json.dumps(sorted(EXTRAS))]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(ended.stdout)
    assert found.keys() == EXTRAS.keys()
    for package, extra in EXTRAS.items():
        assert found[package].startswith("MissingExtraError: ")
        assert found[package].endswith(f"which is not installed: pip install 'opendpu[{extra}]'")


OLD = """
import importlib, json, pathlib, sys

found = {}
for number, (name, package, version) in enumerate(json.loads(sys.argv[2])):
    folder = pathlib.Path(sys.argv[1], str(number))
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text(f"__version__ = {version!r}")
    sys.path.insert(0, str(folder))
    try:
        importlib.import_module(name)
    except ImportError as error:
        found[name] = f"{type(error).__name__}: {error}"
    sys.modules.pop(package, None)
print(json.dumps(found))
"""

TOO_OLD = {
    "wego_torch": ("torch", "1.13.1", "'opendpu[torch]'"),
    "pytorch_nndct": ("torch", "2.8.0+cpu", "'opendpu[torch]'"),
    "vitis_vai": ("tensorflow", "2.8.0", "'opendpu[tensorflow]'"),
    "vai_q_tensorflow2": ("tensorflow", "2.19.0rc1", "'opendpu[tensorflow]'"),
    "vai_q_onnx": ("onnxruntime", "1.10.0", "opendpu"),
    "opendpu.onnxruntime": ("onnxruntime", "1.17.9", "opendpu"),
}
"""Packages of ours, what each does not take, and what is to be installed."""


def test_what_is_too_old_is_named(tmp_path):
    """A package that is found, and lacks what is imported of it."""
    given = [[name, package, version] for name, (package, version, _) in TOO_OLD.items()]
    command = [sys.executable, "-c", OLD, str(tmp_path), json.dumps(given)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(ended.stdout)
    assert found.keys() == TOO_OLD.keys()
    for name, text in found.items():
        package, version, wanted = TOO_OLD[name]
        if "onnxscript, which is not installed" not in text:  # without the extra that is said first
            assert text.startswith(f"OldPackageError: {name} needs {package} ")
            assert text.endswith(f" or newer, but {version} is installed: pip install {wanted}")


def test_what_is_missing_is_named():
    with (
        pytest.raises(MissingExtraError, match="a tool needs not_there_at_all, which is") as caught,
        needs("a tool", "torch"),
    ):
        import not_there_at_all  # noqa: F401
    assert caught.value.name == "not_there_at_all"
    assert isinstance(caught.value, DPUError)


def test_the_first_to_know_speaks():
    with pytest.raises(MissingExtraError, match="the inner"), needs("the outer", "ray"):  # noqa: SIM117
        with needs("the inner", "torch"):
            import not_there_at_all  # noqa: F401
