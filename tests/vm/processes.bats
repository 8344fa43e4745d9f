#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# Many processes in one home (K27), many boxes in one process (K04), stale files (K28), and a listing
# that nothing holds up.

load ../lib/common
load ../lib/vm

teardown() {
	local ids
	: >"$TEST_DIR/enough"
	((${#CHURN[@]} == 0)) || wait "${CHURN[@]}"
	ids=$(holt ps -aq --no-trunc)
	# shellcheck disable=SC2086 # one word an id
	[[ -z $ids ]] || holt rm -f $ids >/dev/null
	common_teardown
}

# race CASE ROUNDS: by two and by five processes, see tests/vm/race.c.
race() {
	local n dir rounds=${ROUNDS:-$2}
	dir=$(layout)
	for n in 2 5; do
		run -0 --separate-stderr "$HOLT_BUILD/tests/vm/race" "$1" "$n" "$rounds" demo "$dir"
	done
	rm -rf "$HOLT_HOME/new-2" "$HOLT_HOME/new-5"
}

# bats test_tags=user
@test "K27: one home opened for the first time by 2 and 5 processes at once, 50 rounds" {
	race open 50
}

# bats test_tags=user
@test "K27: one name for many: create and rename, 2 and 5 processes, 50 rounds each" {
	race create 50
	race rename 50
}

@test "K27: one box for many: remove, and remove against start, 2 and 5 processes, 50 rounds each" {
	race remove 50
	race locked 50
}

@test "K27: one image for many, 2 and 5 processes, 50 rounds" {
	race import 50
}

@test "K27: listing while boxes come, change their names and go, 2 and 5 processes, 10 rounds" {
	race list 10
}

@test "K27: one box started by 2 and 5 processes at once runs once, 3 rounds" {
	ROUNDS='' race start 3
}

# bats test_tags=user
@test "K04: 500 children that are left behind leave no zombie in the box" {
	box orphans demo sh -c 'i=0; while [ $i -lt 500 ]; do (true & exit 0); i=$((i + 1)); done
		sleep 1; cat /proc/[0-9]*/stat | grep -c ") Z "'
	boxes
	assert_box orphans 1 0
}

@test "K04: 60 boxes made and removed, 12 of them booted: descriptors, threads, files, memory are flat" {
	local what before after boxes=60 booted=12
	[[ ${HOLT_LONG:-} != 1 ]] || boxes=500 booted=50
	run -0 --separate-stderr "$HOLT_BUILD/tests/vm/flat" demo "$boxes" "$booted"
	sed 's/^/# /' <<<"$output" >&3
	while read -r what before after; do
		if [[ $what == memory_kib ]]; then
			assert_between "growth of $what" $((after - before)) -100000 2048
		else
			assert_equal "$what" "$after" "$before"
		fi
	done <<<"$output"
	run -0 leftovers_now
}

# set_state ID JQ: change the state file of a box, as if its keeper had written that.
set_state() {
	local file=$HOLT_HOME/boxes/$1/state.json
	jq -c "$2" "$file" >"$file.new"
	mv "$file.new" "$file"
}

# The process $BYSTANDER is there, and is not stopped either.
unharmed() {
	assert_match "$(sed -n 's/^State:\t//p' "/proc/$BYSTANDER/status")" '^S'
}

# bats test_tags=user
@test "K28: state, locks and sockets of dead keepers with pids that others have now: nobody is killed" {
	local id verb
	# A program of ours that holt must never touch, with the pid that the stale file names.
	sleep 1000 3>&- &
	BYSTANDER=$!
	id=$(holt run -d --name stale demo sh -c '[ -e /file ] || echo kept >/file; sync; echo up; sleep 100000')
	await_vmm
	wait_for 20 has_log stale up
	kill -9 "$KEEPER"
	wait_for 5 no_vmm
	for verb in 'kill stale' 'stop stale' 'pause stale' 'exec stale true' 'kill -s TERM stale'; do
		set_state "$id" ".state = \"running\" | .reason = \"\" | .keeper_pid = $BYSTANDER | .vmm_pid = $BYSTANDER"
		run -0 holt ps -q
		assert_output ''
		run -0 holt ps -a
		assert_match "$output" 'Exited \(137\) .*\(lost\)'
		run -0 holt inspect stale
		assert_equal "state" "$(jq -r '.[0].state | "\(.status) \(.reason) \(.keeper_pid) \(.vmm_pid)"' <<<"$output")" \
			'exited lost 0 0'
		# shellcheck disable=SC2086 # its words
		run --separate-stderr holt $verb
		[[ $verb == stop* ]] || [[ $status -ne 0 ]] || fail "'holt $verb' succeeded"
		unharmed
	done
	# A VM that nobody knows of uses the disk: neither a second one, nor rm, not even with -f.
	exec 8<"$HOLT_HOME/boxes/$id/vm.lock"
	flock -x 8
	for verb in start rm 'rm -f'; do
		# shellcheck disable=SC2086 # its words
		run --separate-stderr holt $verb stale
		assert_status 1
		assert_match "$stderr" '^holt: .*(in use|runs already)'
	done
	exec 8<&-
	# Something else listens where the keeper did.
	rm -f "$HOLT_HOME/boxes/$id/sock"
	mkfifo "$HOLT_HOME/boxes/$id/sock"
	run -0 holt start stale
	run -0 holt exec stale cat /file
	assert_output kept
	run -0 holt kill stale
	set_state "$id" ".state = \"paused\" | .keeper_pid = $BYSTANDER | .vmm_pid = $BYSTANDER"
	run -0 holt rm -f stale
	unharmed
	kill "$BYSTANDER"
}

no_vmm() {
	[[ -z $(vmms) ]]
}

has_log() {
	holt logs "$1" | grep -q "$2"
}

# sick_box STOPPED-PROCESS: with it stopped, listing is quick, and rm -f ends the box.
sick_box() {
	local start took
	holt run -d --name sick demo sleep 100000
	await_vmm
	kill -STOP "${!1}"
	start=$(now_ms)
	run -0 holt ps -a
	assert_match "$output" ' Up .* sick'
	run -0 holt ps --json
	run -0 holt inspect sick
	took=$(($(now_ms) - start))
	echo "# $1 stopped: three listings took $took ms" >&3
	assert_between "three listings in ms" "$took" 0 3000
	run -0 holt rm -f sick
	run -0 leftovers_now
}

@test "a stopped keeper, a stopped QEMU: listing does not wait for them, rm -f ends the box" {
	sick_box KEEPER
	sick_box VMM
}

# Make and remove 10 boxes by 3 processes again and again, and boot one after the other besides.
churn() {
	local i
	for i in 1 2 3; do
		while [[ ! -e $TEST_DIR/enough ]]; do
			"$HOLT_BUILD/tests/vm/makebox" demo "churn-$i-"{0..9}
			"$HOLT" rm "churn-$i-"{0..9}
		done >/dev/null 2>>"$TEST_DIR/churn.err" 3>&- &
		CHURN+=($!)
	done
	while [[ ! -e $TEST_DIR/enough ]]; do
		"$HOLT" run --rm --name churn-run demo true
	done 2>>"$TEST_DIR/churn.err" 3>&- &
	CHURN+=($!)
}

CHURN=()

@test "ps while 30 boxes churn, 100 times: it always works, and every row is whole" {
	local i start times=() bad
	churn
	for i in {1..100}; do
		start=$(now_ms)
		run -0 --separate-stderr holt ps -a --json
		times+=($(($(now_ms) - start)))
		assert_equal "stderr" "$stderr" ''
		bad=$(jq -c 'select((.id | length) != 16 or .image != "demo" or (.name | startswith("churn") | not)
			or .state.status == "gone" or .state.reason == "lost")' <<<"$output")
		assert_equal "rows that are not whole" "$bad" ''
		bad=$(jq -r .name <<<"$output" | sort | uniq -d)
		assert_equal "names that are there twice" "$bad" ''
	done
	: >"$TEST_DIR/enough"
	wait "${CHURN[@]}"
	mapfile -t times < <(printf '%s\n' "${times[@]}" | sort -n)
	echo "# ps -a --json in ms: p50 ${times[50]}, p99 ${times[98]}" >&3
	# Nor was anybody else disturbed by the listing.
	assert_equal "what the others say" "$(<"$TEST_DIR/churn.err")" ''
	run -0 holt ps -aq
	assert_output ''
}
