#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # set by bats' run
# Examples that need no machine.

load ../lib/common
load ../lib/serve

teardown() {
	end_servers
	common_teardown
}

# bats test_tags=user
@test "serializer: each request has the key, one after the other" {
	run -0 --separate-stderr "$HOLT_BUILD/examples/serializer"
	assert_equal requests "$(sort <<<"$output")" \
		$'request 0 has the key\nrequest 1 has the key\nrequest 2 has the key'
	[[ -z $stderr ]]
}

# bats test_tags=user
@test "fetch: loads an image, and finds it the next time; an error has its code and a hint (K48)" {
	local layout
	layout=$(layout --busybox)
	serve "demo=$layout"
	run -0 --separate-stderr "$HOLT_BUILD/examples/fetch" "$SERVER/demo"
	assert_match "$output" $'^layer 1 of [0-9]+: [0-9]+ bytes\n(.*\n)?new\nsha256:[0-9a-f]{64}$'
	assert_equal stderr "$stderr" ''
	run -0 "$HOLT_BUILD/examples/fetch" "$SERVER/demo"
	assert_match "$output" $'^there already\nsha256:'
	run -1 --separate-stderr "$HOLT_BUILD/examples/fetch" "$SERVER/none"
	assert_match "$stderr" $'^fetch: NOT_FOUND: .*\nhint: .'
}
