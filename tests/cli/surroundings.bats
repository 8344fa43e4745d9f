#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016,SC2154 # expanded by another shell; variables of bats and tests/lib
# K29, K48: odd homes, masks, limits, streams and locales, as far as no machine is needed.

# bats file_tags=user
load ../lib/common

setup_file() {
	common_setup_file
	LAYOUT=$(layout)
	export LAYOUT
}

# home_works HOME: an import and a look at it.
home_works() {
	HOLT_HOME=$1 holt image import "$LAYOUT" --name demo >/dev/null || return
	HOLT_HOME=$1 run -0 --separate-stderr holt image ls --json
	assert_match "$output" '"demo:latest"'
	HOLT_HOME=$1 run -0 --separate-stderr holt ps -a
	[[ -z $stderr ]] || fail "stderr: $stderr"
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

@test "K29: a home of 200 bytes with blanks, quotes, foreign letters, a line feed; linked; relative" {
	local odd=$TEST_DIR/home2/$'with space \' " \\ * ü\n'
	odd+=/$(printf 'x%.0s' {1..150})
	((${#odd} > 200)) || fail "the path has only ${#odd} bytes"
	home_works "$odd"
	mkdir "$TEST_DIR/home3"
	ln -s "$TEST_DIR/home3" "$TEST_DIR/link"
	home_works "$TEST_DIR/link"
	[[ -f $TEST_DIR/home3/format ]] || fail "not where the link leads"
	cd "$TEST_DIR"
	home_works home4
	cd home4
	home_works "$TEST_DIR/home4"
}

@test "K29 K48: homes that cannot be: each is refused with a reason and a hint" {
	local dir=$TEST_DIR
	ln -s nowhere "$dir/dangling"
	: >"$dir/file"
	refused 1 "'$dir/dangling': No such file" env HOLT_HOME="$dir/dangling" "$HOLT" ps
	refused 1 "'$dir/file': Not a directory" env HOLT_HOME="$dir/file" "$HOLT" ps
	refused 1 "Not a directory" env HOLT_HOME="$dir/file/below" "$HOLT" ps
	refused 1 "name too long" env HOLT_HOME="$dir/$(printf 'x%.0s' {1..300})" "$HOLT" image ls
	refused 1 "'/proc/nothing'" env HOLT_HOME=/proc/nothing "$HOLT" image ls
	mkdir "$dir/gone"
	refused 1 'current directory' bash -c 'cd "$1" && rmdir "$1" && HOLT_HOME=home exec "$2" ps' \
		- "$dir/gone" "$HOLT"
	mkdir "$dir/gone"
	run -0 bash -c 'cd "$1" && rmdir "$1" && exec "$2" ps' - "$dir/gone" "$HOLT"
}

@test "K29 K48: a home of another user is refused, one that is open to all is closed" {
	mkdir -m 777 "$TEST_DIR/home5"
	home_works "$TEST_DIR/home5"
	assert_equal mode "$(stat -c %a "$TEST_DIR/home5")" 700
	if ((EUID == 0)); then
		mkdir "$TEST_DIR/foreign"
		chown 1 "$TEST_DIR/foreign"
		refused 1 'belongs to user 1, not to 0' env HOLT_HOME="$TEST_DIR/foreign" "$HOLT" ps
	else
		refused 1 'belongs to user 0, not to' env HOLT_HOME=/usr "$HOLT" ps
		# A parent that cannot be written to.
		refused 1 'Permission denied' env HOLT_HOME=/usr/holt-home "$HOLT" ps
	fi
}

@test "K48: without HOME and HOLT_HOME it says what is missing" {
	local as=()
	((EUID)) || as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
	[[ ${#as[@]} == 0 ]] || skip_unless "nobody may run '$HOLT'" "${as[@]}" "$HOLT" version
	refused 1 'neither HOLT_HOME nor HOME' "${as[@]}" env -i "$HOLT" ps
	refused 1 'neither HOLT_HOME nor HOME' "${as[@]}" env -i HOME=relative "$HOLT" image ls
}

@test "K29: whatever the mask, the home is ours alone and usable" {
	local mask
	for mask in 0777 0000 0277; do
		run -0 bash -c 'umask "$1" && export HOLT_HOME=$2 && for i in 1 2; do
			"$3" image import "$4" --name demo && "$3" ps -a || exit; done' \
			- "$mask" "$TEST_DIR/home-$mask" "$HOLT" "$LAYOUT"
		home_works "$TEST_DIR/home-$mask"
		assert_equal "wrong directories with mask $mask" \
			"$(find "$TEST_DIR/home-$mask" -type d ! -perm 700 -printf '%m %P ')" ''
		assert_equal "wrong files with mask $mask" "$(find "$TEST_DIR/home-$mask" -type f ! -perm 600 \
			! -path '*/rootfs/*' -printf '%m %P ')" ''
	done
}

@test "K48: small limits of files, descriptors and memory end in a reason and a hint" {
	home_works "$HOLT_HOME"
	# Messages go through pipes here; a file would meet the limit itself.
	refused 1 'File too large' bash -c 'ulimit -f 1; "$1" image import "$2" --name two 2>&1 >/dev/null |
		cat >&2; exit "${PIPESTATUS[0]}"' - "$HOLT" "$LAYOUT"
	refused 1 'Too many open files' bash -c 'ulimit -n 8; exec "$1" ps' - "$HOLT"
	# With a sanitizer not even the program itself fits.
	if (ulimit -v 60000; "$HOLT" version) >/dev/null 2>&1; then
		refused 125 'cannot start a thread' bash -c 'ulimit -v 60000; exec "$1" run demo true' - "$HOLT"
	fi
	# And nothing has suffered.
	home_works "$HOLT_HOME"
}

@test "K29: foreign locales and time zones change nothing" {
	local vars
	home_works "$HOLT_HOME"
	for vars in LC_ALL=POSIX LC_ALL=en_US.ISO-8859-1 LC_ALL=tr_TR.UTF-8 TZ=Nowhere/City TZ=:/etc/passwd; do
		run -0 --separate-stderr env "$vars" "$HOLT" image ls
		assert_match "$output" 'demo:latest +[0-9a-f]{12} +[0-9.]+ MB '
		[[ -z $stderr ]] || fail "$vars: $stderr"
	done
}

@test "K48: a full stdout is told, and is a failure, for all that prints" {
	local verb
	home_works "$HOLT_HOME"
	for verb in --help 'ps --help' ps 'image ls' 'image ls --json' version doctor 'inspect nosuch'; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr bash -c 'exec "$@" >/dev/full' - "$HOLT" $verb
		assert_status 1
		assert_equal "lines of '$verb' that tell it" \
			"$(grep -c 'cannot write to stdout: No space left on device' <<<"$stderr")" 1
	done
}

@test "without stdin, stdout, stderr, in each combination" {
	local closed
	home_works "$HOLT_HOME"
	for closed in '<&-' '>&-' '2>&-' '<&- >&-' '<&- 2>&-' '>&- 2>&-' '<&- >&- 2>&-'; do
		bash -c "exec \"\$1\" image ls $closed" - "$HOLT"
		run -1 bash -c "exec \"\$1\" inspect nosuch $closed" - "$HOLT"
	done
	# Nothing was written into a file of the home instead.
	home_works "$HOLT_HOME"
}
