# SPDX-License-Identifier: Apache-2.0
"""Which cluster Ray is asked for, and what is said of one that refuses; Ray is a stand-in."""

import sys
import types
from typing import Any

import pytest

from opendpu import cluster
from opendpu_arch.errors import ToolError


class AuthenticationError(Exception):
    """Ray's, of newer releases."""


def stand_in(monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[dict[str, Any]]:
    """Put a module in the place of Ray that refuses every cluster; return what it was asked."""
    asked: list[dict[str, Any]] = []

    def init(**given: Any) -> None:
        asked.append(given)
        raise error

    names = {"AuthenticationError": AuthenticationError}
    found = types.SimpleNamespace(
        is_initialized=lambda: False, init=init, exceptions=types.SimpleNamespace(**names)
    )
    monkeypatch.setitem(sys.modules, "ray", found)
    return asked


@pytest.mark.parametrize("address", ["local", "auto", "10.0.0.1:6379"])
def test_one_of_its_own_is_none_that_others_have_started(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    asked = stand_in(monkeypatch, ConnectionError("nobody answers"))
    with pytest.raises(ToolError, match=rf"no Ray cluster at '{address}' for this user: nobody"):
        next(cluster.calls(len, [1], [(0, 0, ())], address))
    assert [one["address"] for one in asked] == [address]


def test_a_cluster_that_wants_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, AuthenticationError("Token authentication is enabled.\nRead the manual."))
    wanted = r"at 'auto' asks who you are: Token authentication is enabled\.; .*RAY_AUTH_TOKEN"
    with pytest.raises(ToolError, match=wanted):
        next(cluster.calls(len, [1], [(0, 0, ())], "auto"))
