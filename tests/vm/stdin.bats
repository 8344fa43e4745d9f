#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# K21 without a terminal: stdin of a command.

load ../lib/common
load ../lib/vm

# A descriptor that never has input and never ends: 9.
open_silence() {
	mkfifo "$BATS_TEST_TMPDIR/silence"
	exec 9<>"$BATS_TEST_TMPDIR/silence"
	rm "$BATS_TEST_TMPDIR/silence"
}

# What goes in comes back the same: blocks that differ, so that an order or a loss would show.
round_trip() {
	local bytes=$1 want got
	want=$(seq 1 $((bytes / 4)) | head -c "$bytes" | sha256sum)
	got=$(seq 1 $((bytes / 4)) | head -c "$bytes" | holt run -i demo cat | sha256sum)
	assert_equal "the digest of $bytes bytes" "$got" "$want"
}

@test "K21: without -i stdin is at its end, whatever holt's own is" {
	open_silence
	run -0 --separate-stderr holt run demo sh -c 'wc -c; ls -l /proc/self/fd/0 >&2' <&9
	assert_output 0
	# And what holt was given is left for whoever comes next.
	run -0 bash -c 'echo next | { "$HOLT" run demo cat; cat; }'
	assert_output next
}

@test "K21: empty, closed and unending stdin with -i" {
	open_silence
	STDIN=/dev/null box empty -i demo wc -c
	boxes
	assert_box empty 0 0
	run -0 --separate-stderr bash -c '"$HOLT" run -i demo wc -c <&-'
	assert_output 0
	# The program decides when it is over, not stdin.
	run -6 --separate-stderr holt run -i demo sh -c 'exit 6' <&9
	run -124 --separate-stderr holt run -i --timeout 1 demo cat <&9
}

# bats test_tags=user
@test "K21: all 256 values, NUL and 0x04, with and without a last newline" {
	local dir=$BATS_TEST_TMPDIR
	python3 -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 3 + b"\x04\x04\0\x04")' >"$dir/in"
	holt run -i demo cat <"$dir/in" >"$dir/out"
	cmp "$dir/in" "$dir/out"
}

@test "K21: input arrives while the program runs, not only at its end" {
	# The program answers each line before the next one is sent.
	run -0 --separate-stderr python3 - "$HOLT" <<-'PY'
		import subprocess, sys
		p = subprocess.Popen([sys.argv[1], "run", "-i", "demo", "sh", "-c",
		                      "while read l; do echo \"<$l>\"; done; echo end"],
		                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
		for i in range(20):
		    p.stdin.write(b"%d\n" % i)
		    p.stdin.flush()
		    assert p.stdout.readline() == b"<%d>\n" % i
		p.stdin.close()
		assert p.stdout.read() == b"end\n"
		assert p.wait() == 0
	PY
}

# bats test_tags=user
@test "K21: 64 MiB (1 GiB with HOLT_LONG=1) through stdin and stdout: same digest" {
	round_trip $((HOLT_LONG ? 1024 * 1024 * 1024 : 64 * 1024 * 1024))
}

@test "K21: a program that stops reading early ends the command with its own code" {
	run -0 --separate-stderr bash -c 'yes | "$HOLT" run -i demo head -c 10; exit "${PIPESTATUS[1]}"'
	assert_output $'y\ny\ny\ny\ny'
	# Closed while the program goes on: the rest is dropped, as a pipe would, and holt does not hang.
	run -3 --separate-stderr bash -c \
		'yes | "$HOLT" run -i demo sh -c "exec 0<&-; sleep 2; echo over; exit 3"; exit "${PIPESTATUS[1]}"'
	assert_output over
}

@test "K21: a program that never reads does not make holt take all of stdin" {
	# An endless writer that counts what it got rid of.
	run -0 --separate-stderr python3 - "$HOLT" <<-'PY'
		import os, subprocess, sys
		r, w = os.pipe()
		p = subprocess.Popen([sys.argv[1], "run", "-i", "demo", "sleep", "3"], stdin=r)
		os.close(r)
		taken = 0
		try:
		    while True:
		        taken += os.write(w, b"x" * 65536)
		except BrokenPipeError:
		    pass
		assert p.wait() == 0
		print(taken)
	PY
	# Pipes and windows on the way, not megabytes: back-pressure reaches the writer.
	assert_between "bytes taken" "$output" 1 $((4 * 1024 * 1024))
}
