# SPDX-License-Identifier: Apache-2.0
"""The command line, thin over :mod:`opendpu.api`; one file a command.

Other programs take their frame from :mod:`opendpu.cli.app`: nothing is imported here that only
the command ``opendpu`` needs, which is :mod:`opendpu.cli.main`.
"""
