#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # variables of bats
# Another user of the host: neither sees what is in a home nor reaches a keeper, and a home that he
# has prepared is not used.

load ../lib/common
load ../lib/vm

as_other() {
	setpriv --reuid 61235 --regid 61235 --clear-groups --inh-caps=-all --bounding-set=-all "$@"
}

setup() {
	common_setup
	((EUID == 0)) || skip "only root can be two users"
	chmod 711 "$TEST_DIR"
}

@test "another user: home, box and socket of a running box are out of reach" {
	local id dir
	holt run -d --name b demo sleep 1000 >/dev/null
	id=$(holt inspect b | jq -r '.[0].id')
	dir=$HOLT_HOME/boxes/$id
	run ! as_other ls "$HOLT_HOME"
	run ! as_other cat "$dir/state.json"
	run ! as_other cat "$dir/disk.raw"
	run ! as_other cat "$HOLT_HOME/boxes.db"
	run -125 --separate-stderr as_other "$HOLT" exec b true
	run -0 holt exec b echo here
	assert_output here
	holt rm -f b >/dev/null
}

@test "another user: a home that is his, or a link of his to one, is refused and nothing is written" {
	mkdir "$TEST_DIR/his"
	chown 61235:61235 "$TEST_DIR/his"
	run ! env "HOLT_HOME=$TEST_DIR/his" "$HOLT" ps
	assert_match "$output" "his'?"
	assert_equal 'what was written' "$(ls -A "$TEST_DIR/his")" ''
	mkdir -m 1777 "$TEST_DIR/open"
	as_other ln -s "$TEST_DIR/his" "$TEST_DIR/open/link"
	run ! env "HOLT_HOME=$TEST_DIR/open/link" "$HOLT" ps
	assert_equal 'what was written' "$(ls -A "$TEST_DIR/his")" ''
}
