#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# Whatever dies, nothing is lost and nothing is left (K25, K26). ROUNDS=n: that many rounds as root,
# and a fifth of it as an ordinary user.

load ../lib/common
load ../lib/vm

# bats test_tags=user
@test "K25: kill -9 of client, keeper and QEMU within every operation, 120 rounds (24 if not root)" {
	local n=$((${ROUNDS:-0} > 0 ? ROUNDS : ${HOLT_LONG:-0} == 1 ? 300 : 120)) dir
	((EUID == 0)) || n=$(((n + 4) / 5))
	dir=$(mktemp -d "$TEST_DIR/chaos.XXXXXX")
	cp -r "$(layout)" "$dir/layout"
	run --separate-stderr env "HOME=$dir" "$ROOT/tests/vm/chaos" --rounds "$n" "$dir" "$dir/layout"
	# What every round did, for whoever wants to repeat one.
	sed 's/^/# /' <<<"$output" >&3
	assert_status 0
	assert_equal "rounds that were done" "$(grep -c '^round ' <<<"$output")" "$n"
	rm -rf "$dir"
}

# bats test_tags=user
@test "K26: QEMU is killed: all that waits for it fails within 300 ms, with a reason; its disk stays" {
	local name code ms text
	holt run -d --name big demo sh -c 'truncate -s 2G /big; echo kept >/file; sync; echo up; sleep 100000'
	wait_for 20 has_up
	truncate -s 2G "$BATS_TEST_TMPDIR/big"
	run -0 --separate-stderr "$HOLT_BUILD/tests/vm/pending" big "$BATS_TEST_TMPDIR/big" "$BATS_TEST_TMPDIR/out"
	sed 's/^/# /' <<<"$output" >&3
	assert_equal "number of operations" "$(wc -l <<<"$output")" 9
	while read -r name code ms; do
		if [[ $name == box-wait ]]; then
			assert_equal "code of $name" "$code" code=OK
		else
			assert_match "$code" '^code=(GUEST_LOST|CLOSED)$'
		fi
		assert_between "$name" "${ms#ms=}" 0 300
	done <<<"$output"
	run -0 holt ps -a
	assert_match "$output" 'Exited \(137\) .* ago \(crashed\)'
	text=$(holt inspect big | jq -r '.[0].state.text')
	assert_match "$text" 'signal 9'
	run -0 holt start big
	run -0 holt exec big cat /file
	assert_output kept
	run -0 holt rm -f big
}

has_up() {
	holt logs big | grep -q up
}
