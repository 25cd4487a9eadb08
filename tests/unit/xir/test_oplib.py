# SPDX-License-Identifier: Apache-2.0
"""The op library against the definitions that AMD's files carry, and the compiled schema."""

import subprocess
import sys

import pytest

from xir import builtin, oplib, proto, wire

CHANGED = {("downsample-fix", "scale"), ("resize", "scale"), ("upsample-fix", "scale")}
"""Other type or length in the older library that the PyTorch quantizer carries."""


def test_size_and_order():
    assert len(builtin()) == 106
    conv = builtin()["conv2d"]
    assert [arg.name for arg in conv.args] == ["input", "weights", "bias"]
    assert [arg.occurrence.required for arg in conv.args] == [True, True, False]
    assert conv.attr("pad").default == [0, 0, 0, 0]
    assert conv.attr("nothing") is None
    assert builtin()["concat"].arg("input").occurrence.repeated


@pytest.mark.parametrize("name", ["dpu_mnist_classifier", "tf2_custom_op", "VoxelNet_int"])
def test_definitions_equal_those_in_amds_files(models, name):
    message = proto.Graph.FromString((models / "amd_compiled" / f"{name}.xmodel").read_bytes())
    compared = 0
    for theirs in message.op_defs:
        ours = builtin().get(theirs.name)
        if ours is None:
            continue
        compared += 1
        args = [(a.name, a.occur_type, a.data_type) for a in theirs.input_args]
        assert args == [(a.name, a.occurrence, a.data_kind) for a in ours.args], theirs.name
        attrs = {a.name: a for a in theirs.attrs}
        for attr in ours.attrs:
            if attr.name not in attrs:
                assert name == "VoxelNet_int", (theirs.name, attr.name)  # an older library
                continue
            if (theirs.name, attr.name) in CHANGED and name == "VoxelNet_int":
                continue
            found = attrs[attr.name]
            value = wire.decode_value(found.default_value)
            assert value == (attr.kind, attr.default), (theirs.name, attr.name)
            form = found.occur_type, found.list_length
            assert form == (attr.occurrence, attr.length), (theirs.name, attr.name)
    assert compared >= 78


def test_custom_definition():
    definition = oplib.custom("Mine")
    assert [arg.occurrence for arg in definition.args] == [oplib.Occurrence.REPEATED]
    assert [attr.name for attr in definition.attrs] == ["shape", "data_type"]


def test_compiled_schema_is_up_to_date(repository):
    result = subprocess.run(
        [sys.executable, repository / "scripts/gen_proto.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
