#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2034,SC2154 # expanded by another shell; variables of bats and tests/lib
# K47 on real machines: an agent that somebody else has taken over. The host ends the box with an
# error of the right kind, does not hang or crash, and keeps nothing. What each mode does is in
# tests/vm/liar.c.

load ../lib/common
load ../lib/vm

# lie MODE: run `true` on a machine with that agent, through the API; $output, $stderr. $READER is a
# command that reads its output instead of cat.
lie() {
	HOLT_AGENT=$(liar "$1") run --separate-stderr bash -c '"${@:2}" | eval "$1" | tr "\0" 0' - \
		"${READER:-cat}" timeout 60 "$HOLT_BUILD/tests/vm/boxtool" -b 20000 demo -t 5000 true
	assert_equal "'$1': bytes on stdout" "$output" '' || return
	run_left=$(leftovers_now) || fail "'$1': left behind: $run_left"
}

# lie_told MODE CODE TEXT: ends with an error of that code, which says TEXT and gives a hint.
lie_told() {
	lie "$1" || return
	grep -q "^error code=$2 " <<<"$stderr" || fail "'$1': not an error of kind $2:" "$stderr" || return
	grep -qE "^message: .*($3)" <<<"$stderr" || fail "'$1': the error does not say '$3':" "$stderr" || return
	grep -qE '^hint: .+' <<<"$stderr" || fail "'$1': no hint:" "$stderr"
}

@test "K47: noise, frames too long, out of place or of the future, instead of a start" {
	lie_told random PROTOCOL 'broke the protocol'
	lie_told oversized PROTOCOL 'broke the protocol'
	lie_told wrong-way PROTOCOL 'broke the protocol'
	lie_told setup-first PROTOCOL 'broke the protocol'
	lie_told wrong-version PROTOCOL 'hello'
}

@test "K47: output for a stream that nobody has, beyond the credit, behind the end" {
	lie_told exec-unknown-stream PROTOCOL 'broke the protocol.*stream'
	# Nobody reads for a while, or else there might be credit enough.
	READER='(head -c 1; sleep 2; cat) >/dev/null' \
		lie_told exec-no-credit PROTOCOL 'broke the protocol.*credit'
	lie_told exec-after-eof PROTOCOL 'broke the protocol.*end'
	lie_told exec-stdin-back PROTOCOL 'broke the protocol'
}

@test "K47: credit beyond the limit, a second start, an exit code that cannot be" {
	lie_told exec-big-credit PROTOCOL 'broke the protocol'
	lie_told exec-more-credit PROTOCOL 'broke the protocol.*credit'
	lie_told exec-twice PROTOCOL 'broke the protocol.*twice'
	lie exec-exit-code
	# Either it is an error, or it is a code that a process can have.
	if [[ $stderr =~ exit\ code=([0-9]+)\  ]]; then
		assert_between "the exit code" "${BASH_REMATCH[1]}" 1 255
	else
		assert_match "$stderr" 'error code=PROTOCOL '
	fi
}

# bats test_tags=user
@test "K47: a machine that goes down in the midst of a frame is never a success" {
	lie exec-cut
	assert_match "$stderr" 'error code=(GUEST_LOST|PROTOCOL) '
	! grep -q '^exit ' <<<"$stderr" || fail "told as an exit: $stderr"
}

@test "K47: 100,000 tiny log frames: the host stays small, and goes on" {
	local dir=$BATS_TEST_TMPDIR
	HOLT_AGENT=$(liar log-flood) "$HOLT_BUILD/tests/vm/boxtool" demo true </dev/null >"$dir/out" \
		2>"$dir/err" 3>&- &
	CLI=$! OUT=$dir/out ERR=$dir/err
	await_vmm
	local keeper=$KEEPER peak=0 now
	while now=$(peak_kib "$keeper") 2>/dev/null && [[ -n $now ]]; do
		peak=$now
		sleep 0.1
	done
	end_box 0
	assert_match "$(<"$ERR")" $'\nexit code=42 '
	assert_between "peak of the keeper (KiB)" "$peak" 1 32768
}

@test "K47: a guest that never tells a program's end: its time-out holds" {
	lie_told exec-endless TIMEOUT 'time'
	assert_between "the time (ms)" "$(sed -n 's/^error .* took_ms=//p' <<<"$stderr")" 5000 7000
}

@test "K47: a guest that never answers a request for a program: given up" {
	lie_told exec-silent TIMEOUT '.'
	assert_between "the time (ms)" "$(sed -n 's/^error .* took_ms=//p' <<<"$stderr")" 25000 40000
}

@test "K47: without a time-out, Ctrl-C ends a run whose guest does not answer" {
	export HOLT_AGENT
	HOLT_AGENT=$(liar exec-silent)
	begin_box --no-template demo true
	await_vmm
	sleep 8
	kill -0 "$CLI"
	kill -INT "$CLI"
	end_box 130 3000
	HOLT_AGENT=$(liar exec-endless)
	begin_box --no-template demo true
	await_vmm
	sleep 8
	kill -INT "$CLI"
	sleep 0.5
	kill -INT "$CLI"
	end_box 130 3000
	leftovers
}

# bats test_tags=user
@test "K47: control characters from the guest do not reach the terminal" {
	HOLT_AGENT=$(liar escapes) run --separate-stderr holt run demo true
	assert_status 125
	! grep -q $'[\001-\010\013-\037\177]' <<<"$stderr" || fail "raw control characters:" "$(cat -v <<<"$stderr")"
	# The guest's line break made no line of its own that looks like one of ours.
	assert_equal "lines that begin with holt:" "$(grep -c '^holt: ' <<<"$stderr")" 1
	assert_match "$stderr" '^holt: .*could not set itself up: bad.*2J.*all is well'
	lie escapes
	! grep -q $'[\001-\010\013-\037\177]' <<<"$stderr" || fail "raw in stage or object:" "$(cat -v <<<"$stderr")"
}
