#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# However a run ends, nothing of it is left, and the home works at once.

load ../lib/common
load ../lib/vm

# gone WITHIN_MS: no process with a file of the home open, no directory of a box, no socket.
gone() {
	local start
	start=$(now_ms)
	until leftovers_now >/dev/null; do
		(($(now_ms) - start <= $1)) || fail "still there after $1 ms:" "$(leftovers_now)" || return
	done
}

# The next command, at once.
home_works() {
	run -0 --separate-stderr holt run demo echo works
	assert_output works
	[[ -z $stderr ]] || fail "stderr: $stderr"
}

@test "a normal end leaves nothing: no process, box, socket, lock" {
	run -0 holt run demo true
	# Not after a while: when holt has ended.
	run -0 leftovers_now
	local lock
	while read -r lock; do
		flock -n "$lock" true || fail "'$lock' is held"
	done < <(find "$HOLT_HOME" -name '*.lock')
	# What stays in the home is the same after one run and after two.
	local before
	before=$(cd "$HOLT_HOME" && find . | sort)
	run -3 holt run demo sh -c 'exit 3'
	assert_equal "the home" "$(cd "$HOLT_HOME" && find . | sort)" "$before"
}

# bats test_tags=user
@test "while it runs: one keeper, one VM, one box, all the caller's, but QEMU under root; its descriptors go no further" {
	local pid uid
	echo private >"$BATS_TEST_TMPDIR/private"
	exec 8<"$BATS_TEST_TMPDIR/private"
	begin_box demo sh -c 'echo up; sleep 1000'
	exec 8<&-
	await_vmm
	await_output up
	find "/proc/$CLI/fd" -lname '*/private' | grep -q . || fail "the test does not work"
	for pid in "$KEEPER" "$VMM"; do
		! find "/proc/$pid/fd" -lname '*/private' | grep . || fail "process $pid has it"
		# Neither can write to the caller's streams.
		! find "/proc/$pid/fd" -lname "$OUT" -o -lname "$ERR" | grep . || fail "process $pid has them"
		uid=$EUID
		((pid != VMM || EUID != 0)) || uid=$(jq .jail.uid "$HOLT_HOME"/boxes/*/state.json)
		assert_equal "uids of process $pid" "$(sed -n 's/^Uid:\t//p' "/proc/$pid/status" | tr '\t' ' ')" \
			"$uid $uid $uid $uid"
	done
	assert_equal "no new privileges for QEMU" "$(sed -n 's/^NoNewPrivs:\t//p' "/proc/$VMM/status")" 1
	assert_equal "number of boxes" "$(find "$HOLT_HOME/boxes" -mindepth 1 -maxdepth 1 | wc -l)" 1
	# Both locks are taken, each by its own.
	local lock
	for lock in "$HOLT_HOME"/boxes/*/{keeper,vm}.lock; do
		! flock -n "$lock" true || fail "'$lock' is free"
	done
	# A second command of the same home neither sweeps the living box nor is held up by it.
	home_works
	kill -0 "$VMM"
	kill -TERM "$CLI"
	end_box 143 5000
	run -0 leftovers_now
	assert_equal "files of others" "$(find "$HOLT_HOME" ! -uid "$EUID")" ''
}

@test "SIGINT and SIGTERM while the VM boots: 130 and 143, at once" {
	begin_box demo sleep 1000
	await_vmm
	kill -INT "$CLI"
	end_box 130 2000
	run -0 leftovers_now
	begin_box demo sleep 1000
	await_vmm
	kill -TERM "$CLI"
	end_box 143 2000
	run -0 leftovers_now
	home_works
}

@test "SIGINT while the command runs goes to the command, which may answer" {
	begin_box demo sh -c 'trap "echo got-int; exit 9" INT; echo up; while :; do sleep 0.1; done'
	await_output up
	kill -INT "$CLI"
	end_box 9 10000
	assert_equal output "$(<"$OUT")" $'up\ngot-int'
	# One that dies of it.
	begin_box demo sh -c 'echo up; exec sleep 1000'
	await_output up
	kill -INT "$CLI"
	end_box 130 5000
	# One that is deaf: the second signal ends the box.
	begin_box demo sh -c 'trap "" INT TERM; echo up; while :; do sleep 1; done'
	await_output up
	kill -INT "$CLI"
	sleep 1
	kill -0 "$CLI"
	kill -INT "$CLI"
	end_box 130 5000
	run -0 leftovers_now
}

@test "a hang-up ends a run, unless it was started to ignore one" {
	begin_box demo sh -c 'echo up; sleep 1000'
	await_vmm
	await_output up
	kill -HUP "$CLI"
	end_box 129 3000
	trap '' HUP
	KEEP_SIGNALS=-- begin_box demo sh -c 'echo up; sleep 3; echo done'
	trap - HUP
	await_vmm
	await_output up
	kill -HUP "$CLI"
	end_box 0 8000
	assert_equal "the output" "$(<"$OUT")" $'up\ndone'
	leftovers
}

@test "kill -9 of holt while the VM boots, and while the command runs: nothing is left after 2 s" {
	begin_box demo sleep 1000
	await_vmm
	kill -9 "$CLI"
	gone 2000
	begin_box demo sh -c 'echo up; yes >/dev/null'
	await_output up
	kill -9 "$CLI"
	gone 2000
	home_works
}

@test "kill -9 of the keeper: 125 with a text, nothing is left after 2 s" {
	begin_box demo sleep 1000
	await_vmm
	kill -9 "$KEEPER"
	end_box 125 4000
	assert_match "$(<"$ERR")" '^holt: .*keeper ended'
	run -0 leftovers_now
	begin_box demo sh -c 'echo up; sleep 1000'
	await_vmm
	await_output up
	kill -9 "$KEEPER"
	end_box 125 2500
	assert_match "$(<"$ERR")" '^holt: .*keeper ended'
	run -0 leftovers_now
	home_works
}

@test "SIGTERM to the keeper stops the box in order: the program gets its signal, 143" {
	begin_box demo sh -c 'echo up; sleep 1000'
	await_vmm
	await_output up
	kill -TERM "$KEEPER"
	end_box 143 2500
	assert_equal "stderr" "$(<"$ERR")" ''
	run -0 leftovers_now
}

@test "kill -9 of QEMU while the command runs: 125, the text names the signal" {
	begin_box demo sh -c 'echo up; sleep 1000'
	await_vmm
	await_output up
	kill -9 "$VMM"
	end_box 125 2500
	assert_match "$(<"$ERR")" '^holt: .*signal 9 \(Killed\)'
	assert_match "$(<"$ERR")" $'\nhint: '
	assert_equal "the output until then" "$(<"$OUT")" up
	run -0 leftovers_now
	# The first process of a pid namespace heeds no other signal from outside.
	HOLT_KEEPER=$(weak_keeper pidns)
	export HOLT_KEEPER
	begin_box --network none demo sh -c 'echo up; sleep 1000'
	await_vmm
	await_output up
	kill -SEGV "$VMM"
	end_box 125 2500
	assert_match "$(<"$ERR")" 'signal 11 \(Segmentation fault\)'
	run -0 leftovers_now
	unset HOLT_KEEPER
	home_works
}

@test "kill -9 of QEMU while it boots: the second attempt succeeds; twice: 125 with the signal" {
	local first
	begin_box --no-template demo echo second-attempt
	await_vmm
	kill -9 "$VMM"
	end_box 0
	assert_equal output "$(<"$OUT")" second-attempt
	begin_box --no-template demo echo never
	await_vmm
	first=$VMM
	kill -9 "$first"
	wait_for 10 another_vmm "$first"
	kill -9 "$(vmms)"
	end_box 125 5000
	assert_match "$(<"$ERR")" '^holt: .*signal 9 \(Killed\).*attempt 2.*last stage'
	run -0 leftovers_now
}

@test "kill -9 of holt and keeper at once: QEMU ends, the next command removes the box" {
	begin_box demo sh -c 'echo up; sleep 1000'
	await_vmm
	await_output up
	kill -9 "$CLI" "$KEEPER"
	wait_for 2 no_process
	# Nobody was left to do it.
	[[ -n $(find "$HOLT_HOME/boxes" -mindepth 1) ]] || fail "the test does not work: the box is gone"
	run -0 holt image ls
	run -0 leftovers_now
	home_works
}

no_process() {
	"$ROOT/tests/lib/leftovers" "$TEST_DIR"
}

@test "the guest powers itself off, and panics: 125, not a code of the command's" {
	box off demo sh -c 'echo up; echo o >/proc/sysrq-trigger; sleep 1000'
	box panic demo sh -c 'echo up; sleep 1; echo c >/proc/sysrq-trigger; sleep 1000'
	boxes
	assert_box off 125 up
	assert_match "$stderr" '^holt: .+'
	assert_box panic 125 up
	assert_match "$stderr" '^holt: .+'
	leftovers
}

@test "four runs at once in one home" {
	local i pids=()
	for i in 1 2 3 4; do
		"$HOLT" run --hostname "box-$i" demo sh -c "hostname; head -c 1000000 /dev/zero | wc -c; exit 1$i" \
			</dev/null >"$BATS_TEST_TMPDIR/$i.out" 2>"$BATS_TEST_TMPDIR/$i.err" 3>&- &
		pids[i]=$!
	done
	for i in 1 2 3 4; do
		local code=0
		wait "${pids[i]}" || code=$?
		assert_equal "exit code of run $i ($(<"$BATS_TEST_TMPDIR/$i.err"))" "$code" "1$i"
		assert_equal "output of run $i" "$(<"$BATS_TEST_TMPDIR/$i.out")" "box-$i"$'\n1000000'
	done
	run -0 leftovers_now
}

@test "two homes at once, one of them with a long path and odd characters" {
	local long first=0 second=0
	long=$TEST_DIR/home2/$'with space \' " \\ * ü\n'/$(printf 'x%.0s' {1..150})
	mkdir -p "${long%/*}"
	HOLT_HOME=$long holt image import "$(layout)" --name other
	HOLT_HOME=$long "$HOLT" run other echo two </dev/null >"$BATS_TEST_TMPDIR/two" 3>&- &
	local two=$!
	"$HOLT" run demo echo one </dev/null >"$BATS_TEST_TMPDIR/one" 3>&- &
	local one=$!
	wait "$one" || first=$?
	wait "$two" || second=$?
	assert_equal "exit codes" "$first $second" '0 0'
	assert_equal "outputs" "$(cat "$BATS_TEST_TMPDIR/one" "$BATS_TEST_TMPDIR/two")" $'one\ntwo'
	# Images are of one home.
	run -125 holt run other true
	run -0 leftovers_now
}
