#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # variables of bats and tests/lib
# The contract cases (tests/contract) on real machines, with images that hold less and less: a whole
# Debian, busybox, one static program. What a case needs besides the box is stated in it; how many
# could not run for that is told.

load ../lib/common
load ../lib/vm

# The least number of cases that there have to be.
CASES=250

# cases IMAGE LEAST-RUN [OPTION...]: all cases in a new box; at least so many of them ran.
cases() {
	local image=$1 least=$2
	shift 2
	run --separate-stderr "$HOLT_BUILD/tests/contract/run_cases" --image "$image" --least "$CASES" "$@" \
		"$ROOT"/tests/contract/*.json
	local told=${output##*$'\n'# }
	echo "# $image: $told" >&3
	((status == 0)) || fail "exit status $status" "$(grep -A 1 '^not ok' <<<"$output")" "$told" "$stderr" || return
	[[ $told =~ ^([0-9]+)\ of\ ([0-9]+)\ cases\ ran.*\ 0\ failed$ ]] || fail "no summary: $told" || return
	assert_between "the number of cases that ran" "${BASH_REMATCH[1]}" "$least" "${BASH_REMATCH[2]}"
}

# bats test_tags=user
@test "K01 K02 K06 K07 K21: at least 460 contract cases hold in a busybox image" {
	cases demo 460 --has shell
}

@test "K01 K02 K06 K07 K21: at least 460 contract cases hold in a Debian image, with bash" {
	debian_image
	cases debian 460 --has shell --has bash
}

@test "K01 K21: at least 400 contract cases hold in an image of one static program and nothing else" {
	mkdir "$BATS_TEST_TMPDIR/lone"
	cp "$HOLT_BUILD/tests/vm/first" "$BATS_TEST_TMPDIR/lone/first"
	image lone --layer "$BATS_TEST_TMPDIR/lone"
	cases lone 400
}
