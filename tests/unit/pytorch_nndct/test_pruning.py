# SPDX-License-Identifier: Apache-2.0
"""AMD's pruners: iterative, one-step, once-for-all, N:M; their files and what they refuse."""

import copy
import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (opendpu[optimizer])")
pytest.importorskip("onnxscript", reason="onnxscript is not installed (opendpu[optimizer])")
pytest.importorskip("torch_pruning", reason="torch-pruning is not installed (opendpu[optimizer])")
pytest.importorskip("optuna", reason="optuna is not installed (opendpu[optimizer])")

from frameworks.torch_fixtures import one_thread as one_thread  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from opendpu.optimize.distillation import AdaptiveSoftKDLoss, SoftTargetLoss  # noqa: E402
from opendpu_arch.errors import DPUError  # noqa: E402
from pytorch_nndct import (  # noqa: E402
    IterativePruningRunner,
    OFAPruner,
    OneStepPruningRunner,
    SparsePruner,
    get_pruning_runner,
)
from pytorch_nndct.nn.modules.dynamic_ops import DynamicBatchNorm2d, DynamicConv2d  # noqa: E402
from pytorch_nndct.nn.modules.sparse_ops import SparseConv2d, SparseLinear  # noqa: E402
from pytorch_nndct.utils import slim  # noqa: E402


class MyNet(nn.Module):
    """A residual block between two convolutions, batch normalizations everywhere."""

    def __init__(self, width=16):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv4 = nn.Conv2d(8, 8, 1)
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(x + self.bn3(self.conv3(F.relu(self.bn2(self.conv2(x))))))
        return self.fc(F.relu(self.conv4(x)).mean((2, 3)))


INPUTS = torch.randn(1, 3, 8, 8)


@pytest.fixture
def data(seed):
    x = torch.randn(32, 3, 8, 8)
    return x, x.mean((2, 3)).argmax(1)


@pytest.fixture
def model(seed):
    return MyNet().eval()


def eval_fn(model, data):
    x, y = data
    model.eval()
    with torch.no_grad():
        return -F.cross_entropy(model(x), y)  # a tensor, as scripts return one


def calibration_fn(model, data):
    model.train()
    with torch.no_grad():
        for part in data[0].split(8):
            model(part)


def train(model, data, steps=3):
    optimizer = torch.optim.Adam(model.parameters(), 1e-2, weight_decay=5e-4)
    model.train()
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(model(data[0]), data[1]).backward()
        optimizer.step()
    return model.eval()


def macs(model):
    """Count the multiply-accumulates of one sample."""
    total = 0

    def count(module, arguments, result):
        nonlocal total
        total += result[0].numel() * module.weight[0].numel()

    hooks = [
        m.register_forward_hook(count) for m in model.modules()
        if isinstance(m, nn.Conv2d | nn.Linear)
    ]  # fmt: skip
    model.eval()(INPUTS)
    for hook in hooks:
        hook.remove()
    return total


def refused(code, text):
    return pytest.raises(DPUError, match=rf"^\[OPTIMIZER_{code}\] .*{text}")


def test_iterative_pruning_in_rounds_and_processes(model, data, folder):
    runner = get_pruning_runner(model, INPUTS, "iterative")
    runner.ana(eval_fn, args=(data,), gpus=[0])
    assert Path(".vai/MyNet.sens").is_file()
    network = model
    for ratio in (0.2, 0.4):
        runner = get_pruning_runner(network, INPUTS, "iterative")
        network = train(runner.prune(removal_ratio=ratio), data)
    assert Path(".vai/latest_spec").read_text().strip() == ".vai/MyNet_ratio_0.4.spec"
    assert macs(network) == macs(model)
    torch.save(network.state_dict(), "model_sparse.pth")
    torch.save(network.slim_state_dict(), "model_slim.pth")

    # the ways to a slim network: the runner of the baseline, that of what was trained, no runner
    again = get_pruning_runner(MyNet(), INPUTS, "iterative").prune(removal_ratio=0.4, mode="slim")
    again.load_state_dict(torch.load("model_slim.pth"))
    loaded = MyNet()
    loaded.load_state_dict(torch.load("model_sparse.pth"))
    converted = get_pruning_runner(loaded, INPUTS, "iterative").prune(0.4, mode="slim")
    alone = slim.load_state_dict(MyNet(), torch.load("model_slim.pth"))
    assert 0.4 * macs(model) < macs(alone) <= 0.61 * macs(model)
    for small in (again, converted, alone):
        assert not hasattr(small, "slim_state_dict")
        torch.testing.assert_close(small.eval()(data[0]), network(data[0]), rtol=1e-4, atol=1e-5)
        assert macs(small) == macs(alone)


def test_analyses_are_kept_until_forced(model, data, folder):
    calls = []

    def counting(network, shown):
        calls.append(1)
        return eval_fn(network, shown)

    runner = get_pruning_runner(model, INPUTS, "iterative")
    runner.ana(counting, (data,))
    first = len(calls)
    runner.ana(counting, (data,))
    assert len(calls) == first > 10
    runner.ana(counting, (data,), forced=True)
    assert len(calls) == 2 * first


def test_a_specification_can_be_followed(model, data, folder):
    runner = get_pruning_runner(model, INPUTS, "iterative")
    runner.ana(eval_fn, (data,))
    wanted = runner.prune(removal_ratio=0.3, mode="slim")
    found = runner.prune(spec_path=".vai/MyNet_ratio_0.3.spec", mode="slim")
    assert {k: v.shape for k, v in found.state_dict().items()} == {
        k: v.shape for k, v in wanted.state_dict().items()
    }
    by_score = runner.prune(threshold=0.5, mode="slim", channel_divisible=4)
    assert all(m.out_channels % 4 == 0 for m in by_score.modules() if isinstance(m, nn.Conv2d))
    kept = get_pruning_runner(model, INPUTS, "iterative")
    kept.ana(eval_fn, (data,), excludes=["conv2"], forced=True, with_group_conv=True)
    assert kept.prune(0.1, excludes=[model.conv2], mode="slim").conv2.out_channels == 16


def test_one_step_pruning(model, data, folder):
    runner = get_pruning_runner(model, INPUTS, "one_step")
    best = runner.search(
        gpus=["0"], calibration_fn=calibration_fn, calib_args=(data,), eval_fn=eval_fn,
        eval_args=(data,), num_subnet=6, removal_ratio=0.7, forced=True, with_group_conv=False,
    )  # fmt: skip
    stored = json.loads(Path(".vai/MyNet_ratio_0.7.search").read_text())
    assert stored["scores"][best] == max(stored["scores"])
    small = runner.prune(removal_ratio=0.7, index=None)
    assert 0.15 * macs(model) < macs(small) <= 0.305 * macs(model)
    torch.save(train(small, data).state_dict(), "model_slim.pth")
    other = get_pruning_runner(MyNet(), INPUTS, "one_step").prune(mode="slim")
    other.load_state_dict(torch.load("model_slim.pth"))
    torch.testing.assert_close(other.eval()(data[0]), small(data[0]))
    wide = MyNet()
    wide.load_state_dict(small.sparse_state_dict())
    torch.testing.assert_close(wide.eval()(data[0]), small(data[0]), rtol=1e-4, atol=1e-5)
    sparse = runner.prune(mode="sparse", index=best, pruning_info_path="info.json")
    assert macs(sparse) == macs(model)
    for path in Path(".vai").glob("*.search"):
        path.unlink()
    assert macs(runner.prune(pruning_info_path="info.json")) == macs(small)


def test_what_one_step_pruning_chose_is_pruned_again_without_an_analysis(model, data, folder):
    x, _ = data
    runner = OneStepPruningRunner(model, INPUTS)
    runner.search(
        gpus=[], calibration_fn=calibration_fn, calib_args=(data,), eval_fn=eval_fn,
        eval_args=(data,), num_subnet=4, removal_ratio=0.5, excludes=[],
    )  # fmt: skip
    small = runner.prune(removal_ratio=0.5, index=None, channel_divisible=2).eval()
    again = IterativePruningRunner(model, INPUTS)
    sparse = again.prune(removal_ratio=0.5, excludes=[]).eval()
    with torch.no_grad():
        torch.testing.assert_close(sparse(x), small(x), rtol=1e-4, atol=1e-5)
    with pytest.raises(DPUError, match=r"NO_ANA_RESULT_ERROR\] .*no such file; analyze"):
        again.prune(removal_ratio=0.4)
    again.ana(eval_fn, (data,))
    assert again.prune(removal_ratio=0.5) is not None
    plan = json.loads((folder / ".vai" / "MyNet_ratio_0.5.spec").read_text(encoding="utf-8"))
    assert plan["source"], "the analysis chose it"


def test_what_runners_refuse(model, data, folder):
    with refused(
        "INVALID_ARGUMENT_ERROR", "method is 'iterativ', but must be one of iterative, one_step"
    ):
        get_pruning_runner(model, INPUTS, "iterativ")
    with refused("DATA_PARALLEL_NOT_ALLOWED_ERROR", "DataParallel; give its module"):
        get_pruning_runner(nn.DataParallel(model), INPUTS, "iterative")
    with refused("PARSE_GRAPH_FAILED", "MyNet cannot be traced: "):
        get_pruning_runner(model, torch.randn(1, 4, 8, 8), "iterative")
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3))
    with refused("INVALID_ARGUMENT_ERROR", "Sequential has no batch normalization, which one-step"):
        get_pruning_runner(plain, INPUTS, "one_step")
    runner = get_pruning_runner(model, INPUTS, "iterative")
    with refused("NO_ANA_RESULT_ERROR", r"\.vai/MyNet\.sens: no such file; analyze"):
        runner.prune(removal_ratio=0.2)
    runner.ana(eval_fn, (data,))
    with refused("INVALID_ARGUMENT_ERROR", r"removal_ratio is 1\.2, but must be between 0 and 1"):
        runner.prune(removal_ratio=1.2)
    with refused("INVALID_ARGUMENT_ERROR", "say how much is to be pruned"):
        runner.prune()
    with refused("INVALID_ARGUMENT_ERROR", "mode is 'dense'"):
        runner.prune(0.2, mode="dense")
    with refused("INVALID_ARGUMENT_ERROR", "channel_divisible is 0, but must be at least 1"):
        runner.prune(0.2, channel_divisible=0)
    with refused("INVALID_ANA_RESULT_ERROR", r"MyNet\.sens is the analysis of another network"):
        get_pruning_runner(MyNet(12), INPUTS, "iterative").prune(0.2)
    step = get_pruning_runner(model, INPUTS, "one_step")
    with refused("SUBNET_ERROR", "no such file; search for subnets"):
        step.prune(removal_ratio=0.2)
    with refused("SUBNET_ERROR", "no such file; search for subnets"):
        step.prune()
    with refused("INVALID_ARGUMENT_ERROR", "calibration_fn is None, but must be a function"):
        step.search(eval_fn=eval_fn)
    with refused("MODEL_ANALYSIS_ERROR", "eval_fn failed: ValueError"):
        step.search(calibration_fn=calibration_fn, calib_args=(data,), eval_fn=eval_fn,
                    eval_args=(3 * data,), num_subnet=1)  # fmt: skip
    with refused("INVALID_ARGUMENT_ERROR", "MyNet, slim: 'fc.weight' has shape"):
        slim.load_state_dict(MyNet(), {**model.state_dict(), "fc.weight": torch.zeros(9, 9)})
    with refused("INVALID_ARGUMENT_ERROR", "MyNet, slim: only the model has 'bn1.bias'"):
        slim.load_state_dict(MyNet(), {"conv1.weight": torch.zeros(1)})
    for given, kind in (("model_slim.pth", "str"), (3, "int"), (MyNet(), "MyNet")):
        with refused("INVALID_ARGUMENT_ERROR", f"state_dict is a {kind}, but must be a state"):
            slim.load_state_dict(MyNet(), given)


def test_arguments_of_other_types_are_refused(model, data, folder):
    def no(text, call, *args, **options):
        with refused("INVALID_ARGUMENT_ERROR", text):
            call(*args, **options)

    for given in ([], "flops", None):
        no("objective is .*, but must be one of", get_pruning_runner, model, INPUTS, "iterative",
           objective=given)  # fmt: skip
    no(r"method is \[\], but must be one of", get_pruning_runner, model, INPUTS, [])
    runner = get_pruning_runner(model, INPUTS, "iterative")
    no("eval_fn is 3, but must be a function", runner.ana, 3)
    no("args is 3, but must be a list or tuple", runner.ana, eval_fn, 3)
    no("workers is 'all', but must be at least 1", runner.ana, eval_fn, (data,), workers="all")
    no("seed is None, but must be at least 0", runner.ana, eval_fn, (data,), seed=None)
    assert not Path(".vai").exists(), "nothing is left of what was refused"
    runner.ana(eval_fn, (data,))
    for name, given, text in (
        ("removal_ratio", "a", "between 0 and 1"), ("threshold", "a", "between 0 and 1"),
        ("excludes", 3, "a list of modules or their names"), ("pruning_info_path", 3, "a path"),
        ("excludes", "conv1", "a list of modules"), ("channel_divisible", "8", "at least 1"),
    ):  # fmt: skip
        amount = {} if name == "threshold" else {"removal_ratio": 0.2}
        no(f"{name} is {given!r}, but must be {text}", runner.prune, **{**amount, name: given})
    no("spec_path is 3, but must be a path", runner.prune, spec_path=3)
    assert not list(Path(".vai").glob("*.spec"))
    step = get_pruning_runner(model, INPUTS, "one_step")
    right = {"calibration_fn": calibration_fn, "calib_args": (data,), "eval_fn": eval_fn}
    for name, given, text in (
        ("num_subnet", "a", "at least 1"), ("num_subnet", 2.5, "at least 1"),
        ("calib_args", data[0], "a list or tuple"), ("eval_args", None, "a list or tuple"),
        ("channel_divisible", 0, "at least 1"), ("seed", -1, "at least 0"),
    ):  # fmt: skip
        no(f"{name} is .*, but must be {text}", step.search, **{**right, name: given})
    no("removal_ratio is 'a', but must be between", step.prune, removal_ratio="a")
    no("pruning_info_path is 3, but must be a path", step.prune, pruning_info_path=3)


def test_arguments_of_other_types_are_refused_once_for_all(model, data, folder):
    pruner = OFAPruner(model, INPUTS)
    for given in ("8", 0, 2.5, None):
        with refused("INVALID_ARGUMENT_ERROR", "channel_divisible is .*, but must be at least 1"):
            pruner.ofa_model([0.5, 1], given)
    network = pruner.ofa_model([0.5, 1], 2)
    setting = pruner.sample_subnet(network, "min")[1]
    for call in (
        lambda: pruner.sample_subnet(None, "max"),
        lambda: pruner.reset_bn_running_stats_for_calibration("net"),
        lambda: pruner.get_static_subnet(3, setting),
        lambda: SparsePruner(model, INPUTS).export_sparse_model(None),
    ):
        with refused("TORCH_MODULE_ERROR", "the model is a .*, but must be a torch.nn.Module"):
            call()
    right = {
        "model": network, "calibration_fn": calibration_fn, "calib_args": (data,),
        "eval_fn": eval_fn, "eval_args": (data,), "evaluation_metric": "loss",
        "min_or_max_metric": "max", "min_macs": 0, "max_macs": 9,
    }  # fmt: skip
    for name, given, text in (
        ("min_macs", "a", "a number"), ("macs_step", None, "a number"),
        ("parent_popu_size", 0, "at least 1"), ("iteration", "a", "at least 0"),
        ("mutate_prob", 2, "a probability"), ("crossover_size", 0.5, "at least 0"),
        ("eval_fn", 3, "a function"), ("calib_args", 3, "a list or tuple"),
        ("evaluation_metric", [], "the name"), ("min_or_max_metric", [], "one of max, min"),
        ("seed", "a", "at least 0"),
    ):  # fmt: skip
        with refused("INVALID_ARGUMENT_ERROR", f"{name} is .*, but must be {text}"):
            pruner.run_evolutionary_search(**{**right, name: given})
    with refused("INVALID_ARGUMENT_ERROR", "setting_config holds no settings of subnetworks: "):
        pruner.save_subnet_config(object(), "a.json")
    assert not Path("a.json").exists()
    for call in (lambda: pruner.save_subnet_config({}, 3), lambda: pruner.load_subnet_config(3)):
        with refused("INVALID_ARGUMENT_ERROR", "file_name is 3, but must be a path"):
            call()


def test_once_for_all_networks_are_their_subnetworks(model, data, folder):
    pruner = OFAPruner(model, INPUTS)
    with refused("SUBNET_ERROR", "there is no once-for-all network yet: call ofa_model first"):
        pruner.sample_subnet(model, "max")
    network = pruner.ofa_model([0.5, 0.75, 1], 4, save_search_space=True)
    assert json.loads(Path("searchspace.config").read_text()) == {"conv2": [8, 12, 16]}
    assert type(network.conv2) is DynamicConv2d and type(network.bn2) is DynamicBatchNorm2d
    assert type(network.conv1) is nn.Conv2d, "the first convolution is excluded"
    assert set(network.state_dict()) == set(model.state_dict())
    largest, setting = pruner.sample_subnet(network, "max")
    assert largest is network
    assert setting == [{"name": "conv2", "channels": 16, "ratio": 1.0}]
    torch.testing.assert_close(network.eval()(data[0]), model(data[0]))

    _, setting = pruner.sample_subnet(network, "min")
    static, same, mega_macs, mega_params = pruner.get_static_subnet(network, setting)
    assert same == setting and static.conv2.out_channels == 8 and type(static.conv2) is nn.Conv2d
    assert mega_macs * 1e6 == pytest.approx(macs(static))
    assert mega_params * 1e6 == pytest.approx(sum(p.numel() for p in static.parameters()))
    torch.testing.assert_close(static.eval()(data[0]), network.eval()(data[0]))
    network.train()(data[0]).square().sum().backward()
    static.train()(data[0]).square().sum().backward()
    unused = (network.conv2.weight.grad == 0).all(dim=(1, 2, 3))
    assert int(unused.sum()) == 8
    torch.testing.assert_close(network.conv2.weight.grad[~unused], static.conv2.weight.grad)
    assert torch.equal(network.bn2.running_mean[unused], model.bn2.running_mean[unused])
    torch.testing.assert_close(network.bn2.running_mean[~unused], static.bn2.running_mean)


def test_once_for_all_training_and_search(model, data, folder):
    pruner = OFAPruner(model, INPUTS)
    teacher = copy.deepcopy(model)
    network = pruner.ofa_model([0.25, 0.5, 0.75, 1], 2, auto_add_excludes=False)
    kd_loss = AdaptiveSoftKDLoss()
    optimizer = torch.optim.SGD(network.parameters(), 1e-2)
    network.train()
    with torch.no_grad():
        soft = teacher(data[0])
    before = copy.deepcopy(network.state_dict())
    optimizer.zero_grad()
    for subnet in pruner.sandwich(network):
        output = subnet(data[0])
        (kd_loss(output, soft) + F.cross_entropy(output, data[1])).backward()
    torch.nn.utils.clip_grad_value_(network.parameters(), 1.0)
    optimizer.step()
    assert not torch.equal(before["conv2.weight"], network.state_dict()["conv2.weight"])

    whole = macs(model) / 1e6
    options = {"macs_step": 0.2 * whole, "parent_popu_size": 6, "iteration": 2, "mutate_size": 3}
    found = pruner.run_evolutionary_search(
        network, calibration_fn, (data,), eval_fn, (data,), "loss", "max",
        min_mac=0.2 * whole, max_mac=0.6 * whole, **options,
    )  # fmt: skip
    assert found and set(found) <= {f"{0.2 * whole:g}", f"{0.4 * whole:g}"}
    for low, entry in found.items():
        assert float(low) * 0.999 <= entry["macs"] <= (float(low) + 0.2 * whole) * 1.001
        static, _, found_macs, _ = pruner.get_static_subnet(network, entry["subnet_setting"])
        assert found_macs == entry["macs"] == pytest.approx(macs(static) / 1e6)
        pruner.reset_bn_running_stats_for_calibration(static)
        calibration_fn(static, data)
        assert float(eval_fn(static, data)) == pytest.approx(entry["loss"], rel=1e-4)
    again = pruner.run_evolutionary_search(
        network, calibration_fn, (data,), lambda m, d: -eval_fn(m, d), (data,), "loss", "min",
        min_macs=0.2 * whole, max_macs=0.6 * whole, **options,
    )  # fmt: skip
    assert {k: v["subnet_setting"] for k, v in again.items()} == {
        k: v["subnet_setting"] for k, v in found.items()
    }
    pruner.save_subnet_config(found, "pareto_global.txt")
    assert pruner.load_subnet_config("pareto_global.txt") == found


class OfUser(nn.Conv2d):
    """A depthwise convolution whose class sets its arguments, as in networks of transformers."""

    def __init__(self, channels):
        super().__init__(channels, channels, 3, padding=1, groups=channels, bias=False)


class Own(OfUser):
    """One that computes in its own way."""

    def forward(self, x):
        return super().forward(x) * 2


@pytest.mark.parametrize("kind", [OfUser, Own])
def test_once_for_all_of_layers_with_classes_of_a_user(kind):
    net = nn.Sequential(
        nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8), nn.Conv2d(8, 16, 1), nn.BatchNorm2d(16), nn.ReLU(),
        kind(16), nn.BatchNorm2d(16), nn.Conv2d(16, 5, 1),
    ).eval()  # fmt: skip
    pruner = OFAPruner(net, INPUTS)
    if kind is Own:
        with pytest.raises(DPUError, match="5 has no dynamic form; exclude the layers before it"):
            pruner.ofa_model([0.5, 1])
        return
    made = pruner.ofa_model([0.5, 1])
    assert isinstance(made[5], DynamicConv2d)
    part, setting = pruner.sample_subnet(made, "min")
    static, *_ = pruner.get_static_subnet(made, setting)
    assert type(static[5]) is OfUser and static[5].groups == 8
    assert not any("active" in vars(m) or "static_class" in vars(m) for m in static.modules())
    with torch.no_grad():
        torch.testing.assert_close(static.eval()(INPUTS), part.eval()(INPUTS))


def test_depthwise_networks_vary_where_kernels_are(folder):
    class Mobile(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 16, 3, padding=1)
            self.expand, self.point = nn.Conv2d(16, 32, 1), nn.Conv2d(32, 16, 1)
            self.depth1 = nn.Conv2d(32, 32, 3, padding=1, groups=32)
            self.depth2 = nn.Conv2d(32, 32, 3, padding=1, groups=32)
            self.depth3 = nn.Conv2d(32, 32, 5, padding=2, groups=32)
            self.middle, self.last = nn.Conv2d(16, 32, 1), nn.Conv2d(32, 4, 1)
            self.depth4 = nn.Conv2d(32, 32, 3, padding=1, groups=32)
            self.depth5 = nn.Conv2d(32, 32, 3, padding=1, groups=32)
            self.depth6 = nn.Conv2d(32, 32, 3, padding=1, groups=32)

        def forward(self, x):
            x = self.depth3(self.depth2(self.depth1(self.expand(F.relu(self.stem(x))))))
            x = self.depth4(self.middle(F.relu(self.point(x))))
            return self.last(self.depth6(self.depth5(x)))

    pruner = OFAPruner(Mobile(), INPUTS)
    pruner.ofa_model([0.5, 1], save_search_space=True)
    found = json.loads(Path("searchspace.config").read_text())
    assert found == {"expand": [16, 32], "middle": [16, 32]}


def test_what_the_once_for_all_pruner_refuses(model, data, folder):
    with refused("DATA_PARALLEL_NOT_ALLOWED_ERROR", "DataParallel; give its module"):
        OFAPruner(nn.DataParallel(model), INPUTS)
    with refused("TORCH_MODULE_ERROR", "the model is a str, but must be a torch.nn.Module"):
        OFAPruner("net", INPUTS)
    pruner = OFAPruner(model, INPUTS)
    with refused("INVALID_ARGUMENT_ERROR", r"expand_ratio is \[0\.5, 2\], but must be parts of ch"):
        pruner.ofa_model([0.5, 2])
    for given in (0.5, "half", ["0.5"], None):
        with refused("INVALID_ARGUMENT_ERROR", "expand_ratio is .*, but must be parts of channels"):
            OFAPruner(MyNet(), INPUTS).ofa_model(given)
    with refused("UNSUPPORTED_OP_ERROR", "no layer of MyNet has a choice of channels"):
        pruner.ofa_model([1])
    network = pruner.ofa_model([0.5, 1])
    with refused("INVALID_ARGUMENT_ERROR", "mode is 'big', but must be one of random, max, min"):
        pruner.sample_subnet(network, "big")
    with refused("INVALID_ARGUMENT_ERROR", "the subnet setting is not one of this network"):
        pruner.get_static_subnet(network, [{"name": "conv9", "channels": 8}])
    search = (network, calibration_fn, (data,), eval_fn, (data,), "loss")
    with refused(
        "INVALID_ARGUMENT_ERROR", "min_or_max_metric is 'most', but must be one of max, min"
    ):
        pruner.run_evolutionary_search(*search, "most", 1, 2)
    with refused("INVALID_ARGUMENT_ERROR", "say which MACs subnetworks may have"):
        pruner.run_evolutionary_search(*search, "max")
    with refused("INVALID_ARGUMENT_ERROR", "must be a range and a step above zero"):
        pruner.run_evolutionary_search(*search, "max", 2, 1)
    with refused("SUBNET_ERROR", r"no subnet has 100 to 200 M MACs; they have 0\.\d+ to 0\.\d+ M"):
        pruner.run_evolutionary_search(*search, "max", 100, 200)
    with refused("IO_ERROR", r"none\.txt cannot be read: No such file"):
        pruner.load_subnet_config("none.txt")
    Path("bad.txt").write_text("{")
    with refused("IO_ERROR", r"bad\.txt holds no settings of subnetworks"):
        pruner.load_subnet_config("bad.txt")


@pytest.mark.parametrize(("sparsity", "block"), [(0.5, 4), (0.5, 16), (0.75, 8)])
def test_sparse_networks_have_zeros_in_every_block(sparsity, block, data, folder):
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 40, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(640, 4),
    )  # fmt: skip
    pruner = SparsePruner(model, INPUTS)
    network = pruner.sparse_model(w_sparsity=sparsity, a_sparsity=0, block_size=block)
    kinds = [type(m) for m in network]
    assert kinds[0] is nn.Conv2d and kinds[2] is SparseConv2d and kinds[5] is SparseLinear
    train(network, data)
    exported = pruner.export_sparse_model(network)
    assert [type(m) for m in exported] == [type(m) for m in model]
    torch.testing.assert_close(exported(data[0]), network(data[0]))
    for layer, trained in ((exported[2], network[2]), (exported[5], network[5])):
        blocks = layer.weight.movedim(1, -1).reshape(-1, block)
        whole = trained.weight.movedim(1, -1).reshape(-1, block)
        assert ((blocks == 0).sum(1) == block * sparsity).all()
        largest = whole.abs().topk(int(block * (1 - sparsity)), 1).values.sum(1)
        torch.testing.assert_close(blocks.abs().sum(1), largest)


def test_sparse_activations_and_excludes(data, folder):
    model = nn.Sequential(nn.Conv2d(3, 32, 1), nn.Conv2d(32, 32, 1), nn.Conv2d(32, 4, 1))
    pruner = SparsePruner(model, INPUTS)
    network = pruner.sparse_model(0.75, 0.5, 4, excludes=["1"])
    assert [type(m) for m in network] == [nn.Conv2d, nn.Conv2d, SparseConv2d]
    x = torch.randn(1, 32, 2, 2)
    kept = torch.zeros_like(x)
    for begin in range(0, 32, 4):
        part = x[:, begin : begin + 4]
        bound = part.abs().topk(2, 1).values[:, 1:]
        kept[:, begin : begin + 4] = part * (part.abs() >= bound)
    wanted = F.conv2d(kept, network[2].sparse_weight(), network[2].bias)
    torch.testing.assert_close(network[2](x), wanted)
    for options, text in (
        ({"w_sparsity": 0.6}, "w_sparsity is 0.6, but must be one of 0, 0.5, 0.75"),
        ({"a_sparsity": 0.25}, "a_sparsity is 0.25, but must be one of 0, 0.5"),
        ({"a_sparsity": 0.5}, "a_sparsity is 0.5, which needs w_sparsity 0.75, not 0.5"),
        ({"block_size": 5}, "block_size is 5, but must be one of 4, 8, 16"),
    ):
        with refused("INVALID_ARGUMENT_ERROR", text):
            pruner.sparse_model(**options)
    with refused("DATA_PARALLEL_NOT_ALLOWED_ERROR", "DataParallel"):
        SparsePruner(nn.DataParallel(model), INPUTS)
    with refused("PARSE_GRAPH_FAILED", "Sequential cannot be called with these inputs"):
        SparsePruner(model, torch.zeros(1, 2, 3, 3))


def test_distillation_losses_are_the_papers(seed):
    teacher, student = torch.randn(5, 7), torch.randn(5, 7, requires_grad=True)
    p, q = torch.softmax(teacher, 1), torch.softmax(student, 1)
    kl = (p * (p / q).log()).sum(1)
    square = ((q * q / p).sum(1) - 1) / 2  # alpha = -1
    unclipped = AdaptiveSoftKDLoss(clip=1e9)
    found = unclipped(student, teacher)
    wanted = torch.maximum(kl, square).mean()
    torch.testing.assert_close(found, wanted)
    (one,) = torch.autograd.grad(found, student)
    (other,) = torch.autograd.grad(wanted, student)
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    reverse = AdaptiveSoftKDLoss(0, 0, 1e9)(student, teacher)
    torch.testing.assert_close(reverse, (q * (q / p).log()).sum(1).mean())
    (one,) = torch.autograd.grad(reverse, student)
    q = torch.softmax(student, 1)
    (other,) = torch.autograd.grad((q * (q / p).log()).sum(1).mean(), student)
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)
    clipped = AdaptiveSoftKDLoss(clip=0.5)
    (bounded,) = torch.autograd.grad(clipped(student, teacher), student)
    assert bounded.abs().sum() < one.abs().sum() * 100
    assert not torch.equal(bounded, one)
    soft = SoftTargetLoss(2.0)(student, teacher)
    ideal = F.cross_entropy(student / 2, torch.softmax(teacher / 2, 1)) * 4
    torch.testing.assert_close(soft, ideal)
