#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# K20: environment variables of every kind, and where they must not show.

load ../lib/common
load ../lib/vm

@test "K20: 2000 variables" {
	local i args=()
	for ((i = 0; i < 2000; i++)); do
		args+=(-e "VAR_$i=value $i")
	done
	run -0 --separate-stderr holt run "${args[@]}" demo sh -c 'env | grep "^VAR_"'
	assert_equal "the variables" "$(sort <<<"$output" | sha256sum)" \
		"$(for ((i = 0; i < 2000; i++)); do echo "VAR_$i=value $i"; done | sort | sha256sum)"
}

# bats test_tags=user
@test "K20: values of 100 KB, with newline, with '=', not UTF-8, empty: byte for byte" {
	local dir=$BATS_TEST_TMPDIR
	BIG=$(seq 1 30000 | head -c 100000)
	export BIG ODD=$'a\nb=c=d\t\x01\xff\xfe\xc3' EQUALS='x=y==' EMPTY=''
	holt run -e BIG -e ODD -e EQUALS -e EMPTY -e "$(printf 'K\303\234=v')" -e 'with space=v' demo \
		cat /proc/self/environ >"$dir/environ"
	python3 - "$dir/environ" <<-'PY'
		import os, sys
		have = dict(v.split(b"=", 1) for v in open(sys.argv[1], "rb").read().split(b"\0") if v)
		for key in (b"BIG", b"ODD", b"EQUALS", b"EMPTY"):
		    assert have[key] == os.environb[key], (key, have[key][:80])
		assert len(have[b"BIG"]) == 100000
		assert have["KÜ".encode()] == b"v" and have[b"with space"] == b"v", have.keys()
	PY
}

@test "K20: too long, too many, without a name: refused, and the text says which limit" {
	run --separate-stderr holt run -e =value demo true
	assert_status 125
	assert_equal "lines on stderr" "${#stderr_lines[@]}" 1
	assert_match "$stderr" name
	run --separate-stderr holt run -e '' demo true
	assert_status 125
	# Longer than what Linux takes as one string cannot be given on a command line, but an image
	# can have it.
	{ printf K=; head -c 131072 /dev/zero | tr '\0' x; } >"$BATS_TEST_TMPDIR/long"
	run --separate-stderr run_with_image_env "$BATS_TEST_TMPDIR/long"
	assert_status 125
	assert_match "$stderr" '131074 .*131071'
}

# A variable that comes with the image, as long as it likes.
run_with_image_env() {
	local layout
	layout=$(layout --busybox)
	layout_config "$layout" --rawfile long "$1" '.config.Env += [$long]'
	holt image import "$layout" --name long-env >/dev/null
	holt run long-env true
}

@test "K20: no value is seen on a command line, in another process's environment, or by other users on disk" {
	local pid
	export SECRET=hidden-$RANDOM$RANDOM$RANDOM
	begin_box -e SECRET demo sh -c 'echo "value=$SECRET"
		grep -c "hidden-" /proc/cmdline
		echo up; sleep 1000'
	await_vmm
	await_output up
	[[ $(<"$OUT") == "value=$SECRET"$'\n0\nup' ]] || fail "in the guest: $(<"$OUT")"
	for pid in "$KEEPER" "$VMM"; do
		! grep -aq "$SECRET" "/proc/$pid/cmdline" "/proc/$pid/environ" ||
			fail "process $pid shows it"
	done
	! grep -aq "$SECRET" "/proc/$CLI/cmdline" || fail "holt shows it in its arguments"
	# Only the three own environments hold it: this shell's, holt's, and grep's.
	! ps -eo pid,args | grep -v grep | grep -F "$SECRET" || fail "ps shows it"
	# Disks aside, which are gigabytes of nothing, the log, which has what the program said, and the
	# index, which has it for as long as the box exists (SECURITY.md) and is closed to others.
	! grep -raq --exclude='disk*' --exclude=log --exclude='boxes.db*' "$SECRET" "$HOLT_HOME" || fail "the home holds it"
	[[ -z $(find "$HOLT_HOME" -name 'boxes.db*' -perm /077) ]] || fail "others may read the index"
	kill -INT "$CLI"
	end_box 130 10000
}
