# SPDX-License-Identifier: Apache-2.0
"""Files that have no end are refused, and JSON that would end the interpreter is an error."""

import pytest

from opendpu_arch import inputs


def test_files_are_read(tmp_path):
    (tmp_path / "f").write_text("ä")
    assert inputs.read_bytes(tmp_path / "f") == "ä".encode()
    assert inputs.read_text(str(tmp_path / "f")) == "ä"
    assert inputs.read_bytes("/dev/null") == b""
    with pytest.raises(FileNotFoundError):
        inputs.read_bytes(tmp_path / "g")


@pytest.mark.parametrize("read", [inputs.read_bytes, inputs.read_text, inputs.refuse_device])
def test_devices_without_an_end(read, tmp_path):
    (tmp_path / "link").symlink_to("/dev/zero")
    for path in ("/dev/zero", "/dev/urandom", tmp_path / "link"):
        with pytest.raises(OSError, match="it is a device, but must be a file"):
            read(path)


def test_json():
    assert inputs.json_value('{"a": [1]}') == {"a": [1]}
    with pytest.raises(ValueError, match="Expecting"):
        inputs.json_value("{")
    with pytest.raises(ValueError, match="nested too deeply"):
        inputs.json_value("[" * 100_000)
