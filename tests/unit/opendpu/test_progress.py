# SPDX-License-Identifier: Apache-2.0
"""What is going on is for terminals."""

import functools
import io

import pytest
from rich.console import Console

from opendpu.cli import progress


@pytest.mark.parametrize("terminal", [True, False])
def test_only_terminals_see_it(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    screen = io.StringIO()
    made = functools.partial(Console, file=screen, force_terminal=terminal, width=60)
    monkeypatch.setattr(progress, "Console", lambda stderr: made())
    with progress.progress("compiling m.onnx") as show:
        show("quantizing")
    assert bool(screen.getvalue()) is terminal
    assert ("quantizing" in screen.getvalue()) is terminal
