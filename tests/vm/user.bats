#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# The essential of the other files as an ordinary user, when the suite runs as root: with a home of
# its own, no groups, no capabilities.

load ../lib/common
load ../lib/vm

# Not nobody, who may own files of others; any number without an account will do.
USER_ID=$((EUID == 0 ? 61234 : EUID))

setup_file() {
	common_setup_file
	local dir
	dir=$(layout)
	((EUID != 0)) || chown -R "$USER_ID:$USER_ID" "$TEST_DIR"
	as_user "$HOLT" image import "$dir" --name demo >/dev/null
}

setup() {
	common_setup
	skip_unless "user $USER_ID cannot reach '$HOLT'" as_user test -x "$HOLT" -a -r "$HOLT_BUILD/libholt.so"
}

# The words before a command; where the suite itself runs as an ordinary user, that one will do.
AS_USER=()
if ((EUID == 0)); then
	AS_USER=(setpriv --reuid "$USER_ID" --regid "$USER_ID" --clear-groups --inh-caps=-all --bounding-set=-all)
fi

as_user() {
	HOME=$TEST_DIR "${AS_USER[@]}" "$@"
}

holt() {
	as_user "$HOLT" "$@"
}

# begin_user_box RUN-ARGUMENT...: as begin_box.
begin_user_box() {
	OUT=$BATS_TEST_TMPDIR/box.out
	ERR=$BATS_TEST_TMPDIR/box.err
	: >"$OUT"
	: >"$ERR"
	# In one step, so that this process becomes holt.
	HOME=$TEST_DIR "${AS_USER[@]}" "$HOLT" run "$@" </dev/null >"$OUT" 2>"$ERR" 3>&- &
	CLI=$!
}

@test "user: streams, exit code, root inside, all processes are the user's" {
	local pid
	begin_user_box -e A=b demo sh -c 'echo "$(id -u) $A"; touch /root/x && echo err >&2; sleep 2; exit 7'
	await_vmm
	for pid in "$CLI" "$KEEPER" "$VMM"; do
		assert_equal "uids of process $pid" "$(sed -n 's/^Uid:\t//p' "/proc/$pid/status" | tr '\t' ' ')" \
			"$USER_ID $USER_ID $USER_ID $USER_ID"
	done
	assert_match "$(sed -n 's/^NoNewPrivs:\t//p' "/proc/$VMM/status")" '^1$'
	end_box 7
	assert_equal stdout "$(<"$OUT")" '0 b'
	assert_equal stderr "$(<"$ERR")" err
	run -0 leftovers_now
	assert_equal "files that are not the user's" "$(find "$HOLT_HOME" ! -uid "$USER_ID")" ''
}

@test "user: doctor says that boxes can run" {
	run -0 holt doctor
	assert_match "$output" 'boxes can run'
}

@test "user: users of the image, failures, time-out" {
	run -0 --separate-stderr holt run -u agent demo sh -c 'id -u; id -G; touch "$HOME/x"'
	assert_output $'1000\n1000 2000'
	run -127 holt run demo no-such
	run -126 holt run demo /etc
	run -124 --separate-stderr holt run --timeout 1 demo sh -c 'echo so far; sleep 1000'
	assert_output 'so far'
}

@test "user: 64 MiB in and out" {
	local want got
	want=$(seq 1 9000000 | head -c 67108864 | sha256sum)
	got=$(seq 1 9000000 | head -c 67108864 | holt run -i demo cat | sha256sum)
	assert_equal digest "$got" "$want"
}

@test "user: nothing is left after INT, and kill -9 of holt, keeper and QEMU" {
	local victim code
	begin_user_box demo sh -c 'echo up; exec sleep 1000'
	await_output up
	kill -INT "$CLI"
	end_box 130 5000
	for victim in CLI:137 KEEPER:125 VMM:125; do
		begin_user_box demo sh -c 'echo up; exec sleep 1000'
		await_vmm
		await_output up
		code=${victim#*:}
		victim=${victim%:*}
		kill -9 "${!victim}"
		end_box "$code" 5000
		wait_for 2 leftovers_now
	done
	run -0 --separate-stderr holt run demo echo works
	assert_output works
}

@test "user: a home that belongs to somebody else is refused, with what to do" {
	HOLT_HOME=/usr run --separate-stderr holt image ls
	assert_status 1
	assert_match "$stderr" "^holt: .*'/usr' belongs to user 0, not to $USER_ID"
	assert_match "$stderr" $'\nhint: .*HOLT_HOME'
}
