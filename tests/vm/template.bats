#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2034,SC2154 # expanded by another shell; variables of bats and tests/lib
# Templates: when they are made and used, when not, and what becomes of boxes whatever becomes of
# them. The tests follow each other in one home, since every template is a boot.

load ../lib/common
load ../lib/vm

teardown() {
	remove_boxes
	end_disk
	common_teardown
}

# How a box began, and why not otherwise.
origin() {
	holt inspect "$1" | jq -r '.[0].state | .origin + (.origin_note | if . == "" then "" else ": " + . end)'
}

# Lines "KIND MEMORY", the template used last first.
templates() {
	holt template ls --json | jq -r '.[] | (if .bare then "bare " else "full " end) + (.memory_mib | tostring)'
}

# The id of the one of this kind and memory.
template_id() {
	holt template ls --json | jq -r --argjson b "$1" --argjson m "$2" '.[] | select(.bare == $b and .memory_mib == $m) | .id'
}

@test "two first boxes at once make one template, and begin with it, as does every later one" {
	export HOLT_LOG=info
	box a --name a demo true
	box b --name b demo true
	boxes
	unset HOLT_LOG
	assert_equal "templates that were made" "$(cat "$BATS_TEST_TMPDIR"/[ab].err | grep -c "making a template of 'demo'")" 1
	assert_equal "exit codes" "$(cat "$BATS_TEST_TMPDIR"/[ab].code | tr '\n' ' ')" '0 0 '
	assert_equal "origins" "$(origin a) $(origin b)" 'template template'
	run -0 templates
	assert_output 'full 512'
	# In a pipe nothing is told, and nothing is made.
	run -0 --separate-stderr holt run --name c demo true
	assert_equal stderr "$stderr" ''
	assert_equal origin "$(origin c)" template
	run -0 holt template ls
	assert_match "$output" '^TEMPLATE ID +IMAGE +KIND +MEMORY +CPUS +DISK +SIZE +SPARES +USED
[0-9a-f]{12} +demo +full +512.0 MiB +1 +10.0 GiB +[0-9.]+ MB +[0-9]+/[0-9]+ +.* ago$'
	assert_equal "what is left of the making" "$(ls "$HOLT_HOME/templates")" "$(holt template ls -q)"
}

@test "--no-template boots; so do other shapes, until their template is asked for" {
	box n --no-template --name n demo true
	box m -m 256m --name m demo true
	boxes
	assert_box n 0 ''
	assert_box m 0 ''
	assert_equal origins "$(origin n) $(origin m)" 'cold cold'
	run -0 templates
	assert_output 'full 512'
	run -0 "$ROOT/tests/vm/ptytool" 24x80 -- "$HOLT" template build --memory 256m demo
	assert_match "$output" "^holt: making a template of 'demo', once for this image"
	run -0 --separate-stderr holt template build -q -m 256m demo:latest
	assert_output "$(template_id false 256)"
	run -0 holt run -m 256m --name l demo true
	assert_equal origin "$(origin l)" template
	run -0 holt template rm "${output:-$(template_id false 256 | cut -c 1-8)}"
	run -0 templates
	assert_output 'full 512'
}

@test "a stopped box starts from a bare template, or boots, with its data" {
	run -0 holt run -d --name k demo sleep 1000
	run -0 holt exec k sh -c 'echo kept >/file'
	run -0 holt stop -t 1 k
	run -0 --separate-stderr holt start k
	assert_equal "stderr and origin" "$stderr$(origin k)" bare
	run -0 holt exec k sh -c 'cat /file; echo more >>/file'
	assert_output kept
	run -0 holt restart -t 1 --no-template k
	assert_equal origin "$(origin k)" cold
	# The template goes under a running clone of it, and is made again by whoever needs it.
	run -0 holt restart -t 1 k
	assert_equal origin "$(origin k)" bare
	run -0 holt template rm demo
	run -0 templates
	assert_output ''
	run -0 holt exec k sh -c 'cat /file; find / -xdev -type f -exec cat {} + | wc -c | grep -c ...'
	assert_output $'kept\nmore\n1'
}

# What the box's files say is not believed: its data is worth more than a quick start.
@test "a full template never takes the place of a disk with data, whatever files are gone or forged" {
	local id dir
	run -0 holt run --name f demo sh -c 'echo x >>/file; wc -l </file'
	assert_output 1
	assert_equal origin "$(origin f)" template
	id=$(holt inspect f | jq -r '.[0].id')
	dir=$HOLT_HOME/boxes/$id
	# A starter that claims that the disk is the template's copy.
	run -0 env "HOLT_KEEPER=$HOLT_BUILD/holt-keeper" "HOLT_KERNEL=$ROOT/.kernel" \
		"$HOLT_BUILD/tests/vm/overclone" f "$(template_id false 512)"
	assert_match "$output" '^cold: .*the disk is not the one that the template was frozen with$'
	# As if it had never been started.
	rm "$dir/state.json"
	run -0 holt start f
	run -0 holt wait f
	assert_equal origin "$(origin f)" bare
	# The note of another run of the host, or of another template.
	rm "$dir/state.json"
	echo "$(jq -r .generation "$HOLT_HOME/templates/$(template_id false 512)/template.json") 01234567-89ab-cdef-0123-456789abcdef" |
		tr -d '\n' >"$dir/disk.origin"
	run -0 holt start f
	run -0 holt wait f
	assert_equal origin "$(origin f)" bare
	[[ ! -e $dir/disk.origin ]] || fail "the note is still there"
	# Each start found what the one before had written.
	run -0 holt logs f
	assert_output $'1\n2\n3'
}

# spoil WHAT COMMAND...: after it the template is not used, but told of, removed and made again.
spoil() {
	local what=$1 dir
	shift
	dir=$HOLT_HOME/templates/$(template_id false 512)
	chmod 600 "$dir"/*
	"$@" "$dir"
	run -0 --separate-stderr holt run --name s demo true
	assert_match "$stderr" "^holt: warning: removing template [0-9a-f]{32}: '$what' is not as it was made$"
	assert_equal origin "$(origin s)" template
	holt rm s
	[[ $(jq .created_ns "$dir/template.json") != "$CREATED" ]] || fail "it was not made again"
	CREATED=$(jq .created_ns "$dir/template.json")
}

cut_memory() {
	truncate -s -4096 "$1/memory"
}

# The same size and times, one byte of another value.
change_state() {
	touch -r "$1/state" "$BATS_TEST_TMPDIR/times"
	printf '\377' | dd of="$1/state" bs=1 seek=30000 conv=notrunc status=none
	touch -r "$BATS_TEST_TMPDIR/times" "$1/state"
}

@test "a template that is cut or changed is removed and made again, never used: memory, state" {
	CREATED=$(jq .created_ns "$HOLT_HOME/templates/$(template_id false 512)/template.json")
	spoil memory cut_memory
	spoil state change_state
}

@test "another agent has another template; prune, the budget and image rm remove what they should" {
	local own
	own=$(template_id false 512)
	cp "$HOLT_BUILD/guest/holt-agent" "$TEST_DIR/agent"
	echo >>"$TEST_DIR/agent"
	HOLT_AGENT=$TEST_DIR/agent run -0 holt run --name o demo true
	assert_equal origin "$(origin o)" template
	assert_equal "full templates" "$(templates | grep -c 'full 512')" 2
	run -0 holt template prune
	assert_match "$output" '^1 removed, '
	assert_equal "the one that is left" "$(template_id false 512)" "$own"
	# Room for one: the other goes as soon as another is made, which stays however small the budget.
	HOLT_TEMPLATE_BYTES=1000000 run -0 holt template build -m 256m demo
	run -0 templates
	assert_output 'full 256'
	# Templates go with the last image that has their root file system.
	image twin
	run -0 holt image rm twin
	run -0 templates
	assert_output 'full 256'
	run -0 holt image rm demo
	run -0 templates
	assert_output ''
	image demo
}

@test "a template that cannot be made, or cannot be used, is no reason to fail: the box boots and says why" {
	# Templates on a file system that is read-only.
	run -0 --separate-stderr unshare --map-root-user --mount sh -c 'mount --bind "$1" "$1" &&
		mount -o remount,bind,ro "$1" && exec "$2" run --name r demo echo hi' - "$HOLT_HOME/templates" "$HOLT"
	assert_output hi
	assert_match "$stderr" '^holt: warning: box r booted without a template: .*: Read-only file system$'
	assert_match "$(origin r)" '^cold: .*: Read-only file system$'
	remove_boxes
	# A disk without room for one.
	HOLT_HOME=$TEST_DIR/home-small
	small_disk 200
	holt image import "$(layout)" --name demo >/dev/null
	run -0 --separate-stderr holt run --name r demo echo hi
	assert_output hi
	assert_match "$stderr" '^holt: warning: box r booted without a template: .* MiB left$'
	assert_match "$(origin r)" '^cold: .* MiB left$'
	run --separate-stderr holt template build demo
	assert_status 1
	assert_match "$stderr" $'^holt: template: demo: .* MiB left\nhint: make room'
	assert_equal "what is left of it" "$(inside find "$HOLT_HOME/templates" -mindepth 1)" ''
	run -0 holt rm r
	unset -f holt
	holt() { "$HOLT" "$@"; }
}

# A QEMU whose clones do what the file "clone" says.
odd_qemu() {
	# Of its place QEMU sees everything, as another user under root.
	[[ -d $TEST_DIR/odd ]] || mkdir -m 755 "$TEST_DIR/odd"
	printf '#!/bin/sh\ncase " $* " in\n*" -incoming "*) . %s/clone ;;\nesac\nexec %s "$@"\n' "$TEST_DIR/odd" \
		"$(command -v qemu-system-x86_64)" >"$TEST_DIR/odd/qemu"
	chmod 755 "$TEST_DIR/odd/qemu"
	export HOLT_QEMU=$TEST_DIR/odd/qemu
}

@test "a clone that dies, or says nothing for 10 s, is no reason to fail: the box boots and says why" {
	local start took cold
	odd_qemu
	echo 'exit 3' >"$TEST_DIR/odd/clone"
	chmod 644 "$TEST_DIR/odd/clone"
	run -0 --separate-stderr holt run --name d demo echo hi
	assert_output hi
	assert_match "$stderr" '^holt: warning: box d booted without a template: .*'
	assert_match "$(origin d)" '^cold: no clone: .*status 3'
	cold=$(holt inspect d | jq '.[0].state.ready_us / 1000 | floor')
	echo 'exec sleep 1000' >"$TEST_DIR/odd/clone"
	start=$(now_ms)
	run -0 --separate-stderr holt run --name s demo echo hi
	took=$(($(now_ms) - start))
	assert_output hi
	assert_match "$stderr" '^holt: warning: box s booted without a template: .*'
	assert_match "$(origin s)" '^cold: no clone: '
	assert_between "the time (ms), a boot being $cold" "$took" 10000 $((10000 + 5 * cold + 10000))
}
