#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# The start of a machine: that it is dependable, and what is told when it fails.

load ../lib/common
load ../lib/vm

# Load for each core, until the test ends.
begin_load() {
	local i
	for ((i = 0; i < $(nproc); i++)); do
		(while :; do :; done) 3>&- &
		LOAD+=($!)
	done
}

end_load() {
	((${#LOAD[@]} == 0)) || kill "${LOAD[@]}"
	LOAD=()
}

LOAD=()

teardown() {
	end_load
	common_teardown
}

@test "boots in a row with every core busy: 20 (200 with HOLT_LONG=1), none needs a second attempt" {
	local boot n=$((HOLT_LONG ? 200 : 20)) second=0 slowest=0 ms
	begin_load
	# Not a counting loop over i: bats writes to that name.
	for boot in $(seq "$n"); do
		run -0 --separate-stderr boxtool demo 'echo up'
		assert_output up
		[[ $stderr =~ attempts=([0-9]+)\ hello_ms=[0-9]+\ ready_ms=([0-9]+) ]] || fail "boot $boot: $stderr"
		((BASH_REMATCH[1] == 1)) || second=$((second + 1))
		ms=${BASH_REMATCH[2]}
		((ms <= slowest)) || slowest=$ms
	done
	end_load
	echo "# $n boots, $second of them in the second attempt, the slowest took $slowest ms" >&3
	assert_equal "boots that needed a second attempt" "$second" 0
}

@test "watchdog: a machine that stands still is started once more, and then it works" {
	local out=$BATS_TEST_TMPDIR/out err=$BATS_TEST_TMPDIR/err
	"$HOLT_BUILD/tests/vm/boxtool" -b 8000 demo 'echo second' </dev/null >"$out" 2>"$err" 3>&- &
	CLI=$! OUT=$out ERR=$err
	await_vmm
	kill -STOP "$VMM"
	end_box 0 60000
	assert_equal output "$(<"$out")" second
	assert_match "$(<"$err")" '^ready attempts=2 '
}

@test "watchdog K48: one that never moves is given up in time, with the last stage and why" {
	local err=$BATS_TEST_TMPDIR/err first
	"$HOLT_BUILD/tests/vm/boxtool" -b 2000 demo true </dev/null >"$err.out" 2>"$err" 3>&- &
	CLI=$! OUT=$err.out ERR=$err
	await_vmm
	first=$VMM
	kill -STOP "$first"
	wait_for 10 another_vmm "$first"
	kill -STOP "$(vmms)"
	# Two attempts of 2 s each; the rest is for the way there and back.
	end_box 1 6000
	assert_match "$(<"$err")" '^error code=TIMEOUT stage=[a-z]+ object=[0-9a-f]+ took_ms='
	assert_match "$(<"$err")" "message: .*did not start within 2000 ms.*attempt 2 of 2.*last stage '[a-z]+'.*console: "
	assert_match "$(<"$err")" $'\nhint: .+'
	run -0 leftovers_now
}

@test "an agent that never speaks: given up in time, the console's tail is in the text" {
	export HOLT_AGENT
	HOLT_AGENT=$(liar silent)
	local start
	start=$(now_ms)
	run -1 --separate-stderr boxtool -b 10000 demo true
	assert_between "the time" $(($(now_ms) - start)) 20000 24000
	assert_match "$stderr" '^error code=TIMEOUT '
	assert_match "$stderr" 'did not start within 10000 ms.*attempt 2 of 2'
	assert_match "$stderr" 'liar: now silent'
	assert_equal "bytes on stdout" "$output" ''
}

@test "a guest that panics: 125, at once, with the panic from the console" {
	export HOLT_AGENT
	HOLT_AGENT=$(liar panic)
	local start
	start=$(now_ms)
	run --separate-stderr holt run demo true
	assert_status 125
	# Not by the watchdog, which would take two minutes.
	assert_between "the time" $(($(now_ms) - start)) 0 40000
	assert_match "$stderr" '^holt: .*Kernel panic - not syncing: Attempted to kill init!'
	assert_match "$stderr" 'last stage'
	assert_match "$stderr" $'\nhint: '
	# One error, one hint: the console's lines do not turn into lines of ours.
	assert_equal "bytes on stdout" "$output" ''
}

@test "a kernel that is broken: 125, and the text says which file" {
	local image
	image=$(holt doctor --json | jq -r '.checks[] | select(.name == "kernel").text' | sed "s/.* at '\([^']*\)'.*/\1/")
	[[ -r $image ]] || fail "no kernel to break: $image"
	mkdir -p "$TEST_DIR/kernel/boot"
	ln -sfn "$(realpath "${image%/boot/*}/lib")" "$TEST_DIR/kernel/lib"
	# Its head is right, what is behind it is not.
	cp "$image" "$TEST_DIR/kernel/boot/${image##*/}"
	dd if=/dev/urandom of="$TEST_DIR/kernel/boot/${image##*/}" bs=64k seek=1 count=32 conv=notrunc status=none
	export HOLT_KERNEL=$TEST_DIR/kernel/boot/${image##*/}
	local start
	start=$(now_ms)
	run --separate-stderr boxtool -b 6000 demo true
	assert_status 1
	assert_between "the time" $(($(now_ms) - start)) 0 20000
	assert_match "$stderr" '^error code=[A-Z_]+ stage=.+ object=.+'
	assert_match "$stderr" $'\nmessage: .*(did not start|kernel|ended by itself)'
	assert_match "$stderr" $'\nhint: .+'

	head -c 1000 "$image" >"$TEST_DIR/kernel/boot/short"
	HOLT_KERNEL=$TEST_DIR/kernel/boot/short run --separate-stderr holt run demo true
	assert_status 125
	assert_match "$stderr" "^holt: .*'$TEST_DIR/kernel/boot/short'"
	HOLT_KERNEL=/no/such/kernel run --separate-stderr holt run demo true
	assert_status 125
	assert_match "$stderr" "^holt: .*'/no/such/kernel'.*No such file"
	assert_match "$stderr" $'\nhint: .*HOLT_KERNEL'
}

@test "QEMU that is missing, or none: 125, and the text says what was tried" {
	HOLT_QEMU=/no/such/qemu run --separate-stderr holt run demo true
	assert_status 125
	assert_match "$stderr" "^holt: .*'/no/such/qemu'"
	assert_match "$stderr" $'\nhint: .*HOLT_QEMU'
	HOLT_QEMU=/bin/false run --separate-stderr holt run demo true
	assert_status 125
	assert_match "$stderr" "^holt: .*status 1"
	HOLT_KEEPER=/no/such/keeper run --separate-stderr holt run demo true
	assert_status 125
	assert_match "$stderr" "^holt: .*'/no/such/keeper'"
	# One that is no keeper: an end without a word is told as that.
	HOLT_KEEPER=/bin/false run --separate-stderr holt run demo true
	assert_status 125
	assert_match "$stderr" "^holt: .*keeper ended"
}
