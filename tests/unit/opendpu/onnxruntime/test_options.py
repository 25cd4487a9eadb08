# SPDX-License-Identifier: Apache-2.0
"""Options and environment variables of the execution provider."""

import pathlib

import pytest

from opendpu.onnxruntime.options import ProviderOptions
from opendpu.runtime.devices import DEFAULT_TARGET
from opendpu_arch.errors import ModelFormatError, UnsupportedError


def test_defaults_are_those_of_the_guide() -> None:
    found = ProviderOptions.read({}, {})
    assert found.target == DEFAULT_TARGET
    assert found.cache is not None
    assert found.cache.parts[-2:] == ("vaip", ".cache")
    assert (found.key, found.device, found.least_convolutions) == ("", "ref", 2)


def test_options_beat_the_file_and_the_environment(tmp_path: pathlib.Path) -> None:
    config = tmp_path / "vaip_config.json"
    config.write_text('{"passes": [], "target": "B800", "cacheKey": "file"}')
    environment = {"XLNX_TARGET_NAME": "B1024", "XLNX_CACHE_DIR": "/kept"}
    assert ProviderOptions.read({}, environment).target == "B1024"
    found = ProviderOptions.read({"config_file": str(config)}, environment)
    assert (found.target, found.key, found.cache) == ("B800", "file", pathlib.Path("/kept"))
    found = ProviderOptions.read({"config_file": str(config), "Target": "B512"}, environment)
    assert found.target == "B512"


def test_what_has_no_meaning_here_is_taken() -> None:
    ProviderOptions.read({"xclbin": "/opt/dpu.xclbin", "encryptionKey": "x"}, {})
    more = {"enable_cache_file_io_in_mem": "0", "log_level": "info", "maxSpillBufferSize": "9"}
    ProviderOptions.read(more, {})


def test_names_of_later_releases_are_the_same_options(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "vaip_config.json"
    config.write_text('{"cache_key": "file"}')
    given = {"cache_dir": "/kept", "config_file": str(config), "target": "VAIML"}
    found = ProviderOptions.read(given, {})
    assert (found.cache, found.key) == (pathlib.Path("/kept"), "file")
    assert found.target == DEFAULT_TARGET
    assert "target VAIML is no DPU" in caplog.text


@pytest.mark.parametrize("name", ["AMD_AIE2P_4x4_Overlay", "X1", "xcompiler"])
def test_targets_that_are_other_processors(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """Scripts for AMD's NPUs set them in the environment, too."""
    for given, environment in (
        ({"target": name}, {}), ({"xlnx_target_name": name}, {}), ({}, {"XLNX_TARGET_NAME": name}),
    ):  # fmt: skip
        found = ProviderOptions.read(given, environment)
        assert (found.target, found.chosen) == (DEFAULT_TARGET, False)
    assert caplog.text.count(f"target {name} is no DPU") == 1, "said once"
    assert ProviderOptions.read({"xlnx_target_name": "B800"}, {}).target == "B800"


def test_options_of_scripts_for_other_processors() -> None:
    ProviderOptions.read(
        {"num_of_dpu_runners": "4", "xlnx_enable_py3_round": "0", "xlnx_enable_old_qdq": "0"}, {}
    )
    found = ProviderOptions.read({"config": '{"passes": [], "cacheKey": "mine"}'}, {})
    assert found.key == "mine"
    with pytest.raises(ModelFormatError, match="config: cannot be read as JSON"):
        ProviderOptions.read({"config": "vaip_config.json"}, {})


def test_options_that_nobody_knows_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """AMD's provider takes any name, and programs give it some that it never had."""
    given = {"custom_ops_library": "/a.so", "enable_graph_caching": "True", "device": "NPU"}
    assert ProviderOptions.read(given, {}).device == "ref"
    assert ProviderOptions.read(given, {"OPENDPU_DEVICE": "iss"}).device == "iss"
    for name in ("option custom_ops_library", "option enable_graph_caching", "device NPU"):
        assert caplog.text.count(f"{name} is none of this provider's") == 1, "said once"


@pytest.mark.parametrize(
    ("given", "environment", "message"),
    [
        ({"cachekey": "../up"}, {}, r"cacheKey '\.\./up' must be the name of a folder"),
        ({"cachekey": ".."}, {}, "must be the name of a folder"),
        ({"cache_dirs": "/kept"}, {}, "has no option 'cache_dirs'; cachedir is one"),
        ({"config-file": "a.json"}, {}, "has no option 'config-file'; configfile is one"),
        ({}, {"XLNX_MINIMUM_NUM_OF_CONV": "few"}, "is 'few', but must be a number from 0"),
    ],
)
def test_bad_values(given: dict[str, str], environment: dict[str, str], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        ProviderOptions.read(given, environment)


def test_a_configuration_file_that_is_none(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("[1]")
    with pytest.raises(ModelFormatError, match="must hold a JSON object"):
        ProviderOptions.read({"config_file": str(path)}, {})
