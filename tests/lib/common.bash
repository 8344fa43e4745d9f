# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Loaded by every .bats file: `load ../lib/common`.
#
# Gives each file its own home and takes care that nothing outlives a test:
#   $HOLT         the program under test (default: build/holt); `holt` runs it
#   $HOLT_BUILD   the build directory
#   $TEST_DIR     a directory per file, for anything; removed after the file
#   $HOLT_HOME    a fresh home in it
#   demo_image    imports the small busybox image as "demo", once per file
#   debian_image  imports a Debian with bash and python3 as "debian", once per file
#   image NAME    the same with another configuration or content, see tools/mkimage
#   leftovers     fails when a process, box, socket or temporary file of it is left; runs after
#                 every test
# Files define setup_file/teardown_file/setup/teardown only where they need more, and then call
# common_setup_file and so on first.

ROOT=$(cd "${BASH_SOURCE[0]%/*}/../.." && pwd)
export ROOT
export HOLT=${HOLT:-$ROOT/build/holt}
export HOLT_BUILD=${HOLT_BUILD:-${HOLT%/*}}
# `run` with checks of the exit status, and --separate-stderr.
bats_require_minimum_version 1.5.0

holt() {
	"$HOLT" "$@"
}

common_setup_file() {
	# Short, since paths of sockets may hang from it; in the directory of the whole run, so that
	# what a killed test leaves is found at the end of the run.
	TEST_DIR=$(mktemp -d "${HOLT_TEST_TMP:-/tmp}/t.XXXXXX")
	export TEST_DIR HOLT_HOME=$TEST_DIR/home XDG_RUNTIME_DIR=$TEST_DIR/run
	mkdir -m 700 "$XDG_RUNTIME_DIR"
}

common_teardown_file() {
	local status=0
	leftovers || status=1
	rm -rf "$TEST_DIR"
	return $status
}

common_setup() {
	[[ -x $HOLT ]] || fail "'$HOLT' is not there; build first"
}

# What is left is told, and then ended, so that one failure stays one.
common_teardown() {
	leftovers && return
	end_leftovers
	return 1
}

setup_file() { common_setup_file; }
teardown_file() { common_teardown_file; }
setup() { common_setup; }
teardown() { common_teardown; }

# Say why and fail.
fail() {
	printf '%s\n' "$@" >&2
	return 1
}

# skip_unless REASON COMMAND...: skip the test unless the command succeeds. With HOLT_MUST_WORK=1 a
# skip is a failure.
skip_unless() {
	local reason=$1
	shift
	"$@" >/dev/null 2>&1 && return 0
	if [[ ${HOLT_MUST_WORK:-} == 1 ]]; then
		fail "would be skipped: $reason"
		return
	fi
	skip "$reason"
}

# image NAME [MKIMAGE-OPTION...]: make an image by tools/mkimage, and import it as NAME. Without
# options: the small one that `make demo` uses.
image() {
	local name=$1 layout
	shift
	layout=$(layout "$@") || return
	holt image import "$layout" --name "$name" >/dev/null
}

# layout [MKIMAGE-OPTION...]: print the path of such a layout.
layout() {
	local out
	(($#)) || set -- --busybox
	out=$(mktemp -d "$TEST_DIR/layout.XXXXXX")
	"$ROOT/tools/mkimage" "$out" "$@" >/dev/null || return
	echo "$out"
}

demo_image() {
	[[ -e $TEST_DIR/demo ]] || image demo || return
	: >"$TEST_DIR/demo"
}

# Made by `make setup`, and then there without network.
debian_image() {
	local layout
	[[ ! -e $TEST_DIR/debian ]] || return 0
	layout=$("$ROOT/tools/mkdebian") || return
	holt image import "$layout" --name debian >/dev/null || return
	: >"$TEST_DIR/debian"
}

# layout_config LAYOUT JQ-ARGUMENT...: change the image's configuration by jq, and every digest that
# follows from it.
layout_config() {
	local dir=$1/blobs/sha256 manifest config new size
	manifest=$(jq -r '.manifests[0].digest[7:]' "$1/index.json")
	config=$(jq -r '.config.digest[7:]' "$dir/$manifest")
	jq -c "${@:2}" "$dir/$config" >"$dir/new"
	new=$(blob_name "$dir")
	size=$(stat -c %s "$dir/$new")
	jq -c --arg d "sha256:$new" --argjson s "$size" '.config.digest = $d | .config.size = $s' \
		"$dir/$manifest" >"$dir/new"
	new=$(blob_name "$dir")
	size=$(stat -c %s "$dir/$new")
	jq -c --arg d "sha256:$new" --argjson s "$size" \
		'.manifests[0].digest = $d | .manifests[0].size = $s' "$1/index.json" >"$1/index.new"
	mv "$1/index.new" "$1/index.json"
}

# Give the blob "new" its name, and print it.
blob_name() {
	local digest
	digest=$(sha256sum <"$1/new")
	mv "$1/new" "$1/${digest%% *}"
	echo "${digest%% *}"
}

# Wait up to SECONDS for a command to succeed.
wait_for() {
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS < end)) || fail "not within the time: $*" || return
		sleep 0.05
	done
}

now_ms() {
	local us=${EPOCHREALTIME//[.,]/}
	echo "${us%???}"
}

# After a test no process, box, socket or temporary file of the home may be left. A keeper may take a
# moment to end after its owner: the promise is two seconds; an emptied machine needs some more to
# see them pass.
leftovers() {
	local end=$((SECONDS + 3)) found
	until found=$(leftovers_now); do
		if ((SECONDS >= end)); then
			fail "left behind:" "$found"
			return
		fi
		sleep 0.1
	done
}

leftovers_now() {
	local status=0 files
	"$ROOT/tests/lib/leftovers" "$TEST_DIR" || status=1
	files=$(cd "$TEST_DIR" && find run* home* \( -type s -o -type p -o -name '*.tmp' \
		-o -path '*/boxes/*' -o -path '*/tmp/*' \) 2>/dev/null)
	[[ -z $files ]] || status=1
	printf '%s' "$files"
	return $status
}

# End the processes that the directory of this file says are ours.
end_leftovers() {
	local pid
	for pid in $("$ROOT/tests/lib/leftovers" "$TEST_DIR" | sed -n 's/^process \([0-9]*\) .*/\1/p'); do
		kill -9 "$pid" 2>/dev/null || true
	done
	sleep 0.5
	rm -rf "$TEST_DIR"/home*/boxes/*
}

# Every assertion prints what it saw.
assert_status() {
	# shellcheck disable=SC2154 # set by bats' run
	[[ $status -eq $1 ]] || fail "exit status $status instead of $1" "stdout: $output" \
		"stderr: ${stderr:-}"
}

assert_output() {
	[[ $output == "$1" ]] || fail "stdout is not the expected" "wanted: $1" "got: $output" \
		"stderr: ${stderr:-}"
}

assert_match() {
	[[ $1 =~ $2 ]] || fail "no match" "text: $1" "pattern: $2"
}

# assert_equal WHAT GOT WANTED
assert_equal() {
	[[ $2 == "$3" ]] || fail "$1 is not the expected" "wanted: $3" "got: $2"
}

# assert_between WHAT VALUE LEAST MOST, in whole numbers
assert_between() {
	if ! [[ $2 =~ ^-?[0-9]+$ ]] || (($2 < $3 || $2 > $4)); then
		fail "$1 is $2, not within $3 to $4"
	fi
}

# usage_error STATUS ARGUMENT...: a call that makes no sense is told so in one line.
usage_error() {
	local wanted=$1
	shift
	run --separate-stderr holt "$@"
	assert_status "$wanted"
	[[ -z $output ]] || fail "a usage error writes to stdout: $output"
	# shellcheck disable=SC2154 # set by bats' run
	((${#stderr_lines[@]} == 1)) || fail "'$*' gives not one line:" "$stderr"
	assert_match "$stderr" "^holt.*: .*; see 'holt .*--help'$"
}
