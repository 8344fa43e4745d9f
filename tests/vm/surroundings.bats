#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2034,SC2154 # expanded by another shell; variables of bats and tests/lib
# K29, K30, K48: full disks inside and outside, small limits, odd callers.

load ../lib/common
load ../lib/vm

teardown() {
	local ids
	ids=$(holt ps -aq --no-trunc)
	# shellcheck disable=SC2086 # one word an id
	[[ -z $ids ]] || holt rm -f $ids >/dev/null
	end_disk
	common_teardown
}

# refused STATUS TEXT COMMAND...: an error of holt's with this text, and one hint.
refused() {
	local want=$1 text=$2
	shift 2
	run --separate-stderr "$@"
	assert_status "$want"
	[[ $stderr == 'holt: '*"$text"*$'\nhint: '?* && $stderr != *$'\n'*$'\n'* ]] ||
		fail "not an error with '$text' and a hint: $stderr"
}

waits() {
	holt ps | grep -q "(Paused) *$1\$"
}

runs() {
	holt ps | grep "[^)] *$1\$" | grep -q ' Up '
}

# bats test_tags=user
@test "K30: the host's disk gets full: boxes wait, holt works, and all goes on when there is room" {
	local dir=$HOLT_HOME code=0
	HOLT_HOME=$TEST_DIR/home-small
	small_disk 130
	holt image import "$(layout)" --name demo >/dev/null
	holt run -d --name a demo sleep 1000 &
	holt run -d --name b demo sh -c 'echo said; exec sleep 1000'
	wait $!
	run -0 holt exec a sh -c 'echo kept >/kept; sync'
	holt exec a sh -c 'head -c 150000000 /dev/zero >/big && sync && echo written' \
		</dev/null >"$BATS_TEST_TMPDIR/big" 2>&1 3>&- &
	local writer=$!
	wait_for 30 waits a

	# By type, at once, and with a hint.
	refused 125 "waits for space on the host's disk" holt exec a true
	refused 1 "waits for space on the host's disk" holt pause a
	refused 1 "waits for space on the host's disk" holt kill -s USR1 a
	run -0 holt inspect a
	assert_equal state "$(jq -r '.[0].state | .status + ": " + .text' <<<"$output")" \
		'paused: the host cannot write its disk: no space left where the home is'
	run -0 holt logs b
	assert_output said
	run -0 holt image ls
	fill_disk
	refused 125 'No space left' holt run demo true
	refused 1 'disk is full' holt image import "$(layout)" --name more
	refused 1 'disk is full' holt rename b c
	# Room can be made by holt itself.
	run -0 holt rm -f b
	run -0 holt ps -a --names
	assert_output a
	kill -0 "$writer"

	# The write that found no space is made up for, and nobody in the box has noticed.
	empty_disk
	resize_disk 400
	wait "$writer" || code=$?
	assert_equal "the writer" "$code: $(<"$BATS_TEST_TMPDIR/big")" '0: written'
	wait_for 5 runs a
	run -0 holt exec a sh -c 'cat /kept; stat -c %s /big; dmesg | grep -ci "i/o error"; mount | grep -c "^overlay on / .*rw"'
	assert_output $'kept\n150000000\n0\n1'
	run -0 holt events --since 5m --until 0s
	assert_equal "what was told" "$(grep -oE ' (un)?pause .*name=a.*' <<<"$output" | sed 's/ [0-9a-f]\{12\}//' | head -n 2)" \
		$' pause name=a reason=no space\n unpause name=a'

	# One that waits can be stopped, and starts again with its data.
	fill_disk
	# Killed: the first word to end would go to the program, which stands still.
	run -137 timeout -s KILL 3 "${INSIDE[@]}" "$HOLT" exec a sh -c 'head -c 100000000 /dev/zero >/more && sync'
	wait_for 5 waits a
	run -0 holt stop -t 1 a
	run -0 holt ps -a
	assert_match "$output" 'Exited \(137\)'
	empty_disk
	run -0 holt start a
	run -0 holt exec a cat /kept
	assert_output kept
	run -0 holt rm -f a
	run -0 inside find "$HOLT_HOME/boxes" -mindepth 1
	assert_output ''
	end_disk
	DISK_KEEPER=
	unset -f holt
	holt() { "$HOLT" "$@"; }
	HOLT_HOME=$dir
}

@test "K30: the guest's disk gets full: the program is told, the box goes on; rm makes room" {
	run -0 holt run -d --name small --disk 64m demo sleep 1000
	run -0 holt exec small sh -c 'dd if=/dev/zero of=/big bs=1M count=200 2>&1; echo "dd $?"'
	assert_match "$output" 'dd 1$'
	assert_match "$output" 'No space left on device'
	run -0 holt exec small sh -c 'df -P / | tail -n 1 | grep -c 100%; rm /big; head -c 20000000 /dev/zero >/fits && echo fits'
	assert_output $'1\nfits'
	run -0 holt restart -t 1 small
	run -0 holt exec small stat -c %s /fits
	assert_output 20000000
}

# bats test_tags=user
@test "K29 K48: one box, many odd callers: streams, signals, directories, locales, limits" {
	local closed verb out=$BATS_TEST_TMPDIR/out
	ln -s "$HOLT_HOME" "$TEST_DIR/link"
	# By a link, a relative path and with a mask that takes everything.
	run -0 bash -c 'cd "$1" && umask 0777 && HOLT_HOME=link exec "$2" run -d --name s demo \
		sh -c "trap \"\" USR1; echo said; while :; do sleep 1; done"' - "$TEST_DIR" "$HOLT"
	assert_equal "wrong modes" "$(find "$HOLT_HOME/boxes" ! -name rootfs \( -type d ! -perm 700 -o -type f \
		! -perm 600 -o -type s ! -perm /600 \) -printf '%m %P ')" ''
	for closed in '<&-' '>&-' '2>&-' '<&- >&-' '<&- 2>&-' '>&- 2>&-' '<&- >&- 2>&-'; do
		for verb in 'exec s sh -c "exit 7"' 'exec -i s sh -c "cat; echo out; echo err >&2; exit 7"'; do
			run -7 bash -c "exec \"\$1\" $verb $closed" - "$HOLT" </dev/null
		done
		for verb in ps 'logs s' 'inspect s' 'stats --no-stream' 'kill -s USR1 s'; do
			run -0 bash -c "exec \"\$1\" $verb $closed" - "$HOLT" </dev/null
		done
	done
	for verb in ps 'logs s' 'inspect s' 'stats --no-stream' 'events --since 5m --until 0s' 'kill -s USR1 s'; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr bash -c 'exec "$@" >/dev/full' - "$HOLT" $verb
		assert_status 1
		assert_match "$stderr" '^holt: cannot write to stdout: No space left on device$'
	done
	refused 125 'No space left on device' bash -c 'exec "$1" exec s echo hi >/dev/full' - "$HOLT"

	# Whatever the caller does with its signals.
	run -0 "$ROOT/tests/vm/blocked" "$HOLT" exec s echo hi
	assert_output hi
	run -0 timeout 10 bash -c '"$1" "$2" exec s yes | head -n 1' - "$ROOT/tests/vm/blocked" "$HOLT"
	assert_output y
	run -0 setsid --wait "$HOLT" exec s echo hi
	assert_output hi
	mkdir "$TEST_DIR/gone"
	run -0 bash -c 'cd "$1" && rmdir "$1" && exec "$2" exec s echo hi' - "$TEST_DIR/gone" "$HOLT"
	assert_output hi
	run -0 env -i "HOLT_HOME=$HOLT_HOME" "$HOLT" exec s echo hi
	assert_output hi
	run -0 env LC_ALL=en_US.ISO-8859-1 TZ=Nowhere/City "$HOLT" exec -e 'V=ü€' s sh -c 'printf "$V\377"' >"$out"
	LC_ALL=en_US.ISO-8859-1 TZ=Nowhere/City "$HOLT" exec -e 'V=ü€' s sh -c 'printf "$V\377"' >"$out"
	assert_equal "the bytes" "$(od -An -tx1 "$out" | tr -d ' \n')" c3bce282acff
	run -0 bash -c 'ulimit -n 64; exec "$1" exec s echo hi' - "$HOLT"
	assert_output hi
	refused 125 'Too many open files' bash -c 'ulimit -n 20; exec "$1" exec s echo hi' - "$HOLT"
	run -0 holt exec s echo 'still here'
}

@test "K29 K48: machines under small limits and from odd callers work, or say which limit it is" {
	run -0 bash -c 'ulimit -n 64; exec "$1" run demo echo hi' - "$HOLT"
	assert_output hi
	run -0 --separate-stderr env -i "HOLT_HOME=$HOLT_HOME" setsid --wait "$ROOT/tests/vm/blocked" \
		"$HOLT" run demo sh -c 'echo hi; kill -0 1; grep Sig[BI] /proc/self/status | tr -d "\t"'
	assert_output $'hi\nSigBlk:0000000000000000\nSigIgn:0000000000000000'
	refused 125 'QEMU' env HOLT_QEMU=/nowhere/qemu "$HOLT" run demo true
	run -0 holt run -d --name limited demo sleep 1000
	run -0 holt stop -t 1 limited
	if ((EUID == 0)) && setpriv --bounding-set -sys_resource true 2>/dev/null; then
		refused 1 '(file size): File too large' setpriv --inh-caps=-sys_resource \
			--bounding-set -sys_resource bash -c 'ulimit -f 100; exec "$1" start limited' - "$HOLT"
	else
		refused 1 '(file size): File too large' bash -c 'ulimit -f 100; exec "$1" start limited' - "$HOLT"
	fi
	refused 125 'File too large' bash -c 'ulimit -f 2000; exec "$1" run --disk 100m demo true' - "$HOLT"
	run -0 holt start limited
	run -0 holt exec limited true
}
