# SPDX-License-Identifier: Apache-2.0
"""AMD's switches: what kind of value each has, and which one where nobody sets it."""

import dataclasses
from typing import Any

PREFIX = "nndct_"


@dataclasses.dataclass(frozen=True)
class Known:
    """A switch of AMD's quantizer.

    Parameters
    ----------
    default
        Its value where nobody sets it; others are of the same type.
    alone
        Whether a command line may give it without a value, which sets it.
    """

    default: Any
    alone: bool = False


def _named(**switches: Known) -> dict[str, Known]:
    return {PREFIX + name: known for name, known in switches.items()}


WITH_EFFECT = _named(
    convert_relu6_to_relu=Known(False, alone=True),
    convert_sigmoid_to_hsigmoid=Known(False, alone=True),
    convert_silu_to_hswish=Known(False, alone=True),
    diffs_mode=Known("mse"),
    equalization=Known(True, alone=True),
    join_outputs=Known(False, alone=True),  # ours
    param_corr=Known(True, alone=True),
    quant_opt=Known(3),
)
"""Switches that change what ``torch_quantizer`` does; ``join_outputs`` is not AMD's."""

WITHOUT_EFFECT = _named(
    avg_pool_approximate=Known(True, alone=True),
    calib_histogram_bins=Known(2048),
    calibration_local=Known(True, alone=True),
    conv_bn_merge=Known(True, alone=True),
    cv_app=Known(True, alone=True),
    deploy_check=Known(False, alone=True),
    dump_float_format=Known(0),
    dump_no_quant_part=Known(False, alone=True),
    entropy_start_bin=Known(1536),
    entropy_stride=Known(16),
    finetune_lr_factor=Known(0.01),
    ft_mode=Known(1),
    input_quant_only=Known(False, alone=True),
    inspect_debug=Known(False, alone=True),
    jit_script=Known(False, alone=True),
    jit_script_mode=Known(False, alone=True),
    jit_trace=Known(False, alone=True),
    keep_add_layer_accuracy=Known(False),
    keep_first_last_layer_accuracy=Known(False),
    leaky_relu_approximate=Known(True, alone=True),
    logging_level=Known(0),
    max_fix_position=Known(12),
    mse_start_bin=Known(1536),
    mse_stride=Known(4),
    param_corr_rate=Known(0.05),
    parse_debug=Known(0),
    partition_mode=Known(0),
    quant_mode=Known(0),
    quant_off=Known(False, alone=True),
    record_slow_mode=Known(False, alone=True),
    relu6_replace=Known("relu"),
    sigmoid_replace=Known(0),
    softmax_sim=Known(0),
    stat=Known(0),
    tanh_sigmoid_sim=Known(0),
    tensorrt_quant_algo=Known(False, alone=True),
    tensorrt_strategy=Known(False, alone=True),
    use_torch_quantizer=Known(False, alone=True),
    visualize=Known(False, alone=True),
    wes_in_cle=Known(False, alone=True),
)
"""Those that say how AMD's quantizer works inside, or what OpenDPU's does anyway."""

KNOWN = {**WITH_EFFECT, **WITHOUT_EFFECT}
