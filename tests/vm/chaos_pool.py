# SPDX-License-Identifier: Apache-2.0
"""For tests/vm/chaos: the same of a provider's sandboxes, by `holt sandbox`.

Whatever dies: what was a thread's is whole or gone, nobody else ever sees it, nothing is held by
the dead, and the thread's next call works.
"""

import hashlib
import json
import os
import time

WORK = "/mnt/user-data/workspace"
RUNS = {"running", "paused"}
HELD_S = 1  # the promise is 100 ms
NEXT_S = 20  # of the next call: it waits for a guest's answer for 5 s, then makes a fresh box
LINES = 20000  # of a thread's file: more than one write
CONFIGS = {
    "pool": [],
    "one": ["replicas: 1"],
    "idle": ["idle_timeout: 1"],
    "stop": ["on_idle: stop"],
    "idle-stop": ["idle_timeout: 1", "on_idle: stop"],
}


class Failure(Exception):
    pass


def box_of(thread):
    return "holt-default-" + hashlib.sha256(f"u:{thread}".encode()).hexdigest()[:16]


def scope(config, thread="t"):
    return ["--config", "{lane}/" + config + ".yaml", "--for", "u", "--thread", thread]


def pool_points(point):
    """The points of a pool; @point makes one."""
    all3, processes, client = ("client", "keeper", "qemu"), ("keeper", "qemu"), ("client",)
    made = {"gone", "created", "owner gone"} | RUNS
    # The client makes a fresh one where it finds out in time.
    fails = {"keeper": {"gone", "lost"} | RUNS, "qemu": {"gone", "crashed"} | RUNS}
    # One that is not kept goes with its keeper's end, or by whoever looks next.
    ends = {"keeper": {"gone", "lost"}, "qemu": {"gone", "crashed"}}
    stops = {"keeper": {"stopped", "lost"}, "qemu": {"stopped", "crashed"}}
    evicts = {"client": {"gone", "killed"} | RUNS, "keeper": {"gone", "killed", "lost"} | RUNS,
              "qemu": {"gone", "killed", "crashed"} | RUNS}
    acquire = ["sandbox", "acquire"]
    turn = ["sandbox", "exec"]
    begins = ["--", f"cd {WORK} && cat f; head -c 2000000 /dev/zero; echo x >g"]
    nothing = ["--", "true"]

    def at(name, needs, argv, victims, outcomes, *moment, **more):
        return point("pool-" + name, "pool " + needs, argv, victims, outcomes, *moment,
                     box=box_of(more.pop("thread", "t")), **{"pool": "pool", **more})

    return [
        at("acquire", "nothing", acquire + scope("pool"), client, {"client": made}),
        at("make", "nothing", acquire + scope("pool"), all3, {"client": made, **fails}, "vm"),
        at("claim", "spare", acquire + scope("pool"), all3, {"client": made, **fails}),
        at("turn", "warm", turn + scope("pool") + begins, all3, {"client": RUNS, **fails},
           keeps=client),
        at("renew", "leased", acquire + scope("pool") + ["--ttl", "2h"], all3,
           {"client": RUNS, **fails}, keeps=client),
        at("release", "leased", ["sandbox", "release"] + scope("pool"), all3,
           {"client": RUNS, **ends}, keeps=client),
        at("lease-end", "warm", acquire + scope("pool") + ["--ttl", "300ms"], processes, ends,
           after=0.15, span=0.3),
        at("evict", "other", turn + scope("one") + nothing, all3, evicts, thread="o"),
        at("idle", "warm", turn + scope("idle") + nothing, processes, ends, after=0.8, span=0.5),
        at("idle-stop", "kept", turn + scope("idle-stop") + nothing, processes, stops,
           after=0.8, span=0.7, pool="stop", keeps=processes),
        at("go-on", "stopped", turn + scope("stop") + nothing, all3,
           {"client": {"stopped", "owner gone"} | RUNS, **fails}, "vm", pool="stop",
           keeps=client, starts=True),
    ]


class Pool:
    """The pool of a lane's home: what its threads have written, and what is to be seen of it."""

    def __init__(self, lane):
        self.lane = lane
        self.serial = 0
        self.written = {}  # by thread
        for name, lines in CONFIGS.items():
            with open(os.path.join(lane.path, name + ".yaml"), "w", encoding="utf-8") as f:
                f.write("".join(["sandbox:\n  image: demo\n"] + [f"  {line}\n" for line in lines]))

    def turn(self, thread, command, config="pool"):
        return self.lane.run("sandbox", "exec", *scope(config, thread), "--", command)

    def fill(self, thread, config="pool"):
        """A box with a file that no other box ever has."""
        self.serial += 1
        line = f"{thread} {self.serial}"
        self.turn(thread, f"cd {WORK} && yes '{line}' | head -n {LINES} >f && sync", config)
        self.written[thread] = f"{line}\n" * LINES

    def prepare(self, needs):
        if needs == "pool spare":
            self.lane.run("template", "spares", "demo", "1")
        elif needs == "pool other":
            self.fill("o")
        elif needs in ("pool warm", "pool leased"):
            self.fill("t")
        elif needs in ("pool kept", "pool stopped"):
            self.fill("t", "stop")
        if needs == "pool leased":
            self.lane.run("sandbox", "acquire", *scope("pool"), "--ttl", "1h")
        elif needs == "pool stopped":
            self.lane.run("stop", "-t", "0", box_of("t"))

    def tidy(self, rows):
        self.written = {}
        names = [name for name in rows if name.startswith("holt-")]
        if names:
            self.lane.run("rm", "-f", *names)

    def dirs(self, name):
        """The directory of the box of that name, as a set."""
        row = self.lane.listing().get(name)
        return {os.path.join(self.lane.boxes, row["id"])} if row else set()

    # ---- judging ----

    def entries(self):
        rows = self.lane.run("sandbox", "ps", "--config", "{lane}/pool.yaml", "--json")
        return {row["thread"]: row for row in map(json.loads, rows.splitlines())}

    def check_held(self):
        """No process of ours lives: what is active is so by a lease."""
        end = time.monotonic() + HELD_S
        while True:
            held = [row for row in self.entries().values() if row["state"] == "making" or
                    (row["state"] == "active" and not row["lease_until"])]
            if not held:
                return
            if time.monotonic() > end:
                raise Failure(f"held by nobody who lives, for {HELD_S} s: {held}")
            time.sleep(0.05)

    def check_thread(self, thread, config, must):
        """The thread's next call; it finds what was written, or, unless it @must, nothing."""
        start = time.monotonic()
        found = self.turn(thread, f"cd {WORK} || exit 9; cat f 2>/dev/null || true", config)
        took = time.monotonic() - start
        if took > NEXT_S:
            raise Failure(f"the next call of thread {thread} took {took:.1f} s")
        written = self.written.get(thread, "")
        if found != written and (found or must):
            raise Failure(f"thread {thread} finds {len(found)} bytes of {sorted(set(found.split()))},"
                          f" not the {len(written)} of {written[:8]!r}")

    def check(self, point, victim, hit):
        self.check_held()
        keeps = hit and victim in point.keeps
        if keeps and point.name == "pool-renew" and not self.entries()["t"]["lease_until"]:
            raise Failure("the lease is gone")
        # One whose box is there or was, and one that begins: it finds nothing of theirs.
        threads = sorted({"t", "x"} | set(self.written))
        for thread in threads:
            self.check_thread(thread, point.pool, keeps and thread in self.written)
        states = {thread: row["state"] for thread, row in self.entries().items()}
        if sorted(states) != threads or not set(states.values()) <= {"warm", "active"}:
            raise Failure(f"after calls of {threads} the pool has {states}")
