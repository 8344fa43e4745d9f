#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # variables of bats and tests/lib
# Registries that lie, and what would be too much: a typed error, bounded memory, the store untouched.

load ../lib/common
load ../lib/registry
load pulling

# then_well: nothing of it is in the way of the next pull.
then_well() {
	faults
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	holt image rm "$FAULTS/team/app:v1" >/dev/null
	rm -rf "$HOLT_HOME/images"
}

@test "K45 a blob that is not what its digest says, or too short: refused, and not kept" {
	local rule
	for rule in '"flip": true' '"short": 9'; do
		faults '{"on": "GET .*'"$LAYER1"'", '"$rule"'}'
		refuses 'layer 2 of 3' "$FAULTS/team/app:v1"
		[[ ! -e $(blob "$LAYER1") ]] || fail "kept as if it were right: $rule"
		then_well
	done
}

@test "K45 more than there should be, or said to be: refused, or what is behind the end left out" {
	local rule
	for rule in '"long": 9' '"long": 9, "chunked": true' '"length": 9'; do
		faults '{"on": "GET .*'"$LAYER1"'", '"$rule"'}'
		run --separate-stderr holt pull -q "$FAULTS/team/app:v1"
		if ((status == 0)); then
			assert_output "$DIGEST"
			assert_equal 'the blob' "sha256:$(sha256sum <"$(blob "$LAYER1")" | cut -c 1-64)" "$LAYER1"
			rm -rf "$HOLT_HOME/images"
		else
			untouched
		fi
		then_well
	done
}

@test "K45 a configuration that is not what its digest says is refused" {
	local config
	config=$(manifest_of "$APP" | jq -r .config.digest)
	faults '{"on": "GET .*'"$config"'", "flip": true}'
	refuses '' "$FAULTS/team/app:v1"
	then_well
}

@test "K45 a manifest by digest that is another one is refused" {
	local other
	other=$(manifest_of "$(layout_of team/liar --busybox --env LIAR=1)")
	faults "$(jq -nc --arg t "$other" '{on: "/manifests/sha256", text: $t}')"
	refuses '' "$FAULTS/team/app@$DIGEST"
	then_well
}

@test "K45 what is no manifest: HTML, schema 1, huge, a list of lists without end" {
	local dir text digest
	faults '{"on": "/manifests/", "text": "<html><title>Log in</title>", "type": "text/html"}'
	refuses '' "$FAULTS/team/app:v1"
	faults '{"on": "/manifests/", "type": "application/vnd.docker.distribution.manifest.v1+prettyjws",
		"text": "{\"schemaVersion\": 1, \"name\": \"team/app\", \"tag\": \"v1\", \"fsLayers\": [], \"history\": []}"}'
	refuses 'schema' "$FAULTS/team/app:v1"
	faults '{"on": "/manifests/", "pad": 64}'
	refuses '' "$FAULTS/team/app:v1"
	(($(requests true | jq .sent | sort -n | tail -n 1) < 40000000)) || fail "it was read to its end"

	dir=$(layout_of team/deep --busybox --env DEEP=2)
	text=$(manifest_of "$dir")
	digest=$(digest_of "$dir")
	for _ in $(seq 40); do
		text=$(jq -nc --arg d "$digest" --argjson s "${#text}" '{schemaVersion: 2,
			mediaType: "application/vnd.oci.image.index.v1+json", manifests: [
			{mediaType: "application/vnd.oci.image.index.v1+json", digest: $d, size: $s,
				platform: {os: "linux", architecture: "amd64"}}]}')
		digest=$(put_manifest "$dir" "$text")
	done
	faults
	refuses '' "$FAULTS/team/deep:v1"
	assert_between requests "$(count true)" 2 20
	# It says that it is its own list.
	text='{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [{
		"mediaType": "application/vnd.oci.image.index.v1+json", "size": 100, "digest": "sha256:'$(printf '1%.0s' {1..64})'"}]}'
	faults "$(jq -nc --arg t "$text" '{on: "/manifests/", text: $t, type: "application/vnd.oci.image.index.v1+json"}')"
	refuses '' "$FAULTS/team/app:v1"
	assert_between requests "$(count true)" 2 10
}

@test "K45 headers without end, and a stream behind the end of a blob, are cut" {
	faults '{"on": "/manifests/", "endless": true}'
	refuses '' "$FAULTS/team/app:v1"
	(($(requests true | jq .sent | sort -n | tail -n 1) < 20000000)) || fail "they were read: $(requests true)"
	faults '{"on": "GET .*'"$LAYER2"'", "pad": 300, "chunked": true}'
	run holt pull -q "$FAULTS/team/app:v1"
	(($(requests true | jq .sent | sort -n | tail -n 1) < 40000000)) || fail "it was read: $(requests true)"
	then_well
}

@test "K45 layers larger than what is free here are refused before a byte of them is loaded" {
	local dir text
	dir=$(layout_of team/huge --busybox --env HUGE=1)
	text=$(manifest_of "$dir" | jq -c '.layers[0].size = 1000000000000000')
	put_manifest "$dir" "$text" >/dev/null
	refuses '' "$FAULTS/team/huge:v1"
	assert_match "$stderr" 'space|free|limit|more than|too large'
	assert_equal 'loads of layers' "$(loads "$(jq -r '.layers[0].digest' <<<"$text")")" 0
}

# on_a_disk_of SIZE COMMAND...: the home is a file system of that size, for this command.
on_a_disk_of() {
	local own=(unshare -m)
	((EUID == 0)) || own=(unshare -Urm)
	mkdir -p "$HOLT_HOME"
	# shellcheck disable=SC2016 # for the inner shell
	"${own[@]}" sh -c 'mount -t tmpfs -o mode=700,size="$1" tmpfs "$HOLT_HOME" && shift && exec "$@"' sh "$@"
}

# bats test_tags=user
@test "K45 a disk without room for the image: told before a byte of a layer is loaded" {
	skip_unless 'no file system of its own for this user' on_a_disk_of 1m true
	run --separate-stderr on_a_disk_of 6m timeout 60 "$HOLT" pull -q "$FAULTS/team/app:v1"
	assert_status 1
	assert_match "${stderr,,}" 'space|free|room'
	assert_equal 'loads of layers' "$(loads "$LAYER0") $(loads "$LAYER1") $(loads "$LAYER2")" '0 0 0'
	run -0 --separate-stderr on_a_disk_of 400m timeout 60 "$HOLT" pull -q "$FAULTS/team/app:v1"
	assert_output "$DIGEST"
}

@test "K45 control characters of a registry do not reach the terminal" {
	faults '{"on": "/manifests/", "status": 403,
		"body": "{\"errors\":[{\"code\":\"DENIED\",\"message\":\"\\u001b[31mred\\u0007\"}]}"}'
	refuses '' "$FAULTS/team/app:v1"
	[[ $stderr != *$'\e'* && $stderr != *$'\a'* ]] || fail "as they came: $stderr"
}
