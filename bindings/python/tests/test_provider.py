# SPDX-License-Identifier: Apache-2.0
"""Providers: turns, identity, asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import holt
from holt import aio


@pytest.fixture
def events() -> list[holt.ProviderEvent]:
    return []


@pytest.fixture
def provider(
    home: holt.Home, image: str, events: list[holt.ProviderEvent], no_profile: dict[str, str]
) -> Iterator[holt.Provider]:
    config = {"image": image, "pull": "never", "environment": no_profile}
    made = holt.Provider(home, config, on_event=events.append)
    yield made
    made.shutdown()
    made.close()


def kinds(events: list[holt.ProviderEvent]) -> list[str]:
    return [event.kind for event in events]


def created_once(events: list[holt.ProviderEvent]) -> bool:
    """Whoever made it tells so, perhaps after another one has got it."""
    deadline = time.monotonic() + 20
    while "created" not in kinds(events) and time.monotonic() < deadline:
        time.sleep(0.01)
    return kinds(events).count("created") == 1


def test_a_turn_and_the_next_one(
    provider: holt.Provider, events: list[holt.ProviderEvent], tmp_path: Path
) -> None:
    first = provider.acquire("thread", user_id="user")
    assert first == holt.derive_sandbox_scope_token(user_id="user", thread_id="thread")
    sandbox = provider.get(first)
    assert sandbox is not None and sandbox.id == first
    assert sandbox.execute_command("echo in") == "in\n"
    assert provider.acquire("thread", user_id="user") == first
    provider.release(first)
    assert provider.get(first) is None
    provider.release(first)
    assert provider.acquire("thread", user_id="user") == first
    assert kinds(events) == ["created", "released", "reclaimed"]
    stats = provider.stats()
    assert (stats.created, stats.reclaimed, stats.reused, stats.active_here) == (1, 1, 1, 1)
    (entry,) = provider.entries()
    assert (entry.user_id, entry.thread_id, entry.state) == ("user", "thread", "active")


def test_ids_are_the_same_on_every_machine() -> None:
    def want(user: str, thread: str) -> str:
        return hashlib.sha256(f"{user}:{thread}".encode()).hexdigest()[:16]

    for user, thread in [("alice", "thread-1"), ("", "t"), ("u", ""), ("", ""), ("用户", "线程"),
                         ("u\0", "t"), ("a:b", "c"), ("x" * 1000, "y" * 1000)]:  # fmt: skip
        token = holt.derive_sandbox_scope_token(user_id=user, thread_id=thread)
        assert token == want(user, thread)
        assert holt.is_sandbox_scope_token(token)
    assert holt.derive_sandbox_scope_token(user_id="alice", thread_id="thread-1") == (
        "dc977b840cb8638e"
    )
    assert holt.derive_sandbox_scope_token(user_id=None, thread_id="t-1") == want("None", "t-1")
    with pytest.raises(UnicodeEncodeError):
        holt.derive_sandbox_scope_token(user_id="\ud800", thread_id="t")
    for value in ("", "0" * 15, "0" * 17, "DC977B840CB8638E", "dc977b840cb8638e\n", None, 123):
        assert holt.is_sandbox_scope_token(value) is False


def test_another_scope_of_the_same_id_is_refused(provider: holt.Provider) -> None:
    first = provider.acquire("c", user_id="a:b")
    with pytest.raises(holt.SandboxIdentityCollisionError) as collision:
        provider.acquire("b:c", user_id="a")
    assert str(collision.value).startswith(f"Sandbox ID collision for {first}")
    assert isinstance(collision.value, RuntimeError)
    assert provider.get(first) is not None
    provider.release(first)
    with pytest.raises(holt.SandboxIdentityCollisionError):
        provider.acquire("b:c", user_id="a")


def test_no_thread_is_a_sandbox_of_ones_own(provider: holt.Provider) -> None:
    first, second = provider.acquire(), provider.acquire()
    assert first != second and len(first) == len(second) == 8


def test_no_user_is_another_one_than_the_empty_user(provider: holt.Provider) -> None:
    assert provider.acquire("t-1") != provider.acquire("t-1", user_id="")


def test_reset_and_shutdown(home: holt.Home, image: str) -> None:
    provider = holt.Provider(home, {"image": image, "pull": "never"})
    first = provider.acquire("t", user_id="u")
    provider.reset()
    assert provider.get(first) is None
    with pytest.raises(RuntimeError):
        provider.acquire("t", user_id="u")
    provider.shutdown()
    provider.shutdown()
    with pytest.raises(holt.ClosedError):
        provider.acquire()
    assert [box for box in home.boxes() if (box.name or "").startswith("holt-")] == []
    provider.close()
    provider.shutdown()


def test_leases_park_with_the_last_owner(provider: holt.Provider) -> None:
    first = provider.acquire_lease("lead", "t", user_id="u")
    assert provider.acquire_lease("helper", "t", user_id="u") == first
    provider.release_lease("helper")
    assert provider.get(first) is not None
    provider.release_lease("lead")
    assert provider.get(first) is None


def test_configuration(home: holt.Home) -> None:
    config = holt.Config.of({"image": "x", "replicas": 5, "idle_timeout": 0, "other": None})
    assert (config.get("image"), config.get("replicas"), config.get("idle_timeout")) == (
        "x",
        "5",
        "0",
    )
    assert config.values()["replicas"] == 5
    assert holt.Config.of({"unheard_of": 1}).warnings()
    with pytest.raises(ValueError, match="replicas"):
        holt.Config.of({"replicas": 0})
    with pytest.raises(FileNotFoundError):
        holt.Config.load("/none.yaml")


# --- asyncio --------------------------------------------------------------------------------------


def test_acquiring_leaves_the_loop_alone(provider: holt.Provider) -> None:
    async def main() -> int:
        ticks = 0
        task = asyncio.create_task(provider.acquire_async("t", user_id="u"))
        while not task.done():
            ticks += 1
            await asyncio.sleep(0.001)
        await task
        return ticks

    assert asyncio.run(main()) > 2


def test_many_acquires_of_one_thread_make_one_sandbox(
    provider: holt.Provider, events: list[holt.ProviderEvent]
) -> None:
    async def main() -> set[str]:
        return set(
            await asyncio.gather(*(provider.acquire_async("t", user_id="u") for _ in range(20)))
        )

    assert len(asyncio.run(main())) == 1
    assert created_once(events)


def test_an_acquire_that_is_cancelled_is_finished_for_the_next_one(
    provider: holt.Provider, events: list[holt.ProviderEvent]
) -> None:
    async def main() -> None:
        task = asyncio.create_task(provider.acquire_async("t", user_id="u"))
        await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())  # and its loop is closed
    first = provider.acquire("t", user_id="u")
    assert provider.get(first) is not None
    assert created_once(events)
    assert provider.stats().acquiring == 0


def test_a_storm_of_cancelling(provider: holt.Provider, events: list[holt.ProviderEvent]) -> None:
    """200 acquires of five threads, cancelled at random times: nothing stays held or half made."""
    rng = random.Random(1)

    async def one(number: int) -> None:
        task = asyncio.create_task(provider.acquire_async(f"t{number % 5}", user_id="u"))
        await asyncio.sleep(rng.random() * 0.05)
        if rng.random() < 0.7:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            provider.release(await task)

    async def main() -> None:
        await asyncio.gather(*(one(i) for i in range(200)))

    asyncio.run(main())
    for number in range(5):
        sandbox_id = provider.acquire(f"t{number}", user_id="u")
        sandbox = provider.get(sandbox_id)
        assert sandbox is not None and sandbox.execute_command("echo ok") == "ok\n"
        provider.release(sandbox_id)
    assert provider.stats().acquiring == 0


def test_context_variables_come_along(home: holt.Home, image: str) -> None:
    seen: list[str | None] = []

    async def main() -> None:
        async with aio.Home(home.path) as mine:
            holt.trace_id.set("request-7")
            await aio.run(mine.sync, lambda: seen.append(holt.trace_id.get()))

    asyncio.run(main())
    assert seen == ["request-7"]
    assert holt.trace_id.get() is None


def test_boxes_and_sandboxes_for_asyncio(
    home: holt.Home, image: str, no_profile: dict[str, str]
) -> None:
    async def main() -> None:
        async with aio.Home(home.path) as mine, await mine.box(image, pull="never") as box:
            assert (await box.exec(["echo", "x"])).stdout == b"x\n"
            async with await box.popen(["sh", "-c", "echo a; echo b >&2"]) as program:
                assert sorted([piece async for piece in program]) == [(1, b"a\n"), (2, b"b\n")]
            sandbox = box.sandbox(env=no_profile)
            texts = await asyncio.gather(*(sandbox.execute_command(f"echo {i}") for i in range(20)))
            assert texts == [f"{i}\n" for i in range(20)]
            task = asyncio.create_task(sandbox.execute_command("sleep 1000"))
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for _ in range(200):
                if box.sync.stats().processes == 0:
                    break
                await asyncio.sleep(0.05)
            else:
                pytest.fail("the command of a cancelled call runs on")

    asyncio.run(main())


def test_a_box_whose_start_is_cancelled_goes(home: holt.Home, image: str) -> None:
    async def main() -> None:
        async with aio.Home(home.path) as mine:
            for pause in (0, 2, 10, 30):
                name = f"cancelled-{pause}"
                task = asyncio.create_task(mine.box(image, pull="never", name=name))
                await asyncio.sleep(pause / 1000)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    asyncio.run(main())
    deadline = threading.Event()
    for _ in range(200):
        if not [box for box in home.boxes() if (box.name or "").startswith("cancelled")]:
            return
        deadline.wait(0.05)
    pytest.fail("a box is left")
