# SPDX-License-Identifier: Apache-2.0
"""The quantizer's configuration: defaults, what excludes each other, what no DPU runs."""

import dataclasses

import pytest

from opendpu.quantize import FinetuneConfig, Override, QuantizeConfig, TensorSpec
from opendpu_arch.errors import UnsupportedError


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"bits": 1}, "bits is 1, but must be in 2..16, of biases up to 32"),
        ({"bits": 33}, "bits is 33, but must be in 2..16"),
        ({"scale": "log"}, "scale 'log' is unknown; choose one of power_of_two, float"),
        ({"granularity": "group"}, "granularity 'group' is unknown; choose one of per_tensor"),
        ({"method": "kl"}, "calibration method 'kl' is unknown; choose one of minmse, diffs"),
        ({"statistic": "min"}, "statistic of batches 'min' is unknown; choose one of all, modal"),
        ({"rounding": "up"}, "rounding 'up' is unknown; choose one of half_up, half_even"),
        ({"number_format": "fp8"}, "number format 'fp8' is unknown; choose one of int, float16"),
        ({"percentile": 0}, "percentile is 0, but must be above 0 and at most 100"),
        ({"percentile": 101}, "percentile is 101, but must be above 0 and at most 100"),
    ],
)
def test_values_that_are_not_allowed(given, text):
    with pytest.raises(UnsupportedError) as caught:
        TensorSpec(**given)
    assert text in str(caught.value)


def test_only_biases_are_wider_than_sixteen_bits():
    wide = TensorSpec(bits=32)
    assert QuantizeConfig(bias=wide).bias.bits == 32
    for role in ("input", "weights", "activation"):
        with pytest.raises(UnsupportedError, match=f"{role} has 32 bits, but must have 2 to 16"):
            QuantizeConfig(**{role: wide})
    with pytest.raises(UnsupportedError, match="weights has 32 bits"):
        QuantizeConfig(overrides=(Override(weights=wide),))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"method": "brecq"}, "finetuning method 'brecq' is unknown; choose one of adaquant"),
        ({"iterations": 0}, "iterations of finetuning is 0, but must be at least 1"),
        ({"samples": 0}, "samples of finetuning is 0, but must be at least 1"),
        ({"learning_rate": 0.0}, "learning_rate of finetuning is 0, but must be above 0"),
    ],
)
def test_finetuning_that_is_not_allowed(given, text):
    with pytest.raises(UnsupportedError) as caught:
        FinetuneConfig(**given)
    assert text in str(caught.value)


def test_default_and_narrower_integers_are_deployable():
    assert QuantizeConfig().deployable() == []
    assert QuantizeConfig(weights=TensorSpec(bits=4)).deployable() == []


@pytest.mark.parametrize(
    ("role", "given", "text"),
    [
        ("weights", {"bits": 16}, "weights has 16 bits, but the DPU has 8"),
        (
            "weights",
            {"granularity": "per_channel"},
            "weights has a scale per channel, but only",
        ),
        ("activation", {"symmetric": False}, "activation has zero points, which the DPU has not"),
        ("input", {"scale": "float"}, "input has a scale of type float, but the DPU shifts"),
        ("bias", {"number_format": "bfloat16"}, "bias is bfloat16, but the DPU computes with int"),
        ("activation", {"rounding": "half_even"}, "activation is rounded half_even, but the DPU"),
        ("input", {"signed": False}, "input is unsigned, but the DPU's integers are signed"),
    ],
)
def test_what_no_dpu_runs_has_a_reason(role, given, text):
    spec = TensorSpec(**given)
    (reason,) = QuantizeConfig(**{role: spec}).deployable()
    assert reason.startswith(text)
    rule = Override(names=("a",), **{role: spec})
    assert QuantizeConfig(overrides=(rule,)).deployable() == [reason]


def test_constants_and_inputs_may_be_rounded_in_any_way():
    """They are rounded by the quantizer and by the CPU."""
    spec = TensorSpec(rounding="half_even")
    assert QuantizeConfig(input=spec, weights=spec, bias=spec).deployable() == []


def test_the_last_rule_that_matches_and_says_something_counts():
    four, six = TensorSpec(bits=4), TensorSpec(bits=6)
    config = QuantizeConfig(
        overrides=(
            Override(kinds=("conv*", "torch.nn.Conv2d"), weights=four),
            Override(names=("head/*",), weights=six),
            Override(names=("head/*",), activation=six),
        )
    )
    assert config.spec_of("weights", ["inner-product"], ["a"]).bits == 8
    assert config.spec_of("weights", ["conv2d"], ["a"]).bits == 4
    assert config.spec_of("weights", ["other", "torch.nn.Conv2d"], ["a"]).bits == 4
    assert config.spec_of("weights", ["conv2d"], ["b", "head/a"]).bits == 6
    assert config.spec_of("activation", ["conv2d"], ["head/a"]).bits == 6
    assert config.spec_of("activation", ["conv2d"], ["a"]).bits == 8


def test_specifications_of_rules_are_listed_too():
    four = TensorSpec(bits=4)
    config = dataclasses.replace(QuantizeConfig(), overrides=(Override(bias=four),))
    roles = ["input", "weights", "bias", "activation"]
    assert [role for role, _ in config.specs()] == [*roles, "bias"]
    assert config.specs()[-1] == ("bias", four)


def test_a_target_is_no_name():
    with pytest.raises(UnsupportedError, match="target is 'B4096', but must be a Target"):
        QuantizeConfig(target="B4096")
