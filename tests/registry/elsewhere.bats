#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# Registries on another host, where plain http is nothing that is taken without being asked for: in
# network namespaces, with holt here and the registries there.

load ../lib/common
load ../lib/registry
load pulling
load ../lib/netns

setup_file() {
	common_setup_file
	peers_setup
	netns_setup
	export FAULTS_ROOT=$PEERS/layouts
	pulling_layout
	netns_enter "$NET_THERE"
	PEER_ENTER=(nsenter "${ENTER[@]}")
	LISTEN_AT=192.0.2.2
	registry_start PLAIN
	registry_start TLS tls
	local name
	for name in "$PLAIN" "$TLS"; do
		here skopeo copy -q --dest-tls-verify=false "oci:$APP" "docker://$name/team/app:v1"
	done
}

teardown_file() {
	local status=0
	peers_stop || status=1
	netns_teardown
	common_teardown_file && return $status
}

setup() {
	common_setup
	export HOLT_HOME=$TEST_DIR/home-$BATS_TEST_NUMBER
	mkdir -m 700 "$HOLT_HOME"
}

# bats test_tags=user
@test "K45 elsewhere than on loopback plain http is refused, and taken where it is asked for" {
	refuses "$PLAIN" "$PLAIN/team/app:v1"
	pulls "$DIGEST" --insecure "$PLAIN/team/app:v1"
	# Only for that call.
	run --separate-stderr holt pull -q "$PLAIN/team/app:v1"
	assert_status 1
	printf 'registries:\n  "%s":\n    insecure: true\n' "$PLAIN" >"$HOLT_HOME/registries.yaml"
	pulls "$DIGEST" "$PLAIN/team/app:v1"
}

# bats test_tags=user
@test "K45 TLS: refused without its CA, taken with it, by option and by registries.yaml; --insecure" {
	refuses "$TLS" "$TLS/team/app:v1"
	assert_match "${stderr,,}" 'certificate|tls|ssl'
	pulls "$DIGEST" --ca-file "$PEER_CA" "$TLS/team/app:v1"
	run --separate-stderr holt pull -q "$TLS/team/app:v1"
	assert_status 1
	printf 'registries:\n  "%s":\n    ca_file: %s\n' "$TLS" "$PEER_CA" >"$HOLT_HOME/registries.yaml"
	pulls "$DIGEST" "$TLS/team/app:v1"
	rm "$HOLT_HOME/registries.yaml"
	pulls "$DIGEST" --insecure "$TLS/team/app:v1"
	run --separate-stderr holt pull -q --ca-file /no/such/file "$TLS/team/app:v1"
	assert_status 1
	assert_match "$stderr" /no/such/file
}
