#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# Images that want to do harm (made by hostile.py, which says what each ends with): a typed error, the
# store as it was, memory and disk within bounds. No machine is started but for the sizes at the end.

load ../lib/common

setup_file() {
	common_setup_file
	python3 "$ROOT/tests/image/hostile.py" make "$TEST_DIR/hostile"
	holt image import "$(layout --busybox)" --name good >/dev/null
}

# What is in the store, with sizes and times; and outside of it what an image may reach for.
store() {
	find "$HOLT_HOME" -type f ! -name '*.db*' -printf '%P %s %T@ %i\n' | sort
	holt image ls --json
	ls -d /tmp/escape /escape 2>/dev/null || true
}

hostile() {
	python3 "$ROOT/tests/image/hostile.py" "$@"
}

# peak KIB COMMAND...: run it, which must succeed; its most memory is within this.
peak() {
	local most=$1
	shift
	run -0 --separate-stderr hostile run "$@"
	assert_between "KiB of memory" "${lines[-1]}" 1000 "$most"
	echo "# ${lines[-1]} KiB of at most $most" >&3
}

# bats test_tags=user
@test "K15: hostile names, links, numbers, streams and documents are refused by name, or are harmless" {
	local dir name wanted before after n=0 bad=0
	before=$(store)
	for dir in "$TEST_DIR"/hostile/*/; do
		name=$(basename "$dir") wanted=$(<"$dir/expected")
		n=$((n + 1))
		run --separate-stderr timeout 60 "$HOLT" image import -q "$dir/layout" --name "hostile:x"
		if [[ $wanted == fine ]]; then
			[[ $status -eq 0 ]] && holt image rm hostile:x >/dev/null && continue
		elif [[ $status -eq 1 && -z $output && $stderr =~ ^holt:\ image\ import: && $stderr =~ $wanted ]]; then
			continue
		fi
		bad=$((bad + 1))
		echo "'$name': status $status, wanted '$wanted', got: ${stderr:0:300}" >&2
	done
	after=$(store)
	assert_equal "the store" "$after" "$before"
	assert_between "images" "$n" 80 1000
	assert_equal "number of surprises" "$bad" 0
}

@test "K15: a layer that is cut at any byte is refused, and so is one that has a byte more" {
	local layer whole size cut before step=7
	[[ ${HOLT_LONG:-0} != 1 ]] || step=1
	hostile cuts "$TEST_DIR/cut"
	layer=$(jq -r '.manifests[0].digest[7:]' "$TEST_DIR/cut/index.json")
	layer=$TEST_DIR/cut/blobs/sha256/$(jq -r '.layers[0].digest[7:]' "$TEST_DIR/cut/blobs/sha256/$layer")
	whole=$TEST_DIR/whole
	cp "$layer" "$whole"
	size=$(stat -c %s "$whole")
	before=$(store)
	for ((cut = 0; cut < size; cut += step)); do
		head -c "$cut" "$whole" >"$layer"
		run --separate-stderr holt image import -q "$TEST_DIR/cut"
		assert_status 1
		assert_match "$stderr" "has $cut bytes, expected $size"
		# The same with the size right, and zeros for the rest.
		head -c $((size - cut)) /dev/zero >>"$layer"
		cmp -s "$whole" "$layer" || run --separate-stderr holt image import -q "$TEST_DIR/cut"
		assert_status 1
		assert_match "$stderr" "digest"
	done
	cat "$whole" <(echo) >"$layer"
	run --separate-stderr holt image import -q "$TEST_DIR/cut"
	assert_status 1
	assert_equal "the store" "$(store)" "$before"
	cp "$whole" "$layer"
	holt image import -q "$TEST_DIR/cut" --name cut >/dev/null
	holt image rm cut >/dev/null
}

@test "K15: a bomb of a compressed archive stops before the disk is full, and leaves nothing" {
	skip_unless "only root can mount a small file system" test "$EUID" = 0
	load ../lib/vm
	# A layout in a tar is decompressed to a file first; this one grows to 1 GiB, of which 200 MiB are there.
	mkdir "$TEST_DIR/bomb"
	echo '{"imageLayoutVersion":"1.0.0"}' >"$TEST_DIR/bomb/oci-layout"
	truncate -s 1G "$TEST_DIR/bomb/zeros"
	tar -C "$TEST_DIR/bomb" -c oci-layout zeros | zstd -q >"$TEST_DIR/bomb.tar.zst"
	export HOLT_HOME=$TEST_DIR/home-small
	small_disk 200
	run --separate-stderr holt image import -q "$TEST_DIR/bomb.tar.zst"
	assert_status 1
	assert_match "$stderr" 'No space left'
	assert_equal "files" "$(inside find "$HOLT_HOME/images/tmp" "$HOLT_HOME/images/rootfs" -type f)" ''
	end_disk
}

@test "the memory of an import: at most 64 MiB and 300 bytes an entry" {
	local limit=$((64 * 1024 + 500000 * 300 / 1024)) kind
	skip_unless "sanitizers take memory of their own" sh -c "! nm -D '$HOLT' 2>/dev/null | grep -q __asan"
	for kind in files long; do
		hostile entries "$TEST_DIR/many-$kind" 500000 "$kind"
		# A name is in there twice, in our tree and in the directories of libsquashfs: what is
		# above 40 bytes comes on top. Here they have 208.
		[[ $kind != long ]] || limit=$((limit + 500000 * 2 * 168 / 1024))
		peak "$limit" "$HOLT" image import -q "$TEST_DIR/many-$kind" --name many
		rm -rf "$TEST_DIR/many-$kind"
		holt image rm many >/dev/null
	done
	# And without many entries, but with content.
	peak $((64 * 1024 + 6000 * 300 / 1024)) "$HOLT" image import -q "$("$ROOT/tools/mkdebian")" --name debian
}

# With HOLT_LONG=1 they are what the name says; else smaller, with the same ways through the code.
# bats test_tags=user
@test "K16: a layer over 2 GiB, a file over 4 GiB, a sparse file of 1 TiB: right sizes, only real bytes" {
	local digest used mib=20 gib=16
	[[ ${HOLT_LONG:-0} != 1 ]] || mib=4100 gib=1024
	hostile large "$TEST_DIR/large" "$mib" "$gib"
	# The list of the blocks of a file, held or hole, takes memory: four bytes for each 128 KiB.
	peak $((64 * 1024 + (gib << 30 >> 17) * 8 / 1024)) "$HOLT" image import -q "$TEST_DIR/large" --name large
	rm -rf "$TEST_DIR/large"
	digest=$(holt image inspect large | jq -r '.[0].rootfs_digest | ltrimstr("sha256:")')
	used=$(($(stat -c '%b' "$HOLT_HOME/images/rootfs/$digest.squashfs") * 512 / 1048576))
	assert_between "MiB on the host" "$used" 1 $((mib + 2 + (gib << 30 >> 17) * 4 / 1048576))
	run -0 --separate-stderr holt run large sh -c "stat -c '%s %n' file sparse; tail -c 5 sparse | sha256sum
		dd if=sparse bs=64k skip=$((gib << 29 >> 16)) count=1 2>/dev/null | sha256sum
		dd if=file bs=1M skip=$((mib - 1)) 2>/dev/null | sha256sum"
	assert_output "$((mib << 20)) file
$((gib << 30)) sparse
$(printf '\0\0end' | sha256sum)
$({ printf middle; head -c 65530 /dev/zero; } | sha256sum)
$(python3 -c "import sys; sys.stdout.buffer.write(b'%08d' % ($mib - 1) + (bytes(range(256)) * 4096)[8:])" | sha256sum)"
}
