# SPDX-License-Identifier: Apache-2.0
"""The module that is trained."""

import copy
from collections.abc import Iterator
from typing import Any

import torch

from opendpu.ir import QuantizedGraph
from opendpu.quantize.placement.insert import fix_name
from pytorch_nndct import messages
from pytorch_nndct.qat.evaluation import Evaluation, with_gradients
from pytorch_nndct.qat.folded import folded
from pytorch_nndct.qat.layers import Layer, QuantizedLayer
from pytorch_nndct.qat.plan import Plan
from pytorch_nndct.qat.threshold import TrainedThreshold


class RoundedResult(torch.nn.Module):
    """A module whose result is rounded; of several, as of a maximum and its place, the first."""

    def __init__(self, inner: torch.nn.Module, quantizer: TrainedThreshold) -> None:
        super().__init__()
        self.inner = inner
        self.quantizer = quantizer

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result on its grid."""
        found = self.inner(*args, **kwargs)
        if isinstance(found, tuple):
            return (self.quantizer(found[0]), *found[1:])
        return self.quantizer(found)


class GatedResult(torch.nn.Module):
    """A hard-swish in the DPU's two steps: a hard-sigmoid, which is rounded, times its input."""

    def __init__(self, quantizer: TrainedThreshold) -> None:
        super().__init__()
        self.quantizer = quantizer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the product, before its rounding."""
        found: torch.Tensor = x * self.quantizer(torch.nn.functional.hardsigmoid(x))
        return found


class TrainableModel(torch.nn.Module):
    """A float module with rounding where its program rounds; trained as any other module.

    In evaluation mode its results are those of the program, to the bit.

    Parameters
    ----------
    module
        The float module, of which this one has a copy.
    plan
        Where it is rounded.
    bits
        Width of results.
    weight_bits
        Width of weights.
    evaluation
        Computes results in evaluation mode; nothing for the modules themselves.
    """

    def __init__(
        self, module: torch.nn.Module, plan: Plan, bits: int, weight_bits: int,
        evaluation: Evaluation | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._evaluation = evaluation
        self.model = copy.deepcopy(module)
        groups = sorted({*plan.results.values(), *plan.gates.values()})
        self._numbers = {group: str(number) for number, group in enumerate(groups)}
        self.quantizers = torch.nn.ModuleDict(
            {number: TrainedThreshold(bits) for number in self._numbers.values()}
        )
        self._layers: dict[str, QuantizedLayer] = {}
        self._norms: dict[str, torch.nn.Module] = {}
        self._norm_of = dict(plan.norms)
        self.fused = False
        self.trained = False
        self.register_load_state_dict_post_hook(_loaded)  # type: ignore[no-untyped-call]
        for path, norm in plan.norms.items():
            layer = self.model.get_submodule(path)
            if isinstance(layer, Layer):
                behind = self.model.get_submodule(norm) if norm is not None else None
                bias = plan.specs.bias[plan.nodes[path]]
                self._layers[path] = QuantizedLayer(layer, behind, weight_bits, bias)
                _set(self.model, path, self._layers[path])
                if norm is not None and behind is not None:
                    self._norms[norm] = behind
                    _set(self.model, norm, torch.nn.Identity())
        for path, slope in plan.slopes.items():
            self.model.get_submodule(path).negative_slope = slope  # type: ignore[assignment]
        for path, group in plan.gates.items():
            _set(self.model, path, GatedResult(self._threshold(self._numbers[group])))
        for path, group in plan.results.items():
            quantizer = self._threshold(self._numbers[group])
            inner = self.model.get_submodule(path)
            _set(self.model, path, RoundedResult(inner, quantizer))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the module's result; in evaluation mode, that of what is deployed."""
        if self.training and torch.is_grad_enabled():
            self.trained = True
        if self.training or self._evaluation is None or _is_exported():
            return self.model(*args, **kwargs)
        gradients = torch.is_grad_enabled()
        own = self.model(*args, **kwargs) if gradients or self._wants_modules() else None
        exact = self._evaluation(self, args, kwargs)
        if exact is None:
            return self.model(*args, **kwargs) if own is None else own
        return with_gradients(own, exact) if gradients else exact

    def _wants_modules(self) -> bool:
        """Return whether modules are to be called: thresholds begin so, and hooks see results."""
        return any(
            part._forward_hooks or part._forward_pre_hooks
            or (isinstance(part, TrainedThreshold) and not part.ready)
            for part in self.modules() if part is not self
        )  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        """Return what the float module has under a name that is none of this one's."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            inner = self.__dict__.get("_modules", {}).get("model")
            if inner is None or name.startswith("__") or not hasattr(inner, name):
                raise
            return getattr(inner, name)

    def quantizer_parameters(self) -> Iterator[torch.nn.Parameter]:
        """Yield the thresholds, each of shape [1]."""
        for part in self.modules():
            if isinstance(part, TrainedThreshold):
                yield part.log2_threshold

    def non_quantizer_parameters(self) -> Iterator[torch.nn.Parameter]:
        """Yield all other parameters."""
        own = {id(parameter) for parameter in self.quantizer_parameters()}
        yield from (p for p in self.parameters() if id(p) not in own)

    def begin(self, plan: Plan, quantized: QuantizedGraph) -> list[str]:
        """Begin with the scales of a quantized graph of the same module.

        Where calibration has equalized channels between layers, its scales are of other numbers
        than this module's: of these layers, and of the results around them, the first batch
        decides.

        Returns
        -------
        Paths of these layers.
        """
        foreign = [path for path in self._layers if plan.is_equalized(plan.nodes[path], quantized)]
        left = {g for path in foreign for g in plan.groups_around(plan.nodes[path])}
        for name, group in plan.groups.group.items():
            fix = quantized.nodes.get(fix_name(name))
            chosen = plan.same.get(group, group)
            if fix is not None and chosen in self._numbers and group not in left:
                self._threshold(self._numbers[chosen]).set_fix_point(fix.fix_point)
        for path, layer in self._layers.items():
            weights = quantized[plan.nodes[path]].inputs["weights"][0]
            if path not in foreign:
                layer.weight_quantizer.set_fix_point(quantized[weights].fix_point)
        return foreign

    def freeze_bn(self) -> None:
        """Keep the statistics of batch normalizations as they are from now on."""
        for layer in self._layers.values():
            layer.freeze_bn()

    def fuse_conv_bn(self) -> None:
        """Put batch normalizations into the weights for good; nothing can be deployed then."""
        with torch.no_grad():
            for layer in self._layers.values():
                weight, bias = layer.folded()
                layer.layer.weight.copy_(weight)
                layer.layer.bias = None if bias is None else torch.nn.Parameter(bias.clone())
                layer.norm, layer.frozen = None, True
        self.fused = True

    def float_module(self, original: torch.nn.Module) -> torch.nn.Module:
        """Return a float module of the original's kind with what was trained."""
        result = copy.deepcopy(original)
        own = dict(self.model.named_modules())
        own |= {path: part.inner for path, part in own.items() if isinstance(part, RoundedResult)}
        own |= {p: part.layer for p, part in own.items() if isinstance(part, QuantizedLayer)}
        own |= self._norms
        with torch.no_grad():
            for path, part in result.named_modules():
                for name, value in part.named_parameters(recurse=False):
                    value.copy_(getattr(own[path], name))
                for name, value in part.named_buffers(recurse=False):
                    value.copy_(getattr(own[path], name))
        return result

    def folded_module(self, original: torch.nn.Module) -> torch.nn.Module:
        """Return what :meth:`float_module` does, with batch normalizations in the weights."""
        with torch.no_grad():
            weights = {path: layer.folded() for path, layer in self._layers.items()}
        return folded(self.float_module(original), self._norm_of, weights)

    def result_points(self) -> dict[str, int]:
        """Return the fractional bits of results, by group."""
        return {g: self._threshold(number).fix_point for g, number in self._numbers.items()}

    def weight_points(self) -> dict[str, int]:
        """Return the fractional bits of weights, by path of the layer."""
        return {path: layer.weight_quantizer.fix_point for path, layer in self._layers.items()}

    def _threshold(self, number: str) -> TrainedThreshold:
        found = self.quantizers[number]
        assert isinstance(found, TrainedThreshold)
        return found


def unwrapped(model: torch.nn.Module) -> TrainableModel:
    """Return a trained model as it is to be deployed, out of ``torch.nn.DataParallel``, too.

    Raises
    ------
    VAIQError
        It is another module, or batch normalizations are in its weights.
    """
    trained: Any = model.module if isinstance(model, torch.nn.DataParallel) else model
    if not isinstance(trained, TrainableModel):
        raise messages.error(
            "QUANTIZER_TORCH_QAT_DEPLOYABLE_MODEL_ERROR",
            f"the trained model is {type(trained).__name__}, but must be what trainable_model "
            "returned",
        )
    if trained.fused:
        raise messages.error(
            "QUANTIZER_TORCH_QAT_DEPLOYABLE_MODEL_ERROR",
            "batch normalizations are in the weights already: do not call fuse_conv_bn before "
            "to_deployable",
        )
    return trained


def _is_exported() -> bool:
    """Return whether a tracer looks for PyTorch's own operators."""
    return torch.compiler.is_compiling() or bool(torch.jit.is_tracing())  # type: ignore[attr-defined, no-untyped-call]


def _loaded(model: torch.nn.Module, _keys: object) -> None:
    """A state whose thresholds have begun is one of a trained model."""
    parts = [part for part in model.modules() if isinstance(part, TrainedThreshold)]
    if all(bool(part.ready) for part in parts):
        model.trained = True  # type: ignore[assignment]


def _set(root: torch.nn.Module, path: str, module: torch.nn.Module) -> None:
    """Put a module at a path, with what the user's code finds at the one that was there."""
    parent, _, name = path.rpartition(".")
    before = vars(root.get_submodule(path))
    vars(module).update({k: v for k, v in before.items() if not hasattr(module, k)})
    setattr(root.get_submodule(parent), name, module)
