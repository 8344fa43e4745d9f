#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # variables of bats and tests/lib
# The peers that holt pulls from are themselves what they should be: asked by curl and skopeo.
# What proves a client is worth as much as this.

load ../lib/common
load ../lib/registry

setup_file() {
	common_setup_file
	peers_setup
	registry_start PLAIN
	registry_start BASIC basic
	registry_start TLS tls
	registry_start TOKEN token
	faults_start
	mkdir -p "$FAULTS_ROOT/team"
	"$ROOT/tools/mkimage" "$FAULTS_ROOT/team/app" --busybox --name app:v1 >/dev/null
	LAYER=$(layer_of "$FAULTS_ROOT/team/app" 0)
	export LAYER APP=$FAULTS_ROOT/team/app BLOB=http://$FAULTS/v2/team/app/blobs/$LAYER
}

teardown_file() {
	peers_stop
	common_teardown_file
}

setup() {
	common_setup
	faults
}

# fetch [CURL-OPTION...]: the layer; what it is goes to $TEST_DIR/got, its head to $TEST_DIR/head.
fetch() {
	curl -sS -D "$TEST_DIR/head" -o "$TEST_DIR/got" "$@" "$BLOB"
}

status_of() {
	curl -sS -o /dev/null -w '%{http_code}' "$@"
}

whole() {
	echo "${LAYER#sha256:}  $TEST_DIR/got" | sha256sum --check --status
}

# bats test_tags=user
@test "docker-registry: plain, with a login, by TLS, with tokens" {
	push "$APP" "$PLAIN/team/app:v1"
	assert_equal plain "$(status_of "http://$PLAIN/v2/")" 200

	assert_equal 'no login' "$(status_of "http://$BASIC/v2/")" 401
	assert_equal 'a wrong one' "$(status_of -u "$PEER_USER:wrong" "http://$BASIC/v2/")" 401
	assert_equal 'the right one' "$(status_of -u "$PEER_USER:$PEER_PASSWORD" "http://$BASIC/v2/")" 200
	push "$APP" "$BASIC/team/app:v1" --dest-creds "$PEER_USER:$PEER_PASSWORD"

	run ! curl -sS "https://$TLS/v2/"
	assert_equal 'with its CA' "$(status_of --cacert "$PEER_CA" "https://$TLS/v2/")" 200

	push "$APP" "$TOKEN/team/app:v1" --dest-creds "$PEER_USER:$PEER_PASSWORD"
	push "$APP" "$TOKEN/public/app:v1" --dest-creds "$PEER_USER:$PEER_PASSWORD"
	skopeo inspect --tls-verify=false "docker://$TOKEN/public/app:v1" >"$TEST_DIR/inspected"
	run ! skopeo inspect --tls-verify=false "docker://$TOKEN/team/app:v1"
	skopeo inspect --tls-verify=false --creds "$PEER_USER:$PEER_PASSWORD" "docker://$TOKEN/team/app:v1" \
		>"$TEST_DIR/inspected"
	assert_equal layers "$(jq -r '.Layers[0]' "$TEST_DIR/inspected")" "$LAYER"
}

@test "docker-registry answers 404 where Accept does not name the type, and so do the faults" {
	local url
	push "$APP" "$PLAIN/team/app:v1"
	for url in "http://$PLAIN/v2/team/app/manifests/v1" "http://$FAULTS/v2/team/app/manifests/v1"; do
		assert_equal "$url" "$(status_of "$url")" 404
		assert_equal "$url" "$(status_of -H 'Accept: application/vnd.oci.image.manifest.v1+json' "$url")" 200
	done
}

@test "faults: without rules it is a registry that skopeo is content with, whoever may ask" {
	skopeo copy -q --src-tls-verify=false "docker://$FAULTS/team/app:v1" "oci:$TEST_DIR/copied:v1"
	assert_equal digest "$(digest_of "$TEST_DIR/copied")" "$(digest_of "$APP")"
	assert_equal 'another tag' "$(status_of "http://$FAULTS/v2/team/app/manifests/v2")" 404

	local kind
	for kind in basic bearer; do
		faults_config '{"auth": "'$kind'", "user": "agent", "password": "correct horse"}'
		run ! skopeo inspect --no-tags --tls-verify=false "docker://$FAULTS/team/app:v1"
		run ! skopeo inspect --no-tags --tls-verify=false --creds agent:wrong "docker://$FAULTS/team/app:v1"
		skopeo inspect --no-tags --tls-verify=false --creds "agent:correct horse" \
			"docker://$FAULTS/team/app:v1" >/dev/null
	done
	faults_config '{"auth": "bearer", "refresh": "an identity"}'
	run -0 curl -sS -d grant_type=refresh_token -d 'refresh_token=an identity' "http://$FAULTS/token"
	[[ $(jq -r .access_token <<<"$output") == ?????* ]] || fail "no token: $output"
	assert_equal 'another identity' "$(status_of -d grant_type=refresh_token -d refresh_token=x \
		"http://$FAULTS/token")" 401
}

@test "faults: a token expires after the requests it is good for" {
	faults_config '{"auth": "bearer", "token_requests": 2}'
	local token
	token=$(curl -sS "http://$FAULTS/token" | jq -r .token)
	for want in 200 200 401; do
		assert_equal request "$(status_of -H "Authorization: Bearer $token" "$BLOB")" $want
	done
	assert_equal 'in the log' "$(requests '.path | startswith("/v2/")' | jq -r .authorization | uniq -c |
		awk '{print $1, $2}')" '3 Bearer'
}

@test "faults: a redirect leads elsewhere, and the log tells what was sent there" {
	local where
	for where in 1 2; do
		faults '{"on": "GET .*/blobs/", "port": 0, "redirect": '$where'}'
		fetch -L -H 'Authorization: Bearer secret'
		whole
		assert_equal listeners "$(requests true | jq .listener | tr '\n' ' ')" "0 $where "
	done
	faults '{"on": "/blobs/", "redirect": "relative", "times": 1}'
	fetch -L
	whole
	faults '{"on": "/blobs/", "redirect": "loop"}'
	run -47 fetch -L --max-redirs 5
}

@test "faults: ranges as they should be, ignored, and wrong" {
	fetch -r 1000-
	assert_match "$(<"$TEST_DIR/head")" "Content-Range: bytes 1000-"
	cmp "$TEST_DIR/got" <(tail -c +1001 "$APP/blobs/sha256/${LAYER#sha256:}")
	assert_equal 'behind the end' "$(status_of -r 99999999- "$BLOB")" 416
	faults '{"on": "/blobs/", "no_range": true}'
	fetch -r 1000-
	whole
	faults '{"on": "/blobs/", "wrong_range": true}'
	fetch -r 1000-
	assert_match "$(<"$TEST_DIR/head")" "Content-Range: bytes 1001-"
	faults '{"on": "/blobs/", "open_range": true}'
	fetch -r 1000-
	[[ $(<"$TEST_DIR/head") != *Content-Range* ]] || fail "a Content-Range: $(<"$TEST_DIR/head")"
}

@test "faults: cut, stalled, too short, too long, flipped, in chunks, with lies about the length" {
	local size
	size=$(stat -c %s "$APP/blobs/sha256/${LAYER#sha256:}")
	faults '{"on": "/blobs/", "cut": 5000, "times": 1}'
	run -18 fetch
	assert_equal 'cut after' "$(stat -c %s "$TEST_DIR/got")" 5000
	fetch
	whole
	faults '{"on": "/blobs/", "stall": 5000}'
	run -28 fetch --max-time 1
	wait_for 5 test -s "$PEERS/requests.jsonl"
	assert_equal sent "$(requests true | jq .sent)" 5000
	faults '{"on": "/blobs/", "short": 7}'
	fetch
	assert_equal short "$(stat -c %s "$TEST_DIR/got")" $((size - 7))
	faults '{"on": "/blobs/", "long": 7}'
	fetch
	assert_equal long "$(stat -c %s "$TEST_DIR/got")" $((size + 7))
	faults '{"on": "/blobs/", "flip": true}'
	fetch
	run ! whole
	assert_equal 'flipped bytes' "$(cmp -l "$TEST_DIR/got" "$APP/blobs/sha256/${LAYER#sha256:}" | wc -l)" 1
	faults '{"on": "/blobs/", "chunked": true}'
	fetch
	whole
	faults '{"on": "/blobs/", "length": 9}'
	run -18 fetch
}

@test "faults: answers of any kind, so many times, after so many, and asked to wait" {
	faults '{"on": "/blobs/", "status": 429, "headers": {"Retry-After": "3"}, "times": 1}' \
		'{"on": "/blobs/", "status": 503, "retry_date": 60, "after": 1, "times": 1}'
	assert_equal first "$(status_of -D "$TEST_DIR/head" "$BLOB")" 429
	assert_match "$(<"$TEST_DIR/head")" 'Retry-After: 3'
	assert_equal second "$(status_of "$BLOB")" 200
	assert_equal third "$(status_of -D "$TEST_DIR/head" "$BLOB")" 503
	assert_match "$(<"$TEST_DIR/head")" 'Retry-After: ...,.*GMT'
	assert_equal fourth "$(status_of "$BLOB")" 200
	assert_equal rules "$(requests true | jq -c .rule | tr '\n' ' ')" '0 null 1 null '

	faults '{"on": "/manifests/", "text": "<html>", "type": "text/html", "pad": 3}'
	run -0 curl -sS -D "$TEST_DIR/head" "http://$FAULTS/v2/team/app/manifests/v1"
	assert_match "$(<"$TEST_DIR/head")" 'Content-Type: text/html'
	((${#output} > 5)) || fail "$output"
	assert_equal sent "$(requests true | jq .sent)" $((6 + (3 << 20)))
	faults '{"on": "/blobs/", "endless": true}'
	run ! fetch
}

@test "faults: a throttled link gives all connections together what it has" {
	local start size
	size=$(stat -c %s "$APP/blobs/sha256/${LAYER#sha256:}")
	faults_config "{\"rate\": $((size * 2))}"
	start=$(now_ms)
	fetch -o "$TEST_DIR/got" "$BLOB" -o "$TEST_DIR/got2"
	assert_between 'ms for two at half a second each' $(($(now_ms) - start)) 900 3000
	whole
}
