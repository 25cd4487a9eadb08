# SPDX-License-Identifier: Apache-2.0
"""A user's network, out of a Python file."""

import importlib.util
import pathlib
import sys

import torch
from torch import nn

from opendpu_arch import outputs
from opendpu_arch.errors import ModelFormatError

SEPARATOR = ":"


def load_module(text: str, weights: pathlib.Path | None = None, seed: int = 0) -> nn.Module:
    """Return the network that ``MODEL.py:net`` names.

    ``net`` is a module, or a class or function that returns one without arguments. The folder of
    the file is where its own imports are looked for, too.

    Parameters
    ----------
    text
        File, colon, name.
    weights
        A file with its state, as ``torch.save(net.state_dict(), …)`` writes it.
    seed
        What PyTorch's generator starts from, so that a network is the same every time.

    Raises
    ------
    ModelFormatError
        The file cannot be read or run, there is no such name, it is no network, or the state is not
        one of it.
    """
    file, _, name = text.rpartition(SEPARATOR)
    path = pathlib.Path(file)
    if not file or not name:
        raise ModelFormatError(f"{text!r} names no network: write MODEL.py:NAME")
    if not path.is_file():
        raise ModelFormatError(f"{path}: no such file")
    torch.manual_seed(seed)
    found = getattr(_run(path), name, None)
    if found is None:
        raise ModelFormatError(f"{path} has no {name!r}")
    try:
        model = found if isinstance(found, nn.Module) else found()
    except Exception as error:  # whatever the user's code raises
        raise ModelFormatError(f"{text}: {_reason(error)}") from error
    if not isinstance(model, nn.Module):
        raise ModelFormatError(f"{text} is a {type(model).__name__}, but must be a torch.nn.Module")
    if weights is not None:
        try:
            model.load_state_dict(torch.load(weights, weights_only=True))
        except Exception as error:  # files, pickles, names and shapes
            raise ModelFormatError(f"{weights} is no state of {name}: {_reason(error)}") from error
    return model


def save_state(model: nn.Module, path: pathlib.Path) -> None:
    """Write the state of a network, complete or not at all."""
    with outputs.writing(path) as file:
        torch.save(model.state_dict(), file)


def _run(path: pathlib.Path) -> object:
    """Return a user's file as a module, which other processes find as this one does.

    Its folder stays on the path, as that of a script does.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the user's code raises
        sys.path.remove(folder)
        if before is None:
            del sys.modules[path.stem]
        else:
            sys.modules[path.stem] = before
        raise ModelFormatError(f"{path} cannot be run: {_reason(error)}") from error
    return module


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).strip() or 'no reason').splitlines()[0]}"
