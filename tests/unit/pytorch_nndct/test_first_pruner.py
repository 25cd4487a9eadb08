# SPDX-License-Identifier: Apache-2.0
"""The pruner of Vitis AI 1: two rounds, its files, its summary and its program."""

import importlib.util

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[optimizer])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[optimizer])")
pytest.importorskip("torch_pruning", reason="torch-pruning is not installed (opendpu[optimizer])")
pytest.importorskip("optuna", reason="optuna is not installed (opendpu[optimizer])")

from frameworks.torch_fixtures import one_thread as one_thread  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from opendpu_arch.errors import DPUError  # noqa: E402
from pytorch_nndct import InputSpec, Pruner  # noqa: E402
from pytorch_nndct.utils import slim  # noqa: E402


class Net(nn.Module):
    """A residual block in a list, a parameter of its own, and functions."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.blocks = nn.ModuleList([
            nn.Sequential(nn.Conv2d(8, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)),
            nn.Sequential(nn.Conv2d(16, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)),
        ])  # fmt: skip
        self.scale = nn.Parameter(torch.ones(1, 1, 1, 1))
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        x = self.stem(x)
        y = self.blocks[1](F.relu(self.blocks[0](x)))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(F.relu(x + y) * self.scale, 1), 1))


class Branches(Net):
    """Python decides by a value, so that torch.fx cannot trace it."""

    def forward(self, x):
        x = super().forward(x)
        return x * 2 if len(list(x.shape)) == int(x.sum() * 0 + 2) else x


@pytest.fixture
def data(seed):
    x = torch.randn(32, 3, 8, 8)
    return x, x.mean((2, 3)).argmax(1)


def score(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


SPEC = InputSpec(shape=(3, 8, 8), dtype=torch.float32)


def test_two_rounds(data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(1)
    model = Net().eval()
    pruner = Pruner(model, SPEC)
    pruner.ana(score, args=data, gpus=[0, 1])
    pruned = pruner.prune(ratio=0.3)
    pruner.summary(pruned)
    shown = capsys.readouterr().out
    assert "blocks.0.0" in shown
    less = float(shown.rsplit("(", 1)[1].split("%")[0])
    assert 20 < less < 50
    optimizer = torch.optim.SGD(pruned.parameters(), 0.1)
    F.cross_entropy(pruned(data[0]), data[1]).backward()
    optimizer.step()
    pruned.eval()
    pruned.save("sparse.pth")
    assert any(int((t == 0).sum()) for t in torch.load("sparse.pth").values() if t.ndim == 4)
    thin = slim.load_state_dict(Net(), pruned.pruned_state_dict()).eval()
    torch.testing.assert_close(thin(data[0]), pruned(data[0]))

    again = Net().eval()
    again.load_state_dict(torch.load("sparse.pth"))
    smaller = Pruner(again, SPEC).prune(ratio=0.5)  # by the analysis of the first round
    count = [sum(t.numel() for t in m.pruned_state_dict().values()) for m in (pruned, smaller)]
    assert count[1] < count[0]


def test_a_program_makes_the_slim_network(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(2)
    model = Net().eval()
    pruner = Pruner(model, torch.randn(2, 3, 8, 8))
    pruner.ana(score, args=data)
    pruned = pruner.prune(ratio=0.4, output_script="defs/pruned_0.py").eval()
    found = importlib.util.spec_from_file_location("pruned_0", "defs/pruned_0.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    made = module.Net().eval()
    made.load_state_dict(pruned.pruned_state_dict())
    torch.testing.assert_close(made(data[0]), pruned(data[0]))


def test_a_network_that_is_no_program(data, tmp_path, monkeypatch):
    from pytorch_nndct.pruning.script import rebuilding_script

    with pytest.raises(DPUError, match="output_script: Branches cannot be written as a program"):
        rebuilding_script(Branches())


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (lambda: InputSpec(shape=224), "shape"),
        (lambda: InputSpec(shape=(3, 0)), "shape"),
        (lambda: InputSpec((3, 8, 8), dtype="float32"), "dtype"),
        (lambda: Pruner(Net(), (3, 8, 8)), "input_specs"),
        (lambda: Pruner(Net(), SPEC).summary(Net()), "pruned_model"),
    ],
)
def test_what_is_refused(given, text):
    with pytest.raises(DPUError, match=text):
        given()
