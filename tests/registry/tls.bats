#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # variables of bats and tests/lib
# What a registry behind TLS may not do with what it was given: redirects from it.

load ../lib/common
load ../lib/registry
load pulling

setup_file() {
	common_setup_file
	peers_setup
	faults_start tls
	pulling_layout
}

# bats test_tags=user
@test "K45 a redirect from https to http never carries the login, whether it is followed or not" {
	local where
	printf '{"auths": {"%s": {"username": "agent", "password": "correct horse"}}}' "$FAULTS" \
		>"$DOCKER_CONFIG/config.json"
	faults_config '{"auth": "basic", "user": "agent", "password": "correct horse"}'
	pulls "$DIGEST" --ca-file "$PEER_CA" "$FAULTS/team/app:v1"
	for where in 1 2; do
		rm -rf "$HOLT_HOME/images"
		faults_config '{"auth": "basic", "user": "agent", "password": "correct horse",
			"rules": [{"on": "GET .*/blobs/", "port": 0, "redirect": '$where'}]}'
		run holt pull -q --ca-file "$PEER_CA" "$FAULTS/team/app:v1"
		assert_equal 'logins seen there' "$(count ".listener != 0 and .authorization != null")" 0
		((0 < $(count '.status == 307'))) || fail "there was no redirect: $(requests true)"
	done
}

# bats test_tags=user
@test "K45 a token server that is reached by plain http from a registry behind TLS gets no password" {
	printf '{"auths": {"%s": {"username": "agent", "password": "correct horse"}}}' "$FAULTS" \
		>"$DOCKER_CONFIG/config.json"
	faults "$(jq -nc --arg r "Bearer realm=\"http://$FAULTS_HOST/token\",service=\"x\"" \
		'{on: "/v2/", port: 0, status: 401, headers: {"WWW-Authenticate": $r}}')"
	run holt pull -q --ca-file "$PEER_CA" "$FAULTS/team/app:v1"
	((status != 0)) || fail "it was pulled without a token that is right"
	assert_equal 'passwords in clear' "$(count ".listener == 2 and .authorization != null")" 0
}
