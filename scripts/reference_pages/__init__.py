# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/reference, a module each; every one has a function ``page``."""
