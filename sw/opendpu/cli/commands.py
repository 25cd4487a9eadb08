# SPDX-License-Identifier: Apache-2.0
"""The commands of ``opendpu``, each of whose modules is imported when it is asked for."""

import importlib
from typing import Any

import typer
from typer.core import TyperGroup

from opendpu_arch.errors import DPUError

NAMES = (
    "compile", "disasm", "evaluate", "info", "inspect", "optimize", "profile", "quantize", "run",
    "targets",
)  # fmt: skip
"""Of the commands, and of the modules beside this one that register them."""


class Commands(TyperGroup):
    """A group whose commands are imported one by one: most bring the compiler with them."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # of Click, which Typer may bring itself
        """Return a command, of whose module nothing was needed until now."""
        if cmd_name in NAMES and cmd_name not in self.commands:
            self._register(cmd_name)
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        if not self.commands.keys() >= set(NAMES):
            self._register(*NAMES)
        return list(NAMES)

    def _register(self, *names: str) -> None:
        try:
            for name in names:
                importlib.import_module(f"opendpu.cli.{name}")
        except DPUError as error:  # a package that they need is too old
            typer.echo(f"opendpu: error: {error}", err=True)
            raise typer.Exit(1) from None
        app = importlib.import_module("opendpu.cli.app").app
        made = typer.main.get_command(app)
        assert isinstance(made, Commands)
        self.commands = made.commands
