# SPDX-License-Identifier: Apache-2.0
"""Waiting for the library's descriptors in an event loop."""

from __future__ import annotations

import asyncio


async def readable(fd: int) -> None:
    """Wait until a descriptor is readable."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not over.done():
            over.set_result(None)

    loop.add_reader(fd, tell)
    try:
        await over
    finally:
        loop.remove_reader(fd)
