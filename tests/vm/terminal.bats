#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# K22: a program in a box on a terminal, and the person in front of it (tests/vm/ptytool).

load ../lib/common
load ../lib/vm

teardown() {
	remove_boxes
	common_teardown
}

# on_terminal CODE SIZE STEP... -- HOLT-ARGUMENT...: what the terminal showed is $output.
on_terminal() {
	local code=$1 words=()
	shift
	while [[ $1 != -- ]]; do
		words+=("$1")
		shift
	done
	run --separate-stderr "$ROOT/tests/vm/ptytool" "${words[@]}" -- "$HOLT" "${@:2}"
	[[ $status == "$code" ]] || fail "exit status $status instead of $code" "shown: $output" \
		"stderr: $stderr"
}

# A box that others look into: $BOX.
begin_kept() {
	BOX=$(holt run -d demo sleep 1000)
}

end_kept() {
	holt rm -f "$BOX" >/dev/null
}

# bats test_tags=user
@test "K22: the size is there from the first moment, also of one that changes during the boot" {
	on_terminal 0 33x101 -- run -it demo sh -c 'stty size; tty; test -t 0 && test -t 1 && test -t 2'
	assert_match "$output" '33 101'
	assert_match "$output" '/dev/pts/'
	# Begun at another size: it is changed while the machine boots.
	on_terminal 0 24x80 resize=50x132 -- run -it demo sh -c 'sleep 1; stty size'
	assert_match "$output" '50 132'
	# Without a terminal of the caller's: the usual one.
	run -0 --separate-stderr holt run -t demo stty size
	assert_match "$output" '^24 80'
}

@test "K22: a resize reaches the program as SIGWINCH" {
	begin_kept
	on_terminal 5 24x80 expect=ready resize=40x100 'expect=40 100' send='x' -- exec -it "$BOX" sh -c \
		'trap "stty size" WINCH; stty -icanon; echo ready; while :; do read -n 1 -t 1 x && exit 5; done'
	end_kept
}

@test "K22: Ctrl-C, Ctrl-\\ and Ctrl-Z are signals in the box, not here" {
	begin_kept
	on_terminal 130 24x80 expect=up raw 'send=\x03' -- exec -it "$BOX" sh -c 'echo up; exec sleep 1000'
	# A shell is deaf to SIGQUIT.
	on_terminal 131 24x80 raw sleep=0.5 'send=\x1c' -- exec -it "$BOX" sleep 1000
	on_terminal 9 24x80 expect=up raw 'send=\x03' expect=got -- exec -it "$BOX" sh -c \
		'trap "echo got; exit 9" INT; echo up; while :; do sleep 0.1; done'
	# Job control of the shell inside.
	on_terminal 0 24x80 'expect=# ' 'send=sleep 1000\n' sleep=1 'send=\x1a' expect=Stopped \
		'send=exit 0\n' 'expect=stopped jobs' 'send=exit 0\n' -- exec -it "$BOX" sh -i
	end_kept
	# The program of a box, the same.
	on_terminal 130 24x80 expect=up raw 'send=\x03' -- run -it demo sh -c 'echo up; exec sleep 1000'
}

@test "K22: Ctrl-C while the machine boots ends the call" {
	on_terminal 130 24x80 sleep=1 'send=\x03' -- run -it --no-template demo sh
}

# bats test_tags=user
@test "K22: in raw mode every byte passes, both ways" {
	begin_kept
	on_terminal 0 24x80 expect=up raw 'send=\x00\x01\x03\x04\x0a\x0d\x11\x13\x1a\x1c\x7f\xff' -- \
		exec -it "$BOX" sh -c 'stty raw -echo; echo up; dd bs=1 count=12 2>/dev/null | od -An -v -tx1'
	assert_match "$output" '00 01 03 04 0a 0d 11 13 1a 1c 7f ff'
	# What the program writes is the terminal's: no byte is changed on the way.
	"$ROOT/tests/vm/ptytool" 24x80 -- "$HOLT" exec -it "$BOX" sh -c \
		'stty raw; printf "a\033[1mb\r\n\t\001\377"' >"$BATS_TEST_TMPDIR/shown"
	printf 'a\033[1mb\r\n\t\001\377' | cmp - "$BATS_TEST_TMPDIR/shown"
	end_kept
}

@test "K22: Ctrl-D is the end of the input" {
	begin_kept
	on_terminal 0 24x80 expect=up raw 'send=one\n\x04' -- exec -it "$BOX" sh -c 'echo up; wc -l'
	assert_match "$output" 'one'
	on_terminal 7 24x80 'expect=# ' 'send=(exit 7)\n\x04' -- exec -it "$BOX" sh -i
	end_kept
}

# bats test_tags=user
@test "K22: a hang-up ends the program, also one that is deaf to it, and leaves nothing" {
	begin_kept
	on_terminal 129 24x80 expect=up raw hangup -- exec -it "$BOX" sh -c 'echo up; exec sleep 888'
	on_terminal 129 24x80 expect=up raw hangup -- exec -it "$BOX" sh -c \
		'trap "" HUP; echo up; while :; do sleep 777; done'
	wait_for 5 nothing_of "$BOX"
	end_kept
	on_terminal 129 24x80 expect=up raw hangup -- run -it demo sh -c 'echo up; exec sleep 888'
	leftovers
}

@test "K22: a hang-up leaves a program alone that was only attached to; its size follows" {
	local n
	begin_kept
	n=$(holt exec -dit "$BOX" sh -c 'stty -echo; read x; stty size; echo "got $x"; read x; echo "then $x"; exit 6')
	on_terminal 129 33x99 raw 'send=one\n' 'expect=33 99' 'expect=got one' hangup -- exec -it --attach "$n" "$BOX"
	on_terminal 6 24x80 raw 'send=two\n' 'expect=then two' -- exec -it --attach "$n" "$BOX"
	end_kept
}

# Whether only the program of the box is there.
nothing_of() {
	! holt exec "$1" ps -o args | grep -E 'sleep (777|888)'
}

@test "K22: the terminal is given back, whatever ends holt" {
	begin_kept
	# ptytool compares the modes before and after.
	on_terminal 143 24x80 expect=up raw signal=TERM -- exec -it "$BOX" sh -c 'echo up; exec sleep 1000'
	on_terminal 134 24x80 expect=up raw signal=ABRT -- exec -it "$BOX" sh -c 'echo up; exec sleep 1000'
	on_terminal 124 24x80 raw -- exec -it --timeout 1 "$BOX" sleep 1000
	# Stopped and continued: raw again.
	on_terminal 0 24x80 expect=up raw signal=STOP signal=CONT raw 'send=\x03x' -- exec -it "$BOX" sh -c \
		'stty raw -echo; echo up; dd bs=1 count=2 2>/dev/null | od -An -tx1'
	assert_match "$output" '03 78'
	# The box goes away.
	on_terminal 125 24x80 expect=up raw "do='$HOLT' rm -f $BOX" cooked -- exec -it "$BOX" sh -c \
		'echo up; exec sleep 1000'
}

@test "K22: -t without -i: output of a terminal, keys stay the caller's" {
	on_terminal 130 24x80 expect=up 'send=\x03' -- run -t demo sh -c 'test -t 1 && echo up; exec sleep 1000'
}

@test "guest text that holt prints itself cannot command the terminal" {
	local name=$'printf \e]0;title\a'
	BOX=$(holt run -d demo sh -c 'printf "plain \033[31mred\r\nnext\tline\n\377\302\233"; sleep 1000' "$name")
	wait_for 10 has_log "$BOX" next
	on_terminal 0 24x80 -- logs "$BOX"
	assert_match "$output" 'plain \\x1b\[31mred'
	[[ $output != *$'\e'* && $output != *$'\x9b'* ]] || fail "a control went through"
	# Into a pipe it goes as it was.
	holt logs "$BOX" >"$BATS_TEST_TMPDIR/raw"
	printf 'plain \033[31mred\r\nnext\tline\n\377\302\233' | cmp - "$BATS_TEST_TMPDIR/raw"
	on_terminal 0 24x80 -- ps --no-trunc
	assert_match "$output" 'x1b\]0;title'
	[[ $output != *$'\e'* ]] || fail "an escape went through ps"
	on_terminal 0 24x80 -- inspect "$BOX"
	[[ $output != *$'\e'* ]] || fail "an escape went through inspect"
	end_kept
}

has_log() {
	holt logs "$1" | grep -q "$2"
}
