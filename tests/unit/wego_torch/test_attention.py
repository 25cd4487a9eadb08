# SPDX-License-Identifier: Apache-2.0
"""Attention and layers of transformers: what PyTorch computes at once, written out."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from frameworks.torch_nets import seeded  # noqa: E402
from small_programs import close, on_dpu  # noqa: E402
from small_programs import forgotten as forgotten  # noqa: E402
from small_programs import runs as runs  # noqa: E402

from wego_torch.dynamo.attention import write_out  # noqa: E402

WIDTH, HEADS, PLACES = 16, 2, 5

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")


def masks(count):
    """Return masks by what PyTorch calls their kind: places, samples and places, everything."""
    later = torch.triu(torch.full((PLACES, PLACES), -torch.inf), 1)
    padding = torch.zeros(count, PLACES).index_fill(1, torch.tensor([PLACES - 1]), -torch.inf)
    every = later.expand(count, HEADS, -1, -1)
    return {None: None, 0: later, 1: padding, 2: every}


class AtOnce(torch.nn.Module):
    """Has PyTorch compute attention, or a whole layer, by one operator."""

    def __init__(self, kind, *, gelu=None, first=False):
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 24)
        self.kind, self.gelu, self.first = kind, gelu, first

    def forward(self, x, mask):
        layer, of_all, last = self.layer, self.layer.self_attn, self.layer.self_attn.out_proj
        weights = (of_all.in_proj_weight, of_all.in_proj_bias, last.weight, last.bias)
        if self.gelu is None:
            weighted = self.kind != 2  # what PyTorch 2.13 gives of these is of one head
            found = torch._native_multi_head_attention(
                x, x, x, WIDTH, HEADS, *weights, mask, weighted, True, self.kind
            )
            return (found[0], found[1]) if weighted else (found[0],)
        return torch._transformer_encoder_layer_fwd(
            x, WIDTH, HEADS, *weights, self.gelu, self.first, 1e-5, layer.norm1.weight,
            layer.norm1.bias, layer.norm2.weight, layer.norm2.bias, layer.linear1.weight,
            layer.linear1.bias, layer.linear2.weight, layer.linear2.bias, mask, self.kind,
        )  # fmt: skip


@pytest.mark.parametrize("kind", [None, 0, 1, 2])
@pytest.mark.parametrize(
    "settings", [{}, {"gelu": False}, {"gelu": True, "first": True}], ids=["attention", "", "gelu"]
)
def test_what_is_written_out_is_what_pytorch_computes(seed, kind, settings):
    net = seeded(AtOnce(kind, **settings), seed).eval()
    x, mask = torch.randn(3, PLACES, WIDTH), masks(3)[kind]
    graph = torch.fx.symbolic_trace(net, {"mask": None} if mask is None else None)
    before = len(graph.graph.nodes)
    write_out(graph)
    assert len(graph.graph.nodes) > before
    torch.testing.assert_close(graph(x, mask), net(x, mask))


@pytest.mark.parametrize("gradients", [pytest.param(False, marks=pytest.mark.slow), True])
def test_an_encoder_with_and_without_gradients(seed, runs, gradients):
    """PyTorch takes another way with them; a network that was calibrated for one knows both."""
    layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 24, batch_first=True)
    net = seeded(torch.nn.TransformerEncoder(layer, 1), seed).eval()
    x = torch.randn(6, PLACES, WIDTH)
    compiled = on_dpu(net, x)
    compiled(x)
    runs.clear()
    with torch.set_grad_enabled(gradients):
        found = compiled(x)
    assert close(found.detach(), net(x))
    assert found.requires_grad == gradients
    assert runs


class Padded(torch.nn.Module):
    """An encoder that is told which places are none."""

    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(WIDTH, HEADS, 24, batch_first=True)
        self.body, self.last = torch.nn.TransformerEncoder(layer, 1), torch.nn.Linear(WIDTH, 4)

    def forward(self, x, padding):
        return self.last(self.body(x, src_key_padding_mask=padding))


def test_masks_of_infinity_stay_in_pytorch(seed, runs):
    net, x = seeded(Padded(), seed).eval(), torch.randn(6, PLACES, WIDTH)
    padding = torch.zeros(6, PLACES, dtype=torch.bool).index_fill(1, torch.tensor([4]), True)
    found, wanted = on_dpu(net, (x, padding))(x, padding), net(x, padding)
    assert close(found[~padding], wanted[~padding])  # the others are nobody's
    assert runs
