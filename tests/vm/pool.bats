#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2034,SC2154 # expanded by another shell; variables of bats and tests/lib
# Boxes of a pool on real machines, as a provider makes, finds, starts and ends them, one step after
# the other (tests/vm/pooltool.c).

load ../lib/common
load ../lib/vm

setup_file() {
	common_setup_file
	demo_image
	image agent --busybox --user agent
}

setup() {
	common_setup
	export TOOL=$HOLT_BUILD/tests/vm/pooltool HOLT_KEEPER=${HOLT%/*}/holt-keeper
	[[ -n ${HOLT_KERNEL:-} ]] || export HOLT_KERNEL=$ROOT/.kernel
}

teardown() {
	[[ -z ${HOLDER:-} ]] || kill -9 "$HOLDER" 2>/dev/null || true
	remove_boxes
	common_teardown
}

readonly DIRS=(/mnt/user-data/workspace /mnt/user-data/uploads /mnt/user-data/outputs)

entry() {
	"$TOOL" list "$1"
}

entry_is() {
	[[ $(entry "$1") == "$2" ]]
}

pid_of() {
	holt inspect "$1" | jq ".[0].state.$2"
}

# bats test_tags=user
@test "C-158 a new box lives on, is warm, and has its directories, of root and of another user" {
	run -0 "$TOOL" make p-root demo 0 "${DIRS[@]}"
	run -0 "$TOOL" make p-agent agent 0 "${DIRS[@]}"
	assert_equal list "$(entry p-)" $'p-agent warm 1\np-root warm 1'
	local name
	for name in root agent; do
		run -0 "$TOOL" run "p-$name" "id -un; cd ${DIRS[0]} && echo hello >f && cat f
			stat -c '%U %a' ${DIRS[*]} /mnt/user-data"
		assert_output "$name"$'\nhello\n'"$name 755"$'\n'"$name 755"$'\n'"$name 755"$'\nroot 755'
	done
	# What is stored with it is told.
	assert_equal key "$(holt inspect p-root | jq -r '.[0].pool | "\(.user) \(.thread) \(.fingerprint)"')" \
		'u null f'
	run -0 "$TOOL" kill p-root
	run -0 "$TOOL" kill p-agent
	assert_equal list "$(entry p-)" ''
	no_box
}

# bats test_tags=user
@test "C-158 boxes of a pool begin with their directories, which other boxes of the image have not" {
	local -a seen
	local name
	for name in p-1 p-2; do
		run -0 "$TOOL" make $name agent 0 "${DIRS[@]}"
		assert_equal "origin of $name" "$(holt inspect $name | jq -r '.[0].state.origin')" template
		run -0 "$TOOL" run $name "stat -c '%U %Z %i' ${DIRS[*]}; touch ${DIRS[2]}/x"
		assert_equal "owners in $name" "$(grep -c '^agent ' <<<"$output")" 3
		seen+=("$output")
		sleep 1.1
	done
	# Made once, before both began.
	assert_equal 'times and inodes' "${seen[1]}" "${seen[0]}"
	# Another list, and another owner, are another template's.
	run -0 "$TOOL" make p-3 agent 0 "${DIRS[0]}"
	run -0 "$TOOL" run p-3 "ls /mnt/user-data"
	assert_output workspace
	run -0 holt run agent sh -c 'test ! -e /mnt/user-data && echo none'
	assert_output none
	# All of them are of use.
	local before
	before=$(holt template ls -q | sort)
	holt template prune >/dev/null
	assert_equal templates "$(holt template ls -q | sort)" "$before"
	for name in p-1 p-2 p-3; do run -0 "$TOOL" kill $name; done
}

@test "C-158 a directory that cannot be made leaves no box" {
	run -1 "$TOOL" make p-a demo 0 "${DIRS[0]}" /etc/passwd/x
	assert_match "$output" '\[directories\] /etc/passwd/x'
	run -1 "$TOOL" make p-a demo 1 /proc/x
	wait_for 5 no_box
	assert_equal boxes "$(holt ps -aq)" ''
}

# bats test_tags=user
@test "K25 a box that is kept is stopped, started by another process, and has its files; its name is its own" {
	run -0 "$TOOL" make p-k agent 1 "${DIRS[@]}"
	local id
	id=$(holt inspect p-k | jq -r '.[0].id')
	run -0 "$TOOL" run p-k "echo kept >${DIRS[0]}/file"
	run -1 "$TOOL" make p-k demo 0
	assert_match "$output" "in use"
	run -1 "$TOOL" start p-k
	assert_match "$output" "is running"
	run -0 holt stop -t 0 p-k
	assert_equal list "$(entry p-)" 'p-k stopped 1'
	run -1 "$TOOL" run p-k true
	run -0 "$TOOL" start p-k
	assert_equal list "$(entry p-)" 'p-k warm 1'
	assert_equal id "$(holt inspect p-k | jq -r '.[0].id')" "$id"
	run -0 "$TOOL" run p-k "cat ${DIRS[0]}/file && touch ${DIRS[2]}/x"
	assert_output kept
	run -0 "$TOOL" kill p-k
	assert_equal boxes "$(holt ps -aq)" ''
}

@test "a box whose holder is killed is warm at once; a box of the same name by hand is nobody's" {
	run -0 "$TOOL" make p-h demo 0
	"$TOOL" hold p-h 60000 >"$BATS_TEST_TMPDIR/said" 3>&- &
	HOLDER=$!
	wait_for 10 grep -q held "$BATS_TEST_TMPDIR/said"
	assert_equal list "$(entry p-)" 'p-h active 1'
	kill -9 "$HOLDER"
	HOLDER=
	wait_for 2 entry_is p- 'p-h warm 1'
	run -0 holt run -d --name p-z demo sleep 1000
	assert_match "$(entry p-z)" '^p-z .* 0$'
	run -0 "$TOOL" kill p-h
}

@test "a box is destroyed within 10 s while its machine is stopped, and while its keeper is" {
	local who ms
	for who in vmm_pid keeper_pid; do
		run -0 "$TOOL" make p-s demo 0
		kill -STOP "$(pid_of p-s $who)"
		run -0 "$TOOL" kill p-s
		assert_between "ms with a stopped $who" "$output" 0 10000
		wait_for 3 no_box
		assert_equal boxes "$(holt ps -aq)" ''
	done
}

@test "what is prepared is there: a template of another shape, and spares, which new boxes take over" {
	run -0 "$TOOL" prepare demo 640 0
	assert_equal 'memory of the template' \
		"$(holt template ls --json | jq -r '[.[] | select(.bare | not) | .memory_mib] | contains([640])')" true
	run -1 "$TOOL" prepare demo 640 1
	assert_match "$output" 'default shape'
	run -0 "$TOOL" prepare demo 0 1 "${DIRS[@]}"
	run -0 "$TOOL" make p-p demo 0 "${DIRS[@]}"
	assert_equal origin "$(holt inspect p-p | jq -r '.[0].state.origin')" spare
	run -0 "$TOOL" run p-p "pwd; touch ${DIRS[0]}/x && hostname"
	assert_equal hostname "${lines[1]}" "$(holt inspect p-p | jq -r '.[0].id')"
	run -0 "$TOOL" kill p-p
	holt template spares demo 0 >/dev/null
}

@test "a maker that is killed at any time leaves no machine" {
	local ms pid
	"$TOOL" make p-warmup demo 0 "${DIRS[@]}" >/dev/null
	"$TOOL" kill p-warmup >/dev/null
	for ms in 5 20 40 60 80 100 130; do
		"$TOOL" make p-x demo 0 "${DIRS[@]}" >/dev/null 2>&1 3>&- &
		pid=$!
		sleep "0.$(printf %03d "$ms")"
		# It may have ended by then.
		kill -9 "$pid" 2>/dev/null || true
		wait "$pid" || true
		# It had made it, or nothing is left.
		wait_for 4 settled
		[[ -z $(entry p-) ]] || "$TOOL" kill p-x >/dev/null
	done
}

no_box() {
	[[ -z $(vmms) && -z $(ls "$HOLT_HOME/boxes") ]]
}

settled() {
	entry_is p- 'p-x warm 1' || { entry_is p- '' && no_box; }
}
