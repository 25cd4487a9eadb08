# SPDX-License-Identifier: Apache-2.0
"""What a model that is trained computes in evaluation mode: the bits of its program.

Training computes in floats what the DPU computes in integers, which differs where the DPU rounds
otherwise than any float kernel: slopes and average pools have factors of 8 bits, batch
normalizations are folded before weights are rounded. Who evaluates wants the program's accuracy.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from opendpu_arch.errors import DPUError
from pytorch_nndct import messages
from pytorch_nndct.messages import VAIQError
from pytorch_nndct.program import IntegerNetwork
from pytorch_nndct.qat.source import Source
from pytorch_nndct.quant_model import SHAPE, IntegerModel

if TYPE_CHECKING:
    from pytorch_nndct.qat.model import TrainableModel

MOST_SIZES = 8
"""Networks for other sizes that are kept."""


class Evaluation:
    """Computes a model as what is deployed of it, on the CPU.

    Networks are made when they are first needed, and again when a parameter has changed; there is
    one for each size of inputs. Copies of the model have their own.

    Parameters
    ----------
    source
        The float module that is trained.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self._made: list[IntegerModel] = []
        self._state: list[torch.Tensor] = []
        self._reason = ""

    def __deepcopy__(self, memo: Mapping[int, Any]) -> "Evaluation":
        return Evaluation(self.source)

    def __reduce__(self) -> tuple[Any, ...]:
        return Evaluation, (self.source,)

    def refuse(self, reason: str) -> None:
        """Compute nothing from now on; say why."""
        self._reason = reason
        messages.note(
            "evaluation is done in PyTorch's arithmetic, which differs a little from the "
            f"program's: {reason}"
        )

    def __call__(self, model: "TrainableModel", args: Any, kwargs: Any) -> Any:
        """Return the results of a call as the program computes them; nothing if that cannot be."""
        device = next((p.device.type for p in model.parameters()), "cpu")
        if self._reason:
            return None
        if device != "cpu":
            self.refuse(f"the model is on {device}, and the program's is computed on the CPU")
            return None
        self._forget_old(model)
        try:
            return self._computed(model, args, kwargs)
        except DPUError as error:
            self.refuse(str(error))
            return None

    def _forget_old(self, model: torch.nn.Module) -> None:
        """Drop what was made of other parameters."""
        now = [*model.parameters(), *model.buffers()]
        same = len(now) == len(self._state) and all(map(torch.equal, now, self._state))
        if not same:
            self._made.clear()
            self._state = [tensor.detach().clone() for tensor in now]

    def _computed(self, model: "TrainableModel", args: Any, kwargs: Any) -> Any:
        for network in self._made:
            try:
                return network(*args, **kwargs)
            except VAIQError as error:
                if error.code != SHAPE:
                    raise
        if not self._made:
            self._made.append(self._network(model, None))
            return self._computed(model, args, kwargs)
        if kwargs:
            raise messages.error(SHAPE, "inputs given by name are of other sizes than the examples")
        network = self._network(model, args)
        self._made = [*self._made[: MOST_SIZES - 1], network]
        return network(*args)

    def _network(self, model: "TrainableModel", inputs: Any) -> IntegerModel:
        """Return what is deployed of a model, for inputs of some sizes."""
        source = self.source
        made = model.folded_module if model.fused else model.float_module
        module = made(source.module).cpu()
        plan, traced = source.planned(module, inputs)
        graph = plan.quantized(model.result_points(), model.weight_points())
        network = IntegerNetwork(graph)
        return IntegerModel(module, traced, lambda: network)


class _Exactly(torch.autograd.Function):
    """One tensor's values with another one's gradient."""

    @staticmethod
    def forward(ctx: Any, own: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
        return exact.to(own.dtype).clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0], None


def with_gradients(own: Any, exact: Any) -> Any:
    """Return exact results, nested as a module's own, whose gradients they have."""
    leaves, spec = pytree.tree_flatten(own)
    values = pytree.tree_leaves(exact)
    return pytree.tree_unflatten(
        [
            _Exactly.apply(a, b) if isinstance(a, torch.Tensor) and a.requires_grad else b  # type: ignore[no-untyped-call]
            for a, b in zip(leaves, values, strict=True)
        ],
        spec,
    )
