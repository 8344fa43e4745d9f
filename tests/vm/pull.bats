#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# Boxes, templates and sandboxes of images that come from a registry when they are wanted. How
# registries fail is the business of tests/registry.

# bats file_tags=user
load ../lib/common
load ../lib/vm
load ../lib/serve

setup_file() {
	common_setup_file
	export DOCKER_CONFIG=$TEST_DIR/docker
	mkdir -p "$DOCKER_CONFIG"
}

teardown() {
	remove_boxes
	end_servers
	common_teardown
}

@test "run --pull missing: the image is loaded once, and told on stderr; never and always" {
	local one two
	one=$(layout --busybox --env N=one)
	two=$(layout --busybox --env N=two)
	serve "demo=$one"
	run --separate-stderr holt run --pull never "$SERVER/demo" true
	assert_status 125
	assert_equal requests "$(requests .)" 0
	run -0 --separate-stderr holt run "$SERVER/demo" sh -c 'echo $N'
	assert_output one
	assert_match "$stderr" "^pulling $SERVER/demo: "
	assert_match "$stderr" "pulled $SERVER/demo: "
	# Now it is there, and nobody is asked.
	: >"$SERVER_LOG"
	run -0 --separate-stderr holt run "$SERVER/demo" sh -c 'echo $N'
	assert_output one
	assert_equal stderr "$stderr" ''
	assert_equal requests "$(requests .)" 0
	# The name means another one: only always sees that. Nothing is told of what is up to date.
	rm -r "$one"
	mv "$two" "$one"
	run -0 --separate-stderr holt run --pull missing "$SERVER/demo" sh -c 'echo $N'
	assert_output one
	run -0 --separate-stderr holt run -q --pull always "$SERVER/demo" sh -c 'echo $N'
	assert_output two
	assert_equal stderr "$stderr" ''
	: >"$SERVER_LOG"
	run -0 --separate-stderr holt run --pull always "$SERVER/demo" sh -c 'echo $N'
	assert_output two
	assert_equal stderr "$stderr" ''
	assert_equal 'requests for blobs' "$(requests /blobs/)" 0
	# With the registry gone, what is there still runs, but for always.
	end_server
	run -0 --separate-stderr holt run "$SERVER/demo" sh -c 'echo $N'
	assert_output two
	run --separate-stderr holt run --pull always "$SERVER/demo" true
	assert_status 125
	assert_match "$stderr" $'^holt: .*\nhint: '
}

@test "Ctrl-C of a run that still pulls: 130 at once, and no box" {
	local code=0
	serve "slow=$(random_layout 1000000)" --rate 50000
	begin_box "$SERVER/slow" true
	wait_for 20 grep -q blobs "$SERVER_LOG"
	kill -INT "$CLI"
	end_box 130 3000
	run -0 holt ps -aq
	assert_output ''
	run -1 holt image inspect "$SERVER/slow"
}

@test "template build --pull and sandboxes: the same rule; a sandbox of another image does not wait" {
	local first
	demo_image
	serve "demo=$(layout --busybox)"
	first=$SERVER/demo
	run -0 --separate-stderr holt template build -q "$SERVER/demo"
	assert_equal stderr "$stderr" ''
	: >"$SERVER_LOG"
	run -0 --separate-stderr holt sandbox exec --for ann --thread 1 --image "$SERVER/demo" 'echo here'
	assert_output here
	assert_equal requests "$(requests .)" 0
	run -0 holt sandbox exec --for ann --thread 2 --image "$SERVER/demo:2" 'echo pulled'
	assert_output pulled
	(($(requests '/manifests/2') > 0)) || fail "not asked: $(<"$SERVER_LOG")"
	run -1 --separate-stderr holt sandbox acquire --for ann --thread 3 --pull never --image "$SERVER/demo:3"
	assert_match "$stderr" $'there is no image.*\nhint: '
	end_server
	# A slow registry: others do not wait, and the acquire ends with its time.
	serve "slow=$(random_layout 1000000)" --rate 50000
	"$HOLT" sandbox acquire --for ann --thread 4 --timeout 8 --image "$SERVER/slow" \
		>"$TEST_DIR/slow.out" 2>"$TEST_DIR/slow.err" </dev/null 3>&- &
	local slow=$! code=0
	wait_for 20 grep -q blobs "$SERVER_LOG"
	run -0 holt sandbox exec --for ann --thread 1 --image "$first" 'echo still'
	assert_output still
	run -0 holt sandbox exec --for bob --thread 1 --image demo 'echo quick'
	assert_output quick
	kill -0 "$slow" || fail "the slow one has ended already: $(<"$TEST_DIR/slow.err")"
	wait "$slow" || code=$?
	assert_equal 'exit status' "$code" 1
	assert_match "$(<"$TEST_DIR/slow.err")" $'longer than the call may.*\nhint: .*holt pull '
	# Nothing of it is left but what has arrived.
	run -0 holt sandbox ps -q
	((${#lines[@]} == 3)) || fail "not the three that were made: $output"
	local id
	for id in "${lines[@]}"; do
		holt sandbox release "$id" || true
	done
}
