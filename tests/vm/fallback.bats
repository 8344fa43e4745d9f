#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2034,SC2154 # expanded by another shell; variables of bats and tests/lib
# What goes wrong with a template while it is made and while a clone begins: the box boots instead and
# says why, or fails by type; nothing is left, and the next one works. Makers that are killed.

load ../lib/common
load ../lib/vm

setup_file() {
	common_setup_file
	demo_image
	# QEMU with a stand-in before it, see standin.c: one file, so that all tests share a template.
	export REAL_QEMU
	REAL_QEMU=$(command -v qemu-system-x86_64)
	# Of its place QEMU sees everything, as another user under root.
	mkdir -m 755 "$TEST_DIR/odd"
	cp "$HOLT_BUILD/tests/vm/standin" "$TEST_DIR/odd/qemu"
	chmod 755 "$TEST_DIR/odd/qemu"
	export HOLT_QEMU=$TEST_DIR/odd/qemu
}

setup() {
	common_setup
	qemu
}

teardown() {
	qemu
	remove_boxes
	common_teardown
}

# qemu [LINE...]: what QEMU's stand-in does from now on.
qemu() {
	printf '%s\n' "run $REAL_QEMU" "$@" >"$HOLT_QEMU.conf"
	chmod 644 "$HOLT_QEMU.conf"
}

origin() {
	holt inspect "$1" | jq -r '.[0].state | .origin + (.origin_note | if . == "" then "" else ": " + . end)'
}

template_dir() {
	echo "$HOLT_HOME/templates/$(holt template ls -q)"
}

# falls_back NAME TEXT [COMMAND...]: a box that cannot begin as a clone boots, and says why to its
# starter and for good.
falls_back() {
	run -0 --separate-stderr "${@:3}" "$HOLT" run --name "$1" demo echo hello
	assert_output hello
	assert_match "$stderr" "^holt: warning: box $1 booted without a template: .*$2"
	assert_match "$(origin "$1")" "^cold: .*$2"
}

clones() {
	run -0 --separate-stderr holt run --name "$1" demo echo hello
	assert_equal "output" "$output$stderr" hello
	assert_equal origin "$(origin "$1")" template
}

# bats test_tags=user
@test "QEMU dies or has no memory while it restores, or is silent: a cold boot within 10 s more, with the reason" {
	local start
	clones a
	qemu 'clone die'
	falls_back b 'no clone: the VM was killed by signal 4 \(Illegal instruction\)'
	qemu 'clone memory 300'
	falls_back c 'no clone: the VM ended by itself with status 1;.*allocate memory'
	qemu 'clone hang'
	start=$(now_ms)
	falls_back d 'no clone: the guest did not start within 10000 ms'
	assert_between "time of the silent one, in ms" $(($(now_ms) - start)) 10000 30000
	qemu
	clones e
}

@test "without the shim, or with no memory for any QEMU: an error by type" {
	mkdir "$BATS_TEST_TMPDIR/bin"
	cp "$HOLT_BUILD/holt-keeper" "$BATS_TEST_TMPDIR/bin"
	HOLT_KEEPER=$BATS_TEST_TMPDIR/bin/holt-keeper run -125 --separate-stderr holt run --name a demo true
	assert_match "$stderr" $'^holt: .*cannot open \'holt-open.so\'.*\nhint: install holt again'
	qemu 'memory 300'
	run -125 --separate-stderr holt run --name b demo true
	assert_match "$stderr" $'^holt: .*the VM ended by itself with status 1.*allocate memory.*\nhint: '
	qemu
	clones c
}

@test "a state that QEMU cannot load, described as if it were whole: a cold boot with QEMU's words" {
	local dir sum times
	clones n
	dir=$(template_dir)
	times=$BATS_TEST_TMPDIR/times
	touch -r "$dir/state" "$times"
	chmod 600 "$dir/state"
	# Behind the header.
	head -c 4096 /dev/zero | tr '\\0' '\\377' | dd of="$dir/state" bs=1 seek=200 conv=notrunc status=none
	touch -r "$times" "$dir/state"
	sum=$(sha256sum <"$dir/state")
	# Not by jq, whose numbers are not as long as these times.
	sed -i "s/\"state_digest\":\"[^\"]*/\"state_digest\":\"sha256:${sum%% *}/" "$dir/template.json"
	falls_back a 'no clone: .*console: .*qemu'
	run -0 holt template rm demo
	clones b
}

@test "the memory is cut under running clones: these die by type, nothing else does, the next makes it anew" {
	local dir code=0
	run -0 holt run -d --name a demo sleep 1000
	run -0 holt run -d --name b --no-template demo sleep 1000
	assert_equal origins "$(origin a) $(origin b)" 'template cold'
	dir=$(template_dir)
	holt exec a sh -c 'echo up; exec sleep 1000' >"$BATS_TEST_TMPDIR/exec" 2>&1 </dev/null 3>&- &
	wait_for 20 grep -q up "$BATS_TEST_TMPDIR/exec"
	chmod 600 "$dir/memory"
	truncate -s 0 "$dir/memory"
	wait $! || code=$?
	assert_equal "exit status of what ran in it" "$code" 125
	assert_match "$(<"$BATS_TEST_TMPDIR/exec")" $'^up\nholt: .*signal 7 \\(Bus error\\).*\nhint: '
	assert_equal "its end" "$(holt inspect a | jq -r '.[0].state.reason')" crashed
	run -0 holt exec b echo lives
	assert_output lives
	run -0 --separate-stderr holt run --name c demo echo hello
	assert_match "$stderr" "^holt: warning: removing template [0-9a-f]{32}: 'memory' is not as it was made$"
	assert_equal origin "$(origin c)" template
	run -0 holt start a
	run -0 holt exec a echo lives
}

@test "the disk gets full while the template's is copied: a cold boot, and nothing is left of the copy" {
	clones a
	falls_back b "cannot write disk 'disk.raw': No space left" env \
		ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" LD_PRELOAD="$HOLT_BUILD/tests/vm/nospace.so"
	run -0 find "$HOLT_HOME" -name '*.tmp'
	assert_output ''
	clones c
}

# ---- makers ----

no_template() {
	[[ -z $(holt template ls -q) ]] || holt template rm demo
	assert_equal "the templates" "$(ls "$HOLT_HOME/templates")" ''
}

@test "kill -9 of the keeper, then of QEMU, that make a template: the box boots, and the next one makes it" {
	no_template
	begin_box --name a demo echo hello
	await_maker
	kill -9 "$KEEPER"
	end_box 0
	assert_equal output "$(<"$OUT")" hello
	assert_match "$(<"$ERR")" '^holt: warning: box a booted without a template: .*keeper ended'
	assert_equal "what is left of it" "$(ls "$HOLT_HOME/templates")" ''
	begin_box --name b demo echo hello
	await_maker
	kill -9 "$VMM"
	end_box 0
	assert_equal output "$(<"$OUT")" hello
	assert_match "$(<"$ERR")" '^holt: warning: box b booted without a template: .*signal 9 \(Killed\)'
	assert_equal "what is left of it" "$(ls "$HOLT_HOME/templates")" ''
	clones c
}

@test "kill -9 of who makes a template: who waits for it makes it; the next who comes finds nothing of it" {
	local maker waiter
	no_template
	begin_box --name a demo echo first
	maker=$CLI
	await_maker
	begin_box --name b demo echo second
	waiter=$CLI
	# It has its own box, and then asks for the template again and again.
	wait_for 10 has_boxes 2
	sleep 0.5
	assert_equal "machines" "$(all_vmms)" "$VMM"
	kill -9 "$maker"
	CLI=$waiter end_box 0
	assert_equal output "$(<"$OUT")$(<"$ERR")" second
	assert_equal origin "$(origin b)" template
	assert_equal "the templates" "$(ls "$HOLT_HOME/templates")" "$(holt template ls -q)"

	# And nobody waits; its keeper has gone with it, and what both left goes with the next command.
	no_template
	begin_box --name c demo echo third
	await_maker
	kill -9 "$CLI" "$KEEPER"
	wait_for 5 no_vmm
	[[ -n $(ls "$HOLT_HOME/templates") ]] || fail "the test does not work: nothing was left"
	run -0 holt image ls
	assert_equal "what is left" "$(ls "$HOLT_HOME/templates")" ''
	clones d
}

has_boxes() {
	[[ $(find "$HOLT_HOME/boxes" -name rootfs | wc -l) == "$1" ]]
}

no_vmm() {
	[[ -z $(all_vmms)$(all_keepers) ]]
}

@test "a template is made while others open and sweep the home all the time" {
	local i
	no_template
	begin_box --name a demo echo hello
	while kill -0 "$CLI" 2>/dev/null; do
		holt image ls >/dev/null || fail "the home does not open"
	done
	end_box 0
	assert_equal output "$(<"$OUT")$(<"$ERR")" hello
	assert_equal origin "$(origin a)" template
}
