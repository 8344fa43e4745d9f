#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# K03: programs that cannot be started: which code, which text, and what comes after.

load ../lib/common
load ../lib/vm

setup_file() {
	common_setup_file
	local dir=$TEST_DIR/broken/opt
	mkdir -p "$dir/dir"
	printf '#!/bin/sh\necho never\n' >"$dir/plain"
	printf '#!/no/such/interpreter\n' >"$dir/lost"
	printf '#!/opt/plain\n' >"$dir/odd"
	printf 'neither a script nor a program' >"$dir/noise"
	# An ELF header for another machine (aarch64).
	cp "$(command -v busybox)" "$dir/foreign"
	printf '\267\000' | dd of="$dir/foreign" bs=1 seek=18 conv=notrunc status=none
	: >"$dir/empty"
	ln -s /no/such/target "$dir/dangling"
	chmod 755 "$dir/lost" "$dir/odd" "$dir/noise" "$dir/foreign" "$dir/empty"
	chmod 644 "$dir/plain"
	image demo --busybox --layer "$TEST_DIR/broken"
}

@test "K03 K48: not found is 127, found and unusable is 126, and the text tells what and why" {
	box name demo nosuch-program arg
	box path demo /no/such/program
	box dangling demo /opt/dangling
	box directory demo /opt/dir
	box plain demo /opt/plain
	box foreign demo /opt/foreign
	box noise demo /opt/noise
	box lost demo /opt/lost
	box odd demo /opt/odd
	box below demo /opt/plain/sub
	boxes
	assert_error name 127 "'nosuch-program'" PATH
	assert_error path 127 "'/no/such/program'" 'No such file'
	assert_error dangling 127 "'/opt/dangling'" 'No such file'
	assert_error directory 126 "'/opt/dir'" 'Is a directory'
	assert_error plain 126 "'/opt/plain'" 'Permission denied'
	assert_error foreign 126 "'/opt/foreign'" 'Exec format error'
	assert_error noise 126 "'/opt/noise'" 'Exec format error'
	assert_error lost 126 "'/opt/lost'" interpreter
	assert_error odd 126 "'/opt/odd'" 'Permission denied'
	assert_error below 127 "'/opt/plain/sub'"
}

@test "K03: in PATH the first that can be executed wins, and a find that cannot is 126" {
	box found -e PATH=/nowhere:/opt:/bin demo echo found
	box unusable -e PATH=/nowhere:/opt demo plain
	box user -u agent demo /root/secret
	boxes
	assert_box found 0 found
	assert_error unusable 126 "'/opt/plain'" 'Permission denied'
	# Nobody who may not look can know whether it is there.
	assert_error user 126 "'/root/secret'" 'Permission denied'
}

# bats test_tags=user
@test "K03: after every failure the box takes the next command" {
	run -0 --separate-stderr boxtool demo -x nosuch-program -x /opt/dir -x /opt/plain -x /opt/foreign \
		-x /opt/lost -x /opt/noise 'echo "still here"; ps -o pid,stat,comm >&2'
	assert_output 'still here'
	assert_equal "number of failures" "$(grep -c '^error ' <<<"$stderr")" 6
	assert_equal "the failures" "$(sed -n 's/^error code=\([A-Z_]*\) stage=\([a-z]*\) object=\([^ ]*\) .*/\1 \2 \3/p' \
		<<<"$stderr")" 'NOT_FOUND exec nosuch-program
DENIED exec /opt/dir
DENIED exec /opt/plain
DENIED exec /opt/foreign
DENIED exec /opt/lost
DENIED exec /opt/noise'
	# Each with a hint, none with a child left over.
	assert_equal "number of hints" "$(grep -cE '^hint: .+' <<<"$stderr")" 6
	! grep -E '^ *[0-9]+ Z' <<<"$stderr" || fail "zombies: $stderr"
}

@test "K18: a working directory that is missing or none is an error of its own kind, not 126 or 127" {
	run -0 --separate-stderr boxtool demo 'exit 5'
	assert_match "$stderr" 'exit code=5 '
	box cwd -w /opt/plain demo /bin/true
	box both -w /opt/plain demo /no/such/program
	boxes
	assert_error cwd 125 "'/opt/plain'" 'Not a directory'
	assert_error both 125 "'/opt/plain'" 'Not a directory'
}
