# SPDX-License-Identifier: Apache-2.0
"""Tar streams byte by byte, so that odd forms can be made, and OCI layouts of them."""

import gzip
import hashlib
import io
import json
import os
import subprocess

BLOCK = 512
REG, HARD, SYM, CHR, BLK, DIR, FIFO = b"0", b"1", b"2", b"3", b"4", b"5", b"6"


def number(value, width):
    """Octal where it fits, else base 256, as GNU tar writes it."""
    if 0 <= value < 8 ** (width - 1):
        return b"%0*o\0" % (width - 1, value)
    raw = (value & ((1 << (8 * width)) - 1)).to_bytes(width, "big")
    return bytes([0xFF if value < 0 else 0x80]) + raw[1:]


def pad(data):
    return data + bytes(-len(data) % BLOCK)


def header(name, kind, mode=0o644, uid=0, gid=0, size=0, mtime=0, link=b"", dev=(0, 0),
           magic=b"ustar\x0000", prefix=b"", tail=b""):
    h = bytearray(BLOCK)
    h[0:100] = name[:100].ljust(100, b"\0")
    h[100:108] = number(mode, 8)
    h[108:116] = number(uid, 8)
    h[116:124] = number(gid, 8)
    h[124:136] = number(size, 12)
    h[136:148] = number(mtime, 12)
    h[148:156] = b" " * 8
    h[156:157] = kind
    h[157:257] = link[:100].ljust(100, b"\0")
    h[257:265] = magic
    h[329:337] = number(dev[0], 8)
    h[337:345] = number(dev[1], 8)
    h[345:345 + len(prefix)] = prefix
    if tail:
        h[345:345 + len(tail)] = tail
    h[148:156] = b"%06o\0 " % sum(h)
    return bytes(h)


def pax_record(key, value):
    body = b" " + key + b"=" + value + b"\n"
    n = len(body)
    while len(str(n).encode()) + len(body) != n:
        n = len(str(n).encode()) + len(body)
    return str(n).encode() + body


def pax(records, kind=b"x"):
    body = b"".join(pax_record(k, v) for k, v in records)
    return header(b"././@PaxHeader", kind, size=len(body)) + pad(body)


def gnu_long(kind, text):
    return header(b"././@LongLink", kind, size=len(text) + 1, magic=b"ustar  \0") + pad(text + b"\0")


def entry(e):
    """One entry of a case (see cases.py) with its data."""
    form = e.get("form", "pax")
    name, link = e["name"], e.get("link", b"")
    records, out = list(e.get("pax", [])), b""
    fields = {k: e[k] for k in ("mode", "uid", "gid", "mtime", "dev") if k in e}
    if form == "pax":
        for key, text in ((b"path", name), (b"linkpath", link)):
            if len(text) > 100 or e.get("pax_names"):
                records.append((key, text))
        for key in ("uid", "gid"):
            if fields.get(key, 0) >= 8 ** 7:
                records.append((key.encode(), b"%d" % fields.pop(key)))
        if not 0 <= fields.get("mtime", 0) < 8 ** 11 or e.get("frac"):
            records.append((b"mtime", b"%d" % fields.pop("mtime") + e.get("frac", b"")))
        for key, value in e.get("xattrs", {}).items():
            records.append((b"SCHILY.xattr." + key, value))
    else:
        for kind, text in ((b"L", name), (b"K", link)):
            if len(text) > 100:
                out += gnu_long(kind, text)
    if form == "gnu":
        fields["magic"] = b"ustar  \0"
    data = e.get("data", b"")
    if "raw" in e:  # a stored form that differs from the content (sparse files)
        records += e["raw"].get("pax", [])
        if records:
            out += pax(records)
        return out + e["raw"]["bytes"]
    if records:
        out += pax(records)
    return out + header(name, e["kind"], size=len(data), link=link, **fields) + pad(data)


def stream(entries):
    return b"".join(e["bytes"] if "bytes" in e else entry(e) for e in entries) + bytes(2 * BLOCK)


# --- Sparse files ------------------------------------------------------------------------------


def pieces_of(size, pieces):
    data = bytearray(size)
    for at, text in pieces:
        data[at:at + len(text)] = text
    return bytes(data)


def sparse(form, name, size, pieces, **fields):
    """The entry of a file with holes, in one of the four forms."""
    stored = b"".join(text for _, text in pieces)
    ends = pieces if pieces and pieces[-1][0] + len(pieces[-1][1]) == size else pieces + [(size, b"")]
    e = {"name": name, "kind": REG, "data": pieces_of(size, pieces), **fields}
    if form == "old":
        tail = bytearray(167)
        for i, (at, text) in enumerate(ends[:4]):
            tail[41 + 24 * i:53 + 24 * i] = number(at, 12)
            tail[53 + 24 * i:65 + 24 * i] = number(len(text), 12)
        tail[137] = 1 if len(ends) > 4 else 0
        tail[138:150] = number(size, 12)
        out = header(name, b"S", size=len(stored), magic=b"ustar  \0", tail=bytes(tail), **fields)
        rest = ends[4:]
        while rest:
            more = bytearray(BLOCK)
            for i, (at, text) in enumerate(rest[:21]):
                more[24 * i:24 * i + 12] = number(at, 12)
                more[24 * i + 12:24 * i + 24] = number(len(text), 12)
            rest = rest[21:]
            more[504] = 1 if rest else 0
            out += bytes(more)
        e["raw"] = {"bytes": out + pad(stored)}
    elif form in ("0.0", "0.1"):
        keys = [(b"GNU.sparse.size", b"%d" % size), (b"GNU.sparse.numblocks", b"%d" % len(ends))]
        if form == "0.0":
            for at, text in ends:
                keys += [(b"GNU.sparse.offset", b"%d" % at), (b"GNU.sparse.numbytes", b"%d" % len(text))]
        else:
            keys += [(b"GNU.sparse.name", name), (b"GNU.sparse.map",
                     b",".join(b"%d,%d" % (at, len(text)) for at, text in ends))]
        e["raw"] = {"pax": keys, "bytes": header(name, REG, size=len(stored), **fields) + pad(stored)}
    else:
        table = b"%d\n" % len(ends) + b"".join(b"%d\n%d\n" % (at, len(text)) for at, text in ends)
        keys = [(b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.name", name),
                (b"GNU.sparse.realsize", b"%d" % size)]
        e["raw"] = {"pax": keys, "bytes": header(b"GNUSparseFile.0/x", REG, size=len(pad(table)) + len(stored),
                                                 **fields) + pad(table) + pad(stored)}
    return e


# --- Compression and layouts -------------------------------------------------------------------


def zstd(data):
    return subprocess.run(["zstd", "-qc", "-1"], input=data, stdout=subprocess.PIPE, check=True).stdout


def skippable(n, text=b"skipped"):
    return (0x184D2A50 + n).to_bytes(4, "little") + len(text).to_bytes(4, "little") + text


def squeeze(data):
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, mtime=0, compresslevel=1) as z:
        z.write(data)
    return out.getvalue()


def compress(how, data):
    third = len(data) // 3
    parts = [data[:third], data[third:2 * third], data[2 * third:]]
    return {
        "": lambda: data,
        "gzip": lambda: squeeze(data),
        "gzip-members": lambda: b"".join(squeeze(p) for p in parts),
        "gzip-empty-member": lambda: squeeze(data) + squeeze(b""),
        "zstd": lambda: zstd(data),
        "zstd-frames": lambda: b"".join(zstd(p) for p in parts),
        "zstd-skip-first": lambda: skippable(0) + skippable(15) + zstd(data),
        "zstd-skip-between": lambda: zstd(parts[0]) + skippable(3) + zstd(parts[1]) + zstd(parts[2]),
        "zstd-skip-last": lambda: zstd(data) + skippable(7),
    }[how]()


MEDIA = "application/vnd.oci.image."


class Layout:
    """An image layout in a directory; each method may be given a lie to tell."""

    def __init__(self, path):
        self.path = path
        os.makedirs(path + "/blobs/sha256")
        self.file("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')

    def file(self, name, data):
        with open(self.path + "/" + name, "wb") as f:
            f.write(data)

    def blob(self, data, media):
        digest = hashlib.sha256(data).hexdigest()
        self.file("blobs/sha256/" + digest, data)
        return {"mediaType": media, "digest": "sha256:" + digest, "size": len(data)}

    def layer(self, data, how=""):
        media = MEDIA + "layer.v1.tar" + {"": "", "g": "+gzip", "z": "+zstd"}[how[:1]]
        return self.blob(compress(how, data), media), "sha256:" + hashlib.sha256(data).hexdigest()

    def image(self, layers, tag="case"):
        """@layers: pairs of descriptor and diff_id."""
        config = {"architecture": "amd64", "os": "linux", "config": {},
                  "rootfs": {"type": "layers", "diff_ids": [d for _, d in layers]}}
        text = json.dumps(config, sort_keys=True).encode()
        manifest = {"schemaVersion": 2, "mediaType": MEDIA + "manifest.v1+json",
                    "config": self.blob(text, MEDIA + "config.v1+json"),
                    "layers": [b for b, _ in layers]}
        self.manifest(manifest, tag)

    def manifest(self, manifest, tag="case"):
        d = self.blob(json.dumps(manifest, sort_keys=True).encode(), MEDIA + "manifest.v1+json")
        d["annotations"] = {"org.opencontainers.image.ref.name": tag}
        self.index([d])

    def index(self, manifests):
        self.file("index.json", json.dumps({"schemaVersion": 2, "manifests": manifests}).encode())
