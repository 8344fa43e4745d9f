#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # variables of bats
# K47: an agent that somebody has taken over, beside a box of somebody else; more of its lies are in
# tests/vm/hostile.bats.

load ../lib/common
load ../lib/vm

lie() {
	HOLT_AGENT=$(liar "$1") run --separate-stderr timeout 60 "$HOLT_BUILD/tests/vm/boxtool" \
		-b 20000 demo -t 5000 true
}

@test "K47: an agent that answers what nobody asked, or ends a program twice, beside another box" {
	holt run -d --name other demo sleep 1000 >/dev/null
	lie exec-unasked
	assert_match "$stderr" 'error code=PROTOCOL '
	assert_match "$stderr" 'message: the guest broke the protocol'
	# The first word counts.
	lie exec-exit-twice
	assert_match "$stderr" 'exit code=0 '
	run -0 holt exec other echo here
	assert_output here
	holt rm -f other >/dev/null
}
