# SPDX-License-Identifier: Apache-2.0
"""Candidates that are trained a little, the better half longer: rounds, files, interruptions."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[optimizer])")
pytest.importorskip("torch_pruning", reason="torch-pruning is not installed (opendpu[optimizer])")

from prunable_nets import Residual, settled  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from opendpu.cli.app import app  # noqa: E402
from opendpu.optimize import Pruner  # noqa: E402
from opendpu.optimize.halving import Candidates, source_of  # noqa: E402
from opendpu_arch.errors import ModelFormatError, UnsupportedError  # noqa: E402

RATIO, COUNT = 0.4, 4


@pytest.fixture
def pruner(seed):
    return Pruner(settled(Residual(24)), torch.randn(Residual.size))


@pytest.fixture
def analysis(pruner):
    return pruner.analyze(small)


def small(model):
    """Return a score that any channel without weights raises."""
    with torch.no_grad():
        return -float(sum(p.abs().sum() for p in model.parameters()))


def width_of(model):
    return model.stem.out_channels


def drawn(model):
    """Return a score that a seed decides."""
    return float(torch.rand(()))


class Tuned:
    """Remembers what it trained and how long; what it does to a network is seen by its score."""

    def __init__(self):
        self.calls = []

    def __call__(self, model, effort, more):
        assert more == "more"
        self.calls.append((width_of(model), effort))
        with torch.no_grad():
            model.fc.bias.fill_(effort)


def score(model):
    """Return the best for the narrowest stem; networks that were trained longer are better."""
    return float(model.fc.bias[0].detach()) - width_of(model)


def chosen(pruner, analysis, tune=None, evaluate=score, **options):
    return pruner.choose(
        analysis, RATIO, evaluate, tune=tune or Tuned(), tune_args=("more",), count=COUNT, **options
    )


def test_the_better_half_is_trained_longer(pruner, analysis):
    before = {name: value.clone() for name, value in pruner.model.state_dict().items()}
    tune, told = Tuned(), []
    found = chosen(pruner, analysis, tune, show=told.append)
    assert len(found.widths) == COUNT
    assert [effort for _, effort in tune.calls] == [1] * 4 + [2] * 2
    assert [len(known) for known in found.scores].count(2) == 2
    stems = [one["stem"] for one in found.widths]
    assert stems[found.best] == min(stems)
    assert found.scores[found.best] == {1: 1 - min(stems), 2: 2 - min(stems)}
    assert told[-1] == "trying candidates: 2 of 2, trained 2 times as long"
    plan = pruner.plan_of(found.widths[found.best], RATIO)
    assert pruner.objective.exact(pruner.widths(plan)) <= 0.61 * pruner.objective.exact({})
    for name, value in pruner.model.state_dict().items():
        assert torch.equal(value, before[name]), "the network itself was trained"


@pytest.mark.slow
def test_processes_have_the_same_result(pruner, analysis):
    one = chosen(pruner, analysis, evaluate=drawn, seed=4)
    assert chosen(pruner, analysis, evaluate=drawn, seed=4, workers=2) == one
    assert chosen(pruner, analysis, evaluate=drawn, seed=5) != one


def test_an_interrupted_search_goes_on(pruner, analysis, tmp_path):
    path, calls = tmp_path / "deep" / "candidates.json", []

    def stopping(model):
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return score(model)

    with pytest.raises(KeyboardInterrupt):
        chosen(pruner, analysis, evaluate=stopping, save=lambda known: known.save(path))
    tune = Tuned()
    found = chosen(pruner, analysis, tune, known=Candidates.load(path))
    assert [effort for _, effort in tune.calls] == [2]
    assert found == chosen(pruner, analysis)


def test_what_is_known_of_another_network_does_not_count(pruner, analysis):
    known = chosen(pruner, analysis)
    with torch.no_grad():
        pruner.model.fc.weight.add_(1)
    tune = Tuned()
    assert chosen(pruner, analysis, tune, known=known).source != known.source
    assert len(tune.calls) == 6
    assert source_of(pruner.model, 1) != source_of(pruner.model, 2)


def test_bad_files_and_functions(pruner, analysis, tmp_path):
    with pytest.raises(ModelFormatError, match=r"none.json cannot be read: No such file"):
        Candidates.load(tmp_path / "none.json")
    path = tmp_path / "some.json"
    chosen(pruner, analysis).save(path)
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "scores": []}))
    with pytest.raises(ModelFormatError, match="holds no candidates"):
        Candidates.load(path)

    def failing(model, effort, more):
        raise ValueError("no data")

    with pytest.raises(UnsupportedError, match="failing failed: ValueError: no data"):
        chosen(pruner, analysis, failing)


@pytest.mark.slow
def test_the_command_tries_candidates_and_goes_on(tmp_path, seed):
    """A second run with a folder trains no candidate again, and ends with the same network.

    Processes have the user's functions from a folder that nobody else looks for modules in.
    """
    noise = np.random.default_rng(seed)
    y = noise.integers(0, 3, 120)
    x = noise.standard_normal((120, 3, 8, 8)).astype(np.float32) + y[:, None, None, None]
    np.savez(tmp_path / "data.npz", x=x, y=y)
    (tmp_path / "net.py").write_text(
        "from torch import nn\n"
        "def net():\n"
        "    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(),\n"
        "        nn.Conv2d(16, 24, 3), nn.BatchNorm2d(24), nn.ReLU(), nn.AdaptiveAvgPool2d(1),\n"
        "        nn.Flatten(), nn.Linear(24, 3))\n"
    )

    def run(name, *options):
        result = CliRunner().invoke(
            app, ["optimize", f"{tmp_path}/net.py:net", "--data", f"{tmp_path}/data.npz",
                  "--target", "B512", "--ratio", "0.4", "--epochs", "1", "--tune-epochs", "1",
                  "--rounds", "1", "--objective", "macs", "--candidates", "4", "--json",
                  "--keep", f"{tmp_path}/kept", "--report", f"{tmp_path}/page.html",
                  "-o", f"{tmp_path}/{name}.xmodel", *options],
        )  # fmt: skip
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout.splitlines()[-1])

    first = run("first", "--workers", "2")
    files = {path: path.read_text() for path in (tmp_path / "kept").rglob("*.json")}
    assert sorted(path.name for path in files) == ["analysis.json", "candidates_0.4.json"]
    (kept,) = [path for path in files if path.name.startswith("candidates")]
    content = json.loads(files[kept])
    content["scores"] = [{"1": 0.0, "2": float(i)} for i, _ in enumerate(content["scores"])]
    kept.write_text(json.dumps(content))
    last = run("last")
    wanted = content["widths"][-1]
    told = last["candidates"]["40% of macs"]
    assert told["taken"] == len(content["widths"]) - 1 and told["widths"] == content["widths"]
    assert "trained 2x" in (page := (tmp_path / "page.html").read_text())
    assert f"{len(content['widths'])}, taken" in page
    assert {name: after for name, (_, after) in last["channels"].items()} == wanted
    assert json.loads(kept.read_text()) == content, "candidates were trained again"
    kept.write_text(files[kept])
    assert run("again") == first
