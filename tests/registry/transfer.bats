#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # variables of bats and tests/lib
# Blobs on their way: redirects, cuts and what comes after them, registries that want a pause, several
# at once, in one process and in many.

load ../lib/common
load ../lib/registry
load pulling

# pull_in_background REF: its pid in $PULL.
pull_in_background() {
	"$HOLT" pull -q "$1" >"$TEST_DIR/out" 2>"$TEST_DIR/err" </dev/null 3>&- &
	PULL=$!
}

# ranges DIGEST: what was asked for of that blob, in order.
ranges() {
	requests ".method == \"GET\" and (.path | endswith(\"$1\"))" | jq -r '.range // "all"' | tr '\n' ' '
}

@test "K45 redirects: to another port, another host, relative, several; not without end" {
	local where
	for where in 1 2 '"relative"' '"http://127.0.0.1:{other}/v2/team/app/blobs/'"$LAYER1"'"'; do
		rm -rf "$HOLT_HOME/images"
		faults '{"on": "GET .*'"$LAYER1"'$", "port": 0, "times": 1, "redirect": '"$where"'}'
		pulls "$DIGEST" "$FAULTS/team/app:v1"
		assert_equal "redirects to $where" "$(count '.status == 307')" 1
	done
	rm -rf "$HOLT_HOME/images"
	faults '{"on": "GET .*blobs", "redirect": "loop"}'
	refuses "too many" "$FAULTS/team/app:v1"
	assert_between requests "$(count true)" 2 60
	faults '{"on": "GET .*blobs", "redirect": "file:///etc/passwd"}'
	refuses '' "$FAULTS/team/app:v1"
}

# bats test_tags=user
@test "K45 a connection that is cut once, and again and again: it goes on where it was" {
	local size
	size=$(stat -c %s "$APP/blobs/sha256/${LAYER1#sha256:}")
	faults '{"on": "GET .*'"$LAYER1"'", "cut": 1000000, "times": 1}'
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	assert_equal ranges "$(ranges "$LAYER1")" 'all bytes=1000000- '
	assert_equal 'bytes sent in all' "$(requests ".path | endswith(\"$LAYER1\")" | jq .sent | paste -sd+ | bc)" "$size"

	rm -rf "$HOLT_HOME/images"
	faults '{"on": "GET .*'"$LAYER1"'", "cut": 900000}'
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	assert_equal ranges "$(ranges "$LAYER1")" \
		'all bytes=900000- bytes=1800000- bytes=2700000- bytes=3600000- '
}

# Both wait for the same time, so they do it together.
@test "K45 connections that go silent are cut and gone on with; those that bring nothing are given up" {
	local start silent layer pid
	silent=$(layout_of team/silent --busybox --layer "$PEERS/small" --layer "$PEERS/random")
	layer=$(layer_of "$silent" 2)
	start=$(now_ms)
	faults '{"on": "GET .*/team/silent/blobs/'"$layer"'", "stall": 1000000, "times": 1}' \
		'{"on": "GET .*/team/app/blobs/'"$LAYER1"'", "cut": 0}'
	HOLT_HOME=$TEST_DIR/home-silent "$HOLT" pull -q "$FAULTS/team/silent:latest" >"$TEST_DIR/out" \
		2>"$TEST_DIR/err" </dev/null 3>&- &
	pid=$!
	refuses "$FAULTS" "$FAULTS/team/app:v1"
	assert_between tries "$(loads "team/app/blobs/$LAYER1")" 2 25
	wait "$pid" || fail "$(<"$TEST_DIR/err")"
	assert_between ms $(($(now_ms) - start)) 5000 60000
	assert_equal 'what the silent one says' "$(<"$TEST_DIR/out")" "$(digest_of "$silent")"
	assert_match "$(requests ".path | endswith(\"team/silent/blobs/$layer\")" | jq -r '.range // "all"' | sort |
		tr '\n' ' ')" '^all bytes=[0-9]{6,7}- $'
	# Then the registry is well again: only what is missing is loaded.
	faults
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	assert_equal 'loads of what was there' "$(loads "$LAYER2")" 0
}

# bats test_tags=user
@test "K45 killed in the middle (kill -9): the next pull goes on behind what has arrived" {
	local have
	faults '{"on": "GET .*'"$LAYER1"'", "stall": 2000000}'
	pull_in_background "$FAULTS/team/app:v1"
	wait_for 20 has_part "$LAYER1" 1500000
	kill -9 "$PULL"
	run wait "$PULL"
	untouched
	have=$(stat -c %s "$(blob "$LAYER1").part")
	faults
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	assert_equal range "$(ranges "$LAYER1")" "bytes=$have- "
	[[ ! -e $(blob "$LAYER1").part ]] || fail "a part is left"
}

# bats test_tags=user
@test "K45 interrupted (Ctrl-C): ends at once with 130, leaves blobs to go on with and nothing else" {
	local have status=0 start
	faults '{"on": "GET .*'"$LAYER1"'", "stall": 2000000}'
	# A shell without job control starts what it puts into the background deaf to it.
	python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$HOLT" pull -q "$FAULTS/team/app:v1" >"$TEST_DIR/out" 2>"$TEST_DIR/err" </dev/null 3>&- &
	PULL=$!
	wait_for 20 has_part "$LAYER1" 1500000
	start=$(now_ms)
	kill -INT "$PULL"
	wait "$PULL" || status=$?
	assert_equal 'exit status' "$status" 130
	assert_between 'ms to the end' $(($(now_ms) - start)) 0 3000
	[[ ! -s $TEST_DIR/out ]] || fail "stdout: $(<"$TEST_DIR/out")"
	untouched
	have=$(stat -c %s "$(blob "$LAYER1").part")
	faults
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	assert_equal range "$(ranges "$LAYER1")" "bytes=$have- "
}

@test "K45 servers that ignore Range, or answer 416: from the beginning, and right" {
	local rule
	for rule in '"no_range": true' '"status": 416, "times": 1'; do
		rm -rf "$HOLT_HOME/images"
		faults '{"on": "GET .*'"$LAYER1"'", "cut": 1000000, "times": 1}' \
			'{"on": "GET .*'"$LAYER1"'", '"$rule"'}'
		pulls "$DIGEST" "$FAULTS/team/app:v1"
		assert_match "$(ranges "$LAYER1")" '^all bytes=1000000- '
	done
}

@test "K45 servers that answer another range than was asked for, or do not say which: refused or loaded anew" {
	local rule
	for rule in '"wrong_range": true' '"open_range": true'; do
		rm -rf "$HOLT_HOME/images"
		faults '{"on": "GET .*'"$LAYER1"'", "cut": 1000000, "times": 1}' \
			'{"on": "GET .*'"$LAYER1"'", "times": 1, '"$rule"'}'
		run --separate-stderr holt pull -q "$FAULTS/team/app:v1"
		assert_match "$(ranges "$LAYER1")" '^all bytes=1000000- '
		if ((status == 0)); then
			assert_output "$DIGEST"
			rm -rf "$HOLT_HOME/images"
		else
			untouched
		fi
		faults
		pulls "$DIGEST" "$FAULTS/team/app:v1"
	done
}

@test "K45 a part on the disk that is longer than the blob, or not its beginning, is no obstacle" {
	local dir
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	dir=$(dirname "$(blob "$LAYER1")")
	rm -rf "$HOLT_HOME/images"
	pulls "$(digest_of "$(layout_of team/other --busybox --env O=1)")" "$FAULTS/team/other:latest"
	head -c 5000000 /dev/zero >"$dir/${LAYER1#sha256:}.part"
	run holt pull -q "$FAULTS/team/app:v1"
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	holt image rm "$FAULTS/team/app:v1" >/dev/null
	rm -f "$dir"/*
	head -c 100000 /dev/zero >"$dir/${LAYER1#sha256:}.part"
	# It is found out by the digest at the end, and not met again.
	run holt pull -q "$FAULTS/team/app:v1"
	pulls "$DIGEST" "$FAULTS/team/app:v1"
}

@test "K45 429 with Retry-After in seconds and as a date is waited for; a day is not" {
	local start rule
	for rule in '"headers": {"Retry-After": "2"}' '"retry_date": 3'; do
		rm -rf "$HOLT_HOME/images"
		faults '{"on": "GET .*'"$LAYER1"'", "status": 429, "times": 1, '"$rule"'}'
		start=$(now_ms)
		pulls "$DIGEST" "$FAULTS/team/app:v1"
		assert_between 'ms' $(($(now_ms) - start)) 1900 15000
		assert_equal loads "$(loads "$LAYER1")" 2
	done
	# The manifest, too.
	rm -rf "$HOLT_HOME/images"
	faults '{"on": "/manifests/", "status": 429, "times": 1, "headers": {"Retry-After": "1"}}'
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	rm -rf "$HOLT_HOME/images"
	faults '{"on": "/manifests/", "status": 429, "headers": {"Retry-After": "86400"}, "body": "{}"}'
	start=$(now_ms)
	refuses 429 "$FAULTS/team/app:v1"
	assert_between 'ms until it is given up' $(($(now_ms) - start)) 0 40000
}

@test "K45 503 is tried again, within bounds; 403 and 404 of a blob are not" {
	faults '{"on": "GET .*'"$LAYER1"'", "status": 503, "times": 2}'
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	assert_equal loads "$(loads "$LAYER1")" 3
	rm -rf "$HOLT_HOME/images"
	faults '{"on": "/manifests/", "status": 503}'
	refuses 503 "$FAULTS/team/app:v1"
	assert_between requests "$(count true)" 2 6
	local status
	for status in 403 404; do
		faults '{"on": "GET .*'"$LAYER1"'", "status": '$status'}'
		refuses "${LAYER1:7:12}" "$FAULTS/team/app:v1"
		assert_equal "loads after $status" "$(loads "$LAYER1")" 1
	done
}

# bats test_tags=user
@test "K45 blobs are loaded at the same time" {
	faults '{"on": "GET .*/blobs/", "delay": 1}'
	pulls "$DIGEST" "$FAULTS/team/app:v1"
	requests '.path | contains("/blobs/")' | jq -es '
		[.[] as $a | [.[] | select(.begun <= $a.begun and .ended > $a.begun)] | length] | max >= 2' >/dev/null ||
		fail "one after the other: $(requests true)"
}

# bats test_tags=user
@test "K45 several processes that pull one image load each blob once; two images share what they share" {
	local i pids=() other
	other=$(layout_of team/sharing --busybox --layer "$PEERS/random" --env SHARING=1)
	faults '{"on": "GET .*/blobs/", "rate": 4000000}'
	for i in 1 2 3 4 5; do
		"$HOLT" pull -q "$FAULTS/team/app:v1" >"$TEST_DIR/out.$i" 2>"$TEST_DIR/err.$i" </dev/null 3>&- &
		pids+=($!)
	done
	"$HOLT" pull -q "$FAULTS/team/sharing:latest" >"$TEST_DIR/out.other" 2>"$TEST_DIR/err.other" </dev/null 3>&- &
	pids+=($!)
	for i in "${pids[@]}"; do
		wait "$i" || fail "one failed: $(cat "$TEST_DIR"/err.*)"
	done
	assert_equal 'what they say' "$(sort -u "$TEST_DIR"/out.[1-5])" "$DIGEST"
	assert_equal 'what the other says' "$(<"$TEST_DIR/out.other")" "$(digest_of "$other")"
	assert_equal 'most loads of a blob' "$(requests '.method == "GET" and (.path | contains("/blobs/"))' |
		jq -r '.path | split("/") | last' | sort | uniq -c | sort -n | tail -n 1 | awk '{print $1}')" 1
}

# bats test_tags=user
@test "K45 the one that pulls is killed while others wait: one of them goes on, each blob is loaded on" {
	local first second
	faults '{"on": "GET .*'"$LAYER1"'", "stall": 2000000, "times": 1}'
	pull_in_background "$FAULTS/team/app:v1"
	first=$PULL
	wait_for 20 has_part "$LAYER1" 1500000
	pull_in_background "$FAULTS/team/app:v1"
	second=$PULL
	sleep 0.5
	kill -9 "$first"
	run wait "$first"
	wait "$second" || fail "$(<"$TEST_DIR/err")"
	assert_equal 'what it says' "$(<"$TEST_DIR/out")" "$DIGEST"
	assert_match "$(ranges "$LAYER1")" '^all bytes=[0-9]+- $'
	# What the first has left goes when the store is opened next.
	pulls "$DIGEST" "$FAULTS/team/app:v1"
}
