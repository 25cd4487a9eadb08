# SPDX-License-Identifier: Apache-2.0
"""The guide's chapter 2 for PyTorch, block by block as it is printed, on small networks.

Its text is not part of the project: it is read where it lies beside it, and so only what the
printing broke (lines that were wrapped, a comma) is mended here, by name. What the guide leaves to
the reader, a network, data and a training loop, is ours. :mod:`test_pruning` asks the same of the
interface in words of our own.
"""

import itertools
import pathlib
import re
import sys
import types

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[optimizer])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[optimizer])")
pytest.importorskip("torch_pruning", reason="torch-pruning is not installed (opendpu[optimizer])")
pytest.importorskip("optuna", reason="optuna is not installed (opendpu[optimizer])")

from frameworks.torch_fixtures import one_thread as one_thread  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

BEGIN, END = "PyTorch Version - vai_p_pytorch", "vai_p_pytorch APIs"
MENDED = {
    "should have the same shape and dtype as the model\ninput.": "",
    "'calibration_fn' is a\nfunction for": "calibration_fn:",
    "sparse_model =\nsparse": "sparse_model = sparse",
    "cross_entropy_loss(output,\ntarget)": "cross_entropy_loss(output, target)",
    "(train_loader,) eval_fn": "(train_loader,), eval_fn",
}
"""What printing broke, and what it was; the last is a comma that was never there."""
SHORTER = {"num_subnet=1000": "num_subnet=4"}
"""What takes long, for the tests that are always run."""


class Residual(nn.Module):
    """Stands for the guide's ResNets: images of 224 pixels, batch normalization, a sum."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 32, 16, stride=16, bias=False), nn.BatchNorm2d(32)
        self.conv2, self.bn2 = nn.Conv2d(32, 24, 3, padding=1, bias=False), nn.BatchNorm2d(24)
        self.conv3, self.bn3 = nn.Conv2d(24, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32)
        self.fc = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(x + self.bn3(self.conv3(F.relu(self.bn2(self.conv2(x))))))
        return self.fc(x.mean((2, 3)))


class Inverted(nn.Module):
    """Stands for MobileNetV2: 300 million multiply-accumulates, most of them where widths vary."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, 64, 8, stride=8, bias=False)]
        for inputs, outputs in ((64, 480), (480, 480), (480, 64)):
            layers += [nn.BatchNorm2d(inputs), nn.ReLU6(),
                       nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs, bias=False),
                       nn.BatchNorm2d(inputs), nn.ReLU6(),
                       nn.Conv2d(inputs, outputs, 1, bias=False)]  # fmt: skip
        self.features = nn.Sequential(*layers, nn.BatchNorm2d(64), nn.ReLU6())
        self.last, self.classifier = nn.Conv2d(64, 64, 1), nn.Linear(64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.last(self.features(x)).mean((2, 3)))


class AverageMeter:
    """What training scripts for ImageNet have under this name."""

    def __init__(self, name: str, fmt: str) -> None:
        self.sum, self.count = 0.0, 0

    def update(self, value: float, count: int) -> None:
        self.sum, self.count = self.sum + value * count, self.count + count

    @property
    def avg(self) -> float:
        return self.sum / self.count


def accuracy(outputs, targets, topk):
    """Return the percentage of samples whose label is among the best ones."""
    best = outputs.topk(max(topk), 1).indices == targets[:, None]
    return [best[:, :k].any(1).float().sum()[None] * 100 / len(targets) for k in topk]


def macs(model):
    """Count the multiply-accumulates that convolutions make of one image, by their weights."""
    total = 0

    def count(module, arguments, result):
        nonlocal total
        total += result[0].numel() * module.weight[0].numel()

    hooks = [m.register_forward_hook(count) for m in model.modules() if isinstance(m, nn.Conv2d)]
    with torch.no_grad():
        model.eval()(torch.zeros(1, 3, 224, 224))
    for hook in hooks:
        hook.remove()
    return total


def train(loader, model, criterion, optimizer, epoch):
    model.train()
    for images, targets in loader:
        optimizer.zero_grad()
        criterion(model(images), targets).backward()
        optimizer.step()


@pytest.fixture(scope="module")
def blocks():
    root = pathlib.Path(__file__).resolve().parents[3]
    guides = sorted((root.parent / "shared" / "seeds").glob("004_*.txt"))
    if not guides:
        pytest.skip("the guide's text is not there")
    text = guides[0].read_text(encoding="utf-8").replace("\\_", "_")
    chapter = text[text.rindex(f"\n{BEGIN}\n") :]
    chapter = chapter[: chapter.index(f"\n{END}\n")]
    for printed, meant in MENDED.items():
        assert chapter.count(printed) == 1, printed
        chapter = chapter.replace(printed, meant)
    found = re.findall(r"^```\n(.*?)^```$", chapter, re.M | re.S)
    assert len(found) == 22
    return found


@pytest.fixture
def session(blocks, monkeypatch, seed):
    """Return what runs a block of the guide, and the names that it sees."""
    for name, models in (
        ("resnet", {"resnet18": Residual, "resnet50": Residual}),
        ("mobilenet", {"mobilenet_v2": Inverted}),
    ):
        module = types.ModuleType(f"torchvision.models.{name}")
        vars(module).update({k: lambda pretrained, made=v: made() for k, v in models.items()})
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for parent in ("torchvision", "torchvision.models"):
        monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self, non_blocking=False: self)
    images, targets = torch.randn(12, 3, 224, 224), torch.randint(10, (12,))
    loader = [(images[i : i + 6], targets[i : i + 6]) for i in (0, 6)]
    names = {
        "AverageMeter": AverageMeter, "accuracy": accuracy, "args": types.SimpleNamespace(epochs=2),
        "create_your_baseline_model": Residual, "criterion": F.cross_entropy,
        "cross_entropy_loss": F.cross_entropy, "torch": torch, "train": train,
        "train_loader": loader, "val_loader": loader,
    }  # fmt: skip

    def run(word, **given):
        """Run the only block with a word; ``given`` are other names of what is there."""
        (block,) = [text for text in blocks if word in text]
        for printed, meant in names.get("shorter", {}).items():
            block = block.replace(printed, meant)
        names.update({name: names[of] for name, of in given.items()})
        exec(compile(block, word, "exec"), names)

    return run, names


def rising(names):
    """Return an ``evaluate`` whose score rises by one with each call.

    Twelve noisy images may never be recognized, and the guide's loop then saves nothing. So it is
    the last epoch whose network is the best, whatever was learned.
    """
    epochs = itertools.count(1)

    def evaluate(loader, model, criterion):
        assert 0 <= names["eval_fn"](model, loader) <= 100
        return float(next(epochs)), 100.0

    return evaluate


def test_fine_grained(session):
    run, names = session
    run("import resnet50")
    run("pruner = SparsePruner(model, inputs)")
    run("sparse_pruner.sparse_model", sparse_pruner="pruner")
    run("sparse_pruner.export_sparse_model")
    weight = names["model"].conv2.weight.detach().movedim(1, -1).reshape(-1, 4)
    assert ((weight == 0).sum(1) == 2).all()


def retrained(run, names):
    """Train what was pruned, as printed, and return it."""
    names["evaluate"] = rising(names)
    run("best_acc1 = 0")
    return names["model"]


def test_iterative(session):
    run, names = session
    run("import resnet18")
    run("from pytorch_nndct import get_pruning_runner")
    run("runner = get_pruning_runner(model, input_signature, 'iterative')")
    run("def eval_fn")
    run("runner.ana", pruning_runner="runner")
    sparse = retrained(run, names).eval()
    whole, images = macs(Residual()), names["val_loader"][0][0]
    assert macs(sparse) == whole
    with torch.no_grad():
        wanted = sparse(images)
        for word in ("method = 'iterative'", "slim.load_state_dict"):
            run(word)
            small = names["slim_model"].eval()
            assert 0.4 * whole < macs(small) <= 0.81 * whole
            torch.testing.assert_close(small(images), wanted, rtol=1e-4, atol=1e-4)


def one_step(session, shorter):
    run, names = session
    names["shorter"] = shorter
    run("import resnet18")
    run("from pytorch_nndct import get_pruning_runner")
    run("runner = get_pruning_runner(model, input_signature, 'one_step')")
    run("def eval_fn")
    run("def calibration_fn")
    run("runner.search")
    slim = names["model"]
    retrained(run, names)
    assert sum(p.numel() for p in slim.parameters()) < 0.5 * sum(
        p.numel() for p in Residual().parameters()
    )


def test_one_step(session):
    one_step(session, SHORTER)


@pytest.mark.slow
def test_one_step_with_a_thousand_networks(session):
    one_step(session, {})


def once_for_all(run, names):
    run("import mobilenet_v2")
    run("from pytorch_nndct import OFAPruner")
    run("ofa_pruner.ofa_model", ofa_pruner="pruner")
    ofa_model = names["ofa_model"]
    names |= {
        "teacher_model": names["model"], "optimizer": torch.optim.SGD(ofa_model.parameters(), 1e-3),
        "kd_loss": lambda found, soft: F.mse_loss(found, soft),
    }  # fmt: skip
    names["lr_scheduler"] = torch.optim.lr_scheduler.ConstantLR(names["optimizer"])
    before = {name: value.clone() for name, value in ofa_model.state_dict().items()}
    run("for arch_id in range(4)")
    after = ofa_model.state_dict()
    trained = [name for name, _ in ofa_model.named_parameters() if before[name].ndim == 4]
    assert all(not torch.equal(before[name], after[name]) for name in trained)


def test_once_for_all(session):
    run, names = session
    names["train_loader"] = names["train_loader"][:1]
    once_for_all(run, names)


@pytest.mark.slow
def test_once_for_all_with_its_search(session):
    run, names = session
    names["train_loader"] = names["val_loader"] = names["train_loader"][:1]
    once_for_all(run, names)
    run("def eval_fn")
    run("def calibration_fn")
    run("run_evolutionary_search")
    found = names["pareto_global"]
    assert found.keys() <= {"230", "240"}
    keys = {"net_id", "mode", "acc1", "macs", "params", "subnet_setting"}
    assert all(set(entry) == keys for entry in found.values())
    run("get_static_subnet")
    assert 230 <= names["flops"] <= 250
    images = names["val_loader"][0][0]
    assert names["static_subnet"].eval()(images).shape == (6, 10)
