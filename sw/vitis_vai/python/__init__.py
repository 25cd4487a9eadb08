# SPDX-License-Identifier: Apache-2.0
"""Where AMD's package has its Python modules, for scripts that import them from there."""
