#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # variables of bats and tests/lib
# What names mean, which manifests and platforms are taken, and how often the registry is asked.

load ../lib/common
load ../lib/registry
load pulling

# The names in the store.
names() {
	holt image ls --json | jq -r '.[].name' | sort | tr '\n' ' '
}

# bats test_tags=user
@test "K45: names are written as docker writes them: port, path, tag, digest, both" {
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	assert_equal names "$(names)" "$FAULTS/team/app:v1 "
	pulls "$DIGEST" "localhost:${FAULTS#*:}/team/app:v1"
	pulls "$DIGEST" "$FAULTS/team/app@$DIGEST"
	pulls "$DIGEST" "$FAULTS/team/app:v1@$DIGEST"
	# A digest is what counts, whatever the tag says.
	pulls "$DIGEST" "$FAULTS/team/app:nosuch@$DIGEST"
	assert_equal images "$(holt image ls -q | sort -u)" "$DIGEST"
	assert_equal 'loads of a layer' "$(loads "$LAYER1")" 1
	# Deep paths, and the tag that is meant without one.
	local deep
	deep=$(layout_of a/b_c/d-e/f.g --busybox --env DEEP=1)
	pulls "$(digest_of "$deep")" "$FAULTS/a/b_c/d-e/f.g"
	assert_match "$(names)" "$FAULTS/a/b_c/d-e/f.g:latest "
}

# bats test_tags=user
@test "K45: what is no name is refused before anything is asked" {
	local name
	for name in 'UPPER case' "$FAULTS/Team/app" "$FAULTS/team//app" "$FAULTS/team/app:a:b" \
		"$FAULTS/team/app@sha256:12" "$FAULTS/team/app:-x" "http://$FAULTS/team/app" "$FAULTS/team/../app" ''; do
		run --separate-stderr holt pull -q "$name"
		((status != 0)) || fail "'$name' was pulled"
	done
	untouched
	assert_equal requests "$(count true)" 0
}

# bats test_tags=user
@test "K45: a tag, a repository or a registry that is not there is told as such" {
	refuses nosuch "$FAULTS/team/app:nosuch"
	refuses nothere "$FAULTS/team/nothere:v1"
	assert_equal 'requests, none of which is tried again' "$(count '.path | contains("/manifests/")')" 2
	# Nobody listens there.
	refuses 127.0.0.1:9 127.0.0.1:9/team/app:v1
}

# bats test_tags=user
@test "K45: a name without a registry is Docker Hub's; its mirror is asked for library/NAME" {
	local hub
	hub=$(layout_of library/hubapp --busybox --env HUB=1)
	mkdir -m 700 "$HOLT_HOME"
	printf 'registries:\n  docker.io:\n    mirrors: ["http://%s"]\n' "$FAULTS" >"$HOLT_HOME/registries.yaml"
	pulls "$(digest_of "$hub")" hubapp
	assert_equal name "$(names)" 'hubapp:latest '
	assert_equal path "$(requests '.path | contains("/manifests/latest")' | jq -r .path | sort -u)" \
		/v2/library/hubapp/manifests/latest
	pulls "$(digest_of "$hub")" docker.io/library/hubapp:latest
}

# bats test_tags=user
@test "K45: mirrors are asked in order, and where one fails the next, on another host, then the registry" {
	mkdir -m 700 "$HOLT_HOME"
	cat >"$HOLT_HOME/registries.yaml" <<-END
		registries:
		  $FAULTS:
		    mirrors: ["http://$FAULTS_PORT", "http://$FAULTS_HOST"]
	END
	# The first has it: nobody else is asked.
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	assert_equal listeners "$(requests true | jq .listener | sort -u)" 1
	assert_equal name "$(names)" "$FAULTS/team/app:v1 "
	holt image rm "$FAULTS/team/app:v1" >/dev/null
	rm -rf "$HOLT_HOME/images"

	# Nobody listens at the first, the second does not have the image, the third has no blobs.
	cat >"$TEST_DIR/registries.yaml" <<-END
		registries:
		  $FAULTS:
		    mirrors: ["http://127.0.0.1:9", "http://$FAULTS_PORT", "http://$FAULTS_HOST"]
	END
	mv "$TEST_DIR/registries.yaml" "$HOLT_HOME/"
	faults '{"on": ".", "port": 1, "status": 404}' '{"on": "GET .*blobs", "port": 2, "status": 404}'
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	requests '.listener == 0 and .status == 200 and .method == "GET"' | jq -r .path | grep -qF "$LAYER1" ||
		fail "the registry did not give the layer: $(requests true)"
}

# bats test_tags=user
@test "K45: an index gives the image of this platform, also through another index and docker's list" {
	local dir manifest list size
	dir=$(layout_of team/many --busybox --env MANY=1)
	manifest=$(digest_of "$dir")
	size=$(manifest_of "$dir" | wc -c)
	list=$(jq -nc --arg d "$manifest" --argjson s "$size" '
		def entry($a; $d): {mediaType: "application/vnd.oci.image.manifest.v1+json", size: $s, digest: $d,
			platform: {os: "linux", architecture: $a}};
		{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: [
			entry("arm64"; "sha256:" + "1" * 64), entry("amd64"; $d),
			(entry("unknown"; "sha256:" + "2" * 64) | .platform.os = "unknown")]}')
	put_manifest "$dir" "$list" >/dev/null
	pulls "$manifest" "$FAULTS/team/many:v1"
	pulls "$manifest" --platform linux/amd64 "$FAULTS/team/many:v1"
	assert_equal 'other platforms asked for' "$(count '.path | test("1111|2222")')" 0

	# Without a mediaType, and docker's.
	put_manifest "$dir" "$(jq -c 'del(.mediaType)' <<<"$list")" bare >/dev/null
	pulls "$manifest" "$FAULTS/team/many:bare"
	put_manifest "$dir" "$(jq -c '.mediaType = "application/vnd.docker.distribution.manifest.list.v2+json"' \
		<<<"$list")" docker >/dev/null
	pulls "$manifest" "$FAULTS/team/many:docker"
	# Also an index costs one request where nothing has changed.
	faults
	pulls "$manifest" "$FAULTS/team/many:docker"
	assert_equal 'requests for what has not changed' "$(count true)" 1
	# By the digest of the index, too.
	pulls "$manifest" "$FAULTS/team/many@$(jq -r '.manifests[0].digest' "$dir/index.json")"
}

# bats test_tags=user
@test "K45: no image for this platform, or another one wanted: told, with what there is" {
	local dir list
	dir=$(layout_of team/arm --busybox --env ARM=1)
	list=$(jq -nc '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: [
		{mediaType: "application/vnd.oci.image.manifest.v1+json", size: 100, digest: ("sha256:" + "1" * 64),
			platform: {os: "linux", architecture: "arm64"}}]}')
	put_manifest "$dir" "$list" >/dev/null
	refuses amd64 "$FAULTS/team/arm:v1"
	run --separate-stderr holt pull -q --platform linux/arm64 "$FAULTS/team/app:v1"
	((status != 0)) || fail "an image for arm64"
	assert_match "$stderr" arm64
}

# bats test_tags=user
@test "K45: manifests of OCI without a mediaType, and docker's schema 2 with docker's types of layers" {
	local dir digest
	dir=$(layout_of team/bare --busybox --env BARE=1)
	digest=$(put_manifest "$dir" "$(manifest_of "$dir" | jq -c 'del(.mediaType)')")
	pulls "$digest" "$FAULTS/team/bare:v1"

	skopeo copy -q -f v2s2 "oci:$APP:app:v1" "dir:$TEST_DIR/v2s2"
	dir=$(layout_of team/schema2 --busybox)
	find "$TEST_DIR/v2s2" -type f ! -name manifest.json ! -name version -exec cp {} "$dir/blobs/sha256/" \;
	assert_equal type "$(jq -r .mediaType "$TEST_DIR/v2s2/manifest.json")" \
		application/vnd.docker.distribution.manifest.v2+json
	digest=$(put_manifest "$dir" "$(<"$TEST_DIR/v2s2/manifest.json")")
	pulls "$digest" "$FAULTS/team/schema2:v1"
}

# bats test_tags=user
@test "K45: an unchanged tag costs one request, and with tokens the login besides" {
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	faults
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	assert_equal requests "$(requests true | jq -r '"\(.path) \(.status)"')" "/v2/team/app/manifests/v1 200"
	faults_config '{"auth": "bearer"}'
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	assert_equal 'answers but those of the login' "$(requests '.status == 200 and (.path | startswith("/v2/"))' |
		jq -r .path)" /v2/team/app/manifests/v1
	assert_between 'all requests' "$(count true)" 3 4
	# By digest it needs none.
	faults
	pulls "$DIGEST" "$FAULTS/team/app@$DIGEST"
	assert_between requests "$(count true)" 0 1
}

# bats test_tags=user
@test "K45: a tag that moved: the name follows, only what is new is loaded, the old image stays" {
	local dir first second
	dir=$(layout_of team/moves --busybox --name app:v1)
	first=$(digest_of "$dir")
	pulls "$first" "$FAULTS/team/moves:v1"
	dir=$(layout_of team/moves --busybox --name app:v1 --layer "$PEERS/small")
	second=$(digest_of "$dir")
	faults
	pulls "$second" "$FAULTS/team/moves:v1"
	assert_equal 'loads of what was there' "$(loads "$(layer_of "$dir" 0)")" 0
	assert_equal 'loads of what is new' "$(loads "$(layer_of "$dir" 1)")" 1
	assert_equal 'the name' "$(holt image inspect "$FAULTS/team/moves:v1" | jq -r '.[0].digest')" "$second"
	assert_equal 'the old one' "$(holt image inspect "$first" | jq -r '.[0].name')" null
}

# bats test_tags=user
@test "K45: quiet prints the digest, a pipe gets plain lines, --json events" {
	run -0 --separate-stderr holt pull -q "$FAULTS/team/app:v1"
	assert_output "$DIGEST"
	[[ -z $stderr ]] || fail "stderr: $stderr"
	rm -rf "$HOLT_HOME/images"
	run -0 holt pull "$FAULTS/team/app:v1"
	[[ $output == *"$DIGEST"* ]] || fail "no digest: $output"
	[[ $output != *$'\r'* && $output != *$'\e'* ]] || fail "not plain: $output"
	rm -rf "$HOLT_HOME/images"
	run -0 --separate-stderr holt pull --json "$FAULTS/team/app:v1"
	jq -es --arg d "$DIGEST" --arg l "$LAYER1" 'length > 3 and any(.[]; .digest == $d) and any(.[]; .digest == $l)' \
		<<<"$output" >/dev/null || fail "events: $output"
}
