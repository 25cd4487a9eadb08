# SPDX-License-Identifier: Apache-2.0
"""Analysis, widths for a cost, search: results, files, interruptions, errors."""

import json
import os
import pathlib

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[optimizer])")
pytest.importorskip("torch_pruning", reason="torch-pruning is not installed (opendpu[optimizer])")
pytest.importorskip("optuna", reason="optuna is not installed (opendpu[optimizer])")

from prunable_nets import Plain, Residual, settled  # noqa: E402
from torch import nn  # noqa: E402

from opendpu.optimize import Analysis, Plan, Pruner, Subnets  # noqa: E402
from opendpu.optimize.adaptive import normalizations  # noqa: E402
from opendpu.optimize.importance import least_important  # noqa: E402
from opendpu.optimize.objective import objective_of  # noqa: E402
from opendpu.pruning.analysis import tasks_of  # noqa: E402
from opendpu.pruning.objective import levels  # noqa: E402
from opendpu.pruning.structure import Group  # noqa: E402
from opendpu_arch.errors import ModelFormatError, ToolError, UnsupportedError  # noqa: E402
from opendpu_arch.target import Target  # noqa: E402

B512 = Target.from_name("B512")


def likeness(model, x, wanted):
    """Return a score: how close results are to those of the unpruned network."""
    with torch.no_grad():
        return -float((model(x) - wanted).square().mean())


@pytest.fixture
def pruner(seed):
    return Pruner(settled(Residual()), torch.randn(Residual.size))


@pytest.fixture
def data(pruner):
    x = torch.randn(8, 3, 8, 8)
    with torch.no_grad():
        return x, pruner.model(x)


def test_an_analysis_scores_every_group_and_width(pruner, data):
    found = pruner.analyze(likeness, data)
    assert found.baseline == 0
    tasks = tasks_of(pruner.dependencies)
    assert {(n, c) for n, known in found.scores.items() for c in known} == set(tasks)
    assert all(score <= 0 for known in found.scores.values() for score in known.values())
    assert all(min(known.values()) < 0 for known in found.scores.values())
    name, count = tasks[3]
    widths = {name: pruner.dependencies.groups[name].units - count}
    sparse = pruner.apply(pruner.plan_of(widths))
    assert found.scores[name][count] == pytest.approx(likeness(sparse, *data), rel=1e-5)


def noisy(model, x, wanted):
    return likeness(model, x, wanted) + float(torch.rand(()))


@pytest.mark.slow
def test_processes_and_one_after_the_other_have_the_same_result(pruner, data):
    one = pruner.analyze(noisy, data, seed=5)
    assert pruner.analyze(noisy, data, seed=5, workers=2) == one
    assert pruner.analyze(noisy, data, seed=6) != one


@pytest.mark.slow
def test_a_ray_cluster_has_the_same_result(pruner, data, monkeypatch):
    ray = pytest.importorskip("ray", reason="Ray is not installed (opendpu[ray])")
    folder = str(pathlib.Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")]))
    ray.init(include_dashboard=False, log_to_driver=False, num_cpus=2)

    def noisy(model, x, wanted):
        with torch.no_grad():
            return -float((model(x) - wanted).square().mean()) + float(torch.rand(()))

    def failing(model, x, wanted):
        raise ValueError("no data")

    try:
        assert pruner.analyze(noisy, data, seed=5, ray="local") == pruner.analyze(
            noisy, data, seed=5
        )
        with pytest.raises(UnsupportedError, match="failing failed: ValueError: no data"):
            pruner.analyze(failing, data, ray="local")
    finally:
        ray.shutdown()
    with pytest.raises(ToolError, match="there is no Ray cluster at 'auto'"):
        pruner.analyze(noisy, data, ray="auto")


def test_candidates_are_trained_a_little(pruner, data):
    parameters = []

    def tune(model, x, wanted):
        parameters.append(sum(p.numel() for p in model.parameters()))
        with torch.no_grad():  # a training that forgets everything can be told apart
            model.fc.weight.zero_()
            model.fc.bias.fill_(2)

    tuned = pruner.analyze(likeness, data, tune=tune, tune_args=data)
    tasks = tasks_of(pruner.dependencies)
    whole = sum(p.numel() for p in pruner.model.parameters())
    assert len(parameters) == 1 + len(tasks)
    assert parameters[0] == whole and all(count < whole for count in parameters[1:])
    score = -float((2 - data[1]).square().mean())
    assert tuned.baseline == pytest.approx(score, rel=1e-5)
    assert {(n, c) for n, known in tuned.scores.items() for c in known} == set(tasks)
    for known in tuned.scores.values():
        assert all(found == pytest.approx(score, rel=1e-5) for found in known.values())
    with torch.no_grad():
        assert torch.equal(pruner.model(data[0]), data[1]), "the network itself was trained"

    def failing(model):
        raise ValueError("no data")

    with pytest.raises(UnsupportedError, match="failing failed: ValueError: no data"):
        pruner.analyze(likeness, data, tune=failing)


def test_an_interrupted_analysis_goes_on(pruner, data, tmp_path):
    path, calls = tmp_path / "deep" / "net.sens", []

    def stopping(model, *args):
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return likeness(model, *args)

    with pytest.raises(KeyboardInterrupt):
        pruner.analyze(stopping, data, save=lambda a: a.save(path))
    kept = Analysis.load(path, pruner.fingerprint)
    with pytest.raises(
        UnsupportedError, match=r"INVALID_ANA_RESULT_ERROR\] the analysis says noth"
    ):
        pruner.plan(kept, 0.5)
    calls.clear()
    calls.extend([1] * 100)
    whole = pruner.analyze(stopping, data, analysis=kept)
    assert len(calls) == 100 + 1 + len(tasks_of(pruner.dependencies)) - 7
    assert whole == pruner.analyze(likeness, data)


def test_losses_are_interpolated_and_never_fall():
    analysis = Analysis("", 10.0, {"a": {2: 9.0, 4: 9.5, 6: 4.0}})
    found = [analysis.loss("a", n) for n in (0, 1, 2, 3, 4, 5, 6, 7)]
    assert found == [0, 0.5, 1, 1, 1, 3.5, 6, 8.5]


@pytest.mark.parametrize("objective", ["macs", "params"])
@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.8])
def test_widths_cost_what_was_asked_for(seed, objective, ratio):
    model, x = settled(Residual(16)), torch.randn(Residual.size)
    pruner = Pruner(model, x, objective=objective)
    shown = torch.randn(4, 3, 8, 8)
    with torch.no_grad():
        analysis = pruner.analyze(likeness, (shown, model(shown)))
    plan = pruner.plan(analysis, ratio)
    small = pruner.apply(plan, "slim")
    fresh = Pruner(small, x, objective=objective)
    before, after = pruner.objective.exact({}), fresh.objective.exact({})
    assert 0.6 * (1 - ratio) * before <= after <= 1.011 * (1 - ratio) * before
    assert after == pruner.objective.exact(pruner.widths(plan))


def test_a_threshold_bounds_the_loss_of_single_groups(pruner):
    names = list(pruner.dependencies.groups)
    units = {n: g.units for n, g in pruner.dependencies.groups.items()}
    scores = {n: {c: 1 - c / units[n] * (0.1 if n == "stem" else 1.0) for c in range(1, units[n])}
              for n in names}  # fmt: skip
    plan = pruner.plan(Analysis(pruner.fingerprint, 1.0, scores), threshold=0.25)
    widths = pruner.widths(plan)
    assert widths["stem"] == 1
    assert widths["conv1"] == 12


def test_channels_that_are_zero_go_first(pruner):
    removed = {"conv1": [3, 7, 11], "stem": [2]}
    sparse = pruner.apply(Plan(pruner.fingerprint, removed))
    again = Pruner(sparse, pruner.inputs)
    assert least_important(sparse, again.dependencies, {"conv1": 13, "stem": 7}) == removed
    more = least_important(sparse, again.dependencies, {"conv1": 10})["conv1"]
    assert set(removed["conv1"]) < set(more)


def test_levels_are_what_a_target_fills():
    group = Group("conv", 48, 1, ())
    assert levels(group, [0.1, 0.5], 1) == [5, 24, 48]
    assert levels(group, [0.1, 0.5], 8) == [8, 24, 48]
    assert levels(group, [0.0, 0.1, 0.5], 1, Target.from_name("B4096")) == [16, 32, 48]
    assert levels(Group("conv", 12, 1, ()), [0.1, 0.5], 1, B512) == [2, 6, 12]  # less than 2 blocks
    assert levels(Group("conv", 8, 8, ()), [0.3], 1, B512) == [3, 8]  # units of 8 channels


def calibrate(model, x):
    model.train()
    with torch.no_grad():
        model(x)


def negative(model, x, wanted):
    return likeness(model.eval(), x, wanted)


def test_a_search_finds_networks_of_one_cost(pruner, data, tmp_path):
    path = tmp_path / "net.search"
    found = pruner.search(
        0.5, calibrate=calibrate, calibration_args=data[:1], evaluate=negative,
        evaluation_args=data, subnets=6, seed=3, save=lambda s: s.save(path),
    )  # fmt: skip
    whole = pruner.objective.exact({})
    assert len(found.scores) == 6
    assert all(0.3 * whole < cost <= 0.505 * whole for cost in found.costs)
    assert found.scores[found.best] == max(found.scores)
    assert Subnets.load(path, pruner.fingerprint) == found
    again = pruner.search(
        0.5, calibrate=calibrate, calibration_args=data[:1], evaluate=negative,
        evaluation_args=data, subnets=6, seed=3,
    )  # fmt: skip
    assert again == found
    small = pruner.apply(found.plan(), "slim")
    calibrating = normalizations(small)
    assert [bn.momentum for bn in calibrating] == [0.1] * 3
    with pytest.raises(UnsupportedError, match=r"SUBNET_ERROR\] index is 6, but subnets 0 to 5"):
        found.plan(6)


def test_wrong_arguments_are_refused(pruner, data):
    analysis = pruner.analyze(likeness, data)
    code = r"^\[OPTIMIZER_INVALID_ARGUMENT_ERROR\] "
    for ratio in (0, 1, -0.1, 1.5, True, "0.5"):
        with pytest.raises(UnsupportedError, match=code + "removal_ratio is .* between 0 and 1"):
            pruner.plan(analysis, ratio)
    with pytest.raises(UnsupportedError, match=code + "threshold is 2, but must be between 0 and"):
        pruner.plan(analysis, threshold=2)
    with pytest.raises(UnsupportedError, match=code + "say how much is to be pruned: removal_rat"):
        pruner.plan(analysis)
    with pytest.raises(UnsupportedError, match=code + r"0\.999 of the macs cannot go: with every"):
        pruner.plan(analysis, 0.999)
    with pytest.raises(
        UnsupportedError, match=code + "mode is 'dense', but must be one of sparse, slim"
    ):
        pruner.apply(Plan(pruner.fingerprint, {}), "dense")
    with pytest.raises(UnsupportedError, match=code + "objective is 'flops', but must be one of"):
        objective_of("flops", pruner.model, pruner.inputs, pruner.dependencies)
    with pytest.raises(UnsupportedError, match=code + "objective 'cycles' needs a target"):
        objective_of("cycles", pruner.model, pruner.inputs, pruner.dependencies)
    with pytest.raises(UnsupportedError, match=r"TORCH_MODULE_ERROR\] the model is a int, but mu"):
        Pruner(3, pruner.inputs)


def test_functions_that_fail_are_named(pruner):
    code = r"^\[OPTIMIZER_MODEL_ANALYSIS_ERROR\] "

    def broken(model):
        raise RuntimeError("no data")

    def silent(model):
        return None

    with pytest.raises(UnsupportedError, match=code + "broken failed: RuntimeError: no data"):
        pruner.analyze(broken)
    with pytest.raises(UnsupportedError, match=code + "silent returned NoneType, but must return"):
        pruner.analyze(silent)


def test_one_step_needs_normalizations():
    plain = Pruner(Plain(), torch.randn(Plain.size))
    with pytest.raises(UnsupportedError, match=r"ARGUMENT_ERROR\] Plain has no batch normalizati"):
        plain.search(0.5, calibrate=calibrate, evaluate=likeness)


def test_a_network_without_groups_cannot_be_pruned():
    class Single(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 1)

        def forward(self, x):
            return self.conv(x)

    single = Pruner(Single(), torch.randn(1, 3, 4, 4))
    with pytest.raises(
        UnsupportedError, match=r"UNSUPPORTED_OP_ERROR\] nothing of Single can be p"
    ):
        single.analyze(likeness)


def test_stale_and_damaged_files_are_refused(pruner, data, tmp_path):
    path = tmp_path / "net.sens"
    with pytest.raises(
        ModelFormatError, match=r"^\[OPTIMIZER_NO_ANA_RESULT_ERROR\] .*no such file"
    ):
        Analysis.load(path, pruner.fingerprint)
    pruner.analyze(likeness, data).save(path)
    other = Pruner(Residual(12), pruner.inputs)
    with pytest.raises(
        ModelFormatError, match=r"^\[OPTIMIZER_INVALID_ANA_RESULT_ERROR\] .*another"
    ):
        Analysis.load(path, other.fingerprint)
    path.write_text("{}", encoding="utf-8")
    with pytest.raises(
        ModelFormatError, match=r"INVALID_ANA_RESULT_ERROR\] .* is no analysis: 'fo"
    ):
        Analysis.load(path, pruner.fingerprint)
    plan = tmp_path / "net.spec"
    with pytest.raises(
        ModelFormatError, match=r"^\[OPTIMIZER_IO_ERROR\] .*cannot be read: No such"
    ):
        Plan.load(plan)
    Plan(pruner.fingerprint, {"conv1": [1]}, "macs", 0.5).save(plan)
    assert Plan.load(plan) == Plan(pruner.fingerprint, {"conv1": [1]}, "macs", 0.5)
    with pytest.raises(ModelFormatError, match=r"INVALID_ARGUMENT_ERROR\] .* is for another netwo"):
        other.apply(Plan.load(plan))
    plan.write_text(json.dumps({"format": "other"}), encoding="utf-8")
    with pytest.raises(
        ModelFormatError, match="no pruning specification: its format is 'other', not"
    ):
        Plan.load(plan)
    search = tmp_path / "net.search"
    with pytest.raises(
        ModelFormatError, match=r"^\[OPTIMIZER_SUBNET_ERROR\] .*no such file; search"
    ):
        Subnets.load(search, pruner.fingerprint)
    Subnets("x", "macs", 0.5, [{}], [1.0], [1]).save(search)
    with pytest.raises(ModelFormatError, match=r"SUBNET_ERROR\] .*holds subnets of another netwo"):
        Subnets.load(search, pruner.fingerprint)
    Subnets(pruner.fingerprint, "macs", 0.5, [], [], []).save(search)
    with pytest.raises(ModelFormatError, match="it has no subnets, or some without a score"):
        Subnets.load(search, pruner.fingerprint)
