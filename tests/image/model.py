# SPDX-License-Identifier: Apache-2.0
"""What unpacking the layers of an image one after another gives, in memory.

It shares no idea with the engine, which merges newest first: here every layer changes the tree that
the ones before it left. The text form is the one that listing.c writes.
"""

import copy
import hashlib

TYPES = {b"0": "f", b"2": "l", b"3": "c", b"4": "b", b"5": "d", b"6": "p"}


class Inode:
    def __init__(self, kind, mode=0o755, uid=0, gid=0, mtime=None, link=b"", dev=(0, 0), data=b"", xattrs=None):
        self.kind, self.mode, self.uid, self.gid, self.mtime = kind, mode, uid, gid, mtime
        self.link, self.dev, self.data, self.xattrs = link, dev, data, dict(xattrs or {})


class Node:
    def __init__(self, inode, layer):
        self.inode, self.layer, self.children = inode, layer, {}
        self.used = False  # a symlink through which an entry went

    def is_dir(self):
        return self.inode.kind == "d"


def names_of(path):
    return [n for n in path.split(b"/") if n not in (b"", b".")]


class Model:
    def __init__(self, deferred=True):
        self.deferred = deferred  # whether a hard link may come before its target
        self.root = Node(Inode("d"), 0)
        self.layer = 0

    def implied(self):
        return Node(Inode("d"), 0)

    def resolve(self, names, make=False):
        """The directory that names lead to, symlinks followed as with the root as the top."""
        at, todo, hops = [self.root], list(names), 0
        while todo:
            name = todo.pop(0)
            if name == b"..":
                at = at[:-1] or at
                continue
            child = at[-1].children.get(name)
            if not at[-1].is_dir():
                raise ValueError("below something that is no directory")
            if child is None:
                if not make:
                    return None
                child = at[-1].children[name] = self.implied()
            if child.inode.kind == "l":
                hops += 1
                child.used = True
                if hops > 40:
                    raise ValueError("too many symlinks")
                if child.inode.link.startswith(b"/"):
                    at = [self.root]
                todo = names_of(child.inode.link) + todo
                continue
            at.append(child)
        return at[-1]

    def hide_lower(self, parent, name):
        """Take away what lower layers have at a name and below it."""
        node = parent.children[name]
        for child in list(node.children):
            self.hide_lower(node, child)
        if node.layer == self.layer:
            return
        self.leave(node)
        if not node.children:
            del parent.children[name]
        else:
            node.inode = Inode("d")

    def leave(self, node):
        """The engine does not promise what becomes of entries whose symlink goes later."""
        for child in node.children.values():
            self.leave(child)
        if node.used:
            raise ValueError("a symlink goes after something was put through it")

    def mark(self, parent, name):
        if name == b".wh..wh..opq":
            for child in list(parent.children):
                self.hide_lower(parent, child)
        elif not name.startswith(b".wh..wh.") and name[4:] in parent.children:
            self.hide_lower(parent, name[4:])

    def find_link(self, e):
        *dirs, last = names_of(e["link"])
        parent = self.resolve(dirs)
        return parent.children.get(last) if parent else None

    def put(self, e):
        names = names_of(e["name"])
        if not names:
            self.root.inode = self.inode_of(e)
            return
        *dirs, last = names
        if any(n.startswith(b".wh..wh.") for n in dirs):
            return
        parent = self.resolve(dirs, make=not last.startswith(b".wh."))
        if parent and not parent.is_dir():
            raise ValueError("below something that is no directory")
        if last.startswith(b".wh."):
            if parent:
                self.mark(parent, last)
            return
        if e["kind"] == b"1":
            target = self.find_link(e)
            if target is None and not self.deferred or names_of(e["link"]) == names:
                raise ValueError("a hard link without target, or to itself")
            if target is None:
                self.late.append(e)
                return
            if target.is_dir():
                raise ValueError("a hard link to a directory")
            inode = target.inode
        else:
            inode = self.inode_of(e)
        old = parent.children.get(last)
        if old and old.is_dir() and inode.kind == "d":
            old.inode, old.layer = inode, self.layer
        else:
            if old:
                self.leave(old)
            parent.children[last] = Node(inode, self.layer)

    @staticmethod
    def inode_of(e):
        kind = TYPES[e["kind"]]
        return Inode(kind, 0o777 if kind == "l" else e.get("mode", 0o644), e.get("uid", 0), e.get("gid", 0),
                     e.get("mtime", 0), e.get("link", b"") if kind == "l" else b"",
                     e.get("dev", (0, 0)) if kind in "cb" else (0, 0), e.get("data", b"") if kind == "f" else b"",
                     e.get("xattrs"))

    def apply(self, entries):
        self.layer += 1
        self.late = []
        for e in entries:
            if "bytes" not in e:
                self.put(e)
        while self.late:
            waiting, self.late = self.late, []
            for e in waiting:
                self.put(e)
            if len(self.late) == len(waiting):
                raise ValueError("a hard link has no target")


def escape(text):
    return "".join(chr(b) if chr(b).isascii() and (chr(b).isalnum() or chr(b) in "_./-+,") else "\\x%02x" % b
                   for b in text)


def listing(root):
    """Lines of tab separated fields: path type mode owner time links device target attributes size digest."""
    count = {}
    nodes = []

    def walk(path, node):
        nodes.append((path, node))
        count[id(node.inode)] = count.get(id(node.inode), 0) + 1
        for name, child in node.children.items():
            walk(path + b"/" + name if path else name, child)

    walk(b"", root)
    lines = []
    for path, node in nodes:
        i = node.inode
        links = count[id(i)] if i.kind != "d" else 2 + sum(c.is_dir() for c in node.children.values())
        xattrs = ",".join(f"{escape(k)}={escape(v)}" for k, v in sorted(i.xattrs.items()))
        time = "*" if i.mtime is None else str(min(max(i.mtime, 0), 2 ** 32 - 1))
        lines.append("\t".join((
            escape(path) or ".", i.kind, "%o" % i.mode, f"{i.uid}:{i.gid}", time, str(links),
            "%d,%d" % i.dev, escape(i.link) or "-", xattrs or "-",
            str(len(i.data)) if i.kind == "f" else "-",
            hashlib.sha256(i.data).hexdigest() if i.kind == "f" else "-")))
    return sorted(lines)


def expected(layers, deferred=True):
    m = Model(deferred)
    for entries in layers:
        m.apply(copy.copy(entries))
    return listing(m.root)
