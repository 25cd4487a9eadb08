# SPDX-License-Identifier: Apache-2.0
"""Which channels of a network are cut together: its dependency groups.

A group is what one layer's output channels drag along: batch normalizations, depthwise
convolutions, other layers whose result is added to its own, and the inputs of whoever reads it.
They are found by the library Torch-Pruning (Fang et al., *DepGraph*, 2023, arXiv:2301.12900);
here they become a description of which slice of which parameter belongs to which channel, so that
any choice of channels can be cut, set to zero or counted without tracing again.
"""

import contextlib
import copy
import io
import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from opendpu.ops.inference import reason_of
from opendpu.pruning.arguments import several
from opendpu.pruning.structure import IN, OUT, Dependencies, Group, Member
from opendpu_arch.errors import DPUError, UnsupportedError

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose1d, nn.ConvTranspose2d)
NORMALIZATIONS = (nn.BatchNorm1d, nn.BatchNorm2d)
TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d)


def analyze(
    model: nn.Module, inputs: Any, excludes: Iterable[str] = (), *, results_too: bool = False
) -> Dependencies:
    """Find the groups of a network.

    Parameters
    ----------
    model
        Stays as it is.
    inputs
        What it is called with: a tensor, or a list, tuple or dictionary of arguments.
    excludes
        Paths of modules whose output channels stay; those of all modules inside, too.
    results_too
        Whether channels that are an output of the network have a group as well.

    Raises
    ------
    UnsupportedError
        The network cannot be traced, or is in a ``torch.nn.DataParallel``.
    """
    check_module(model)
    traced, graph, results = _trace(model, inputs)
    if results_too:
        results = []
    names = {module: name for name, module in traced.named_modules()}
    parameters = {id(value): name for name, value in traced.named_parameters()}
    left_out = tuple(excludes)
    groups: dict[str, Group] = {}
    kept: dict[str, str] = {}
    roots = (*CONVOLUTIONS, nn.Linear)
    claimed: set[tuple[str, int]] = set()
    for found in graph.get_all_groups(root_module_types=roots):
        name = names[found[0].dep.target.module]
        made = _described(found, names, parameters, graph, results)
        if isinstance(made, str):
            kept[name] = made
            continue
        name = made.name
        reason = _obstacle(made, traced, left_out)
        outputs = {(m.path, i) for m in made.members if m.side == OUT for i in m.indices}
        if outputs & claimed:
            reason = f"{min(outputs & claimed)[0]} belongs to two groups"
        claimed |= outputs
        if reason:
            kept[name] = reason
        else:
            groups[name] = made
    order = {name: place for place, (name, _) in enumerate(traced.named_modules())}
    return Dependencies(dict(sorted(groups.items(), key=lambda item: order[item[0]])), kept)


def need_module(model: object) -> None:
    """Refuse what is no network.

    Raises
    ------
    UnsupportedError
        It is no ``torch.nn.Module``.
    """
    if not isinstance(model, nn.Module):
        raise UnsupportedError(
            f"the model is a {type(model).__name__}, but must be a torch.nn.Module",
            code="OPTIMIZER_TORCH_MODULE_ERROR",
        )


def check_module(model: object) -> None:
    """Refuse what is no network, or spreads one over devices.

    Raises
    ------
    UnsupportedError
        It is no ``torch.nn.Module``, or a ``torch.nn.DataParallel`` or its distributed form.
    """
    need_module(model)
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        raise UnsupportedError(
            f"the model is a torch.nn.{type(model).__name__}; give its module (model.module)",
            code="OPTIMIZER_DATA_PARALLEL_NOT_ALLOWED_ERROR",
        )


def excluded_paths(model: nn.Module, excludes: Iterable[str | nn.Module] | None) -> list[str]:
    """Return the paths of modules that are given by path or as they are.

    A path may have the class of the network in front, ``ResNet::layer1.0.conv1``, as the guide's
    names of nodes have.

    Raises
    ------
    UnsupportedError
        The network has no such module.
    """
    paths = {module: name for name, module in model.named_modules()}
    known = set(paths.values())
    found = []
    for item in several("excludes", excludes, "modules or their names"):
        path = paths.get(item) if isinstance(item, nn.Module) else str(item).split("::")[-1]
        if path is None or path not in known:
            shown = repr(item) if isinstance(item, str) else type(item).__name__
            raise UnsupportedError(
                f"excludes has {shown}, which is no module of {type(model).__name__}",
                code="OPTIMIZER_INVALID_ARGUMENT_ERROR",
            )
        found.append(path)
    return found


def called(model: nn.Module, inputs: Any) -> Any:
    """Call a network as the inputs say."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    if isinstance(inputs, list | tuple):
        return model(*inputs)
    return model(inputs)


def _trace(model: nn.Module, inputs: Any) -> tuple[nn.Module, Any, list[Any]]:
    """Return a copy of the network, the library's graph of it, and what made its results."""
    import torch_pruning

    traced = copy.deepcopy(model).eval()
    for parameter in traced.parameters():  # the graph is found by way of gradients
        parameter.requires_grad_(parameter.is_floating_point())
    results: list[Any] = []

    def forward(network: nn.Module, arguments: Any) -> Any:
        found = called(network, arguments)
        results.extend(t.grad_fn for t in tree_leaves(found) if isinstance(t, torch.Tensor))
        return found

    try:
        with torch.enable_grad(), _quiet():
            graph = torch_pruning.DependencyGraph()
            graph.build_dependency(
                traced, inputs, forward_fn=forward, output_transform=_tensors, verbose=False
            )
    except DPUError:
        raise
    except Exception as error:  # whatever the user's code and the tracer raise
        reason = reason_of(error)
        raise UnsupportedError(
            f"{type(model).__name__} cannot be traced: {reason}",
            code="OPTIMIZER_PARSE_GRAPH_FAILED",
        ) from error
    return traced, graph, results


def _tensors(result: Any) -> list[torch.Tensor]:
    """Return the tensors in a nested result, that depend on something."""
    leaves = tree_leaves(result)
    return [t for t in leaves if isinstance(t, torch.Tensor) and t.grad_fn is not None]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what the library prints away."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _described(
    found: Any,
    names: Mapping[nn.Module, str],
    parameters: Mapping[int, str],
    graph: Any,
    results: Sequence[Any],
) -> Group | str:
    """Return a group of the library as ours, or why its channels have to stay."""
    raw: list[tuple[str, str, list[int], list[int]]] = []
    depthwise = False
    for item in found:
        target, handler = item.dep.target.module, item.dep.handler
        kind = type(target).__name__
        is_read = isinstance(target, (*CONVOLUTIONS, nn.Linear)) and not (
            graph.is_out_channel_pruning_fn(handler)
        )
        if not is_read and any(item.dep.target.grad_fn is made for made in results):
            return "they are an output of the network"
        if kind.startswith("_"):
            continue  # operations without parameters
        if isinstance(target, nn.Parameter):
            path, side = parameters[id(target)], OUT
        elif isinstance(target, (*CONVOLUTIONS, nn.Linear)):
            path = names[target]
            if isinstance(target, CONVOLUTIONS) and _is_depthwise(target):
                depthwise, side = True, OUT
            else:
                side = OUT if graph.is_out_channel_pruning_fn(handler) else IN
        elif isinstance(target, (*NORMALIZATIONS, nn.PReLU, nn.InstanceNorm2d)):
            path, side = names[target], OUT
        else:
            return f"{kind} {names.get(target, '')!r} needs all of them"
        raw.append((path, side, [int(i) for i in item.idxs], [int(i) for i in item.root_idxs]))
    return _with_units(raw, {n: m for m, n in names.items()}, depthwise)


def _is_depthwise(layer: Any) -> bool:
    return bool(layer.groups > 1 and layer.groups == layer.out_channels == layer.in_channels)


def _with_units(
    raw: Sequence[tuple[str, str, list[int], list[int]]],
    modules: Mapping[str, nn.Module],
    depthwise: bool,
) -> Group | str:
    """Return a group whose channels are joined where one of them cannot go alone."""
    count = max(raw[0][3]) + 1
    parent = list(range(count))

    def root(channel: int) -> int:
        while parent[channel] != channel:
            parent[channel] = parent[parent[channel]]
            channel = parent[channel]
        return channel

    owners: dict[tuple[str, str, int], int] = {}
    for path, side, indices, channels in raw:
        for index, channel in zip(indices, channels, strict=True):
            first = owners.setdefault((path, side, index), channel)
            parent[root(channel)] = root(first)
    for path, side in dict.fromkeys(item[:2] for item in raw):
        layer: Any = modules.get(path)
        if isinstance(layer, (*CONVOLUTIONS, nn.Linear)):
            known = channels_of(layer, side)
            if any(index >= known for p, s, index in owners if (p, s) == (path, side)):
                return f"{path} takes {known} channels, which are not these one by one"
        if isinstance(layer, CONVOLUTIONS) and layer.groups > 1 and not _is_depthwise(layer):
            all_of_them = channels_of(layer, side)
            part = all_of_them // layer.groups
            mine = {
                index: owners[path, side, index] for p, s, index in owners if (p, s) == (path, side)
            }
            if len(mine) != all_of_them:
                return f"grouped convolution {path!r} has channels of several groups"
            for index, channel in mine.items():
                parent[root(channel)] = root(mine[index % part])
    numbers: dict[int, int] = {}
    unit_of = [numbers.setdefault(root(channel), len(numbers)) for channel in range(count)]
    if count % len(numbers) or any(
        unit_of.count(unit) != count // len(numbers) for unit in numbers.values()
    ):
        return "its channels depend on each other unevenly"
    members: dict[tuple[str, str], dict[int, int]] = {}
    for (path, side, index), channel in owners.items():
        members.setdefault((path, side), {})[index] = unit_of[channel]
    found = tuple(
        Member(path, side, tuple(sorted(part)), tuple(part[i] for i in sorted(part)))
        for (path, side), part in members.items()
    )
    layers = {m.path: len(m.indices) for m in found if m.side == OUT and m.path in modules}
    name = next(path for path in modules if path in layers and _multiplies(modules[path]))
    return Group(name, len(numbers), layers[name] // len(numbers), found, depthwise)


def channels_of(layer: Any, side: str) -> int:
    """Return how many channels a convolution or fully connected layer has on a side."""
    if isinstance(layer, nn.Linear):
        return int(layer.out_features if side == OUT else layer.in_features)
    return int(layer.out_channels if side == OUT else layer.in_channels)


def _multiplies(layer: nn.Module) -> bool:
    return isinstance(layer, (*CONVOLUTIONS, nn.Linear))


def _obstacle(group: Group, model: nn.Module, excludes: Sequence[str]) -> str:
    """Return why the channels of a group have to stay; nothing if they need not."""
    for path in group.producers():
        for excluded in excludes:
            if path == excluded or path.startswith(f"{excluded}."):
                return f"{path} is excluded"
    if group.units < 2:
        return "there is nothing to choose from"
    if any(member.path == "" for member in group.members):
        return "the network is a single layer"
    return ""
