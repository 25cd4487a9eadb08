# SPDX-License-Identifier: Apache-2.0
"""TorchScript modules whose quantized networks become compiled ones, in place."""

import copy
import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from pytorch_nndct.export import torch_script
from pytorch_nndct.storage import restored
from wego_torch import messages
from wego_torch.artefact import FORM, Artefact
from wego_torch.build import compiled
from wego_torch.network import Network, alive
from wego_torch.options import CompileOptions

OPERATOR = "vai::quantized_network"


class _Running:
    """A compiled network out of a TorchScript module."""

    def __init__(self, saved: Mapping[str, Any]) -> None:
        self.network = Network(Artefact.of(saved))

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return self.network.run(inputs)


torch_script.readers[FORM] = _Running


def compile_script(
    module: torch.jit.ScriptModule,
    options: CompileOptions,
    show: Callable[[str], None] = lambda text: None,
) -> torch.jit.ScriptModule:
    """Return a copy of a module in which every quantized network is compiled.

    What else the module does remains operators of PyTorch. The copy can be saved, and loaded by
    whoever has imported this package.

    Raises
    ------
    WegoError
        The module has no quantized network, or was frozen, or has one that is compiled already.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = copy.deepcopy(module)
    count = 0
    for part, attribute in list(_networks(made)):
        content = getattr(part, attribute)
        saved = torch.load(io.BytesIO(content.cpu().numpy().tobytes()), weights_only=True)
        if saved.get("form") == FORM:
            raise messages.error(
                "WEGO_TORCH_INVALID_MODEL", f"module {name_of(module)} is compiled already"
            )
        found = compiled(
            restored(saved["graph"], saved["constants"]), saved["names"], options,
            batched=saved["batched"], show=show,
        )  # fmt: skip
        buffer = torch.frombuffer(bytearray(found.to_bytes()), dtype=torch.uint8)
        part._c.setattr(attribute, buffer)
        count += 1
    if not count:
        raise messages.error(
            "WEGO_TORCH_INVALID_MODEL",
            f"module {name_of(module)} has no quantized network: compile takes what "
            "wego_torch.quantize or the quantizer's export_torch_script has made",
        )
    return with_short_errors(made)


def with_short_errors(module: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    """Let a module raise our errors as they are, not within TorchScript's; return it."""
    plain: Any = type(module)

    class Compiled(plain):  # type: ignore[misc]
        """A TorchScript module with compiled networks in it."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            with torch_script.in_one_line():
                return super().__call__(*args, **kwargs)

    Compiled.__name__ = Compiled.__qualname__ = plain.__name__
    module.__class__ = Compiled
    return module


def artefacts_of(module: torch.jit.ScriptModule) -> list[Artefact]:
    """Return the compiled networks in a module."""
    found = []
    for part, attribute in _networks(module):
        content = getattr(part, attribute).cpu().numpy().tobytes()
        saved = torch.load(io.BytesIO(content), weights_only=True)
        if saved.get("form") == FORM:
            found.append(Artefact.of(saved))
    return found


def networks_of(module: Any) -> list[Network]:
    """Return the compiled networks of a module, ready to run; none if it has none.

    Those that ``torch.compile`` has made do not belong to a module: all of the process are given.
    """
    if isinstance(module, torch.jit.ScriptModule):
        ready = [torch_script.ready(getattr(p, name)) for p, name in list(_networks(module))]
        return [one.network for one in ready if isinstance(one, _Running)]
    parts = list(module.modules()) if isinstance(module, torch.nn.Module) else []
    own = [getattr(part, "network", None) for part in parts]
    found = [one for one in own if isinstance(one, Network)]
    return found or (list(alive) if _is_for_dynamo(module) else [])


def _is_for_dynamo(module: Any) -> bool:
    """Return whether ``torch.compile`` has made a function or module, or a part of it."""
    if not isinstance(module, torch.nn.Module):
        return hasattr(module, "_torchdynamo_orig_callable")
    return any(
        hasattr(part, "_orig_mod") or part._compiled_call_impl is not None
        for part in module.modules()
    )


def _networks(module: torch.jit.ScriptModule) -> Iterator[tuple[Any, str]]:
    """Return modules that call the operator of a network, and the attribute that holds it."""
    seen = set()
    for part in module.modules():
        graph = getattr(part, "graph", None)
        if graph is None:
            continue
        for node in graph.findAllNodes(OPERATOR):
            holder = list(node.inputs())[1].node()
            if holder.kind() != "prim::GetAttr":
                raise messages.error(
                    "WEGO_TORCH_INVALID_MODEL",
                    f"module {name_of(module)} was frozen: its quantized network is a constant; "
                    "give it as it was exported",
                )
            attribute = holder.s("name")
            if (id(part), attribute) not in seen:
                seen.add((id(part), attribute))
                yield part, attribute


def name_of(module: torch.nn.Module) -> str:
    """Return the class of a module, of a TorchScript module that of its original."""
    return str(getattr(module, "original_name", type(module).__name__))
