#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A registry on loopback that serves OCI layouts, read-only, until it is ended by a signal.

    registry.py PORT_FILE NAME=LAYOUT... [--login USER:PASSWORD] [--rate BYTES] [--tls CERT KEY]

PORT_FILE receives the port once it listens, and PORT_FILE.log a line for each request. Every tag of a
name is the layout's one image. With --rate a blob is sent with so many bytes a second. It makes no
mistakes: those that registries make are tests/registry's.
"""
import argparse
import base64
import http.server
import json
import os
import re
import ssl
import time

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
PIECE = 16384


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    options = None

    def log_message(self, *_):
        pass

    def note(self):
        with open(self.options.port_file + ".log", "a", encoding="utf-8") as f:
            f.write(f"{self.command} {self.path} {self.headers.get('Range', '')}\n")

    def fail(self, status, code, headers=()):
        body = json.dumps({"errors": [{"code": code, "message": code.lower()}]}).encode()
        self.answer(status, "application/json", len(body), headers)
        if self.command == "GET":
            self.wfile.write(body)

    def answer(self, status, kind, length, headers=()):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()

    def may_enter(self):
        if not self.options.login:
            return True
        wanted = "Basic " + base64.b64encode(self.options.login.encode()).decode()
        return self.headers.get("Authorization") == wanted

    def do_GET(self):
        self.note()
        if not self.may_enter():
            self.fail(401, "UNAUTHORIZED", [("WWW-Authenticate", 'Basic realm="test"')])
            return
        if self.path == "/v2/":
            self.answer(200, "application/json", 0)
            return
        m = re.fullmatch(r"/v2/(.+)/(manifests|blobs)/([^/?]+)", self.path)
        layout = self.options.layouts.get(m[1]) if m else None
        if not layout:
            self.fail(404, "NAME_UNKNOWN")
        elif m[2] == "manifests":
            self.manifest(layout, m[3])
        else:
            self.blob(layout, m[3])

    do_HEAD = do_GET

    def manifest(self, layout, reference):
        with open(os.path.join(layout, "index.json"), encoding="utf-8") as f:
            listed = json.load(f)["manifests"][0]
        digest = reference if ":" in reference else listed["digest"]
        path = blob_path(layout, digest)
        if not path:
            self.fail(404, "MANIFEST_UNKNOWN")
            return
        with open(path, "rb") as f:
            body = f.read()
        kind = json.loads(body).get("mediaType", MANIFEST)
        self.answer(200, kind, len(body), [("Docker-Content-Digest", digest)])
        if self.command == "GET":
            self.wfile.write(body)

    def blob(self, layout, digest):
        path = blob_path(layout, digest)
        if not path:
            self.fail(404, "BLOB_UNKNOWN")
            return
        size = os.path.getsize(path)
        m = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        first = int(m[1]) if m else 0
        if m and first >= size:
            self.answer(416, "text/plain", 0, [("Content-Range", f"bytes */{size}")])
            return
        headers = [("Docker-Content-Digest", digest)]
        if m:
            headers.append(("Content-Range", f"bytes {first}-{size - 1}/{size}"))
        self.answer(206 if m else 200, "application/octet-stream", size - first, headers)
        if self.command == "GET":
            self.send(path, first)

    def send(self, path, first):
        rate = self.options.rate
        with open(path, "rb") as f:
            f.seek(first)
            while piece := f.read(min(PIECE, max(1, rate // 10)) if rate else PIECE):
                self.wfile.write(piece)
                if rate:
                    self.wfile.flush()
                    time.sleep(len(piece) / rate)


def blob_path(layout, digest):
    """The file of a blob that is there, or None."""
    m = re.fullmatch(r"sha256:([0-9a-f]{64})", digest)
    path = os.path.join(layout, "blobs/sha256", m[1]) if m else ""
    return path if os.path.isfile(path) else None


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that goes away is no error."""


def main():
    p = argparse.ArgumentParser()
    p.add_argument("port_file")
    p.add_argument("names", nargs="+", metavar="NAME=LAYOUT")
    p.add_argument("--login")
    p.add_argument("--rate", type=int, default=0)
    p.add_argument("--tls", nargs=2, metavar=("CERT", "KEY"))
    Handler.options = o = p.parse_args()
    o.layouts = dict(n.split("=", 1) for n in o.names)
    server = Server(("127.0.0.1", 0), Handler)
    if o.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*o.tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    with open(o.port_file + ".tmp", "w", encoding="utf-8") as f:
        f.write(f"{server.server_address[1]}\n")
    os.rename(o.port_file + ".tmp", o.port_file)
    server.serve_forever()


if __name__ == "__main__":
    main()
