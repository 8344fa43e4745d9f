#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# holt config: what is in effect, what is wrong, what does nothing. C-192, C-193, C-195.

# bats file_tags=user
load ../lib/common

# write LINES: the section's keys.
write() {
	{
		echo sandbox:
		printf '  %s\n' "$@"
	} >"$TEST_DIR/c.yaml"
}

# bad PART: the file is refused with one line, which has the part and the file's name, and a hint
# (K48).
bad() {
	run --separate-stderr holt config check "$TEST_DIR/c.yaml"
	assert_status 1
	[[ -z $output ]] || fail "stdout: $output"
	assert_match "$stderr" "^holt: config: .*$1"
	assert_match "$stderr" "c\.yaml'"
	[[ $stderr == *$'\nhint: '?* ]] || fail "no hint: $stderr"
}

# warned PART: accepted, with a warning.
warned() {
	run -0 --separate-stderr holt config check "$TEST_DIR/c.yaml"
	assert_match "$stderr" "^holt: warning: .*$1"
}

@test "config check: each key with its value or its default" {
	write 'image: python:3.12-slim' 'memory_mib: 1024' 'disk: 20G' 'idle_timeout: 0' \
		'keep_disk_for: 90m' 'environment: {A: x, B: y}'
	run -0 --separate-stderr holt config check "$TEST_DIR/c.yaml"
	[[ -z $stderr ]] || fail "stderr: $stderr"
	local row
	for row in 'image +python:3.12-slim' 'memory_mib +1024' 'disk +20G' 'idle_timeout +0' \
		'keep_disk_for +90m' 'environment +A B' 'cpus +1' 'replicas +3' 'pool +default' \
		'acquire_timeout +30' 'network +open' 'home +-' 'pull +missing'; do
		grep -qE "^$row$" <<<"$output" || fail "no row '$row': $output"
	done
	[[ $output != *' x'* ]] || fail "a value of the environment is shown"
}

@test "config check --json: one object; no value of the environment, no home" {
	write 'image: python:3.12-slim' 'use: a.b:C' 'environment: {TOKEN: s3cret}'
	HOLT_HOME=$TEST_DIR/home-new run -0 --separate-stderr holt config check --json "$TEST_DIR/c.yaml"
	[[ -z $stderr ]] || fail "stderr: $stderr"
	jq -e '.config.image == "python:3.12-slim" and .config.replicas == 3 and .config.idle_timeout == 600
		and .config.environment == ["TOKEN"] and .config.disk == 10737418240
		and (.warnings | length == 1) and (.warnings[0] | test("use.* in line 3 of "))' \
		<<<"$output" >/dev/null || fail "JSON: $output"
	[[ $output != *s3cret* ]] || fail "a value of the environment is shown"
	[[ ! -e $TEST_DIR/home-new ]] || fail "a home was made"
}

@test "config check: what is wrong, with line and key" {
	write 'cpus: 2' 'replicas: 0'
	bad "'replicas' is '0', not a whole number.* in line 3 of '"
	write 'image: 3.12'
	bad "'image' is a number to YAML, not a text: put it into quotes, in line 2"
	write 'environment: {B-C: x}'
	bad "'environment.B-C' has a name that is no POSIX name"
	write 'cpus: 1' 'cpus: 2'
	bad "'cpus' is there a second time, in line 3"
	write 'network: {mode: open, allow: [a.example]}'
	bad "'network.allow' is for the mode allowlist, not 'open', in line 2"
	write 'image: ['
	bad 'no valid YAML'
	printf 'a: "\e[1m' >"$TEST_DIR/c.yaml"
	bad 'no valid YAML'
	[[ $stderr != *$'\e'* ]] || fail "a control character reaches the terminal"
	run --separate-stderr holt config check "$TEST_DIR/none.yaml"
	assert_status 1
	assert_match "$stderr" "cannot read .*none\.yaml': No such file"
}

@test "config check: variables" {
	write "image: \$HOLT_TEST_IMAGE" "environment: {A: \$HOLT_TEST_IMAGE}"
	HOLT_TEST_IMAGE=debian:12 run -0 holt config check --json "$TEST_DIR/c.yaml"
	assert_equal image "$(jq -r .config.image <<<"$output")" debian:12
	bad "'image' is the variable 'HOLT_TEST_IMAGE', which is not in the environment, in line 2"
}

@test "config check: what does nothing is told and taken" {
	write 'port: 8080'
	warned "'port' does nothing here: .* in line 2 of"
	write 'ownership: {type: redis, redis_url: x}'
	warned "'ownership.type' does nothing"
	write 'provisioner: true'
	warned "'provisioner' is no key that is known"
	echo 'models: []' >"$TEST_DIR/c.yaml"
	warned "no section 'sandbox', so all defaults hold"
	write 'port: x'
	bad "'port' is 'x', not a whole number"
}

@test "config check: aliases of aliases are not followed for ever" {
	local i
	{
		echo 'a0: &a0 [x,x,x,x,x,x,x,x,x]'
		for i in {1..20}; do
			printf 'a%d: &a%d [%s]\n' "$i" "$i" "$(printf "*a$((i - 1)),%.0s" {1..9})"
		done
	} >"$TEST_DIR/c.yaml"
	bad 'more than 16384 values'
}

@test "config check: the manual has every key, the defaults of both are the same" {
	echo 'sandbox: {}' >"$TEST_DIR/c.yaml"
	run -0 holt config check "$TEST_DIR/c.yaml"
	local key value page=$BATS_TEST_DIRNAME/../../man/holt-config.1
	while read -r key value; do
		[[ $key != KEY ]] || continue
		grep -q "^\.It Ic $key$" "$page" || fail "the manual has no '$key'"
		[[ $value == - || $key == network || $key == environment ]] ||
			sed -n "/^\.It Ic $key$/,/^\.It\|^\.El/p" "$page" | tr '\n' ' ' |
			grep -qE "Default: (\.Li )?$value ?\." || fail "the default of '$key' is not $value"
	done <<<"$output"
}
