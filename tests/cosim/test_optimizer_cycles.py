# SPDX-License-Identifier: Apache-2.0
"""Pruning for cycles: what the search counts is what the slim network takes; and the command.

Needs a C++ compiler, no Verilator.
"""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[optimizer])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[optimizer])")
pytest.importorskip("torch_pruning", reason="torch-pruning is not installed (opendpu[optimizer])")
pytest.importorskip("optuna", reason="optuna is not installed (opendpu[optimizer])")

from frameworks.torch_fixtures import one_thread as one_thread  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

import xir  # noqa: E402
from opendpu.cli.app import app  # noqa: E402
from opendpu.frontend.pytorch import load_torch  # noqa: E402
from opendpu.optimize import Analysis, Pruner  # noqa: E402
from opendpu.optimize.measure import measure  # noqa: E402
from opendpu.pruning.analysis import tasks_of  # noqa: E402
from opendpu_arch.target import Target  # noqa: E402

pytestmark = pytest.mark.cosim

B64 = Target.from_name("B64")


class Net(nn.Module):
    """A residual block, a depthwise convolution and a flatten."""

    def __init__(self):
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.conv1, self.conv2 = nn.Conv2d(16, 24, 3, padding=1), nn.Conv2d(24, 16, 1)
        self.depthwise = nn.Conv2d(16, 16, 3, 2, 1, groups=16)
        self.fc = nn.Linear(16 * 16, 5)

    def forward(self, x):
        x = F.relu(self.bn(self.stem(x)))
        x = F.relu(x + self.conv2(F.relu(self.conv1(x))))
        return self.fc(torch.flatten(F.relu(self.depthwise(x)), 1))


@pytest.fixture
def pruner():
    torch.manual_seed(3)
    return Pruner(Net().eval(), torch.randn(1, 3, 8, 8), objective="cycles", target=B64)


def test_cycles_are_those_of_the_slim_network(pruner):
    whole = measure(load_torch(pruner.model, pruner.inputs), B64).cycles
    assert pruner.objective.exact({}) == whole
    for widths in ({"stem": 8, "conv1": 12}, {"conv1": 7}, {"stem": 3}):
        slim = pruner.apply(pruner.plan_of(widths), "slim")
        estimate = pruner.objective.cost({"stem": 16, "conv1": 24, **widths})
        exact = pruner.objective.exact({"stem": 16, "conv1": 24, **widths})
        assert exact == measure(load_torch(slim, pruner.inputs), B64).cycles
        assert exact < whole
        assert abs(estimate - exact) < 0.35 * exact, "a bad guide for a search"
    cycles = pruner.objective
    assert cycles.compiled_layers <= 4 * len(cycles.shapes.layers)


def test_a_ratio_of_cycles_holds(pruner):
    scores = {}
    for name, count in tasks_of(pruner.dependencies):
        scores.setdefault(name, {})[count] = 1 - count / 100
    analysis = Analysis(pruner.fingerprint, 1.0, scores)
    whole = pruner.objective.exact({})
    for ratio in (0.2, 0.5):
        plan = pruner.plan(analysis, ratio)
        slim = pruner.apply(plan, "slim")
        cycles = measure(load_torch(slim, pruner.inputs), B64).cycles
        assert cycles <= 1.01 * (1 - ratio) * whole
        for module in (slim.stem, slim.conv1):
            assert module.out_channels % B64.channel_parallel == 0


class Dense(nn.Module):
    """Most multiplications are in convolutions, most bytes of weights behind them."""

    def __init__(self):
        super().__init__()
        self.near, self.far = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, 2, 1)
        self.hidden, self.fc = nn.Linear(16 * 16, 256), nn.Linear(256, 5)

    def forward(self, x):
        x = F.relu(self.far(F.relu(self.near(x))))
        return self.fc(F.relu(self.hidden(torch.flatten(x, 1))))


@pytest.mark.slow
def test_for_the_same_loss_pruning_for_cycles_takes_fewer():
    """Whatever a group loses, by an analysis that takes all groups for equally dear."""
    torch.manual_seed(3)
    model, x = Dense().eval(), torch.randn(1, 3, 8, 8)
    by_macs = Pruner(model, x, objective="macs", divisible=2)
    by_cycles = Pruner(model, x, objective="cycles", target=B64)
    groups = by_macs.dependencies.groups
    scores = {name: {} for name in groups}
    for name, count in tasks_of(by_macs.dependencies):
        scores[name][count] = 1 - count / groups[name].units
    analysis = Analysis(by_macs.fingerprint, 1.0, scores)

    def lost(widths):
        return sum(analysis.loss(name, groups[name].units - widths[name]) for name in groups)

    macs = by_macs.widths(by_macs.plan(analysis, 0.5))
    cycles = by_cycles.widths(by_cycles.plan(analysis, 0.6))
    assert lost(cycles) <= lost(macs) + 1e-9
    assert by_cycles.objective.exact(cycles) <= 0.85 * by_cycles.objective.exact(macs)


MODEL = """
import torch
from torch import nn


def net():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 4),
    )


nothing = 3
"""


@pytest.fixture
def files(tmp_path, monkeypatch, rng):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(MODEL, encoding="utf-8")
    y = np.arange(120) % 4
    x = rng.normal(size=(120, 1, 8, 8)).astype(np.float32) * 0.1
    for i, label in enumerate(y):  # a bright quarter
        row, column = 4 * (label // 2), 4 * (label % 2)
        x[i, :, row : row + 4, column : column + 4] += 1 + np.linspace(0, label, 16).reshape(4, 4)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, ["optimize", *map(str, arguments)])


def test_the_command_trains_cuts_and_quantizes(files):
    found = run(
        "net.py:net", "--data", "data.npz", "--target", "B64", "--ratio", "0.5", "-o", "out.xmodel",
        "--report", "out.html", "--state", "slim.pth", "--epochs", 2, "--tune-epochs", 1,
        "--analysis-epochs", 1, "--json",
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    told = json.loads(found.stdout)
    first, *_, last = told["steps"]
    assert last["cycles"] <= 0.505 * first["cycles"] and last["macs"] < first["macs"]
    state = torch.load("slim.pth")
    assert sum(v.numel() for v in state.values()) < 5000
    assert [state["0.weight"].shape[0], state["3.weight"].shape[0]] == [
        told["channels"]["0"][1], told["channels"]["3"][1],
    ]  # fmt: skip
    assert xir.Graph.deserialize("out.xmodel").get_ops()
    page = (files / "out.html").read_text(encoding="utf-8")
    for text in ("Accuracy against cost", "What was cut", "Sensitivity", "multiplies zeros as"):
        assert text in page
    assert page.count("<svg") == 2 + len(told["channels"])


@pytest.mark.parametrize(
    ("model", "options", "text"),
    [
        ("net.py", {}, "'net.py' names no network: write MODEL.py:NAME"),
        ("no.py:net", {}, "no.py: no such file"),
        ("net.py:other", {}, "net.py has no 'other'"),
        ("net.py:nothing", {}, "net.py:nothing: TypeError: 'int' object is not callable"),
        ("net.py:net", {"--data": "net.py"}, "net.py is no .npz file"),
        ("net.py:net", {"--ratio": "1.5"}, "ratio is 1.5, but must be between 0 and 1"),
        ("net.py:net", {"--objective": "flops"}, "objective is 'flops', but must be one of"),
        ("net.py:net", {"--weights": "net.py"}, "net.py is no state of net: "),
        ("net.py:net", {"-o": "out.pth"}, "out.pth ends in '.pth', but a quantized model is"),
        ("net.py:net", {"--exclude": "9"}, "excludes has '9', which is no module of Sequential"),
    ],
)
def test_the_command_says_what_is_wrong(files, model, options, text):
    given = {"--data": "data.npz", "--target": "B64", "--ratio": "0.5", "-o": "out.xmodel",
             "--epochs": "0", **options}  # fmt: skip
    found = run(model, *(part for pair in given.items() for part in pair))
    assert found.exit_code == 1
    assert text in " ".join(found.output.split())
    assert not (files / "out.xmodel").exists()


def test_data_that_does_not_fit_is_refused(files):
    np.savez("data.npz", x=np.zeros((40, 3, 8, 8)), y=np.zeros(40, int))
    found = run("net.py:net", "--data", "data.npz", "--target", "B64", "--ratio", 0.5,
                "-o", "out.xmodel")  # fmt: skip
    assert "cannot be called with a sample of shape (1, 3, 8, 8): " in " ".join(
        found.output.split()
    )
    np.savez("data.npz", images=np.zeros(3))
    found = run("net.py:net", "--data", "data.npz", "--target", "B64", "--ratio", 0.5,
                "-o", "out.xmodel")  # fmt: skip
    assert "data.npz has images, but must have x and y, or x_train" in " ".join(
        found.output.split()
    )
