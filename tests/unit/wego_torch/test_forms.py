# SPDX-License-Identifier: Apache-2.0
"""Forms of programs for ``torch.compile``: what is around modules, what goes in and comes out."""

import collections
import dataclasses
import logging
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")


from frameworks.torch_nets import seeded  # noqa: E402
from small_programs import SHAPE, Small, close, on_dpu, samples  # noqa: E402
from small_programs import forgotten as forgotten  # noqa: E402
from small_programs import runs as runs  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from wego_torch import messages  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings(f"ignore:`torch.jit.{name}` is deprecated:DeprecationWarning")
    for name in ("script", "trace", "trace_method", "save", "load")
] + [
    pytest.mark.filterwarnings(said)
    for said in (
        "ignore:torch.ao.quantization is deprecated:DeprecationWarning",
        "ignore:torch.quantize_per_tensor, :UserWarning",
        "ignore:.*should not be instantiated:DeprecationWarning",  # PyTorch does, to trace it
        "ignore:None of the inputs have requires_grad=True:UserWarning",
    )
]

Pair = collections.namedtuple("Pair", "scores extra")


@dataclasses.dataclass
class Found:
    scores: Any
    extra: Any
    count: int = 3


class Convolution(torch.autograd.Function):
    """With a derivative of its own."""

    @staticmethod
    def forward(ctx, x, weight):
        return torch.nn.functional.conv2d(x, weight, padding=1).relu()

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Custom(Small):
    def features(self, x):
        return self.second(Convolution.apply(x, self.first.weight))


class Checkpointed(Small):
    reentrant = False

    def forward(self, x):
        found = checkpoint(self.features, x, use_reentrant=self.reentrant)
        return self.last(found.mean((2, 3)))


class Reentrant(Checkpointed):
    reentrant = True


class Twice(Small):
    """One checkpointed part inside another."""

    def features(self, x):
        return checkpoint(lambda y: self.second(torch.relu(y)), self.first(x), use_reentrant=False)

    def forward(self, x):
        return self.last(checkpoint(self.features, x, use_reentrant=False).mean((2, 3)))


def orthogonal(net):
    torch.nn.utils.parametrizations.spectral_norm(net.first)
    torch.nn.utils.parametrizations.orthogonal(net.last)
    return net.eval()


def hooked(net):
    net.first.register_forward_hook(lambda module, given, found: found * 2)
    net.second.register_forward_pre_hook(lambda module, given: (given[0] + 1,))
    net.register_forward_hook(lambda module, given, found: found - 1)
    return net


def quantized_linear(net):
    return torch.ao.quantization.quantize_dynamic(net, {torch.nn.Linear})


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (Custom, None), (Checkpointed, None), (Twice, None), (Small, hooked),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in (
                (Reentrant, None), (Small, orthogonal), (Small, torch.nn.DataParallel),
                (Small, quantized_linear),
            )
        ),
    ],
)  # fmt: skip
def test_what_is_around_modules(seed, runs, kind, change):
    net = seeded(kind(), seed).eval()
    net = net if change is None else change(net)
    images = torch.randn(2, *SHAPE)
    assert close(on_dpu(net)(images), net(images))
    assert runs == [2]


@pytest.mark.parametrize(
    "made",
    [
        *(pytest.param(made, marks=pytest.mark.slow) for made in (Pair, Found)),
        lambda scores, extra: {"scores": scores, "extra": [extra, "text"]},
    ],
)
def test_results_that_are_nested_and_partly_nothing(seed, runs, made):
    class Nested(Small):
        def forward(self, x):
            return made(super().forward(x), None)

    net = seeded(Nested(), seed).eval()
    images = torch.randn(2, *SHAPE)
    found, wanted = on_dpu(net)(images), net(images)
    assert type(found) is type(wanted)
    one, other = (
        x if isinstance(x, dict) else x._asdict() if isinstance(x, Pair) else vars(x)
        for x in (found, wanted)
    )
    assert close(one.pop("scores"), other.pop("scores"))
    assert one == other
    assert runs == [2]


@pytest.mark.parametrize(
    "kind",
    [
        "channels_last",
        "expanded",
        *(pytest.param(k, marks=pytest.mark.slow) for k in ("strided", "inference")),
    ],
)
def test_memory_of_any_order(seed, runs, kind):
    net = seeded(Small(), seed).eval()
    images = torch.randn(2, *SHAPE)
    if kind == "channels_last":
        images = images.to(memory_format=torch.channels_last)
    elif kind == "strided":
        images = torch.randn(4, *(2 * n for n in SHAPE))[::2, ::2, ::2, ::2]
    elif kind == "expanded":
        images = images[:1].expand(2, -1, -1, -1)
    with torch.inference_mode(kind == "inference"):
        images = images.clone() if kind == "inference" else images
        compiled, wanted = on_dpu(net), net(images)
        assert close(compiled(images), wanted)
    assert runs == [2]


def test_arguments_by_keyword_only_and_numbers(seed, runs):
    class Scaled(Small):
        def forward(self, *, image, scale=1.0, doubled=False):
            found = super().forward(image) * scale
            return found * 2 if doubled else found

    net = seeded(Scaled(), seed).eval()
    call = {"image": torch.randn(2, *SHAPE), "scale": 2.5, "doubled": True}
    compiled = on_dpu(net, [{**call, "image": samples()}])
    assert close(compiled(**call), net(**call))
    assert runs == [2]


@pytest.mark.parametrize("loaded", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_scripted_modules_stay_in_pytorch_and_that_is_said(
    seed, runs, tmp_path, caplog, monkeypatch, loaded
):
    monkeypatch.setattr(messages, "_said", set())

    class Both(Small):
        def __init__(self):
            super().__init__()
            inner = seeded(Small(), seed + 1).eval()
            if loaded:
                torch.jit.save(torch.jit.trace(inner, torch.randn(1, *SHAPE)), tmp_path / "a.pt")
                inner = torch.jit.load(tmp_path / "a.pt")
            self.inner = inner if loaded else torch.jit.script(inner)

        def forward(self, x):
            return super().forward(x) + self.inner(x)

    net = seeded(Both(), seed).eval()
    images = torch.randn(2, *SHAPE)
    compiled = on_dpu(net)
    with caplog.at_level(logging.WARNING, "wego_torch"):
        for _ in range(2):
            assert close(compiled(images), net(images))
    assert runs == [2, 2]  # the outer one's
    said = [r.message for r in caplog.records if "TorchScript" in r.message]
    assert len(said) == 1
    assert said[0].startswith("TorchScript stays in PyTorch: 'inner'; ")


def test_traced_modules_inside_of_others_are_compiled(seed, runs):
    class Both(Small):
        def __init__(self):
            super().__init__()
            self.inner = torch.jit.trace(seeded(Small(), seed + 1).eval(), torch.randn(1, *SHAPE))

        def forward(self, x):
            return super().forward(x) + self.inner(x)

    net = seeded(Both(), seed).eval()
    images = torch.randn(2, *SHAPE)
    assert close(on_dpu(net)(images), net(images))
    assert runs == [2, 2] or runs == [2]
