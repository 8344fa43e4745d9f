#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# K06: the leader's end is the command's end, whoever still holds its output.

load ../lib/common
load ../lib/vm

# bats test_tags=user
@test "K06: a background child that holds the output delays the end by 250 ms at most" {
	# In one box, so that only the commands are compared, and twice, since the first one pays for
	# the translation of the programs.
	run -0 --separate-stderr boxtool demo \
		'sleep 0 & echo warm' 'sleep 1000 & echo warm' \
		'sleep 0 & echo alone' 'sleep 1000 & echo background' \
		'echo "alive=$(ps -o args | grep -c "^sleep 1000")"'
	assert_match "$output" $'alone\nbackground\n'
	# Documented: what a command leaves in the background lives on.
	assert_fact alive 2
	local -a took
	mapfile -t took < <(sed -n 's/^exit code=0 .*took_ms=//p' <<<"$stderr")
	assert_equal "commands that ended with 0" "${#took[@]}" 5
	# 250 ms is the promise; the rest is for a busy machine.
	assert_between "the delay" $((took[3] - took[2])) -1000 450
	# The cut is told: flag 4.
	assert_equal "flags" "$(sed -n 's/^exit .* flags=\([0-9]*\) .*/\1/p' <<<"$stderr" | tr '\n' ' ')" \
		'0 4 0 4 0 '
}

@test "K06: output of the leader is complete when a child holds the pipe" {
	local start lines
	start=$(now_ms)
	# More than all buffers on the way hold, through a reader that takes its time.
	lines=$(holt run demo sh -c 'sleep 1000 & i=0; while [ $i -lt 20 ]; do seq 1 20000; i=$((i + 1)); done' |
		{ sleep 1; cat; } | sort -n | uniq -c | awk '$1 != 20 { bad = 1 } END { print NR, bad + 0 }')
	assert_equal "different lines, and whether any is missing" "$lines" '20000 0'
	assert_between "the whole time" $(($(now_ms) - start)) 0 60000
}

@test "K06: holt run ends with the leader, and takes the background child with it" {
	local start
	start=$(now_ms)
	run -3 --separate-stderr holt run demo sh -c 'sleep 1000 & setsid sleep 1000 & echo hi; exit 3'
	assert_output hi
	# The same without a child, on the same machine in the same state.
	local with=$(($(now_ms) - start))
	start=$(now_ms)
	run -3 --separate-stderr holt run demo sh -c 'echo hi; exit 3'
	local without=$(($(now_ms) - start))
	assert_between "the difference" $((with - without)) -60000 1500
	leftovers
}
