# SPDX-License-Identifier: Apache-2.0
"""The command line, thin over :mod:`opendpu.api`; one file a command."""

from opendpu.cli.app import app
from opendpu.cli.main import main

__all__ = ["app", "main"]
