# SPDX-License-Identifier: Apache-2.0
"""Plug-ins of the compiler: ops for accelerators of your own, with the guide's interface.

A plug-in is a module, or a ``.py`` file, with a function ``get_plugin`` that returns a
:class:`Plugin`. The compiler runs plug-ins before it looks for ops of the DPU.
"""

from opendpu.plugin.base import Plugin
from opendpu.plugin.helper import PluginHelper
from opendpu.plugin.template import GraphTemplate, OpTemplate

__all__ = ["GraphTemplate", "OpTemplate", "Plugin", "PluginHelper"]
