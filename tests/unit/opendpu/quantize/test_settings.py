# SPDX-License-Identifier: Apache-2.0
"""Settings as text change what they say, and nothing else."""

import dataclasses

import pytest

from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.settings import override, with_settings
from opendpu.quantize.tensor_spec import TensorSpec
from opendpu_arch.errors import UnsupportedError


def test_settings_of_one_role_and_of_all():
    found = with_settings(
        QuantizeConfig(), ["weights.bits=4", "rounding=half_even", "input.symmetric=no"]
    )
    assert found.weights == TensorSpec(bits=4, rounding="half_even")
    assert found.activation == TensorSpec(rounding="half_even")
    assert found.input == TensorSpec(rounding="half_even", symmetric=False)
    assert found.bias == TensorSpec(method="nonoverflow", rounding="half_even")


def test_every_field_can_be_set():
    texts = {
        "bits": "5", "symmetric": "false", "scale": "float", "granularity": "per_channel",
        "method": "percentile", "statistic": "median", "percentile": "99.5",
        "rounding": "half_even", "number_format": "bfloat16", "signed": "0", "narrow_range": "true",
    }  # fmt: skip
    made = with_settings(
        QuantizeConfig(), [f"weights.{name}={text}" for name, text in texts.items()]
    ).weights
    assert set(texts) == {field.name for field in dataclasses.fields(TensorSpec)}
    assert made == TensorSpec(
        bits=5, symmetric=False, scale="float", granularity="per_channel", method="percentile",
        statistic="median", percentile=99.5, rounding="half_even", number_format="bfloat16",
        signed=False, narrow_range=True,
    )  # fmt: skip


def test_layers_by_name_and_by_operator():
    config = with_settings(QuantizeConfig(), ["method=max"])
    named = override(config, "a:b/*:bits=16,weights.method=mse")
    assert (named.names, named.kinds) == (("a:b/*",), ())
    assert named.weights == TensorSpec(bits=16, method="mse")
    assert named.activation == TensorSpec(bits=16, method="max")
    kind = override(config, "@Conv:weights.bits=4")
    assert (kind.names, kind.kinds) == ((), ("Conv",))
    assert kind.activation is None


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("bits", r"setting 'bits' must be \[ROLE\.\]FIELD=VALUE; roles: input, weights"),
        ("bits=x", "setting 'bits=x' must be a whole number"),
        ("percentile=x", "must be a number"),
        ("signed=maybe", "must be true or false"),
        ("weight.bits=4", "roles: input, weights, bias, activation"),
        ("weights.bit=4", "fields: bits, symmetric"),
        ("bits=40", "bits is 40, but must be in 2..16"),
        ("method=best", "calibration method 'best' is unknown; choose one of minmse"),
    ],
)
def test_what_is_no_setting_is_refused(setting, text):
    with pytest.raises(UnsupportedError, match=text):
        with_settings(QuantizeConfig(), [setting])


def test_what_is_no_layer_setting_is_refused():
    with pytest.raises(UnsupportedError, match=r"must be PATTERN:ROLE\.FIELD=VALUE"):
        override(QuantizeConfig(), "bits=4")
