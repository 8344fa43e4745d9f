# SPDX-License-Identifier: Apache-2.0
# The extension module: the functions and types of include/holt, as cffi gives them.
from typing import Any

ffi: Any
lib: Any
