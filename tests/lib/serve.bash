# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034 # for the tests
# Registries that do what they should: `load ../lib/serve` (after common).
#
# serve NAME=LAYOUT... [OPTION...]: begin one, see registry.py. $SERVER is its host and port,
# $SERVER_LOG the requests that it got, one a line. The teardown calls end_servers.

SERVER_PIDS=()

serve() {
	local file
	file=$(mktemp -u "$TEST_DIR/server.XXXXXX")
	python3 "$ROOT/tests/lib/registry.py" "$file" "$@" </dev/null >/dev/null 2>"$file.err" 3>&- &
	SERVER_PIDS+=($!)
	wait_for 20 test -s "$file" || fail "the registry does not start: $(<"$file.err")" || return
	SERVER=127.0.0.1:$(<"$file")
	SERVER_LOG=$file.log
	: >>"$SERVER_LOG"
}

# The newest one goes away.
end_server() {
	kill "${SERVER_PIDS[-1]}"
	wait "${SERVER_PIDS[-1]}" 2>/dev/null || true
	unset 'SERVER_PIDS[-1]'
}

end_servers() {
	while ((${#SERVER_PIDS[@]})); do
		end_server
	done
}

# requests PATTERN: how many such it got.
requests() {
	grep -c -- "$1" "$SERVER_LOG" || true
}

# random_layout BYTES: a layout with a layer of so many bytes that no other one has, and print it.
random_layout() {
	local dir
	dir=$(mktemp -d "$TEST_DIR/random.XXXXXX")
	head -c "$1" /dev/urandom >"$dir/random"
	layout --busybox --layer "$dir"
}
