#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# What an image becomes, entry by entry, against what unpacking its layers one after another gives. The
# cases and what they must give are from cases.py; as root umoci has to agree. One machine reads all file
# systems as the images have them (listing.c), for what they are is decided by the kernel that mounts them.

load ../lib/common

setup_file() {
	common_setup_file
	export CASES=$TEST_DIR/cases CARRIER=$TEST_DIR/carrier
	local random=90 case digest
	# As an ordinary user what differs is the owner of the store, not the sum.
	((EUID == 0)) || random=10
	python3 "$ROOT/tests/image/cases.py" make "$CASES" 1 "$random" >"$TEST_DIR/made"
	umoci_all >"$TEST_DIR/umoci" 2>"$TEST_DIR/umoci.err" 3>&- &
	local umoci=$!
	mkdir -p "$CARRIER/fs"
	for case in "$CASES"/*/; do
		holt image import -q "$case/layout" --name case >"$TEST_DIR/digest" || fail "case '$case'"
		carry case "${case%/}"
	done
	debian_image
	mkdir "$CASES/debian"
	echo debian >"$CASES/debian/row"
	carry debian debian
	wait $umoci
	((EUID != 0)) || umoci_debian
	read_in_guest
}

# carry IMAGE CASE: put its file system among those that the guest reads.
carry() {
	local digest
	digest=$(holt image inspect "$1" | jq -r '.[0].rootfs_digest | ltrimstr("sha256:")')
	ln "$HOLT_HOME/images/rootfs/$digest.squashfs" "$CARRIER/fs/${2##*/}"
}

# Without bundle and mtree, which nobody reads here.
umoci_all() {
	local case
	((EUID == 0)) || return 0
	for case in "$CASES"/*/; do
		[[ ! -e $case/why ]] || continue
		umoci raw unpack --image "$case/peer:case" "$TEST_DIR/unpacked" || continue
		echo "== $case" | sed 's,/$,,'
		"$HOLT_BUILD/tests/image/listing" "$TEST_DIR/unpacked"
		rm -rf "$TEST_DIR/unpacked"
	done
}

umoci_debian() {
	local layout=$TEST_DIR/debian-layout
	# It finds an image by its tag only.
	cp -r --no-preserve=ownership "$("$ROOT/tools/mkdebian")" "$layout"
	jq '.manifests[0].annotations["org.opencontainers.image.ref.name"] = "case"' "$layout/index.json" \
		>"$TEST_DIR/index"
	mv "$TEST_DIR/index" "$layout/index.json"
	umoci raw unpack --image "$layout:case" "$TEST_DIR/unpacked"
	"$HOLT_BUILD/tests/image/listing" "$TEST_DIR/unpacked" >"$CASES/debian/expected"
	rm -rf "$TEST_DIR/unpacked" "$layout"
}

read_in_guest() {
	local kernel module
	kernel=$(holt doctor | sed -n "s/^ok *kernel .* at '\([^']*\)'.*/\1/p")
	module=${kernel%/boot/*}/lib/modules/${kernel##*/vmlinuz-}/kernel/drivers/block/loop.ko
	cp "$module" "$HOLT_BUILD/tests/image/listing" "$CARRIER"
	image carrier --busybox --layer "$CARRIER"
	holt run carrier sh -c 'insmod /loop.ko && /listing --mount /fs/*' >"$TEST_DIR/guest" 2>"$TEST_DIR/guest.err" ||
		fail "the guest cannot read an image:" "$(tail -n 5 "$TEST_DIR/guest.err")"
}

# agree ROW: guest and, as root, umoci have what the cases of a row say.
agree() {
	python3 "$ROOT/tests/image/cases.py" compare "$CASES" guest "$TEST_DIR/guest" "$1"
	((EUID != 0)) || python3 "$ROOT/tests/image/cases.py" compare "$CASES" umoci "$TEST_DIR/umoci" "$1" ||
		fail "$(grep -v '•' "$TEST_DIR/umoci.err")"
}

@test "there are at least 200 image cases, and umoci is asked for all but a few" {
	read -r made _ without _ <"$TEST_DIR/made"
	assert_between "cases" "$made" 200 10000
	assert_between "cases without umoci" "$without" 0 25
}

# bats test_tags=user
@test "K10: whiteouts and opaque directories of every kind and order; what replaces what" {
	agree K10
}

# bats test_tags=user
@test "K11: hard links within and across layers, to symlinks and devices, to what comes later or went" {
	agree K11
}

# bats test_tags=user
@test "K12: attributes, capabilities, set-uid bits, devices are the same in the box" {
	agree K12
}

# bats test_tags=user
@test "K13: names in any bytes and of any length, every sparse form, owners up to 2^31, times clamped" {
	agree K13
}

# bats test_tags=user
@test "K14: images of 1 to 500 layers, of empty and of equal ones" {
	agree K14
}

# bats test_tags=user
@test "K15: gzip of several members, zstd of several frames and with skippable ones, no compression" {
	agree K15
}

@test "K10: the Debian image is what umoci unpacks" {
	skip_unless "only root can unpack it" test "$EUID" = 0
	run -0 python3 "$ROOT/tests/image/cases.py" compare "$CASES" umoci "$TEST_DIR/guest" debian
	assert_between "entries" "$(wc -l <"$CASES/debian/expected")" 2000 100000
}
