# SPDX-License-Identifier: Apache-2.0
"""Other element types for some operators: Quark's automatic mixed precision without a search.

Where no loss is said that may not be exceeded, Quark gives every candidate the other types; that is
what is done here.
"""

import dataclasses
import glob
from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from opendpu.quantize.config import QuantizeConfig
from opendpu.quantize.tensor_spec import Override
from opendpu_arch.errors import UnsupportedError
from quark.onnx.quantization.config.algorithm import (
    MIXED_OPERATORS,
    SEARCHED,
    AlgoConfig,
    AutoMixprecisionConfig,
)
from quark.onnx.quantization.config.spec import QLayerConfig
from vai_q_onnx.quantize import configuration
from vai_q_onnx.selection import matching, name_of

OPTION = "AutoMixprecision"
_OPERATORS, _ACTIVATIONS, _WEIGHTS = "TargetOpType", "ActTargetQuantType", "WeightTargetQuantType"
_BOTH = "TargetQuantType"
_LIMITS = {"L2Target", "Top1AccTarget", "MetricThreshold"}


def mixed_layers(
    algorithms: Sequence[AlgoConfig], nodes: Sequence[onnx.NodeProto], base: QLayerConfig
) -> list[tuple[QLayerConfig, list[str]]]:
    """Return the configurations that automatic mixed precision gives nodes, and which.

    What a configuration leaves open is as in ``base``.
    """
    return [
        (_filled(one.target, base), candidates(nodes, one.operators, one.include, one.exclude))
        for one in algorithms
        if isinstance(one, AutoMixprecisionConfig)
    ]


def candidates(
    nodes: Sequence[onnx.NodeProto],
    operators: Sequence[str],
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> list[str]:
    """Return the names of some operators' nodes: all of them, or those to ``include``."""
    names = [name_of(node) for node in nodes]
    wanted = set(matching(names, include)) or set(names)
    wanted -= set(matching(names, exclude))
    pairs = zip(names, nodes, strict=True)
    return [name for name, node in pairs if node.op_type in operators and name in wanted]


def mixed_rule(
    options: Mapping[str, Any],
    nodes: Sequence[onnx.NodeProto],
    given: Any,
    checked: Mapping[str, Any],
) -> Override | None:
    """Return the rule that ``include_auto_mp`` of the first form stands for; none without nodes.

    Parameters
    ----------
    options
        The extra option ``AutoMixprecision``.
    nodes
        Those of the model.
    given
        The configuration of the first form.
    checked
        Its extra options, with defaults.

    Raises
    ------
    UnsupportedError
        A loss is said that may not be exceeded, or a type that there is not.
    """
    said = sorted(name for name in _LIMITS if options.get(name))
    if said:
        raise UnsupportedError(f"{OPTION} has {said[0]} {options[said[0]]!r}: {SEARCHED}")
    both = options.get(_BOTH)
    found: QuantizeConfig = configuration(
        given.calibrate_method, options.get(_ACTIVATIONS, both or given.activation_type),
        options.get(_WEIGHTS, both or given.weight_type), per_channel=given.per_channel,
        reduce_range=False, options=checked,
    )  # fmt: skip
    names = candidates(nodes, options.get(_OPERATORS, MIXED_OPERATORS))
    if not names:
        return None
    return Override(
        names=tuple(map(glob.escape, names)), weights=found.weights, bias=found.bias,
        activation=found.activation,
    )  # fmt: skip


def with_rule(config: QuantizeConfig, rule: Override) -> QuantizeConfig:
    """Return a configuration with one more rule, before those that it has."""
    return dataclasses.replace(config, overrides=(rule, *config.overrides))


def _filled(target: QLayerConfig, base: QLayerConfig) -> QLayerConfig:
    return QLayerConfig(
        activation=target.activation or base.activation, weight=target.weight or base.weight,
        bias=target.bias or base.bias, output_tensors=target.result() or base.result(),
    )  # fmt: skip
