#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # variables of bats and tests/lib
# Who we are at a registry: basic, bearer, docker's configuration and its helpers, options; TLS. With
# docker-registry, and with faults where it has to be seen what was sent.

load ../lib/common
load ../lib/registry
load pulling

setup_file() {
	common_setup_file
	peers_setup
	faults_start
	pulling_layout
	registry_start PLAIN
	registry_start BASIC basic
	registry_start TLS tls
	registry_start TOKEN token
	local creds=(--dest-creds "$PEER_USER:$PEER_PASSWORD")
	push "$APP" "$PLAIN/team/app:v1"
	push "$APP" "$BASIC/team/app:v1" "${creds[@]}"
	push "$APP" "$TOKEN/team/app:v1" "${creds[@]}"
	push "$APP" "$TOKEN/public/app:v1" "${creds[@]}"
	push "$APP" "$TLS/team/app:v1"
}

# docker_config JSON
docker_config() {
	jq -c . <<<"$1" >"$DOCKER_CONFIG/config.json"
}

# The word that docker has under "auth".
auth_word() {
	printf '%s:%s' "$PEER_USER" "${1:-$PEER_PASSWORD}" | base64 -w 0
}

# helper NAME: a docker-credential-NAME on PATH that knows $PEER_USER at HELPER_KNOWS and notes what it
# was asked in $TEST_DIR/NAME.asked. HELPER_USER and HELPER_SECRET are what it says.
helper() {
	export PATH=$PEERS/bin:$PATH
	mkdir -p "$PEERS/bin"
	cat >"$PEERS/bin/docker-credential-$1" <<-END
		#!/bin/sh
		read -r server || [ -n "\$server" ]
		echo "\$1 \$server" >>"$TEST_DIR/$1.asked"
		if [ "\$server" != "${HELPER_KNOWS:-}" ]; then
			echo 'credentials not found in native keychain'
			exit 1
		fi
		printf '{"ServerURL":"%s","Username":"%s","Secret":"%s"}\n' "\$server" \\
			"${HELPER_USER:-$PEER_USER}" "${HELPER_SECRET:-$PEER_PASSWORD}"
	END
	chmod 755 "$PEERS/bin/docker-credential-$1"
	rm -f "$TEST_DIR/$1.asked"
}

# bats test_tags=user
@test "K45 docker-registry: plain http on loopback, without a login or an option" {
	pulls "$DIGEST" "$PLAIN/team/app:v1"
	pulls "$DIGEST" "localhost:${PLAIN#*:}/team/app:v1"
}

# bats test_tags=user
@test "K45 basic login: --creds with --password-stdin; refused without and with a wrong one" {
	refuses "$BASIC" "$BASIC/team/app:v1"
	run --separate-stderr holt pull -q --creds "$PEER_USER" --password-stdin "$BASIC/team/app:v1" <<<"wrong secret"
	assert_status 1
	[[ $stderr != *'wrong secret'* ]] || fail "the password is told: $stderr"
	untouched
	run -0 holt pull -q --creds "$PEER_USER" --password-stdin "$BASIC/team/app:v1" <<<"$PEER_PASSWORD"
	assert_output "$DIGEST"
	# It is nowhere in the home.
	run ! grep -rF "$PEER_PASSWORD" "$HOLT_HOME"
	run ! grep -rF "$(auth_word)" "$HOLT_HOME"
}

# bats test_tags=user
@test "K45 bearer: docker-registry's token, as anybody for what is public, by login for the rest" {
	pulls "$DIGEST" "$TOKEN/public/app:v1"
	holt image rm "$TOKEN/public/app:v1" >/dev/null
	rm -rf "$HOLT_HOME/images"
	refuses "$TOKEN" "$TOKEN/team/app:v1"
	docker_config '{"auths": {"'"$TOKEN"'": {"auth": "'"$(auth_word)"'"}}}'
	pulls "$DIGEST" "$TOKEN/team/app:v1"
	docker_config '{"auths": {"'"$TOKEN"'": {"auth": "'"$(auth_word wrong)"'"}}}'
	run --separate-stderr holt pull -q "$TOKEN/team/app:v1"
	assert_status 1
}

# bats test_tags=user
@test "K45 docker's configuration: auths by auth, by username and password, of \$DOCKER_CONFIG and of ~" {
	docker_config '{"auths": {"'"$BASIC"'": {"auth": "'"$(auth_word)"'"}}}'
	pulls "$DIGEST" "$BASIC/team/app:v1"
	docker_config '{"auths": {"'"$BASIC"'": {"username": "agent", "password": "correct horse"}}}'
	pulls "$DIGEST" "$BASIC/team/app:v1"
	docker_config '{"auths": {"other.example": {"auth": "'"$(auth_word)"'"}}}'
	run ! holt pull -q "$BASIC/team/app:v1"
	# Without the variable: the user's own.
	mkdir -p "$HOME/.docker"
	echo '{"auths": {"http://'"$BASIC"'/v1/": {"auth": "'"$(auth_word)"'"}}}' >"$HOME/.docker/config.json"
	unset DOCKER_CONFIG
	pulls "$DIGEST" "$BASIC/team/app:v1"
	rm "$HOME/.docker/config.json"
	run ! holt pull -q "$BASIC/team/app:v1"
}

# bats test_tags=user
@test "K45 docker's helpers: credHelpers for one registry, credsStore for all, and not found is nobody" {
	HELPER_KNOWS=$BASIC helper one
	helper store
	docker_config '{"credHelpers": {"'"$BASIC"'": "one"}, "credsStore": "store",
		"auths": {"'"$BASIC"'": {"auth": "'"$(auth_word wrong)"'"}}}'
	pulls "$DIGEST" "$BASIC/team/app:v1"
	assert_equal asked "$(sort -u "$TEST_DIR/one.asked")" "get $BASIC"
	[[ ! -e $TEST_DIR/store.asked ]] || fail "the store was asked, too: $(<"$TEST_DIR/store.asked")"

	HELPER_KNOWS=$BASIC helper store
	docker_config '{"credsStore": "store", "auths": {"'"$BASIC"'": {}}}'
	pulls "$DIGEST" "$BASIC/team/app:v1"
	assert_equal asked "$(sort -u "$TEST_DIR/store.asked")" "get $BASIC"
	# Who needs no login gets none, and no harm is done by a store that knows nothing.
	pulls "$DIGEST" "$PLAIN/team/app:v1"
	# One that is not there is told by its name.
	docker_config '{"credHelpers": {"'"$BASIC"'": "nosuch"}}'
	run --separate-stderr holt pull -q "$BASIC/team/app:v1"
	assert_status 1
	assert_match "$stderr" nosuch
}

# bats test_tags=user
@test "K45 an identity token of a helper buys a bearer token" {
	HELPER_KNOWS=$FAULTS HELPER_USER='<token>' HELPER_SECRET='an identity' helper tokens
	docker_config '{"credHelpers": {"'"$FAULTS"'": "tokens"}}'
	faults_config '{"auth": "bearer", "refresh": "an identity", "user": "nobody", "password": "else"}'
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	assert_equal 'how the token was asked for' "$(requests '.path == "/token"' | jq -r '"\(.method) \(.status)"' |
		sort -u)" 'POST 200'
}

# bats test_tags=user
@test "K45 options go before docker's configuration, and are for the registry that was named only" {
	docker_config '{"auths": {"'"$BASIC"'": {"auth": "'"$(auth_word wrong)"'"}}}'
	run -0 holt pull -q --creds "$PEER_USER" --password-stdin "$BASIC/team/app:v1" <<<"$PEER_PASSWORD"
	# A mirror is another host: it is not told.
	cat >"$HOLT_HOME/registries.yaml" <<-END
		registries:
		  $FAULTS:
		    mirrors: ["http://$FAULTS_HOST"]
	END
	faults_config '{"auth": "basic", "auth_on": [0, 2], "user": "agent", "password": "correct horse"}'
	run -0 holt pull -q --creds "$PEER_USER" --password-stdin "$FAULTS/team/app:v1" <<<"$PEER_PASSWORD"
	assert_equal 'authorization at the mirror' "$(requests '.listener == 2' | jq -r .authorization | sort -u)" null
	((0 < $(count '.listener == 2'))) || fail "the mirror was not asked"
}

# bats test_tags=user
@test "K45 a token that expires in the middle of a pull is taken anew" {
	faults_config '{"auth": "bearer", "token_requests": 3, "user": "agent", "password": "correct horse"}'
	docker_config '{"auths": {"'"$FAULTS"'": {"auth": "'"$(auth_word)"'"}}}'
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	assert_between 'tokens taken' "$(count '(.path | startswith("/token")) and .status == 200')" 2 8
	assert_between 'requests with a token that had expired' \
		"$(count '.status == 401 and .authorization != null')" 1 8
	# A server whose tokens are never good is not asked for ever.
	rm -rf "$HOLT_HOME/images"
	faults_config '{"auth": "bearer", "token_requests": 0}'
	refuses "$FAULTS" "$FAULTS/team/app:v1"
	assert_between requests "$(count true)" 2 12
}

# bats test_tags=user
@test "K45 the login is for the registry: a redirect to another port or host sees none of it" {
	local kind where
	docker_config '{"auths": {"'"$FAULTS"'": {"auth": "'"$(auth_word)"'"}}}'
	for kind in basic bearer; do
		for where in 1 2; do
			rm -rf "$HOLT_HOME/images"
			faults_config '{"auth": "'$kind'", "user": "agent", "password": "correct horse",
				"rules": [{"on": "GET .*/blobs/", "port": 0, "redirect": '$where'}]}'
			pulls "$DIGEST" "$FAULTS/team/app:v1"
			assert_equal 'blobs from there' "$(count ".listener == $where and .status == 200")" 4
			assert_equal 'seen there' "$(requests ".listener == $where" | jq -r .authorization | sort -u)" null
			[[ $(requests '.listener == 0 and .status == 307' | jq -r .authorization | sort -u) != *null* ]] ||
				fail "no login at the registry itself"
		done
	done
}

# bats test_tags=user
@test "K45 TLS: with its CA, by option and by registries.yaml; refused without; --insecure" {
	refuses "$TLS" "$TLS/team/app:v1"
	pulls "$DIGEST" --ca-file "$PEER_CA" "$TLS/team/app:v1"
	printf 'registries:\n  "%s":\n    ca_file: %s\n' "$TLS" "$PEER_CA" >"$HOLT_HOME/registries.yaml"
	pulls "$DIGEST" "$TLS/team/app:v1"
	rm "$HOLT_HOME/registries.yaml"
	pulls "$DIGEST" --insecure "$TLS/team/app:v1"
	run --separate-stderr holt pull -q --ca-file /no/such/file "$TLS/team/app:v1"
	assert_status 1
	assert_match "$stderr" /no/such/file
}
