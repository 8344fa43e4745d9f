# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154 # variables of bats
# Loaded by the files of tests/registry after lib/common and lib/registry: a faulty registry with an
# image in it, $FAULTS/team/app:v1 with the layout $APP, and an empty home for each test.
#
# Its layers, $LAYER0 to $LAYER2, are busybox, four megabytes that cannot be compressed, and a file.

# What waits for ever is a failure before the test's own limit.
holt() {
	timeout 100 "$HOLT" "$@"
}

setup_file() {
	common_setup_file
	peers_setup
	faults_start
	pulling_layout
}

teardown_file() {
	local status=0
	peers_stop || status=1
	common_teardown_file && return $status
}

setup() {
	common_setup
	export HOLT_HOME=$TEST_DIR/home-$BATS_TEST_NUMBER
	export DOCKER_CONFIG=$PEERS/docker-$BATS_TEST_NUMBER
	mkdir -p "$DOCKER_CONFIG"
	faults
}

pulling_layout() {
	mkdir -p "$PEERS/random" "$PEERS/small" "$FAULTS_ROOT/team"
	head -c 4000000 /dev/urandom >"$PEERS/random/random"
	echo small >"$PEERS/small/small"
	export APP=$FAULTS_ROOT/team/app
	"$ROOT/tools/mkimage" "$APP" --busybox --name app:v1 --layer "$PEERS/random" --layer "$PEERS/small" >/dev/null
	export LAYER0 LAYER1 LAYER2 DIGEST
	LAYER0=$(layer_of "$APP" 0) LAYER1=$(layer_of "$APP" 1) LAYER2=$(layer_of "$APP" 2)
	DIGEST=$(digest_of "$APP")
}

# layout_of REPOSITORY [MKIMAGE-OPTION...]: another one, anew; prints its path.
layout_of() {
	local dir=$FAULTS_ROOT/$1
	mkdir -p "${dir%/*}"
	"$ROOT/tools/mkimage" "$dir" "${@:2}" >/dev/null
	echo "$dir"
}

# put_manifest LAYOUT TEXT [NAME]: the layout has this manifest or index, and the tag NAME (v1) means it.
# Prints its digest.
put_manifest() {
	local dir=$1/blobs/sha256 digest
	printf '%s' "$2" >"$dir/new"
	digest=$(blob_name "$dir")
	jq -nc --arg d "sha256:$digest" --argjson s "$(stat -c %s "$dir/$digest")" --arg n "app:${3:-v1}" '
		{schemaVersion: 2, manifests: [{mediaType: "application/vnd.oci.image.manifest.v1+json",
			digest: $d, size: $s, annotations: {"org.opencontainers.image.ref.name": $n}}]}' >"$1/index.json"
	echo "sha256:$digest"
}

# manifest_of LAYOUT: its text.
manifest_of() {
	cat "$1/blobs/sha256/$(jq -r '.manifests[0].digest[7:]' "$1/index.json")"
}

# pulls DIGEST ARGUMENT...: `holt pull -q` succeeds with that image.
pulls() {
	local wanted=$1
	shift
	run --separate-stderr holt pull -q "$@"
	assert_status 0
	assert_output "$wanted"
	assert_equal 'digest in the store' "$(holt image inspect "$wanted" | jq -r '.[0].digest')" "$wanted"
}

# refuses TEXT ARGUMENT...: `holt pull` fails with an error that has TEXT, and there is no image.
refuses() {
	local text=$1
	shift
	run --separate-stderr holt pull -q "$@"
	assert_status 1
	assert_output ''
	assert_match "$stderr" '^holt: '
	[[ ${stderr,,} == *"${text,,}"* ]] || fail "the error lacks '$text': $stderr"
	untouched
}

# No image in the store, not even a part of one; what arrived of blobs may be kept.
untouched() {
	local files
	assert_equal images "$(holt image ls -q)" ''
	files=$(cd "$HOLT_HOME" && find . -type f \( -path '*/rootfs/*' -o -path '*/tmp/*' -o -name '*.tmp' \))
	[[ -z $files ]] || fail "files in the store:" "$files"
}

# blob DIGEST: the path of that blob in the store, which need not be there.
blob() {
	echo "$HOLT_HOME/images/blobs/${1#sha256:}"
}

# has_part DIGEST BYTES: so many of it, or more, have arrived.
has_part() {
	(($(stat -c %s "$(blob "$1").part") >= $2))
}

# loads DIGEST: how often that blob was asked for.
loads() {
	count ".method == \"GET\" and (.path | endswith(\"$1\"))"
}
