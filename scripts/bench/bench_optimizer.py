# SPDX-License-Identifier: Apache-2.0
"""What the optimizer does to networks that can be trained here: accuracy, MACs and cycles, as JSON.

``methods`` removes half of the MACs by iterative, one-step and once-for-all pruning; ``objectives``
compares pruning for MACs with pruning for cycles of a target, over a sweep of ratios; both tell the
accuracy of samples that nothing else looks at; with ``--rtl`` every pruned network is quantized
and run on the RTL, which must take the cycles of the cycle model. ``rtl`` lets the RTL confirm the
cycles of a network.

    python scripts/bench/bench_optimizer.py methods --data digits textures
    python scripts/bench/bench_optimizer.py objectives --data textures --target B512 B4096
"""

import argparse
import copy
import json
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from optimizers.confirm import confirm
from optimizers.data import NOISE, Data, digits, keywords, textures
from optimizers.nets import FAMILIES
from optimizers.training import accuracy, calibrate, likelihood, train, train_supernet
from torch import nn

from opendpu.frontend.pytorch import load_torch
from opendpu.optimize import Analysis, Plan, Pruner
from opendpu.optimize.distillation import AdaptiveSoftKDLoss
from opendpu.optimize.measure import measure
from opendpu_arch import outputs
from opendpu_arch.errors import UnsupportedError
from opendpu_arch.target import Target
from pytorch_nndct import OFAPruner, get_pruning_runner

RATIO = 0.5
STEPS = 6
"""An analysis with training tries each group with so many parts of it removed, but one."""
SWEEP = (0.3, 0.45, 0.6, 0.7, 0.8)
CLOSE, FEW = 0.01, 60
"""What cycles of a trained network may differ from those of the search, whose scales are others:
a part of them, or so many."""
LOST = (0.5, 1.0, 2.0, 3.0)
"""Points of accuracy that pruning may cost, where objectives are compared."""
RATE, SHORT_RATE = 5e-3, 5e-4
"""Largest learning rates: of a network, and of a candidate of the analysis."""


def say(text: str, start: float = time.monotonic()) -> None:
    """Tell what is done, on stderr."""
    os.write(2, f"{time.monotonic() - start:6.0f} s  {text}\n".encode())


def trained(
    family: str, data: Data, epochs: int, seed: int, width: int | None = None, fast: bool = False
) -> nn.Module:
    """Return a network trained from nothing."""
    torch.manual_seed(seed)
    widths = () if width is None else (width,)
    model = FAMILIES[family](data.shape[1], data.classes, *widths)
    return train(model, data.train, epochs, RATE, fast=fast)


def tuned(model: nn.Module, data: Data, epochs: int, fast: bool = False) -> nn.Module:
    """Return a pruned network trained further."""
    torch.manual_seed(0)
    return train(model, data.train, epochs, RATE / 2, fast=fast)


def tuned_shortly(model: nn.Module, data: Data, epochs: int, fast: bool) -> None:
    """Train a candidate of an analysis a little."""
    train(model, data.train, epochs, SHORT_RATE, fast=fast)


def tuned_longer(model: nn.Module, effort: int, data: Data, epochs: int, fast: bool) -> None:
    """Train a candidate of a search: the longer, the fewer are left."""
    train(model, data.train, effort * epochs, RATE / 2, fast=fast)


def plans_of(
    pruner: Pruner, analysis: Analysis, ratio: float, data: Data, options: argparse.Namespace
) -> list[Plan]:
    """Return what to cut by the analysis and, if asked for, what wins among candidates."""
    if options.candidates < 2:
        return [pruner.plan(analysis, ratio)]
    found = pruner.choose(
        analysis, ratio, likelihood, (data.choice,), tune=tuned_longer,
        tune_args=(data, options.candidate_epochs, options.fast), count=options.candidates,
    )  # fmt: skip
    say(f"candidate {found.best} of {len(found.widths)}: {found.scores}")
    indices = (0, found.best) if found.best else (0,)
    return [pruner.plan_of(found.widths[index], ratio) for index in indices]


def iterative(model: nn.Module, data: Data, x: torch.Tensor, epochs: int) -> nn.Module:
    """Return the network with half of the MACs, in three rounds."""
    analysed: Any = get_pruning_runner(model, x, "iterative")
    analysed.ana(accuracy, (data.choice,))
    for ratio in (0.25, 0.4, RATIO):
        runner = get_pruning_runner(model, x, "iterative")
        model = tuned(runner.prune(removal_ratio=ratio), data, epochs)
    slim = get_pruning_runner(model, x, "iterative").prune(removal_ratio=RATIO, mode="slim")
    state: Any = model
    slim.load_state_dict(state.slim_state_dict())
    return slim.eval()


def one_step(model: nn.Module, data: Data, x: torch.Tensor, epochs: int) -> nn.Module:
    """Return the best of thirty networks with half of the MACs."""
    runner = get_pruning_runner(model, x, "one_step")
    search: Any = runner
    search.search(
        calibration_fn=calibrate, calib_args=(data.train,), eval_fn=accuracy,
        eval_args=(data.choice,), num_subnet=30, removal_ratio=RATIO,
    )  # fmt: skip
    return tuned(runner.prune(removal_ratio=RATIO, mode="slim"), data, 2 * epochs)


def once_for_all(model: nn.Module, data: Data, x: torch.Tensor, epochs: int) -> nn.Module:
    """Return the best subnetwork with half of the MACs or less, trained a little further."""
    pruner = OFAPruner(model, x)
    network = pruner.ofa_model([0.25, 0.5, 0.75, 1], channel_divisible=4)
    train_supernet(pruner, network, model, data.train, epochs, RATE / 4, AdaptiveSoftKDLoss())
    whole = pruner.get_static_subnet(network, pruner.sample_subnet(network, "max")[1])[2]
    best = pruner.run_evolutionary_search(
        network, calibrate, (data.train,), accuracy, (data.choice,), "acc1", "max",
        min_macs=0.35 * whole, max_macs=RATIO * whole, macs_step=0.15 * whole,
        parent_popu_size=8, iteration=3, mutate_size=4, crossover_size=2,
    )  # fmt: skip
    (found,) = best.values()
    subnet = pruner.get_static_subnet(network, found["subnet_setting"])[0]
    return tuned(subnet, data, epochs)


METHODS: dict[str, Callable[..., nn.Module]] = {
    "iterative": iterative,
    "one_step": one_step,
    "once_for_all": once_for_all,
}


def cost(model: nn.Module, x: torch.Tensor, name: str = "macs") -> int:
    """Return the MACs or parameters of a network."""
    return Pruner(model, x, objective=name).objective.exact({})


def methods(data: Data, family: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return what half of the MACs costs by each method."""
    model = trained(family, data, options.epochs, options.seed)
    x = torch.randn(data.shape)
    before, whole = accuracy(model, data.test), cost(model, x)
    say(f"{data.name} {family}: {before:.2f} %")
    result: dict[str, Any] = {"accuracy": before, "macs": whole}
    for name, prune in METHODS.items():
        start = time.perf_counter()
        pruned = prune(copy.deepcopy(model), data, x, options.tune_epochs)
        after = accuracy(pruned, data.test)
        say(f"{data.name} {family} {name}: {after:.2f} %")
        result[name] = {
            "accuracy": after, "lost": before - after, "macs": cost(pruned, x),
            "macs_removed": 1 - cost(pruned, x) / whole,
            "seconds": round(time.perf_counter() - start, 1),
        }  # fmt: skip
    return result


def objectives(data: Data, family: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return accuracy and cycles of networks pruned for MACs, and for cycles of each target.

    Every figure is the mean over networks that were trained from different seeds.
    """
    seeds = range(options.seed, options.seed + options.seeds)
    runs = [kept(data, family, seed, options) for seed in seeds]
    before = mean([run["accuracy"] for run in runs])
    result: dict[str, Any] = {"accuracy": before, "macs": runs[0]["macs"], "seeds": len(runs)}
    for name in options.target:
        rows = {
            by: [averaged(same) for same in zip(*(run[name][by] for run in runs), strict=True)]
            for by in runs[0][name]
            if by != "whole_cycles"
        }
        result[name] = {"whole_cycles": runs[0][name]["whole_cycles"], **rows}
        for kind in ("", "_plain") if "macs_plain" in rows else ("",):
            both = {by: rows[by + kind] for by in ("macs", "cycles")}
            result[name]["at_equal_accuracy" + kind] = at_equal_accuracy(before, both)
    return result


def kept(data: Data, family: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return what :func:`swept` does, from the file of an earlier run where there is one."""
    if options.keep is None:
        return swept(data, family, seed, options)
    tried = f"_{options.candidates}" * (options.candidates > 1)
    tried += f"_{options.noise:g}" * (options.noise != NOISE)
    name = f"{data.name}_{family}_{seed}{tried}{'_rtl' * options.rtl}.json"
    file: pathlib.Path = options.keep / name
    if not file.is_file():
        options.keep.mkdir(parents=True, exist_ok=True)
        outputs.write(file, json.dumps(swept(data, family, seed, options)))
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def swept(data: Data, family: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return what one trained network becomes at each ratio, by each objective."""
    fast = options.fast
    model = trained(family, data, options.epochs, seed, options.width, fast)
    x = torch.randn(data.shape)
    before = accuracy(model, data.test)
    say(f"{data.name} {family}, seed {seed}: {before:.2f} %")
    by_macs = Pruner(model, x, objective="macs", divisible=2)
    if options.short_epochs:
        short = (data, options.short_epochs, fast)
        analysis = by_macs.analyze(
            likelihood, (data.choice,), tune=tuned_shortly, tune_args=short, steps=STEPS
        )
    else:
        analysis = by_macs.analyze(accuracy, (data.choice,))
    say("analyzed")
    result: dict[str, Any] = {"accuracy": before, "macs": by_macs.objective.exact({})}
    blind = made(by_macs, analysis, options.ratios, data, options)
    for name in options.target:
        target = Target.from_name(name)
        pruner = Pruner(model, x, objective="cycles", target=target)
        aware = made(pruner, analysis, options.cycle_ratios or options.ratios, data, options)
        rows: dict[str, list[dict[str, Any]]] = {}
        for by, every in (("macs", blind), ("cycles", aware)):
            for ratio, versions in every:
                for kind, (found, pruned, promised) in versions.items():
                    one = row(ratio, found, pruned, x, target)
                    if by == "cycles":
                        one["promised"] = promised
                        if abs(one["cycles"] - promised) > max(CLOSE * promised, FEW):
                            raise SystemExit(f"{one}, but the search counted {promised} cycles")
                    if options.rtl:
                        one |= confirm(pruned, data.train[0], target)
                    rows.setdefault(by + kind, []).append(one)
                    say(f"{name} {by}{kind} {one}")
        result[name] = {"whole_cycles": pruner.objective.exact({}), **rows}
    return result


def made(
    pruner: Pruner,
    analysis: Analysis,
    ratios: Sequence[float],
    data: Data,
    options: argparse.Namespace,
) -> list[tuple[float, dict[str, tuple[float, nn.Module, int]]]]:
    """Return accuracy, network and cost for each ratio: by what was found best, and ``_plain``.

    With candidates ``_plain`` is the choice without them. Ratios that the narrowest network does
    not reach are left out.
    """
    result = []
    for ratio in ratios:
        versions = []
        try:
            plans = plans_of(pruner, analysis, ratio, data, options)
        except UnsupportedError as error:
            say(str(error))
            continue
        for plan in plans:
            pruned = tuned(pruner.apply(plan, "slim"), data, options.tune_epochs, options.fast)
            taken = pruner.objective.exact(pruner.widths(plan))
            versions.append((accuracy(pruned, data.test), pruned, taken))
            say(f"{pruner.objective.name} {ratio}: {versions[-1][0]:.2f} %")
        kinds = {"": versions[-1]}
        if options.candidates > 1:
            kinds["_plain"] = versions[0]
        result.append((ratio, kinds))
    return result


def row(
    ratio: float, found: float, model: nn.Module, x: torch.Tensor, target: Target
) -> dict[str, Any]:
    """Return what is told of a pruned network: cycles by the cycle model."""
    return {
        "ratio": ratio,
        "accuracy": found,
        "cycles": measure(load_torch(model, x), target).cycles,
        "macs": cost(model, x),
        "channels": [
            m.out_channels if isinstance(m, nn.Conv2d) else m.out_features
            for m in model.modules()
            if isinstance(m, nn.Conv2d | nn.Linear)
        ],
    }


def mean(values: Sequence[float]) -> float:
    """Return the mean."""
    return sum(values) / len(values)


def averaged(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of the figures that different seeds gave for one ratio."""
    names = ("ratio", "accuracy", "cycles", "macs")
    told = ("accuracy", "channels", "quantized_cycles", "rtl_cycles")
    each = [{name: row[name] for name in told if name in row} for row in rows]
    return {**{name: mean([row[name] for row in rows]) for name in names}, "seeds": each}


def at_equal_accuracy(
    before: float, rows: dict[str, list[dict[str, Any]]]
) -> list[dict[str, float | None]]:
    """Return what both objectives need for the same accuracy: so many points less than before."""
    result = []
    for lost in LOST:
        found: dict[str, float | None] = {"lost": lost}
        for name in ("macs", "cycles"):
            line = sorted((row["cycles"], row["accuracy"]) for row in rows[name])
            found[name] = cheapest(line, before - lost)
        if found["macs"] and found["cycles"]:
            found["fewer"] = 1 - found["cycles"] / found["macs"]
        result.append(found)
    return result


def cheapest(line: Sequence[tuple[float, float]], wanted: float) -> float | None:
    """Return the fewest cycles on a line of (cycles, accuracy) that are accurate enough.

    Between two networks accuracy is taken to change evenly; beyond the first there is nothing.
    """
    for i, (cycles, found) in enumerate(line):
        if found >= wanted:
            if i == 0:
                return None
            less, worse = line[i - 1]
            return less + (cycles - less) * (wanted - worse) / (found - worse)
    return None


def confirmed(data: Data, family: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the cycles of a pruned network by the cycle model and on the RTL.

    It has the widths that are given, group by group, or half of every group of a small one.
    """
    torch.manual_seed(options.seed)
    target, sizes = Target.from_name(options.target[0]), () if options.widths else (16,)
    model = FAMILIES[family](data.shape[1], data.classes, *sizes).eval()
    x = torch.randn(data.shape)
    pruner = Pruner(model, x, objective="cycles", target=target)
    groups = pruner.dependencies.groups
    wanted = options.widths or [max(group.units // 2, 1) for group in groups.values()]
    widths = dict(zip(groups, wanted, strict=True))
    graph = load_torch(pruner.apply(pruner.plan_of(widths), "slim"), x)
    return {
        "target": target.name,
        "widths": widths,
        "search": pruner.objective.exact(widths),
        "cycle": measure(graph, target).cycles,
        "rtl": measure(graph, target, device="rtl").cycles,
    }


def main() -> None:
    """Measure what is asked for and print the figures."""
    repository = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", nargs="+", choices=("methods", "objectives", "rtl"))
    parser.add_argument("--data", nargs="+", default=["textures"])
    parser.add_argument("--family", nargs="+", choices=FAMILIES, help="default: all, of rtl resnet")
    parser.add_argument("--target", nargs="+", default=["B512", "B4096"])
    parser.add_argument("--ratios", nargs="+", type=float, default=SWEEP)
    parser.add_argument("--cycle-ratios", nargs="+", type=float, help="default: --ratios")
    parser.add_argument("--seeds", type=int, default=1, help="networks, from --seed on")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--tune-epochs", type=int, default=4)
    parser.add_argument(
        "--short-epochs", type=int, default=0, help="trained before each score of an analysis"
    )
    parser.add_argument(
        "--candidates", type=int, default=1, help="objectives: tried with training at each ratio"
    )
    parser.add_argument("--candidate-epochs", type=int, default=1, help="of the first round")
    parser.add_argument(
        "--rtl", action="store_true", help="objectives: run each network, quantized, on the RTL"
    )
    parser.add_argument("--fast", action="store_true", help="train in bfloat16")
    parser.add_argument("--widths", nargs="+", type=int, help="rtl: what each group keeps")
    parser.add_argument(
        "--noise", type=float, default=NOISE, help="standard deviation, of textures"
    )
    parser.add_argument("--width", type=int, help="channels of the stem")
    parser.add_argument(
        "--keep", type=pathlib.Path, help="folder: objectives goes on with the seeds that it has"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--models", type=pathlib.Path, default=repository.parent / "shared" / "models"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    sources = {
        "digits": digits,
        "textures": lambda: textures(noise=options.noise),
        "keywords": lambda: keywords(options.models),
    }
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in options.data:
            data = sources[name]()
            for what in options.what:
                if what == "rtl":
                    for family in options.family or ["resnet"]:
                        results[f"rtl {name} {family}"] = confirmed(data, family, options)
                    continue
                for family in options.family or FAMILIES:
                    os.chdir(tempfile.mkdtemp(dir=folder))
                    run = methods if what == "methods" else objectives
                    results[f"{what} {name} {family}"] = run(data, family, options)
        os.chdir(repository)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
