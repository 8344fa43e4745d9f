#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# holt image: the verbs, what they print, and how they fail. No machine is started.

load ../lib/common

setup() {
	common_setup
	# A home for each test.
	export HOLT_HOME=$TEST_DIR/home-$BATS_TEST_NUMBER
}

digest_of() {
	jq -r '.manifests[0].digest' "$1/index.json"
}

# fails CODE TEXT ARGUMENT...: exit status, nothing on stdout, an error of holt that has TEXT.
fails() {
	run --separate-stderr holt "${@:3}"
	assert_status "$1"
	assert_output ''
	assert_match "$stderr" '^holt: '
	[[ $stderr == *"$2"* ]] || fail "the error lacks '$2': $stderr"
}

@test "import prints the digest; ls and inspect show what is there" {
	local layout digest
	layout=$(layout --busybox --env A=b --user agent --workdir /srv --entrypoint '["/bin/sh"]' --cmd '["-c","x"]')
	digest=$(digest_of "$layout")
	run -0 --separate-stderr holt image import "$layout" --name demo
	assert_output "$digest"
	[[ -z $stderr ]] || fail "stderr: $stderr"

	run -0 --separate-stderr holt image ls
	assert_match "${lines[0]}" '^NAME +DIGEST +SIZE +IMPORTED$'
	assert_match "${lines[1]}" "^demo:latest +${digest:7:12} +[0-9.]+ [kM]B +[0-9-]{10} [0-9:]{5}$"
	assert_equal "number of lines" "${#lines[@]}" 2
	run -0 holt image ls -q
	assert_output "$digest"

	run -0 --separate-stderr holt image inspect demo
	local json=$output
	jq -e --arg d "$digest" 'length == 1 and .[0].name == "demo:latest" and .[0].digest == $d
		and .[0].layers == 1 and .[0].architecture == "amd64" and .[0].os == "linux"
		and (.[0].size_bytes | type == "number" and . > 500000)
		and (.[0].rootfs_digest | test("^(sha256:)?[0-9a-f]{64}$"))
		and (.[0].imported | test("^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z$"))
		and (.[0].config.env | index("A=b")) and .[0].config.user == "agent"
		and .[0].config.working_dir == "/srv" and .[0].config.entrypoint == ["/bin/sh"]
		and .[0].config.cmd == ["-c", "x"]' <<<"$json" >/dev/null || fail "inspect: $json"
	# The same object in ls and from import.
	assert_equal "ls --json" "$(holt image ls --json | jq -S .)" "$(jq -S . <<<"$json")"
	assert_equal "import --json" "$(holt image import "$layout" --name demo --json | jq -S 'del(.imported)')" \
		"$(jq -S '.[0] | del(.imported)' <<<"$json")"
}

@test "an empty store: ls prints its head, JSON an empty list" {
	run -0 holt image ls
	assert_equal "number of lines" "${#lines[@]}" 1
	run -0 holt image ls -q
	assert_output ''
	run -0 holt image ls --json
	assert_equal "JSON" "$(jq -c . <<<"$output")" '[]'
}

@test "names: default tag, the layout's own, several of one image, a name that moves, none" {
	local first second own
	first=$(layout --busybox)
	second=$(layout --busybox --env X=y)
	own=$(layout --busybox --name from-layout:v2)
	holt image import "$first" --name a >/dev/null
	holt image import "$first" --name registry.example.org:5000/team/b:v1.0 >/dev/null
	holt image import "$own" >/dev/null
	assert_equal "names" "$(holt image ls --json | jq -r '.[].name' | sort | tr '\n' ' ')" \
		'a:latest from-layout:v2 registry.example.org:5000/team/b:v1.0 '
	# The name moves to what was imported last.
	holt image import "$second" --name a:latest >/dev/null
	assert_equal "digest of a" "$(holt image inspect a | jq -r '.[0].digest')" "$(digest_of "$second")"
	assert_equal "digest of b" "$(holt image inspect registry.example.org:5000/team/b:v1.0 | jq -r '.[0].digest')" \
		"$(digest_of "$first")"
	# By digest, and by its beginning.
	local digest
	digest=$(digest_of "$second")
	assert_equal "by digest" "$(holt image inspect "$digest" | jq -r '.[0].digest')" "$digest"
	assert_equal "by prefix" "$(holt image inspect "${digest:7:12}" | jq -r '.[0].digest')" "$digest"
	run -0 holt image import "$(layout --busybox --env Z=1)"
	jq -e --arg d "$output" '.[] | select(.digest == $d) | .name == null' <<<"$(holt image ls --json)" >/dev/null ||
		fail "no unnamed image in: $(holt image ls --json)"
}

@test "K44: tag gives a name more, and moves one: the image that had it stays, without a name if need be" {
	local first second
	first=$(holt image import "$(layout --busybox)" --name a)
	second=$(holt image import "$(layout --busybox --env Z=2)" --name b)
	run -0 holt image tag a c:v1
	assert_output ''
	assert_equal "c" "$(holt image inspect c:v1 | jq -r '.[0].digest')" "$first"
	run -0 holt image tag "${second:7:12}" c:v1
	assert_equal "c now" "$(holt image inspect c:v1 | jq -r '.[0].digest')" "$second"
	assert_equal "a still" "$(holt image inspect a | jq -r '.[0].digest')" "$first"
	run -0 holt image tag b a
	assert_equal "the first, without a name" "$(holt image ls --json | jq -r --arg d "$first" '.[] | select(.digest == $d).name')" null
	fails 1 "'nosuch'" image tag nosuch x
	fails 1 'not an image reference' image tag b "x@$first"
	run -2 --separate-stderr holt image tag b
	assert_match "$stderr" 'tag takes'
	assert_equal "names" "$(holt image ls --json | jq -c '[.[].name]')" '["a:latest","b:latest","c:v1",null]'
}

@test "history: the steps as the configuration has them, the newest first, cut for people and whole as JSON" {
	local dir=$BATS_TEST_TMPDIR/h config manifest long
	cp -r "$(layout --busybox)" "$dir"
	manifest=$(jq -r '.manifests[0].digest | ltrimstr("sha256:")' "$dir/index.json")
	config=$(jq -r '.config.digest | ltrimstr("sha256:")' "$dir/blobs/sha256/$manifest")
	long=$(printf 'x%.0s' {1..80})
	# A step with everything, one with nothing, one that is not even an object.
	jq -c --arg l "$long" '.history = [{"created": "2026-01-02T03:04:05.678Z", "created_by": ("RUN " + $l + "\t\"q\""),
		"comment": "first"}, {"empty_layer": true, "created_by": 7}, "odd"]' "$dir/blobs/sha256/$config" >"$dir/new"
	size=$(stat -c %s "$dir/new")
	sum=$(sha256sum <"$dir/new" | cut -d ' ' -f 1)
	mv "$dir/new" "$dir/blobs/sha256/$sum"
	jq -c --arg d "sha256:$sum" --argjson s "$size" '.config.digest = $d | .config.size = $s' "$dir/blobs/sha256/$manifest" >"$dir/new"
	size=$(stat -c %s "$dir/new")
	sum=$(sha256sum <"$dir/new" | cut -d ' ' -f 1)
	mv "$dir/new" "$dir/blobs/sha256/$sum"
	jq -c --arg d "sha256:$sum" --argjson s "$size" '.manifests[0].digest = $d | .manifests[0].size = $s' "$dir/index.json" >"$dir/new"
	mv "$dir/new" "$dir/index.json"
	holt image import "$dir" --name told >/dev/null
	run -0 holt image history --json told
	jq -e --arg l "$long" '. == [{"created": "", "created_by": "", "comment": "", "empty_layer": false},
		{"created": "", "created_by": "", "comment": "", "empty_layer": true},
		{"created": "2026-01-02T03:04:05.678Z", "created_by": ("RUN " + $l + "\t\"q\""), "comment": "first",
		"empty_layer": false}]' <<<"$output" >/dev/null || fail "$output"
	run -0 holt image history told
	assert_match "${lines[0]}" '^CREATED +CREATED BY +LAYER +COMMENT'
	assert_match "${lines[2]}" ' no '
	assert_match "${lines[3]}" '^2026-01-02T03:04:05 +RUN x{56}\.\.\. +yes +first'
	run -0 holt image history --no-trunc told
	assert_match "${lines[3]}" "RUN $long"
	holt image import "$(layout --busybox)" --name untold >/dev/null
	run -0 holt image history --json untold
	jq -e 'type == "array"' <<<"$output" >/dev/null || fail "$output"
	fails 1 "'nosuch'" image history nosuch
}

@test "rm removes a name, and the image with its last one" {
	local layout
	layout=$(layout --busybox)
	holt image import "$layout" --name a >/dev/null
	holt image import "$layout" --name b >/dev/null
	assert_equal "files" "$(find "$HOLT_HOME/images/rootfs" -type f | wc -l)" 1
	run -0 holt image rm a
	assert_output a
	run -0 holt image inspect b
	run -0 holt image rm b:latest
	assert_equal "list" "$(holt image ls -q)" ''
	assert_equal "files left" "$(find "$HOLT_HOME/images/rootfs" -type f)" ''
	fails 1 "'b'" image rm b
	# Several at once: what exists goes, and the missing one makes the status.
	holt image import "$layout" --name c >/dev/null
	run --separate-stderr holt image rm nosuch c
	assert_status 1
	assert_output c
	assert_match "$stderr" "'nosuch'"
	assert_equal "list" "$(holt image ls -q)" ''
}

@test "a plain root file system: tar, tar.gz, tar.zst, tar.xz" {
	local dir=$TEST_DIR/plain
	mkdir -p "$dir/bin"
	cp "$(command -v busybox)" "$dir/bin/sh"
	tar -C "$dir" -cf "$dir.tar" .
	gzip -k "$dir.tar"
	zstd -q "$dir.tar"
	xz -k "$dir.tar"
	local kind digests=()
	for kind in tar tar.gz tar.zst tar.xz; do
		run -0 --separate-stderr holt image import "$dir.$kind" --name "plain:$kind"
		assert_match "$output" '^sha256:[0-9a-f]{64}$'
		digests+=("$(holt image inspect "plain:$kind" | jq -r '.[0].rootfs_digest')")
	done
	assert_equal "different file systems" "$(printf '%s\n' "${digests[@]}" | sort -u | wc -l)" 1
}

@test "K48: failures name the thing and the reason, and leave the store as it was" {
	local layout dir
	layout=$(layout --busybox)
	holt image import "$layout" --name good >/dev/null
	fails 1 "'/no/such/path'" image import /no/such/path
	run --separate-stderr holt image inspect nosuch
	assert_status 1
	assert_match "$stderr" "^holt: .*'nosuch'"
	assert_match "$stderr" $'\nhint: .*holt image ls'
	fails 1 "'UPPER case!'" image import "$layout" --name 'UPPER case!'

	# A layer that is not what its digest says; not one that is in the store already.
	mkdir "$TEST_DIR/noisy"
	head -c 300000 /dev/urandom >"$TEST_DIR/noisy/noise"
	dir=$(layout --layer "$TEST_DIR/noisy")
	local blob
	blob=$(find "$dir/blobs/sha256" -type f -size +200k)
	printf 'x' | dd of="$blob" bs=1 seek=100000 conv=notrunc status=none
	fails 1 "$dir" image import "$dir" --name bad
	assert_match "$stderr" 'digest|sha256'
	# One that is missing.
	rm "$blob"
	fails 1 "$dir" image import "$dir" --name bad
	# No layout at all, and noise instead of a tar.
	mkdir "$TEST_DIR/nothing"
	fails 1 "$TEST_DIR/nothing" image import "$TEST_DIR/nothing"
	head -c 100000 /dev/urandom >"$TEST_DIR/noise"
	fails 1 "$TEST_DIR/noise" image import "$TEST_DIR/noise"
	# Another architecture.
	dir=$(layout --busybox)
	layout_config "$dir" '.architecture = "arm64"'
	fails 1 arm64 image import "$dir" --name bad

	assert_equal "the store" "$(holt image ls --json | jq -r '.[].name')" good:latest
	assert_equal "files" "$(cd "$HOLT_HOME/images" && find . -path './tmp/*' -o -path './rootfs/*' | wc -l)" 1
}

@test "the digest of the layout is checked on every way in: config and manifest too" {
	local dir manifest config
	dir=$(layout --busybox)
	manifest=$(digest_of "$dir")
	config=$(jq -r '.config.digest' "$dir/blobs/sha256/${manifest#sha256:}")
	sed -i 's/"amd64"/"amd64" /' "$dir/blobs/sha256/${config#sha256:}"
	fails 1 "${config#sha256:}" image import "$dir" --name bad
	dir=$(layout --busybox)
	manifest=$(digest_of "$dir")
	echo >>"$dir/blobs/sha256/${manifest#sha256:}"
	fails 1 "${manifest#sha256:}" image import "$dir" --name bad
}

@test "output that cannot be written is a failure" {
	run bash -c '"$HOLT" image ls >/dev/full'
	assert_status 1
	assert_match "$output" '^holt: cannot write to stdout: No space left on device$'
	run bash -c '"$HOLT" --help >/dev/full'
	assert_status 1
}

@test "two imports and a remove at once in one home" {
	local a b i pids=() code=0
	a=$(layout --busybox --env A=1)
	b=$(layout --busybox --env B=1)
	for i in 1 2 3 4; do
		"$HOLT" image import "$a" --name "a:$i" >/dev/null 3>&- &
		pids+=($!)
		"$HOLT" image import "$b" --name "b:$i" >/dev/null 3>&- &
		pids+=($!)
		"$HOLT" image ls >/dev/null 3>&- &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || code=$?
	done
	assert_equal "exit codes" "$code" 0
	assert_equal "names" "$(holt image ls --json | jq -r '.[].name' | sort | tr '\n' ' ')" \
		'a:1 a:2 a:3 a:4 b:1 b:2 b:3 b:4 '
}
