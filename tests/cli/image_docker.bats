#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# Archives as docker save writes them, made by skopeo.

load ../lib/common

setup() {
	common_setup
	export HOLT_HOME=$TEST_DIR/home-$BATS_TEST_NUMBER
	OUT=$TEST_DIR/out-$BATS_TEST_NUMBER
	mkdir "$OUT"
}

# saved LAYOUT FILE:NAME:TAG
saved() {
	skopeo copy -q "oci:$1" "docker-archive:$2"
}

# rootfs_of REF: the name of its root file system.
rootfs_of() {
	holt image inspect "$1" | jq -r '.[0].rootfs_digest'
}

@test "a docker archive: the same root file system and configuration as the layout, by its own name" {
	local layout digest
	layout=$(layout --busybox --env A=b --user agent)
	holt image import "$layout" --name straight >/dev/null
	saved "$layout" "$OUT/a.tar:r.example/demo:v1"
	run -0 --separate-stderr holt image import "$OUT/a.tar"
	digest=$output
	run -0 holt image inspect r.example/demo:v1
	jq -e --arg d "$digest" '.[0].digest == $d and .[0].config.user == "agent"
		and (.[0].config.env | index("A=b"))' <<<"$output" >/dev/null || fail "inspect: $output"
	assert_equal "rootfs" "$(rootfs_of r.example/demo:v1)" "$(rootfs_of straight)"
	# Again, and under another name: the same image.
	run -0 --separate-stderr holt image import "$OUT/a.tar" --name other
	assert_output "$digest"
	# Compressed as a whole.
	gzip -k "$OUT/a.tar"
	zstd -q "$OUT/a.tar"
	export HOLT_HOME=$TEST_DIR/home-compressed
	for file in "$OUT/a.tar.gz" "$OUT/a.tar.zst"; do
		run -0 --separate-stderr holt image import "$file"
		assert_output "$digest"
	done
	run -0 holt image inspect r.example/demo:v1
}

@test "a docker archive that is cut or spoilt leaves the store as it was" {
	saved "$(layout --busybox)" "$OUT/a.tar:demo:v1"
	mkdir "$OUT/x"
	tar -C "$OUT/x" -xf "$OUT/a.tar"
	local layer
	layer=$(jq -r '.[0].Layers[0]' "$OUT/x/manifest.json")
	# Without its layer.
	tar -C "$OUT/x" -cf "$OUT/b.tar" --exclude "$layer" manifest.json "$(jq -r '.[0].Config' "$OUT/x/manifest.json")"
	run -1 --separate-stderr holt image import "$OUT/b.tar"
	assert_match "$stderr" "does not hold '$layer'"
	# With another one in its place.
	echo else >"$OUT/else"
	tar -cf "$OUT/x/$layer" -C "$OUT" else
	tar -C "$OUT/x" -cf "$OUT/c.tar" manifest.json "$(jq -r '.[0].Config' "$OUT/x/manifest.json")" "$layer"
	run -1 --separate-stderr holt image import "$OUT/c.tar"
	assert_match "$stderr" 'layer 1 of 1'
	assert_equal "list" "$(holt image ls -q)" ''
	assert_equal "left" "$(find "$HOLT_HOME/images/tmp" "$HOLT_HOME/images/rootfs" -type f)" ''
}

@test "an archive that is both a layout and a docker archive is read as the layout" {
	local layout
	layout=$(layout --busybox --name demo:v2)
	saved "$layout" "$OUT/a.tar:demo:v1"
	mkdir "$OUT/x"
	tar -C "$OUT/x" -xf "$OUT/a.tar"
	cp -r "$layout/." "$OUT/x"
	tar -C "$OUT/x" -cf "$OUT/both.tar" manifest.json oci-layout index.json blobs
	run -0 --separate-stderr holt image import "$OUT/both.tar"
	assert_output "$(jq -r '.manifests[0].digest' "$layout/index.json")"
}
