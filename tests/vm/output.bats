#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# Output: large, to slow readers, to readers that leave, to full disks.

load ../lib/common
load ../lib/vm

# In the guest: N blocks of 1 MiB that the host can make as well, each with its number before it.
BLOCK='seq 1 200000 | head -c 1048576'
BLOCKS='blocks() { i=0; while [ $i -lt $1 ]; do echo "block $i"; cat /tmp/block; i=$((i + 1)); done; }'

wanted_digest() {
	eval "$BLOCK" >"$BATS_TEST_TMPDIR/block"
	local i
	for ((i = 0; i < $1; i++)); do
		echo "block $i"
		cat "$BATS_TEST_TMPDIR/block"
	done | sha256sum
}

@test "1 GiB of output: same digest, and holt and its keeper stay small" {
	local dir=$BATS_TEST_TMPDIR n=1024 cli keeper cli_before keeper_before
	# The box waits before and after, so that there is a process to look at.
	"$HOLT" run demo sh -c "$BLOCK >/tmp/block; $BLOCKS; echo up >&2; sleep 2; blocks $n
		echo written >&2; sleep 4" </dev/null 2>"$dir/err" 3>&- > >(sha256sum >"$dir/digest") &
	CLI=$! ERR=$dir/err OUT=$dir/digest
	await_vmm
	keeper=$KEEPER cli=$CLI
	wait_for 60 grep -q up "$ERR"
	cli_before=$(peak_kib "$cli") keeper_before=$(peak_kib "$keeper")
	wait_for 200 grep -q written "$ERR"
	local cli_grew=$(($(peak_kib "$cli") - cli_before))
	local keeper_grew=$(($(peak_kib "$keeper") - keeper_before))
	end_box 0
	wait_for 10 test -s "$dir/digest"
	assert_equal digest "$(<"$dir/digest")" "$(wanted_digest "$n")"
	# Windows and buffers of each hop: a sixty-fourth of what went through.
	assert_between "what holt grew by (KiB)" "$cli_grew" 0 16384
	assert_between "what the keeper grew by (KiB)" "$keeper_grew" 0 16384
}

@test "a reader that sleeps holds up the writer in the guest, and loses nothing" {
	local dir=$BATS_TEST_TMPDIR
	"$HOLT" run demo sh -c "$BLOCK >/tmp/block; $BLOCKS; read a _ </proc/uptime; blocks 64
		read b _ </proc/uptime; echo \"took=\$a \$b\" >&2; sleep 2" </dev/null 2>"$dir/err" 3>&- \
		> >(head -c 1 >"$dir/first"; sleep 5; cat >"$dir/rest") &
	CLI=$! ERR=$dir/err OUT=$dir/rest
	await_vmm
	local keeper=$KEEPER
	wait_for 60 test -s "$dir/first"
	sleep 3
	# In the midst of the sleep: nothing is finished, nothing heaps up.
	[[ ! -s $dir/err ]] || fail "64 MiB are written although nobody reads: $(<"$dir/err")"
	assert_between "peak of holt (KiB)" "$(peak_kib "$CLI")" 1 32768
	assert_between "peak of the keeper (KiB)" "$(peak_kib "$keeper")" 1 32768
	end_box 0
	wait_for 10 grep -q 'block 63' "$dir/rest"
	sleep 0.2
	assert_equal digest "$(cat "$dir/first" "$dir/rest" | sha256sum)" "$(wanted_digest 64)"
	# By the guest's clock the writer waited about as long as the reader slept.
	local seconds
	seconds=$(awk -F '[= ]' '/^took=/ { print int($3 - $2) }' "$dir/err")
	assert_between "seconds that the writer took" "$seconds" 4 60
}

@test "stderr flows while nobody reads stdout" {
	local dir=$BATS_TEST_TMPDIR
	mkfifo "$dir/stuck"
	exec 9<>"$dir/stuck"
	"$HOLT" run demo sh -c 'yes >/dev/stdout & i=0
		while [ $i -lt 50 ]; do echo "err $i" >&2; i=$((i + 1)); usleep 10000; done; kill $!' \
		</dev/null >&9 2>"$dir/err" 3>&- 9>&9 &
	CLI=$! ERR=$dir/err OUT=/dev/null
	wait_for 60 grep -q 'err 49' "$dir/err"
	cat <&9 >/dev/null 3>&- &
	local drain=$!
	end_box 0
	kill "$drain"
	rm "$dir/stuck"
}

@test "a reader that leaves ends the command: holt run ... | head -1" {
	local start
	start=$(now_ms)
	run -141 --separate-stderr bash -c '"$HOLT" run demo yes | head -1; exit "${PIPESTATUS[0]}"'
	assert_output y
	[[ -z $stderr ]] || fail "complains: $stderr"
	assert_between "the time" $(($(now_ms) - start)) 0 30000
	# Also where the program would not write any more, only sleep: its next line ends it.
	run -141 --separate-stderr bash -c \
		'"$HOLT" run demo sh -c "echo first; sleep 1; echo second; sleep 1; echo third; sleep 1000" | head -1
		exit "${PIPESTATUS[0]}"'
	assert_output first
	leftovers
}

# bats test_tags=user
@test "K48: stdout or stderr on a full device: 125, the text says so, nothing is left" {
	run --separate-stderr bash -c '"$HOLT" run demo echo hi >/dev/full'
	assert_status 125
	assert_match "$stderr" "^holt: .*stdout.*No space left on device"
	# The program is ended, it does not go on without a reader.
	run --separate-stderr bash -c '"$HOLT" run demo sh -c "while :; do echo hi; done" >/dev/full'
	assert_status 125
	assert_match "$stderr" "^holt: .*stdout.*No space left on device"
	run bash -c '"$HOLT" run demo sh -c "echo hi >&2" 2>/dev/full'
	assert_status 125
	leftovers
}

@test "closed stdout and stderr do no harm to the box" {
	local dir=$BATS_TEST_TMPDIR
	run -7 bash -c '"$HOLT" run demo sh -c "echo gone; echo gone >&2; exit 7" >&- 2>&-'
	run -7 --separate-stderr bash -c '"$HOLT" run demo sh -c "echo gone; echo err >&2; exit 7" >&-'
	assert_equal stderr "$stderr" err
}
