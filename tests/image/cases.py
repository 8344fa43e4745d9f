#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: cases.py make DIR [SEED [N]]
       cases.py compare DIR WHAT LISTING [ROW]

make: image cases, each in a directory of its own under DIR:
    layout      the image
    peer        what umoci gets: the same layers in a compression that it knows (often just a link)
    expected    what is in it (the form of listing.c), from model.py or, for images that were made as
                the difference of two trees, that tree itself
    row         the row of docs/conformance.md that it belongs to
    loose       there only if of umoci's directories no owner, mode and time is compared: it leaves the
                time at which it removed something, and lets directories live of which a layer said
                that they are removed when the same layer put something into them
    why         there only if umoci is not asked: why it would be wrong
Without SEED the cases are those that `make check` runs; another seed changes the random ones.

compare: LISTING of many cases (a line "== DIR/CASE" before each) against `expected`. WHAT is "guest" or
"umoci"; of umoci's tree the number of links of a directory is not compared, since it depends on the
file system.
"""

import os
import random
import sys

from model import Inode, Model, Node, expected, listing
from tarmaker import (BLK, CHR, DIR, FIFO, HARD, REG, SYM, Layout, header, pad, pax, sparse, stream)


def b(text):
    return text.encode() if isinstance(text, str) else text


def f(name, data="data", **more):
    return {"name": b(name), "kind": REG, "mode": 0o644, "mtime": 1000, "data": b(data), **more}


def d(name, mode=0o755, **more):
    return {"name": b(name), "kind": DIR, "mode": mode, "mtime": 2000, **more}


def s(name, target, **more):
    return {"name": b(name), "kind": SYM, "mode": 0o777, "mtime": 3000, "link": b(target), **more}


def h(name, target, **more):
    return {"name": b(name), "kind": HARD, "mtime": 1000, "link": b(target), **more}


def dev(name, kind, major=0, minor=0, **more):
    return {"name": b(name), "kind": kind, "mode": 0o600, "mtime": 4000, "dev": (major, minor), **more}


def w(name):
    dirs, _, last = b(name).rpartition(b"/")
    return f((dirs + b"/" if dirs else b"") + b".wh." + last, "")


def opaque(name):
    return f(b(name) + b"/.wh..wh..opq", "")


CASES = []
ROW = [""]  # that the next cases belong to


def case(name, *layers, how="gzip", why=None, tree=None):
    CASES.append({"name": name, "layers": [list(l) for l in layers], "how": how, "why": why, "tree": tree,
                  "row": ROW[0]})


BASE = [d("a"), f("a/one", "1"), f("a/two", "2"), d("a/sub"), f("a/sub/deep", "3"), s("a/link", "one"),
        f("top", "top"), d("empty"), dev("a/pipe", FIFO)]


def whiteouts():
    for n, gone in enumerate(["a/one", "a", "a/sub", "a/link", "top", "empty", "a/pipe", "a/sub/deep", "nothing",
                              "no/dir/here"]):
        case(f"gone-{n}", BASE, [w(gone)])
    case("gone-and-back", BASE, [w("a/one")], [f("a/one", "again")])
    case("gone-then-added-in-layer", BASE, [w("a/one"), f("a/one", "new")])
    case("added-then-gone-in-layer", BASE, [f("a/one", "new"), w("a/one")])
    case("new-and-gone-in-layer", BASE, [f("fresh", "new"), w("fresh")])
    case("dir-gone-then-added-in-layer", BASE, [w("a"), d("a", 0o700), f("a/new", "n")])
    case("dir-added-then-gone-in-layer", BASE, [d("a", 0o700), f("a/new", "n"), w("a")],
         why="it leaves the time at which it removed something in the directory")
    case("dir-gone-becomes-file", BASE, [w("a"), f("a", "file")])
    case("dir-gone-becomes-link", BASE, [w("a"), s("a", "empty")])
    case("file-gone-becomes-dir", BASE, [w("top"), d("top"), f("top/in", "x")])
    case("gone-twice", BASE, [w("a/one")], [w("a/one")])
    case("gone-in-same-dir-as-new", BASE, [d("a"), w("a/two"), f("a/three", "3")])
    case("whiteout-before-its-target", [w("late"), d("x")], [f("late", "here")])
    case("whiteout-alone", [w("x")], [f("y", "y")])
    case("whiteout-of-hard-link-name", [f("x", "x"), h("y", "x"), h("z", "x")], [w("x")])
    case("whiteout-of-both-links", [f("x", "x"), h("y", "x"), h("z", "x")], [w("x"), w("y")])
    case("whiteout-as-hard-link", BASE, [h("a/.wh.one", "top")],
         why="it makes a link first and then looks for its name")
    case("whiteout-as-hard-link-to-whiteout", BASE, [w("a/one"), h("a/.wh.two", "a/.wh.one")],
         why="the first whiteout is no file that could be linked to")
    case("whiteout-as-symlink", BASE, [s("a/.wh.one", "top")])
    case("whiteout-as-dir", BASE, [d("a/.wh.one")])
    case("whiteout-as-device", BASE, [dev("a/.wh.one", CHR, 0, 0)])
    case("aufs-names", BASE, [f(".wh..wh.aufs", ""), d(".wh..wh.plnk"), f(".wh..wh.plnk/12.34", "x"), f("new", "n")],
         why="it keeps book-keeping of aufs as files")
    case("whiteout-through-lower-symlink", [d("real"), f("real/x", "1"), f("real/y", "2"), s("via", "real")],
         [w("via/x")])
    case("whiteout-in-root-of-opaque", BASE, [d("a"), opaque("a"), w("a/sub")])
    case("names-like-whiteouts", [f("wh.x", "1"), f(".whx", "2"), f("a.wh.b", "3"), f(".w", "4")], [w("wh.x")])
    case("whiteout-of-odd-name", [f(b"\xff\xfe", "1"), f("a\nb", "2"), f("a:b", "3")],
         [w(b"\xff\xfe"), w("a\nb")])
    case("whiteout-longest", [f("n" * 251, "1"), f("m" * 251, "2")], [w("n" * 251)])


def opaques():
    case("opaque-first", BASE, [d("a"), opaque("a"), f("a/new", "n")])
    case("opaque-last", BASE, [d("a"), f("a/new", "n"), opaque("a")])
    case("opaque-between", BASE, [d("a"), f("a/n1", "n"), opaque("a"), f("a/n2", "n")])
    case("opaque-without-dir", BASE, [opaque("a")])
    case("opaque-before-dir", BASE, [opaque("a"), d("a", 0o711)])
    case("opaque-root", BASE, [opaque("."), f("only", "o")])
    case("opaque-keeps-rewritten", BASE, [d("a"), f("a/one", "new"), opaque("a")])
    case("opaque-sub-keeps-parent", BASE, [opaque("a/sub"), f("a/sub/new", "n")])
    case("opaque-new-dir", BASE, [d("fresh"), opaque("fresh"), f("fresh/x", "x")])
    case("opaque-missing-dir", BASE, [opaque("fresh")],
         why="whether the directory comes to be is not told anywhere")
    case("opaque-deep-new", BASE, [f("a/sub/n/m", "x"), opaque("a")])
    case("opaque-twice", BASE, [opaque("a"), f("a/x", "x")], [opaque("a"), f("a/y", "y")])
    case("opaque-then-below", BASE, [opaque("a")], [f("a/sub/x", "x")],
         why="it leaves the time at which it removed something in the directory")
    case("opaque-on-file-now-dir", [f("x", "file")], [d("x"), opaque("x"), f("x/in", "i")])
    case("opaque-symlink-dir", [d("r"), f("r/x", "1"), s("l", "r")], [opaque("l"), f("l/y", "2")])
    case("opaque-then-file-over-dir", BASE, [d("a"), opaque("a")], [f("a", "file")])


def links():
    case("hard-in-layer", [f("x", "x"), h("y", "x"), d("z"), h("z/w", "y")])
    case("hard-across", [f("x", "x")], [h("y", "x")], [h("z", "y")])
    case("hard-then-target-replaced", [f("x", "x"), h("y", "x")], [f("x", "new")])
    case("hard-across-then-replaced", [f("x", "x")], [h("y", "x")], [f("x", "new")])
    case("hard-across-then-gone", [f("x", "x")], [h("y", "x")], [w("x")])
    case("hard-across-gone-in-layer", [f("x", "x")], [h("y", "x"), w("x")],
         )
    case("hard-old-then-new-in-layer", [f("x", "old")], [h("y", "x"), f("x", "new"), h("z", "x")])
    case("hard-to-symlink", [f("x", "x"), s("l", "x"), h("m", "l")])
    case("hard-to-dangling-symlink", [s("l", "nowhere"), h("m", "l")])
    case("hard-to-symlink-across", [s("l", "x")], [h("m", "l"), f("x", "x")])
    case("hard-to-devices", [dev("c", CHR, 1, 3), h("c2", "c"), dev("b", BLK, 7, 300), h("b2", "b"),
                             dev("p", FIFO), h("p2", "p")])
    case("hard-to-device-across", [dev("c", CHR, 1, 3)], [h("c2", "c")])
    case("hard-deferred", [h("y", "x"), f("x", "x")], why="it needs the target first")
    case("hard-deferred-to-symlink", [h("m", "l"), s("l", "x")], why="it needs the target first")
    case("hard-deferred-chain", [h("z", "y"), h("y", "x"), f("x", "x")], why="it needs the target first")
    case("hard-through-symlink-dir", [d("r"), f("r/x", "x"), s("v", "r"), h("y", "v/x")])
    case("hard-absolute-target", [d("r"), f("r/x", "x"), h("y", "/r/x"), h("z", "./r/./x")])
    case("through-hard-to-symlink", [d("r"), s("l", "r"), h("m", "l")], [f("m/x", "x"), h("n", "m"), f("n/y", "y")])
    case("through-hard-to-symlink-across", [d("r"), s("l", "r")], [h("m", "l"), f("m/x", "x")], [f("m/y", "y")])
    case("through-hard-to-hard-to-symlink", [d("r"), s("l", "r")], [h("m", "l")], [h("n", "m")], [f("n/x", "x")])
    case("hard-over-file", [f("x", "x"), f("y", "y")], [h("y", "x")])
    case("hard-over-dir", [f("x", "x"), d("y"), f("y/in", "i")], [h("y", "x")])
    case("hard-replaced-by-dir", [f("x", "x"), h("y", "x")], [d("y"), f("y/in", "i")])
    case("hard-with-attributes", [f("x", "x", uid=5, gid=6, mode=0o4755, xattrs={b"user.k": b"v"}), h("y", "x")])
    case("hard-many", [f("x", "x"), *[h(f"y{i}", "x") for i in range(300)]])
    case("hard-empty-file", [f("x", ""), h("y", "x")], [h("z", "y")])
    case("hard-to-opaque-away", [d("a"), f("a/x", "x")], [h("y", "a/x"), d("a"), opaque("a")])
    case("hard-each-layer", [f("x", "1")], [h("y1", "x"), f("x", "2")], [h("y2", "x"), f("x", "3")], [h("y3", "x")])
    case("hard-with-mode-in-header", [f("x", "x"), h("y", "x", mode=0o600, uid=9)],
         why="it sets the owner of the link's header on what both names share")


def replaced():
    case("file-by-file", BASE, [f("a/one", "new", mode=0o600)])
    case("dir-by-file", BASE, [f("a", "file")])
    case("dir-by-symlink", BASE, [s("a", "empty")])
    case("dir-by-file-and-back", BASE, [f("a", "file")], [d("a"), f("a/x", "x")])
    case("dir-by-symlink-and-back", BASE, [s("a", "empty")], [d("a", 0o711), f("a/x", "x")])
    case("symlink-by-dir", [s("l", "t"), d("t"), f("t/x", "x")], [d("l"), f("l/y", "y")])
    case("symlink-by-file", [s("l", "t"), f("t", "t")], [f("l", "new")])
    case("file-by-symlink", BASE, [s("top", "a")])
    case("file-by-dir", BASE, [d("top"), f("top/x", "x")])
    case("device-by-file", [dev("c", CHR, 1, 3)], [f("c", "x")])
    case("dir-metadata", BASE, [d("a", 0o1777, uid=3, gid=4, mtime=77)])
    case("dir-metadata-drops-attributes", [d("a", xattrs={b"user.x": b"1"})], [d("a")],
         why="it keeps attributes that the newer entry does not have")
    case("twice-in-layer", [f("x", "one"), f("x", "two")])
    case("dir-twice-in-layer", [d("x", 0o700), f("x/in", "i"), d("x", 0o755)])
    case("dir-then-file-in-layer", [d("x"), f("x/in", "i"), f("x", "file")])
    case("file-then-dir-in-layer", [f("x", "file"), d("x"), f("x/in", "i")])
    case("below-lower-symlink", [d("r"), f("r/x", "1"), s("v", "r")], [f("v/y", "2")])
    case("below-lower-absolute-symlink", [d("r/s"), s("v", "/r/s")], [f("v/y", "2"), d("v/sub"), f("v/sub/z", "3")])
    case("below-symlink-upwards", [d("r"), s("r/v", "../../../other"), d("other")], [f("r/v/y", "2")])
    case("below-symlink-chain", [d("r"), s("v1", "r"), s("v2", "v1")], [f("v2/y", "2")])
    case("below-dangling-symlink", [s("v", "later")], [f("v/y", "2")])
    case("below-symlink-replaces", [d("r"), f("r/x", "1"), s("v", "r")], [f("v/x", "2")])
    case("usr-merge", [d("usr/bin"), s("bin", "usr/bin"), f("usr/bin/sh", "sh")], [f("bin/ls", "ls")],
         [w("bin/sh")], [d("usr/bin", 0o700)])
    case("children-first", [f("p/q/r", "x"), d("p/q", 0o700), d("p", 0o711)])
    case("root-described", [d(".", 0o700, uid=1, gid=2, mtime=5), f("x", "x")])
    case("root-as-slash", [d("/", 0o711, mtime=6), f("/abs", "x"), f("./dot", "y"), f("a//b/./c", "z")],
         why="it does not set the root's own time under the name '/'")
    case("trailing-slashes", [d("x/"), d("x/y/"), f("x/y/z", "z")])


LONG = "/".join(["d%03d" % i + "x" * 96 for i in range(36)])


def names():
    for form in ("pax", "gnu"):
        case(f"name-101-{form}", [f("n" * 101, "x", form=form)])
        case(f"name-255-{form}", [f("n" * 255, "x", form=form), d("d" * 255, form=form)])
        case(f"path-3600-{form}", [f(LONG + "/file", "x", form=form)])
        case(f"path-4096-{form}", [f((LONG + "/" + "y" * 200 + "/" + "z" * 255)[:4070] + "/end", "x", form=form)],
             why="the path with the directory it unpacks to is longer than the kernel takes")
        case(f"link-4095-{form}", [s("l", "t/" * 2047 + "t", form=form)])
        case(f"hard-long-{form}", [f(LONG + "/file", "x", form=form), h("y", LONG + "/file", form=form)])
    for n, odd in enumerate([b"\xff\xfe\x80", b"new\nline", b"co:lon", b"tab\there", b"back\\slash", b"sp ace ", b" ",
                             b"\x01\x02\x7f", "\u00fc\u4e2d\U0001f600".encode(), b"e\xcc\x81", b"*?[x]", b"-rf",
                             b"...", b"..x", b"x..", b"\xc3", b"'\"`$(x)", b"%n%s"]):
        case(f"bytes-{n}", [f(odd, "x"), d(b"d" + odd), f(b"d" + odd + b"/" + odd, "y"), s(b"l" + odd, odd),
                            h(b"h" + odd, odd)])
        if n < 9:
            case(f"bytes-pax-{n}", [f(odd, "x", pax_names=True), s(b"l" + odd, odd, pax_names=True)])
    case("bytes-255", [f(bytes([128 + i % 128 for i in range(255)]), "x")])
    case("bytes-all", [f(bytes([i]), "x") for i in range(1, 256) if i not in (0x2E, 0x2F)])
    why = "it does not know global headers"
    case("global-pax", [{"bytes": pax([(b"comment", b"made by git")], b"g")}, f("x", "x")], why=why)
    case("global-pax-twice", [{"bytes": pax([(b"comment", b"1")], b"g")}, f("x", "x"),
                              {"bytes": pax([(b"comment", b"2")], b"g")}, f("y", "y")], why=why)
    case("pax-unknown-keys", [f("x", "x", pax=[(b"VENDOR.thing", b"\x01\xff"), (b"comment", b"c")])])
    case("pax-times", [f("x", "x", mtime=1234567890, frac=b".987654321", pax=[(b"atime", b"5.5"), (b"ctime", b"6")])])


def sparse_files():
    pieces = [(0, b"begin"), (70000, b"middle" * 100), (200000, b"end")]
    for form in ("old", "0.0", "0.1", "1.0"):
        why = "it does not know this form" if form == "old" else None
        case(f"sparse-{form}", [sparse(form, b"x", 200003, pieces, mtime=1000), f("y", "after")], why=why)
        case(f"sparse-hole-first-{form}", [sparse(form, b"x", 300000, [(150000, b"in")], mtime=1000)], why=why)
        case(f"sparse-hole-only-{form}", [sparse(form, b"x", 300000, [], mtime=1000), f("y", "after")], why=why)
        many = [(i * 10000, b"%04d" % i) for i in range(60)]
        case(f"sparse-many-{form}", [sparse(form, b"x", 600000, many, mtime=1000), f("y", "after")], why=why)
    case("sparse-hard-link", [sparse("1.0", b"x", 200003, pieces, mtime=1000), h("y", "x")], [f("x", "new")])


def limits():
    for n, own in enumerate([1000, 65534, 65536, 2097151, 2097152, 2 ** 31 - 1, 2 ** 31]):
        case(f"owner-{n}", [f("x", "x", uid=own, gid=own - 1), d("d", uid=own), s("l", "x", gid=own)])
    case("owner-gnu", [f("x", "x", uid=2 ** 31 - 1, gid=2 ** 31, form="gnu")])
    for n, t in enumerate([0, 1, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 33, -1, -2 ** 31]):
        case(f"time-{n}", [f("x", "x", mtime=t), d("d", mtime=t), s("l", "x", mtime=t)])
    case("time-gnu", [f("x", "x", mtime=2 ** 33, form="gnu"), f("y", "y", mtime=-5, form="gnu")])


def metadata():
    for n, mode in enumerate([0, 0o4755, 0o2755, 0o6711, 0o1777, 0o7777, 0o400]):
        case(f"mode-{n}", [f("x", "x", mode=mode, uid=12, gid=13), d("d", mode, uid=12, gid=13)])
    cap = bytes.fromhex("0100000202000000000000000000000000000000")[:20]
    case("capability", [f("ping", "x", mode=0o755, uid=3, gid=3, xattrs={b"security.capability": cap})])
    case("capability-setuid", [f("x", "x", mode=0o6755, uid=3, gid=4, xattrs={b"security.capability": cap})])
    case("capability-replaced", [f("x", "x", xattrs={b"security.capability": cap})], [f("x", "y")])
    case("attributes", [f("x", "x", xattrs={b"user.a": b"1", b"user.bin": bytes(range(256))}),
                        d("d", xattrs={b"user.dir": b"d"}), f("y", "y", xattrs={b"user.a": b"1"})])
    case("attribute-empty", [f("x", "x", xattrs={b"user.empty": b""})],
         why="its reader takes a PAX key without value for one that is not there")
    case("attribute-large", [f("x", "x", xattrs={b"user.large": b"v" * 3000})])
    case("attribute-trusted", [f("x", "x", xattrs={b"trusted.k": b"v"})])
    case("attributes-many", [f("x", "x", xattrs={b"user.k%02d" % i: b"v%d" % i for i in range(30)})])
    case("attributes-symlink", [s("l", "x", xattrs={b"trusted.k": b"v"})])
    case("attributes-hard-links", [f("x", "x", xattrs={b"user.a": b"1"}), h("y", "x")], [f("z", "z", xattrs={b"user.a": b"1"})])
    case("devices", [dev("null", CHR, 1, 3), dev("sda", BLK, 8, 0), dev("large", CHR, 4095, 1048575),
                     dev("mid", BLK, 259, 70000), dev("pipe", FIFO), dev("zero", CHR, 0, 0)])
    case("content-sizes", [f(f"s{n}", "z" * n) for n in (0, 1, 511, 512, 513, 4095, 4096, 131071, 131072, 131073, 300000)])
    case("content-zeros", [f("z", bytes(300000)), f("z2", bytes(131072)), f("m", bytes(200000) + b"x")])
    case("content-equal", [f(f"c{n}", "same" * 5000) for n in range(4)])


def layers():
    for n in (1, 64, 127, 128, 200, 500):
        case(f"layers-{n}", *[[f(f"f{i % 50}", f"{i}"), f(f"d/l{i}", "x")] + ([w(f"d/l{i - 7}")] if i % 9 == 8 else [])
                              for i in range(n)])
    case("layer-empty", [], [f("x", "x")], [])
    case("layers-all-empty", [], [], [])
    same = [f("x", "x"), d("d"), w("gone")]
    case("layers-equal", same, same, same)
    case("layers-equal-apart", same, [f("x", "other"), f("d/y", "y")], same)
    case("layers-equal-with-whiteout", [f("gone", "1")], same, [f("gone", "2")], same)


def forms():
    for how in ("", "gzip", "gzip-members", "gzip-empty-member", "zstd", "zstd-frames", "zstd-skip-first", "zstd-skip-between",
                "zstd-skip-last"):
        case(f"form-{how or 'plain'}", BASE, [f("new", "n" * 5000), w("a/one")], how=how)


# --- Differences of trees ----------------------------------------------------------------------


class Walker:
    """Changes a tree at random, and tells each difference as a tool that compares file systems would."""

    def __init__(self, rng):
        self.rng, self.count = rng, 0
        self.root = Node(Inode("d"), 0)

    def inode(self, kind):
        r = self.rng
        self.count += 1
        more = {"mode": r.choice([0o755, 0o644, 0o700, 0o4755, 0o1777]), "uid": r.choice([0, 0, 1000, 70000]),
                "gid": r.choice([0, 0, 100]), "mtime": r.randrange(1, 2 ** 31)}
        if kind == "l":
            return Inode("l", **{**more, "mode": 0o777}, link=r.choice([b"a", b"b/c", b"/d", b"../x"]))
        if kind == "c":
            return Inode("c", **more, dev=(r.randrange(256), r.randrange(300)))
        data = (b"%d " % self.count) * r.choice([0, 1, 50, 3000]) if kind == "f" else b""
        xattrs = {b"user.n": b"%d" % self.count} if kind in "fd" and r.random() < 0.15 else {}
        return Inode(kind, **more, data=data, xattrs=xattrs)

    def all(self):
        out, todo = [], [(b"", self.root)]
        while todo:
            path, node = todo.pop()
            for name, child in node.children.items():
                at = path + b"/" + name if path else name
                out.append((at, node, name, child))
                todo.append((at, child))
        return out

    def change(self):
        r = self.rng
        every = self.all()
        dirs = [self.root] + [n for _, _, _, n in every if n.is_dir()]
        what = r.random()
        if what < 0.5 or not every:
            parent, name = r.choice(dirs), r.choice([b"a", b"b", b"c", b"d", b"e", b"\xfff", b"g" * 120])
            files = [n for _, _, _, n in every if not n.is_dir()]
            if what < 0.1 and files:
                parent.children[name] = Node(r.choice(files).inode, 0)
            else:
                parent.children[name] = Node(self.inode(r.choice("fffdddlcp")), 0)
            return
        _, parent, name, node = r.choice(every)
        if what < 0.75:
            del parent.children[name]
            return
        fresh = self.inode(node.inode.kind)
        for _, _, _, other in every:
            if other is not node and other.inode is node.inode:
                other.inode = fresh
        node.inode = fresh

    def snapshot(self):
        """A copy that shares inodes, and remembers which directory a node was."""
        def take(node):
            twin = Node(node.inode, 0)
            twin.of = node
            twin.children = {n: take(c) for n, c in node.children.items()}
            return twin
        return take(self.root)

    def difference(self, old):
        r = self.rng
        marks, entries, first = [], [], {}
        kept = {}

        def unchanged(path, was, now):
            for name, child in now.children.items():
                at = path + b"/" + name if path else name
                before = was.children.get(name) if was else None
                same = before if before is not None and before.of is child else None
                if not child.is_dir() and before is not None and before.inode is child.inode:
                    kept.setdefault(id(child.inode), at)
                if child.is_dir():
                    unchanged(at, same, child)

        def tell(path, node):
            i = node.inode
            common = {"mode": i.mode, "uid": i.uid, "gid": i.gid, "mtime": i.mtime, "xattrs": i.xattrs}
            if i.kind != "d" and id(i) in kept or id(i) in first:
                entries.append(h(path, kept.get(id(i)) or first[id(i)], **common))
                return
            if i.kind != "d":
                first[id(i)] = path
            kind = {"f": REG, "d": DIR, "l": SYM, "c": CHR, "p": FIFO}[i.kind]
            entries.append({"name": path, "kind": kind, "link": i.link, "dev": i.dev, "data": i.data, **common})

        def go(path, was, now):
            for name in was.children if was else ():
                if name not in now.children:
                    marks.append(w(path + b"/" + name if path else name))
            for name, child in now.children.items():
                at = path + b"/" + name if path else name
                before = was.children.get(name) if was else None
                same = before if before is not None and before.of is child else None
                if before is None or before.inode is not child.inode:
                    tell(at, child)
                if before is not None and before.is_dir() and child.is_dir() and not same:
                    if before.inode is child.inode:
                        tell(at, child)
                    marks.append(r.choice([opaque(at), w(at)]))
                if child.is_dir():
                    go(at, same, child)

        unchanged(b"", old, self.root)
        go(b"", old, self.root)
        r.shuffle(marks)
        # Marks hide lower layers only, so they may stand anywhere; links to what they hide must not be before.
        where = r.randrange(3)
        if where == 0:
            return marks + entries
        if where == 1:
            return entries + marks
        return [e for pair in zip(entries, marks) for e in pair] + entries[len(marks):] + marks[len(entries):]


def random_cases(rng, n):
    for number in range(n):
        walker, layers_ = Walker(rng), []
        for _ in range(rng.choice([2, 3, 4, 6])):
            old = walker.snapshot()
            for _ in range(rng.choice([3, 8, 15])):
                walker.change()
            layers_.append(walker.difference(old))
        case(f"random-{number}", *layers_, how=rng.choice(["", "gzip", "gzip-members"]), tree=listing(walker.root))


def wild_cases(rng, n):
    """Entries that no tool would write, in any order; those that make no sense are thrown again."""
    def path(depth=3):
        return "/".join(rng.choice("abcs") for _ in range(rng.randrange(1, depth + 1)))

    def some():
        at, what = path(), rng.random()
        if what < 0.3:
            return f(at, rng.choice(["", "1", "22"]))
        if what < 0.5:
            return d(at, rng.choice([0o755, 0o700]))
        if what < 0.6:
            return s(at, rng.choice(["", "/", "../"]) + path(2))
        if what < 0.72:
            return h(at, path())  # thrown again where its target is not there yet
        return w(at) if what < 0.9 else opaque(at)

    done = 0
    while done < n:
        layers_ = [[some() for _ in range(rng.randrange(1, 6))] for _ in range(rng.randrange(2, 5))]
        try:
            expected(layers_, False)
        except ValueError:
            continue
        case(f"wild-{done}", *layers_, how="")
        CASES[-1]["loose"] = True
        done += 1


# --- The program -------------------------------------------------------------------------------


def write(top, c):
    where = f"{top}/{c['name']}"
    os.mkdir(where)
    streams = [stream(l) for l in c["layers"]]
    for name, how in (("layout", c["how"]), ("peer", "gzip")):
        if name == "peer" and not c["how"].startswith("zstd"):
            os.symlink("layout", where + "/peer")
            continue
        layout = Layout(f"{where}/{name}")
        layout.image([layout.layer(t, how) for t in streams])
    lines = expected(c["layers"])
    if c["tree"] and c["tree"] != lines:
        sys.exit(f"{c['name']}: the model does not give the tree that the layers were made from")
    with open(where + "/expected", "w") as out:
        out.write("".join(line + "\n" for line in lines))
    with open(where + "/row", "w") as out:
        out.write(c["row"] + "\n")
    if c.get("loose"):
        open(where + "/loose", "w").close()
    if c["why"]:
        with open(where + "/why", "w") as out:
            out.write(c["why"] + "\n")


def make(top, seed=1, n=90):
    for row, groups in (("K10", (whiteouts, opaques, replaced)), ("K11", (links,)), ("K12", (metadata,)),
                        ("K13", (names, sparse_files, limits)), ("K14", (layers,)), ("K15", (forms,))):
        ROW[0] = row
        for group in groups:
            group()
    ROW[0] = "K10"
    random_cases(random.Random(int(seed)), int(n))
    wild_cases(random.Random(int(seed)), int(n))
    os.makedirs(top)
    for c in CASES:
        write(top, c)
    print(f"{len(CASES)} cases, {sum(1 for c in CASES if c['why'])} of them not for umoci")


def differs(what, loose, want, got):
    want, got = want.split("\t"), got.split("\t")
    if len(want) != 11 or len(got) != 11:
        return True
    if want[4] == "*":
        got[4] = "*"
    if what == "umoci":
        got[4] = got[4] if got[4] == "*" else str(min(max(int(got[4]), 0), 2 ** 32 - 1))
        if want[1] == "d":
            got[5] = want[5]
        if want[1] == "d" and loose:
            got[2:5] = want[2:5]
    return want != got


def compare_case(top, name, what, got):
    with open(f"{top}/{name}/expected") as text:
        want = {line.split("\t")[0]: line for line in text.read().splitlines()}
    loose = os.path.exists(f"{top}/{name}/loose")
    got = {line.split("\t")[0]: line for line in got}
    bad = []
    for path in sorted(want.keys() | got.keys()):
        if path not in got or path not in want or differs(what, loose, want[path], got[path]):
            bad += [f"  wanted: {want.get(path, 'nothing')}", f"  got:    {got.get(path, 'nothing')}"]
    if bad:
        print(f"{name}:", *bad[:8], sep="\n")
    return not bad


def is_of(top, name, row):
    with open(f"{top}/{name}/row") as text:
        return row in ("", text.read().strip())


def compare(top, what, file, row=""):
    seen, good, lines, name = 0, 0, [], None
    wanted = {n for n in os.listdir(top) if is_of(top, n, row)
              and (what == "guest" or not os.path.exists(f"{top}/{n}/why"))}
    with open(file) as text:
        for line in text.read().splitlines() + ["== "]:
            if not line.startswith("== "):
                lines.append(line)
                continue
            if name in wanted:
                seen += 1
                good += compare_case(top, name, what, lines)
            name, lines = line[3:].rpartition("/")[2], []
    print(f"{what}: {good} of {len(wanted)} cases are as expected, {len(wanted) - seen} are missing")
    return 0 if wanted and good == len(wanted) else 1


if __name__ == "__main__":
    if len(sys.argv) >= 3 and sys.argv[1] == "make":
        make(*sys.argv[2:])
    elif len(sys.argv) in (5, 6) and sys.argv[1] == "compare":
        sys.exit(compare(*sys.argv[2:]))
    else:
        sys.exit(__doc__)
