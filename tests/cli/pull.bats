#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# holt pull and its options, what it prints, and how it fails, with registries that do what they
# should. No machine is started.

# bats file_tags=user
load ../lib/common
load ../lib/serve

setup_file() {
	common_setup_file
	LAYOUT=$(layout --busybox)
	export LAYOUT
}

setup() {
	common_setup
	# A home for each test, and no login of whoever runs it.
	export HOLT_HOME=$TEST_DIR/home-$BATS_TEST_NUMBER DOCKER_CONFIG=$TEST_DIR/docker-$BATS_TEST_NUMBER
	mkdir -p "$DOCKER_CONFIG"
}

teardown() {
	end_servers
	common_teardown
}

digest() {
	jq -r '.manifests[0].digest' "$LAYOUT/index.json"
}

# fails CODE PATTERN ARGUMENT...: exit status, nothing on stdout, an error that matches.
fails() {
	run --separate-stderr holt "${@:3}"
	assert_status "$1"
	assert_output ''
	assert_match "$stderr" "$2"
}

@test "pull prints the digest, and tells on stderr what it loads, without codes" {
	serve "demo=$LAYOUT"
	run -0 --separate-stderr holt pull "$SERVER/demo:1"
	assert_output "$(digest)"
	assert_match "$stderr" "^pulling $SERVER/demo:1: [0-9]+ layers?, "
	assert_match "$stderr" $'\n'"layer 1 of [0-9]+: loaded, "
	assert_match "$stderr" $'\n'"pulled $SERVER/demo:1: [0-9.]+ [kM]?B loaded$"
	[[ $stderr != *$'\e'* && $stderr != *$'\r'* ]] || fail "codes in a pipe: $stderr"
	run -0 holt image inspect "$SERVER/demo:1"
	assert_equal digest "$(jq -r '.[0].digest' <<<"$output")" "$(digest)"
	# It is the same verb.
	run -0 --separate-stderr holt image pull "$SERVER/demo:1"
	assert_output "$(digest)"
	assert_match "$stderr" "$SERVER/demo:1 is up to date$"
	# The only platform there is may be named, and an image by its digest.
	run -0 --separate-stderr holt pull -q --platform linux/amd64 "$SERVER/demo@$(digest)"
	assert_output "$(digest)"
	assert_equal stderr "$stderr" ''
}

@test "pull --json: events, a line each, and the image last" {
	serve "demo=$LAYOUT"
	run -0 --separate-stderr holt pull --json "$SERVER/demo"
	assert_equal stderr "$stderr" ''
	jq -es --arg d "$(digest)" --arg n "$SERVER/demo:latest" '
		(.[-1] | .digest == $d and .name == $n and (has("event") | not))
		and (.[-2] | .event == "done" and .changed and .digest == $d)
		and (.[0] | .event == "resolved" and .layers >= 1 and .total_bytes > 0)
		and (map(select(.event == "loaded")) | length == .[0].layers)
		and (map(select(.event == "converted")) | length == .[0].layers)' \
		<<<"$output" >/dev/null || fail "events: $output"
	run -0 --separate-stderr holt pull --json "$SERVER/demo"
	jq -es '(.[-2] | .event == "done" and (.changed | not))' <<<"$output" >/dev/null ||
		fail "events: $output"
	run -0 --separate-stderr holt pull -q --json "$SERVER/demo"
	assert_equal lines "${#lines[@]}" 1
}

@test "pull on a terminal: a line for each layer and one for all, taken away at the end" {
	serve "demo=$LAYOUT"
	run -0 "$ROOT/tests/vm/ptytool" 20x60 -- "$HOLT" pull "$SERVER/demo"
	[[ $output == *' of 1 layers done, '* ]] || fail "no total: $output"
	[[ $output == *$'\e[2A\r\e[J'"pulled $SERVER/demo"* ]] || fail "not taken away: ${output@Q}"
	# A terminal that cannot do that gets plain lines.
	TERM=dumb run -0 "$ROOT/tests/vm/ptytool" 20x60 -- "$HOLT" pull "$SERVER/demo:2"
	[[ $output != *$'\e'* ]] || fail "codes: ${output@Q}"
}

@test "what pull refuses: a usage error in one line (K48)" {
	usage_error 2 pull
	usage_error 2 pull a b
	usage_error 2 pull --no-such-option a
	usage_error 2 image pull
	usage_error 2 pull --password-stdin a
	usage_error 2 pull --creds ann a
	usage_error 2 pull --creds ann:s3cret a
	[[ $stderr != *s3cret* ]] || fail "the password is repeated: $stderr"
	fails 1 $'^holt: .*linux/arm64.*\nhint: .*linux/amd64' pull --platform linux/arm64 demo
	fails 1 $'^holt: .*not an image reference.*\nhint: ' pull Demo
	for password in '' $'a\nb\n'; do
		run -1 --separate-stderr holt pull --creds ann --password-stdin demo <<<"$password"
		assert_match "$stderr" '^holt: the password on standard input '
	done
	usage_error 125 run --pull newer demo
	usage_error 2 template build --pull newer demo
	usage_error 2 sandbox read --for u --thread t --pull newer x
	usage_error 125 sandbox exec --for u --thread t --pull newer true
	usage_error 2 sandbox read --pull never box x
}

@test "an id is not pulled, by any verb (K48)" {
	local id
	for id in cafe 0123456789ab "$(digest)"; do
		fails 1 $'^holt: .*an id cannot be pulled\nhint: .*NAME\[:TAG\]' pull "$id"
		fails 125 $'^holt: .*an id cannot be pulled\nhint: ' run "$id" true
		fails 1 $'^holt: .*an id cannot be pulled\nhint: ' template build "$id"
		fails 1 $'^holt: .*an id cannot be pulled\nhint: ' sandbox acquire --for u --thread t --image "$id"
	done
}

@test "what is not there: the registry's word, and what to do (K48)" {
	serve "demo=$LAYOUT"
	fails 1 "^holt: pull: .$SERVER/none. cannot be pulled: "$'.*\nhint: ' pull "$SERVER/none"
	fails 125 "^holt: .*$SERVER/none"$'.*\nhint: ' run "$SERVER/none" true
	fails 1 "^holt: .*none.*"$'\nhint: ' sandbox acquire --for u --thread t --image "$SERVER/none"
	# --pull never asks nobody.
	: >"$SERVER_LOG"
	fails 125 $'there is no image .*\nhint: .*holt pull' run --pull never "$SERVER/demo" true
	fails 1 $'there is no image .*\nhint: .*holt pull' template build --pull never "$SERVER/demo"
	assert_equal requests "$(requests .)" 0
	# And a registry that is not there.
	end_server
	fails 1 "^holt: .*$SERVER"$'.*\nhint: ' pull "$SERVER/demo"
}

@test "login: by --creds and --password-stdin, or by docker's configuration; its lack is told with both" {
	serve "demo=$LAYOUT" --login ann:s3cret
	fails 1 $'\nhint: .*(docker login|--creds)' pull "$SERVER/demo"
	run -1 --separate-stderr holt pull --creds ann --password-stdin "$SERVER/demo" <<<wrong
	assert_match "$stderr" $'\nhint: '
	[[ $stderr != *wrong* ]] || fail "the password is told: $stderr"
	run -0 --separate-stderr holt pull -q --creds ann --password-stdin "$SERVER/demo" <<<s3cret
	assert_output "$(digest)"
	printf '{"auths": {"%s": {"auth": "%s"}}}' "$SERVER" "$(printf ann:s3cret | base64)" \
		>"$DOCKER_CONFIG/config.json"
	run -0 --separate-stderr holt pull -q "$SERVER/demo:2"
	assert_output "$(digest)"
}

# certificate NAME: $NAME.cert and $NAME.key, which nobody has signed.
certificate() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=127.0.0.1 \
		-addext subjectAltName=IP:127.0.0.1 -keyout "$1.key" -out "$1.cert" 2>/dev/null
}

# What is on loopback is asked by https where an authority is named for it.
@test "an unknown certificate: refused with a word about --ca-file, which helps, as does --insecure" {
	local dir=$TEST_DIR/tls
	mkdir -p "$dir"
	certificate "$dir/own"
	certificate "$dir/other"
	serve "demo=$LAYOUT" --tls "$dir/own.cert" "$dir/own.key"
	fails 1 $'\nhint: .*--ca-file' pull --ca-file "$dir/other.cert" "$SERVER/demo"
	fails 1 "$dir/none" pull --ca-file "$dir/none" "$SERVER/demo"
	run -0 --separate-stderr holt pull -q --ca-file "$dir/own.cert" "$SERVER/demo"
	assert_output "$(digest)"
	run -0 --separate-stderr holt pull -q --insecure --ca-file "$dir/other.cert" "$SERVER/demo:2"
	assert_output "$(digest)"
}

@test "Ctrl-C ends a pull at once with 130, and the next one goes on behind what has arrived" {
	local large start took code=0
	large=$(random_layout 4000000)
	serve "large=$large" --rate 500000
	"$HOLT" pull "$SERVER/large" </dev/null >/dev/null 2>"$TEST_DIR/pull.err" 3>&- &
	local pid=$!
	wait_for 20 has_part 200000
	start=$(now_ms)
	kill -INT "$pid"
	wait "$pid" || code=$?
	took=$(($(now_ms) - start))
	assert_equal "exit status" "$code" 130
	assert_between 'ms until the end' "$took" 0 2000
	[[ $(<"$TEST_DIR/pull.err") != *'holt: '* ]] || fail "an error is told: $(<"$TEST_DIR/pull.err")"
	run -0 holt image ls -q
	assert_output ''
	end_server
	serve "large=$large"
	# The other registry has another port, and the same blob.
	run -0 --separate-stderr holt pull -q "$SERVER/large"
	(($(requests 'bytes=[1-9]') >= 1)) || fail "not from where it was: $(<"$SERVER_LOG")"
}

# has_part BYTES: so much of a blob has arrived.
has_part() {
	[[ -n $(find "$HOLT_HOME" -name '*.part' -size "+$(($1 / 1024))k") ]]
}
