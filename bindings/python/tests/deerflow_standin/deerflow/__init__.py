# SPDX-License-Identifier: Apache-2.0
"""A stand-in for DeerFlow: what a sandbox provider meets of it, and no more."""
