#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: hostile.py make DIR            images that want to do harm; see hostile.bats
       hostile.py entries DIR N KIND    an image of N entries: files, empty, long
       hostile.py cuts DIR              a good image with a small layer, which hostile.bats cuts
       hostile.py large DIR MIB GIB     a layer and a file of so many MiB, a sparse one of so many GiB
       hostile.py run COMMAND...        run it; the most memory it took, in KiB, comes on stdout

make writes, for each image, DIR/NAME/layout and DIR/NAME/expected: what the import ends with, as an
extended regular expression for the error, or "fine" where what looks bad is harmless.
"""

import hashlib
import itertools
import json
import os
import resource
import shutil
import subprocess
import sys
import zlib

from cases import d, f, h, s, w
from tarmaker import (MEDIA, REG, Layout, entry, gnu_long, header, pad, pax, skippable, squeeze,
                      stream, zstd)

TOP = [""]


def layout(name, expected):
    where = f"{TOP[0]}/{name}"
    os.makedirs(where)
    with open(where + "/expected", "w") as out:
        out.write(expected + "\n")
    return Layout(where + "/layout")


def image(name, expected, *layers, how="gzip"):
    made = layout(name, expected)
    made.image([made.layer(stream(l), how) for l in layers])


def raw(name, expected, data, diff=None):
    """A layer of any bytes; the diff_id is of @diff, which is the bytes themselves where there is none."""
    made = layout(name, expected)
    blob = made.blob(data, MEDIA + "layer.v1.tar+gzip")
    made.image([(blob, "sha256:" + hashlib.sha256(data if diff is None else diff).hexdigest())])


def names():
    # A leading slash means nothing, as everywhere; no name leads upwards.
    image("absolute", "fine", [f("/etc/passwd", "x"), f("//x", "y"), d("/abs/")])
    upwards = "the path goes upwards with '..'"
    for n, path in enumerate(["..", "../x", "a/../b", "a/..", "/../etc/passwd", "./../x", "a/b/../../../x"]):
        image(f"upwards-{n}", upwards.replace(".", "[.]"), [d("a"), f(path, "x")])
    image("upwards-dir", upwards, [d("../x")])
    image("upwards-link", upwards, [f("x", "x"), h("y", "../x")])
    image("upwards-whiteout", upwards, [w("../x")])
    image("whiteout-of-dots", "the whiteout names nothing", [f("a/.wh...", "")])
    image("whiteout-of-dot", "the whiteout names nothing", [f("a/.wh..", "")])
    image("whiteout-of-nothing", "the whiteout names nothing", [f("a/.wh.", "")])
    image("whiteout-within", "begins with '[.]wh[.]'", [f(".wh.a/x", "x")])
    image("no-name", "has no name|damaged", [f("", "x")])
    image("name-256", "more than the limit of 255", [f("n" * 256, "x")])
    image("path-4097", "more bytes than the limit of 4096", [f("d/" * 2048 + "x", "x")])
    image("symlink-4096", "more than 4095 bytes", [s("l", "t" * 4096)])
    image("symlink-empty", "no target", [s("l", "")])
    image("root-is-file", "the root is not a directory", [f(".", "x")])
    image("root-is-link", "the root is not a directory", [s("/", "x")])
    image("duplicates", "fine", [f("x", "1")] * 1000 + [d("x"), f("x", "2"), s("x", "y"), h("z", "x")])


def symlinks():
    # Followed inside the image only, or not at all.
    image("symlink-out", "fine", [s("up", "../../../../../../tmp"), f("up/escape", "x")])
    image("symlink-abs-out", "fine", [s("abs", "/tmp"), f("abs/escape", "x")])
    image("symlink-to-proc", "fine", [s("p", "/proc/self/root"), f("p/escape", "x")])
    image("symlink-circle", "leads to none", [s("a", "b"), s("b", "a"), f("a/x", "x")])
    image("symlink-self", "leads to none", [s("a", "a"), f("a/x", "x")])
    image("symlink-to-file", "leads to none", [f("t", "t"), s("a", "t"), f("a/x", "x")])
    # Ends as a tree some hundred names deep.
    image("symlinks-blow-up", "fine",
          [s("z0", "z")] + [s(f"z{n}", "/".join([f"z{n - 1}"] * 200)) for n in range(1, 12)] + [f("z11/x", "x")])
    image("below-file", "not a directory", [f("x", "x"), f("x/y", "y")])
    image("below-file-of-lower", "fine", [f("x", "x")], [f("x/y", "y")])


def links():
    image("link-to-nothing", "which no layer holds", [h("y", "x")])
    image("link-to-dir", "which is a directory", [d("x"), h("y", "x")])
    image("link-to-self", "in a circle|no layer holds", [h("x", "x")])
    image("link-circle", "in a circle|no layer holds|too far", [h("x", "y"), h("y", "x")])
    image("link-chain", "in a circle|too far", [h(f"l{n}", f"l{n + 1}") for n in range(3000)] + [f("l3000", "x")])
    # Strictly a mistake; what the name meant before it went is taken.
    image("link-to-whited", "fine", [f("x", "x")], [w("x")], [h("y", "x")])
    image("links-many-layers", "too far|fine",
          *[[f("x", str(n)), h(f"l{n}", f"l{n - 1}" if n else "x"), w(f"l{n - 1}")] for n in range(40)])


def numbers():
    image("owner-2^32", "owner .* out of range", [f("x", "x", uid=2 ** 32)])
    image("owner-negative", "owner .* out of range", [f("x", "x", uid=-1, form="gnu")])
    big = header(b"x", REG, size=8 ** 11 - 1)
    raw("size-lie", "damaged|truncated", squeeze(big + b"x" * 512), big + b"x" * 512)
    neg = header(b"x", REG, size=0, mtime=0)
    neg = bytearray(neg)
    neg[124:136] = b"\xff" * 12
    neg[148:156] = b" " * 8
    neg[148:156] = b"%06o\0 " % sum(neg)
    raw("size-negative", "damaged|negative|size", bytes(neg) + bytes(1024))
    huge = pax([(b"size", b"9" * 18)]) + header(b"x", REG) + bytes(1024)
    raw("size-pax-lie", "damaged|truncated|limit", huge)
    raw("pax-length-lie", "fine", header(b"P", b"x", size=20) + pad(b"99999999999 path=x\n") + header(b"y", REG) + bytes(1024))
    raw("pax-body-lie", "damaged|truncated|[Ss]pecial header|large",
        header(b"P", b"x", size=2 ** 31 - 1) + pad(b"20 path=x\n") + bytes(1024))
    raw("long-name-lie", "damaged|[Ss]pecial header|large|truncated",
        header(b"././@LongLink", b"L", size=2 ** 32, magic=b"ustar  \0") + pad(b"x") + bytes(1024))
    bad = bytearray(stream([f("x", "x")]))
    bad[150] ^= 1
    raw("checksum", "damaged|not a tar", bytes(bad))
    sparse = [(b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.name", b"x"),
              (b"GNU.sparse.realsize", b"1000")]
    for n, table in enumerate([b"1\n5000\n10\n", b"2\n0\n10\n5\n10\n", b"99999999999\n", b"1\n-5\n10\n", b"x\n", b"1\n"]):
        data = pad(table) + pad(b"y" * 20)
        raw(f"sparse-lie-{n}", "damaged|overlap|outside|sparse|truncated",
            pax(sparse) + header(b"x", REG, size=len(data)) + data + bytes(1024))
    old = bytearray(167)
    old[41:53], old[53:65], old[138:150] = b"00000000000\0", b"77777777777\0", b"77777777777\0"
    # The pieces end early, and the rest of the file is a hole.
    raw("sparse-old-lie", "fine",
        header(b"x", b"S", size=10, magic=b"ustar  \0", tail=bytes(old)) + pad(b"0123456789") + bytes(1024))
    keys = sparse[:3] + [(b"GNU.sparse.realsize", b"%d" % 2 ** 50)]
    raw("file-over-1TiB", "more bytes than the limit of 1099511627776",
        pax(keys) + header(b"x", REG, size=512) + pad(b"1\n0\n0\n") + bytes(1024))
    image("attributes-257", "more than 256 extended attributes",
          [f("x", "x", xattrs={b"user.k%03d" % n: b"v" for n in range(257)})])
    image("attribute-64K", "more than the limit of 65536|damaged", [f("x", "x", xattrs={b"user.k": b"v" * 65537})])


def streams():
    tar = stream([f("x", "x" * 3000), f("y", "y")])
    raw("garbage-behind-gzip", "garbage behind", squeeze(tar) + b"garbage", tar)
    raw("garbage-behind-tar", "garbage behind", squeeze(tar + b"garbage"), tar + b"garbage")
    raw("garbage-behind-zstd", "garbage behind|decompress", zstd(tar) + b"garbage", tar)
    raw("not-a-tar", "not a tar|damaged", b"this is no archive at all" * 100)
    raw("wrong-diff-id", "decompressed layer has the digest", squeeze(tar), b"other")
    broken = bytearray(squeeze(tar))
    broken[len(broken) // 2] ^= 0xFF
    raw("gzip-broken", "decompress|digest|damaged", bytes(broken), tar)
    crc = bytearray(squeeze(tar))
    crc[-6] ^= 0xFF
    # The digests say that it is right.
    raw("gzip-wrong-crc", "fine", bytes(crc), tar)
    raw("skippable-lie", "decompress|read|not a tar|damaged", (0x184D2A50).to_bytes(4, "little") + b"\xff" * 4 + zstd(tar), tar)
    raw("skippable-only", "not a tar|damaged|digest|read|decompress", skippable(1) * 10, tar)
    raw("zstd-window", "decompress|damaged", b"\x28\xb5\x2f\xfd\x00\xff" + b"\x00" * 100, tar)
    raw("double-gzip", "not a tar|digest|damaged", squeeze(squeeze(tar)), squeeze(tar))
    # More than it said: the sizes and digests are of what was to be there.
    made = layout("blob-longer", "has 5636 bytes, expected 5632")
    blob, diff = made.layer(tar, "")
    with open(made.path + "/blobs/sha256/" + blob["digest"][7:], "ab") as out:
        out.write(b"more")
    made.image([(blob, diff)])
    made = layout("blob-missing", "does not hold the blob")
    blob, diff = made.layer(tar, "")
    os.unlink(made.path + "/blobs/sha256/" + blob["digest"][7:])
    made.image([(blob, diff)])
    made = layout("size-of-layer-lies", "expected")
    blob, diff = made.layer(tar, "")
    made.image([({**blob, "size": blob["size"] - 1}, diff)])
    made = layout("size-of-layer-huge", "expected|limit|size")
    made.image([({**blob, "size": 2 ** 62}, diff)])
    made = layout("size-of-layer-negative", "size|expected|manifest")
    made.image([({**blob, "size": -1}, diff)])
    made = layout("digest-goes-upwards", "digest")
    made.image([({**blob, "digest": "sha256:../../../../../../etc/passwd"}, diff)])
    made = layout("diff-ids-missing", "lists 1 layers, the manifest 2")
    one = made.layer(tar)
    made.image([one])
    with open(made.path + "/index.json") as text:
        where = made.path + "/blobs/sha256/" + json.load(text)["manifests"][0]["digest"][7:]
    with open(where) as text:
        manifest = json.load(text)
    manifest["layers"] *= 2
    made.manifest(manifest)


def documents():
    small = stream([f("x", "x")])

    def doc(name, expected, change):
        made = layout(name, expected)
        made.image([made.layer(small)])
        with open(made.path + "/index.json") as text:
            index = json.load(text)
        change(made, index["manifests"][0])

    def pad_manifest(made, _):
        made.manifest({"schemaVersion": 2, "config": {}, "layers": [], "annotations": {"x": "y" * (5 << 20)}})

    doc("manifest-huge", "more than the limit", pad_manifest)
    doc("index-huge", "limit|large|index", lambda m, x: m.index([{**x, "annotations": {"x": "y" * (5 << 20)}}]))
    doc("index-many", "limit|more than", lambda m, x: m.index([x] * 5000))
    doc("index-deep-json", "JSON|nest|deep|index|recursion", lambda m, x: m.file("index.json", b"[" * 100000))
    doc("index-not-json", "JSON|index", lambda m, x: m.file("index.json", b"\x00\xff"))
    doc("index-empty", "JSON|manifest|image|index", lambda m, x: m.index([]))
    doc("layers-513", "limit|more than|512", lambda m, x: m.image([m.layer(small)] * 513))

    def config_huge(m, _):
        text = json.dumps({"architecture": "amd64", "os": "linux", "x": "y" * (9 << 20)}).encode()
        m.manifest({"schemaVersion": 2, "config": m.blob(text, MEDIA + "config.v1+json"), "layers": []})

    doc("config-huge", "the configuration has more than", config_huge)

    # A digest cannot be in what it is of, so a circle needs a lie; a deep chain does not.
    def chain(m, x):
        for _ in range(6):
            x = m.blob(json.dumps({"schemaVersion": 2, "manifests": [x]}).encode(), MEDIA + "index.v1+json")
        m.index([x])

    doc("index-chain", "deeper than", chain)

    def circle(m, _):
        x = {"mediaType": MEDIA + "index.v1+json", "digest": "sha256:" + "0" * 64}
        text = json.dumps({"schemaVersion": 2, "manifests": [{**x, "size": 0}]}).encode()
        text = json.dumps({"schemaVersion": 2, "manifests": [{**x, "size": len(text) + 2}]}).encode()
        m.file("blobs/sha256/" + "0" * 64, text)
        m.index([{**x, "size": len(text)}])

    doc("index-circle", "digest|deeper than|expected", circle)
    doc("other-platform", "platform|amd64|architecture",
        lambda m, x: m.index([{**x, "platform": {"os": "windows", "architecture": "arm64"}}]))


def make(top):
    TOP[0] = top
    os.makedirs(top)
    for group in (names, symlinks, links, numbers, streams, documents):
        group()


# --- Sizes ---------------------------------------------------------------------------------------


def put_large(where, pieces, squeezed=True):
    """An image of one layer that is too large for memory; its bytes come in pieces."""
    made = Layout(where)
    diff, blob, size = hashlib.sha256(), hashlib.sha256(), 0
    z = zlib.compressobj(1, zlib.DEFLATED, 31)
    with open(where + "/layer", "wb") as out:
        for piece in itertools.chain(pieces, [None]) if squeezed else pieces:
            diff.update(piece or b"")
            if squeezed:
                piece = z.flush() if piece is None else z.compress(piece)
            blob.update(piece)
            size += out.write(piece)
    os.rename(where + "/layer", f"{where}/blobs/sha256/{blob.hexdigest()}")
    media = MEDIA + "layer.v1.tar" + ("+gzip" if squeezed else "")
    made.image([({"mediaType": media, "digest": "sha256:" + blob.hexdigest(), "size": size},
                 "sha256:" + diff.hexdigest())])


def entries(where, n, kind):
    """Headers that differ in the name only are made from one."""
    name = {"files": b"usr/lib/%03d/package-%08d.conf", "empty": b"usr/lib/%03d/package-%08d.conf",
            "long": b"%03d/%08d" + b"n" * 80}[kind]
    data = b"content" if kind == "files" else b""
    blank = bytearray(header(name % (0, 0), REG, size=len(data)))
    zeros = sum(blank[:148]) + 8 * 32 + sum(blank[156:])
    # Eight digits and three.
    zeros -= 11 * 48
    size = len(name % (0, 0))

    def all_entries():
        batch = []
        for i in range(int(n)):
            text = name % (i // 500 % 1000, i)
            digits = b"%03d%08d" % (i // 500 % 1000, i)
            blank[:size] = text
            blank[148:156] = b"%06o\0 " % (zeros + sum(digits))
            if kind == "long":
                batch.append(gnu_long(b"L", text + b"n" * 120))
            batch.append(bytes(blank))
            if data:
                batch.append(pad(data))
            if len(batch) > 2000:
                yield b"".join(batch)
                batch = []
        yield b"".join(batch) + bytes(1024)

    put_large(where, all_entries())


def cuts(where):
    made = Layout(where)
    made.image([made.layer(stream([d("a"), f("a/x", "x" * 600, xattrs={b"user.k": b"v"}), s("l", "x"), h("y", "a/x")]),
                           "gzip")])


def large(where, mib, gib):
    mib, size = int(mib), int(gib) << 30

    def pieces():
        with open(shutil.which("busybox"), "rb") as program:
            yield entry(f("bin/busybox", program.read(), mode=0o755))
        for name in ("sh", "stat", "tail", "dd", "sha256sum"):
            yield entry(s(f"bin/{name}", "busybox"))
        yield pax([(b"size", b"%d" % (mib << 20))]) + header(b"file", REG)
        # Every MiB differs, so that none is found again.
        chunk = bytes(range(256)) * 4096
        for i in range(mib):
            yield b"%08d" % i + chunk[8:]
        sparse = [(b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.name", b"sparse"),
                  (b"GNU.sparse.realsize", b"%d" % size)]
        table = b"2\n%d\n6\n%d\n3\n" % (size // 2, size - 3)
        yield pax(sparse) + header(b"x", REG, size=512 + 9) + pad(table) + pad(b"middleend")
        yield bytes(1024)

    put_large(where, pieces(), False)


def run(*command):
    code = subprocess.run(command, check=False).returncode
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    return code


if __name__ == "__main__":
    COMMANDS = {"make": make, "entries": entries, "cuts": cuts, "large": large, "run": run}
    if len(sys.argv) < 3 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    sys.exit(COMMANDS[sys.argv[1]](*sys.argv[2:]))
