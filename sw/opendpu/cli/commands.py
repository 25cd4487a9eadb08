# SPDX-License-Identifier: Apache-2.0
"""The commands of ``opendpu``, each of whose modules is imported when it is used."""

import importlib
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from opendpu_arch.errors import DPUError
from opendpu_arch.extras import needs

COMMANDS = {
    "compile": "Quantize a model of any framework, or take a quantized one, and compile it for a "
    "DPU.",
    "disasm": "List the instructions of an .xmodel, or of raw machine code (.bin, .mc).",
    "evaluate": "Say how good a network is on a data set: float, quantized, and a sample as "
    "hardware.",
    "info": "Say what is in a model: inputs, outputs, scales, and of a compiled one what runs "
    "where.",
    "inspect": "Say which operator of a model goes where on a DPU, and why; no data is needed.",
    "optimize": "Train a network of PyTorch, cut channels so that a DPU needs fewer cycles, "
    "quantize it.",
    "profile": "Run a compiled model once and say where its cycles went, layer by layer.",
    "quantize": "Quantize a model of any framework, so that it compiles for any target without "
    "data.",
    "run": "Run a model: a compiled one on arrays, or any on a photograph (--image).",
    "targets": "List the DPUs that have a name.",
}
"""What ``opendpu --help`` says of each: the docstrings of the functions that the modules beside
this one register, most of which bring the compiler with them."""


class Commands(TyperGroup):
    """A group whose commands are known by name and help until one of them is used."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, text in COMMANDS.items():
            if name not in self.commands:
                self.add_command(TyperCommand(name, help=text))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # of Click, which Typer may bring
        """Return the name of a command, the command with its options, and what follows it."""
        if args[0] in COMMANDS:
            self._register(args[0])
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, in the order of their list."""
        return list(COMMANDS)

    def _register(self, name: str) -> None:
        try:
            with needs("opendpu"):
                importlib.import_module(f"opendpu.cli.{name}")
        except DPUError as error:
            typer.echo(f"opendpu: error: {error}", err=True)
            raise typer.Exit(1) from None
        made = typer.main.get_command(importlib.import_module("opendpu.cli.app").app)
        assert isinstance(made, Commands)
        self.commands = made.commands
