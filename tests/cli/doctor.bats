#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# holt doctor: what it finds, and what it says when something is missing.

# bats file_tags=user
load ../lib/common

# The row of a check in the text, and the JSON object of the same.
row() {
	grep -A1 -E "^(ok  |warn|FAIL)  $1 " <<<"$output"
}

@test "doctor: every check has a verdict, bad ones have advice, the status is the verdict" {
	run -0 --separate-stderr holt doctor
	assert_match "$output" 'boxes can run on this host'
	[[ -z $stderr ]] || fail "stderr: $stderr"
	local name
	for name in host accelerator qemu kernel keeper home space templates; do
		row "$name" >/dev/null || fail "no row '$name': $output"
	done
	# Each line that is not good is followed by what to do.
	awk '/^(warn|FAIL)/ { want = 1; next } want && !/^ +-> ./ { bad = 1 } { want = 0 } END { exit bad }' \
		<<<"$output" || fail "a row without advice: $output"
}

@test "doctor --json: one object with the same content" {
	run -0 --separate-stderr holt doctor --json
	jq -e '(.ok == true) and (.version | test("^[0-9]+[.][0-9]+[.][0-9]+$"))
		and (.accelerator.use == "kvm" or .accelerator.use == "tcg")
		and (.accelerator.kvm_usable | type == "boolean") and (.accelerator.reason | length > 0)
		and (.checks | length >= 7)
		and all(.checks[]; (.name | length > 0) and (.text | length > 0)
			and (.status | IN("ok", "warn", "fail"))
			and (.status == "ok" or (.advice | length > 0)))' <<<"$output" >/dev/null || fail "JSON: $output"
	local rows
	rows=$(jq -r '.checks[].name' <<<"$output")
	run -0 holt doctor
	assert_equal "names" "$(sed -nE 's/^(ok  |warn|FAIL)  ([a-z]+) .*/\2/p' <<<"$output")" "$rows"
}

@test "doctor makes no home, and leaves an existing one alone" {
	HOLT_HOME=$TEST_DIR/home-new run -0 holt doctor
	assert_match "$(row home)" 'will be made'
	[[ ! -e $TEST_DIR/home-new ]] || fail "the home was made"
}

# bad NAME ADVICE: the check has failed and is advised upon, in text and in JSON; no box can run.
bad() {
	run --separate-stderr holt doctor
	assert_status 1
	assert_match "$output" 'no box can run on this host'
	assert_match "$(row "$1")" "^FAIL .*-> .*$2"
	run --separate-stderr holt doctor --json
	assert_status 1
	jq -e --arg n "$1" '.ok == false and (.checks[] | select(.name == $n) | .status == "fail" and .advice != "")' \
		<<<"$output" >/dev/null || fail "JSON: $output"
}

@test "doctor: kernel, QEMU, keeper, home that cannot be used" {
	HOLT_KERNEL=/no/such/kernel bad kernel HOLT_KERNEL
	HOLT_QEMU=/no/such/qemu bad qemu HOLT_QEMU
	HOLT_QEMU=relative bad qemu HOLT_QEMU
	HOLT_KEEPER=/no/such/keeper bad keeper .
	: >"$TEST_DIR/file"
	HOLT_HOME=$TEST_DIR/file/home bad home HOLT_HOME
	HOLT_TEMPLATE_BYTES=much bad templates '8 GiB'
}

@test "HOLT_ACCEL: tcg is taken, nonsense is refused, kvm works or is refused with the probe's reason" {
	HOLT_ACCEL=tcg run -0 holt doctor --json
	assert_equal "use" "$(jq -r .accelerator.use <<<"$output")" tcg
	local reason usable
	reason=$(jq -r .accelerator.reason <<<"$output")
	usable=$(jq -r .accelerator.kvm_usable <<<"$output")
	HOLT_ACCEL=quantum bad accelerator .
	if [[ $usable == true ]]; then
		HOLT_ACCEL=kvm run -0 holt doctor --json
		assert_equal "use" "$(jq -r .accelerator.use <<<"$output")" kvm
	else
		HOLT_ACCEL=kvm bad accelerator .
		# The speed in it is measured anew, or cached.
		assert_match "$output" "${reason%%[0-9(]*}"
	fi
}

@test "the probe is quick, and cached" {
	local took
	export HOLT_HOME=$TEST_DIR/home-probe
	# Makes the home, and with it the place for the cache.
	holt image ls >/dev/null
	took=$(holt doctor --json | jq '.accelerator | if .cached then "cached" else .took_us end')
	assert_between "the time of the probe (us)" "$took" 0 150000
	assert_equal "cached" "$(holt doctor --json | jq .accelerator.cached)" true
}
