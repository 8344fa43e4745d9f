# SPDX-License-Identifier: Apache-2.0
"""usage: python_worker.py BOX: a line on stdin names a call, one on stdout tells its milliseconds."""

import sys
import time

import holt

box = holt.Home().get(sys.argv[1])
sandbox = box.sandbox()
data = bytes(1_000_000)
calls = {
    "ping": box.ping,
    "true": lambda: sandbox.execute("true"),
    "write": lambda: sandbox.update_file("/tmp/python", data),
}
for line in sys.stdin:
    call = calls[line.strip()]
    before = time.perf_counter()
    call()
    print(f"{(time.perf_counter() - before) * 1e3:.6f}", flush=True)
