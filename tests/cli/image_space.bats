#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # variables of bats
# What images and pulled layers take, and what goes: prune, the budget, system df.

load ../lib/common

# Different images of about a megabyte each, the older one used longer ago.
two_images() {
	holt image import "$(layout --busybox)" --name first >/dev/null
	age first '2020-01-01'
	second=$(holt image import "$(other_layout)" --name second)
}

other_layout() {
	local root=$TEST_DIR/other dir=$TEST_DIR/other.layout
	mkdir -p "$root"
	head -c 1000000 /dev/urandom >"$root/data"
	tar -C "$root" -cf "$dir.tar" .
	echo "$dir.tar"
}

# age NAME DATE: its rootfs was used then.
age() {
	touch -d "$2" "$HOLT_HOME/images/rootfs/$(holt image inspect "$1" | jq -r '.[0].rootfs_digest | ltrimstr("sha256:")').squashfs"
}

# blob N BYTES DATE: a layer as a pull keeps it.
blob() {
	local path
	path=$HOLT_HOME/images/blobs/$(printf '%064d' "$1")
	head -c "$2" /dev/urandom >"$path"
	touch -d "$3" "$path"
}

names() {
	holt image ls --json | jq -c '[.[].name]'
}

# bats test_tags=user
@test "K44: prune takes images without a name and kept layers; with --all all that nobody needs" {
	two_images
	holt image tag first second
	blob 1 100000 now
	assert_equal "names" "$(names)" '["first:latest","second:latest",null]'
	run -0 holt image prune --dry-run
	assert_match "$output" "${second:7:12}"
	assert_match "$output" '1 would be removed, '
	assert_equal "names after a dry run" "$(names)" '["first:latest","second:latest",null]'
	assert_equal "layers after a dry run" "$(find "$HOLT_HOME/images/blobs" -type f | wc -l)" 1
	run -0 holt image prune --json
	jq -e --arg d "$second" '.images == [{"digest": $d, "name": null, "bytes": .images[0].bytes}] and
		.images[0].bytes >= 1000000 and .bytes >= 1100000' <<<"$output" >/dev/null || fail "$output"
	assert_equal "names" "$(names)" '["first:latest","second:latest"]'
	assert_equal "layers" "$(find "$HOLT_HOME/images/blobs" -type f | wc -l)" 0
	run -0 holt image prune
	assert_output "0 removed, 0 B with layers that were kept"
	run -0 holt image prune -af
	assert_match "$output" '1 removed'
	assert_equal "names" "$(names)" '[]'
	assert_equal "files" "$(find "$HOLT_HOME/images/rootfs" -type f | wc -l)" 0
	run -2 --separate-stderr holt image prune x
	run -2 --separate-stderr holt image prune --max much
}

@test "K44: the budget: kept layers go before images, those used longest ago first, never the new one" {
	two_images
	blob 1 300000 '2020-01-02'
	blob 2 300000 '2020-01-03'
	# An image that is there costs nothing, so nothing goes.
	HOLT_IMAGE_BYTES=10m holt image import "$(layout --busybox)" --name first >/dev/null
	HOLT_IMAGE_BYTES=18446744073709551615 holt image import "$(layout --busybox)" --name first >/dev/null
	assert_equal "layers" "$(find "$HOLT_HOME/images/blobs" -type f | wc -l)" 2
	# Both images and one of the layers have room.
	age first '2020-01-01'
	run -0 holt system df --json
	local images
	images=$(jq .images.bytes <<<"$output")
	HOLT_IMAGE_BYTES=$((images + 310000)) holt image import "$(layout --busybox)" --name again >/dev/null
	assert_equal "layers" "$(find "$HOLT_HOME/images/blobs" -type f -printf '%f\n')" "$(printf '%064d' 2)"
	assert_equal "names" "$(names)" '["again:latest","first:latest","second:latest"]'
	# One image has.
	age second '2019-01-01'
	HOLT_IMAGE_BYTES=$((images - 1000)) holt image import "$(layout --busybox)" --name third >/dev/null
	assert_equal "names" "$(names)" '["again:latest","first:latest","third:latest"]'
	# None has: the new one stays.
	HOLT_IMAGE_BYTES=1 run -0 holt image import "$(other_layout)" --name large
	assert_equal "names" "$(names)" '["large:latest"]'
	# By hand, too.
	run -0 holt image prune --max 0
	assert_match "$output" '^large'
	assert_equal "names" "$(names)" '[]'
}

@test "system df: what images and layers take, as du tells it" {
	run -0 holt system df
	assert_match "$output" '^TYPE +TOTAL +ACTIVE +SIZE +RECLAIMABLE'
	assert_match "$output" 'Images +0 +0 +0 B +0 B'
	two_images
	blob 1 100000 now
	run -0 holt system df --json
	jq -e \
		'.images.count == 2 and .images.active == 0 and .images.bytes == .images.reclaimable_bytes and
		.blobs.count == 1 and .blobs.bytes >= 100000 and .templates.count == 0 and .boxes.count == 0' \
		<<<"$output" >/dev/null || fail "$output"
	assert_equal "bytes of images" "$(jq .images.bytes <<<"$output")" \
		"$(du -c --block-size=1 "$HOLT_HOME"/images/rootfs/*.squashfs | awk '/total/ {print $1}')"
	# What somebody else has by a link is in use.
	mkdir "$TEST_DIR/x"
	ln "$HOLT_HOME"/images/rootfs/*.squashfs -t "$TEST_DIR/x"
	assert_equal "in use" "$(holt system df --json | jq -c '[.images.active, .images.reclaimable_bytes]')" '[2,0]'
	run -0 holt image prune -a
	assert_match "$output" '0 removed'
	rm -r "$TEST_DIR/x"
	run -2 --separate-stderr holt system df x
}
