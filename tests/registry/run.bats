#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # variables of bats and tests/lib
# From a registry to a command in a machine.

load ../lib/common
load ../lib/registry
load pulling

# bats test_tags=user
@test "K45 run --pull: never asks nobody, missing asks once, always sees a tag that moved" {
	layout_of team/runs --busybox --name app:v1 --env WHICH=first >/dev/null
	run --separate-stderr timeout 60 "$HOLT" run --rm --pull never "$FAULTS/team/runs:v1" true
	((status == 125)) || fail "status $status: $stderr"
	assert_equal requests "$(count true)" 0

	run -0 --separate-stderr timeout 120 "$HOLT" run --rm --pull missing "$FAULTS/team/runs:v1" sh -c 'echo $WHICH'
	assert_output first
	layout_of team/runs --busybox --name app:v1 --env WHICH=second >/dev/null
	faults
	run -0 --separate-stderr timeout 120 "$HOLT" run --rm --pull missing "$FAULTS/team/runs:v1" sh -c 'echo $WHICH'
	assert_output first
	assert_equal requests "$(count true)" 0
	run -0 --separate-stderr timeout 120 "$HOLT" run --rm --pull always "$FAULTS/team/runs:v1" sh -c 'echo $WHICH'
	assert_output second
	run --separate-stderr timeout 60 "$HOLT" run --rm --pull sometimes "$FAULTS/team/runs:v1" true
	((status == 125)) || fail "status $status: $stderr"
}

# bats test_tags=user
@test "K45 what was pulled is what was pushed: docker-registry, every layer, read inside a machine" {
	registry_start PLAIN
	push "$APP" "$PLAIN/team/app:v1"
	run -0 --separate-stderr timeout 120 "$HOLT" run --rm "$PLAIN/team/app:v1" sh -c 'cat /small; sha256sum </random'
	assert_output "small
$(sha256sum <"$PEERS/random/random")"
}
