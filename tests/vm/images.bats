#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # variables of bats
# Images that boxes and templates need while others prune (K44).

load ../lib/common
load ../lib/vm

teardown() {
	remove_boxes
	common_teardown
}

names() {
	holt image ls --json | jq -c '[.[].name]'
}

# bats test_tags=user
@test "K44: an image stays as long as a box or a template needs it, whatever the budget says; then it goes" {
	holt run -d --name web demo sleep 100000
	run -0 holt system df --json
	jq -e '.images.active == 1 and .images.reclaimable_bytes == 0 and .boxes.active == 1 and
		.boxes.bytes > 0 and .templates.count == 1' <<<"$output" >/dev/null || fail "$output"
	holt image prune -a
	echo other >"$BATS_TEST_TMPDIR/data"
	tar -C "$BATS_TEST_TMPDIR" -cf "$BATS_TEST_TMPDIR/other.tar" data
	HOLT_IMAGE_BYTES=1 holt image import "$BATS_TEST_TMPDIR/other.tar" --name other >/dev/null
	holt template prune --max 0
	holt image prune -a
	assert_equal "names" "$(names)" '["demo:latest"]'
	run -0 holt exec web echo up
	assert_output up
	holt stop web
	holt image prune -a
	assert_equal "names while the box is stopped" "$(names)" '["demo:latest"]'
	run -0 holt start web
	run -0 holt exec web echo again
	assert_output again
	holt rm -f web
	# The template of the second start needs it still.
	holt image prune -a
	assert_equal "names while there is a template" "$(names)" '["demo:latest"]'
	holt template prune --max 0
	run -0 holt image prune -a
	assert_match "$output" 'demo:latest'
	assert_equal "names" "$(names)" '[]'
	run -125 --separate-stderr holt run --pull never demo true
	assert_match "$stderr" "there is no image 'demo'"
}

# Each of the creators' boxes runs, or is told that there is no image: nothing in between.
@test "K44: prune and import beside boxes that begin, by several processes: a box works or there is no image" {
	local i pids=() source good=0 missing=0
	source=$(layout --busybox)
	for i in 1 2 3; do
		(for _ in 1 2 3 4 5 6; do
			run --separate-stderr holt run --pull never --no-template demo echo fine
			if [[ $status == 0 && $output == fine ]]; then
				echo good
			elif [[ $status == 125 && $stderr == *"there is no image 'demo'"* ]]; then
				echo missing
			else
				echo "bad $status $output $stderr"
			fi
		done) >"$BATS_TEST_TMPDIR/$i" 3>&- &
		pids+=($!)
	done
	for i in {1..30}; do
		holt image prune -a >/dev/null
		sleep 0.05
		holt image import -q "$source" --name demo >/dev/null
		sleep 0.15
	done
	wait "${pids[@]}"
	run cat "$BATS_TEST_TMPDIR"/[123]
	good=$(grep -c '^good' <<<"$output")
	missing=$(grep -c '^missing' <<<"$output" || true)
	echo "# $good worked, $missing found no image" >&3
	assert_equal "neither" "$(grep -v '^good\|^missing' <<<"$output" || true)" ''
	((good > 0)) || fail "no box worked"
	assert_equal "boxes left" "$(holt ps -aq)" ''
}
