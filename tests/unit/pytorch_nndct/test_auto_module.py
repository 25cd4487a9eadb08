# SPDX-License-Identifier: Apache-2.0
"""Functions made modules before training, as AMD's examples do; what else their scripts call."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[torch])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[torch])")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from nndct_shared.utils import NndctOption  # noqa: E402
from nndct_shared.utils.option_util import get_option_value  # noqa: E402
from pytorch_nndct import QatProcessor  # noqa: E402
from pytorch_nndct.messages import VAIQError  # noqa: E402
from pytorch_nndct.nn.modules import functional  # noqa: E402
from pytorch_nndct.nn.modules.quant_stubs import DeQuantStub, QuantStub  # noqa: E402
from pytorch_nndct.quantization.auto_module import wrap  # noqa: E402


class Functions(nn.Module):
    """Additions, activations, pools and joins as functions, between stubs."""

    def __init__(self):
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.stem, self.bn = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.left, self.right = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        self.fc = nn.Linear(16, 3)
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = None

    def forward(self, x):
        x = torch.relu(self.bn(self.stem(self.quant(x))))
        x = F.max_pool2d(F.relu(self.left(x) + x), 2, stride=2)
        x = torch.cat([x, F.leaky_relu(self.right(x), 0.1).relu()], dim=1)
        return self.dequant(self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1)))

    def loss(self, groups):
        self.optimizer = torch.optim.SGD(groups, 1e-3)

    def count(self, found, wanted):
        value = self.criterion(found, wanted)
        self.optimizer.zero_grad()
        value.backward()
        self.optimizer.step()
        return value


def test_what_was_functions_is_modules_that_give_the_same(seed):
    model, x = Functions().eval(), torch.randn(4, 3, 8, 8)
    made = wrap(model, x)
    kinds = [type(module) for module in made.modules()]
    for kind, count in ((nn.ReLU, 3), (functional.Add, 1), (functional.Cat, 1), (nn.MaxPool2d, 1),
                        (nn.LeakyReLU, 1), (nn.AdaptiveAvgPool2d, 1), (QuantStub, 1)):  # fmt: skip
        assert kinds.count(kind) == count, kind
    (leaky,) = [module for module in made.modules() if isinstance(module, nn.LeakyReLU)]
    assert leaky.negative_slope == 0.1
    with torch.no_grad():
        assert torch.equal(made(x), model(x))
    assert made.state_dict().keys() == model.state_dict().keys() and not made.training
    assert wrap(Functions().train(), x).training


def test_it_is_trained_and_deployed(seed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = torch.randn(4, 3, 8, 8)
    with pytest.raises(VAIQError, match=r"torch.relu .* is to be quantized, but is no torch.nn"):
        QatProcessor(Functions(), x).trainable_model()
    processor = QatProcessor(wrap(Functions(), x), x)
    trained = processor.trainable_model(allow_reused_module=True)
    optimizer = torch.optim.Adam(trained.parameters(), 1e-3)
    trained.train()
    F.cross_entropy(trained(x), torch.arange(4) % 3).backward()
    optimizer.step()
    processor.to_deployable(trained, "result")
    deployed = processor.deployable_model("result", used_for_xmodel=True)
    deployed(x[:1])
    processor.export_xmodel("result")
    assert list(tmp_path.glob("result/*_int.xmodel"))


def test_functions_without_a_module_stay(seed):
    class Scaled(nn.Module):
        def forward(self, x):
            return torch.flip(2 * x + 1, [1])

    x = torch.randn(2, 3)
    made = wrap(Scaled(), x)
    assert torch.equal(made(x), torch.flip(2 * x + 1, [1])) and len(list(made.modules())) == 1


def test_what_cannot_be_traced_is_said():
    class Depends(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(VAIQError, match="Depends cannot be traced, so that its functions stay"):
        wrap(Depends(), torch.ones(1))


def test_the_trained_model_has_what_the_float_one_has(seed):
    """Scripts call methods of their own class, which keep an optimizer and a loss."""
    x = torch.randn(4, 3, 8, 8)
    model = wrap(Functions(), x)
    with pytest.raises(AttributeError, match="has no attribute 'loss'"):
        model.loss  # noqa: B018 - fx keeps modules, not methods

    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.conv, self.dequant = QuantStub(), nn.Conv2d(3, 4, 1), DeQuantStub()
            self.criterion, self.optimizer = nn.MSELoss(), None

        forward = lambda self, x: self.dequant(self.conv(self.quant(x)))  # noqa: E731
        loss, count = Functions.loss, Functions.count

    trained = QatProcessor(Own(), x).trainable_model()
    groups = [{"params": trained.quantizer_parameters()},
              {"params": trained.non_quantizer_parameters()}]  # fmt: skip
    trained.loss(groups)
    before = trained.conv.weight.clone() if hasattr(trained.conv, "weight") else None
    value = trained.count(trained.train()(x), torch.zeros(4, 4, 8, 8))
    assert value > 0 and isinstance(trained.criterion, nn.MSELoss)
    after = next(p for p in trained.non_quantizer_parameters() if p.dim() == 4)
    assert before is None or not torch.equal(before, after)
    with pytest.raises(AttributeError, match="'TrainableModel' object has no attribute 'losses'"):
        trained.losses  # noqa: B018


def test_options_are_set_by_attribute(monkeypatch):
    monkeypatch.setattr("nndct_shared.utils.option_util._VALUES", {})
    assert NndctOption.nndct_diffs_mode.value == "mse"
    NndctOption.nndct_diffs_mode.value = "maxmin"
    assert NndctOption.nndct_diffs_mode.value == get_option_value("nndct_diffs_mode") == "maxmin"
