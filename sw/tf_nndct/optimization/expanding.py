# SPDX-License-Identifier: Apache-2.0
"""Where scripts look for AMD's expansion of Keras models, which nothing here needs."""

from typing import Any

from opendpu_arch.errors import UnsupportedError


class ExpandingRunner:
    """Refuses what it is made for: filling channels up to multiples of a number."""

    def __init__(self, model: Any, input_specs: Any = None) -> None:
        raise UnsupportedError(
            f"ExpandingRunner does not expand Keras models ({getattr(model, 'name', model)}): the "
            "compiler fills channels up by itself, so quantize and compile the model as it is; "
            "modules of PyTorch are expanded by pytorch_nndct.expanding"
        )
