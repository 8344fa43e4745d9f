#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # set by bats' run
# holt sandbox without a machine: what it says about itself, and calls that make no sense.

load ../lib/common

IN_BOX='append download exec glob grep ls mkdir mv read rm stat update write'
OF_POOL='acquire ps release stats'

@test "each verb of sandbox has a help of its own, by both options, of one screen, with an example" {
	local verb line
	for verb in $IN_BOX $OF_POOL; do
		run -0 --separate-stderr --keep-empty-lines holt sandbox "$verb" --help
		assert_match "$output" "^Usage: holt sandbox $verb "
		assert_match "$output" $'\nExample:\n  .*holt sandbox '"$verb "
		((${#lines[@]} <= 24)) || fail "longer than 24 lines: ${#lines[@]}"
		for line in "${lines[@]}"; do
			((${#line} <= 80)) || fail "wider than 80 columns: $line"
		done
		[[ -z $stderr ]]
		local by_long=$output
		run -0 --keep-empty-lines holt sandbox "$verb" -h
		assert_output "$by_long"
		run -0 --keep-empty-lines holt help sandbox "$verb"
		assert_output "$by_long"
	done
}

@test "usage errors of sandbox: 2, of its exec 125, and one line (K48)" {
	local verb
	usage_error 2 sandbox
	assert_match "$stderr" 'say acquire, .* or write;'
	usage_error 2 sandbox fly
	usage_error 2 help sandbox fly
	for verb in ${IN_BOX/exec/}; do
		usage_error 2 sandbox "$verb"
		usage_error 2 sandbox "$verb" box
		usage_error 2 sandbox "$verb" box a b c
		usage_error 2 sandbox "$verb" --no-such-option box a
		assert_match "$stderr" "unknown option '--no-such-option' \('--' stands in front"
		usage_error 2 sandbox "$verb" --timeout soon box a
		usage_error 2 sandbox "$verb" --timeout -1 box a
		usage_error 2 sandbox "$verb" -w relative box a
		usage_error 2 sandbox "$verb" box a --user
	done
	usage_error 125 sandbox exec
	usage_error 125 sandbox exec box
	usage_error 125 sandbox exec box --
	usage_error 125 sandbox exec --timeout soon box true
	usage_error 125 sandbox exec --text --json box true
	usage_error 125 sandbox exec -e =x box true
	usage_error 125 sandbox exec -w relative box true
	usage_error 125 sandbox exec -e NOT_SET_ANYWHERE box true
}

@test "a command is one string: several words are refused, with what to do" {
	usage_error 125 sandbox exec box ls -l
	assert_match "$stderr" 'put it in quotes'
	usage_error 125 sandbox exec box -- ls -l
	usage_error 125 sandbox exec -- box -- ls -l
	usage_error 125 sandbox exec box --timeout 1s 'ls -l'
	assert_match "$stderr" 'options stand in front of BOX'
	usage_error 125 sandbox exec box --text
	usage_error 125 sandbox exec box -- -x -l
	assert_match "$stderr" 'put it in quotes'
}

@test "values that are none" {
	local lines
	for lines in '' : - x 2-5 1:2:3 x:2 99999999999999999999; do
		usage_error 2 sandbox read --lines "$lines" box a
	done
	usage_error 2 sandbox ls --depth -1 box a
	usage_error 2 sandbox ls --depth 1001 box a
	usage_error 2 sandbox ls --max-entries 0 box a
	usage_error 2 sandbox glob --max-results 1000001 box a b
	# This one means "none" to the library.
	usage_error 2 sandbox grep --max-results 4294967295 box a b
	usage_error 2 sandbox grep --glob '' box a b
	usage_error 2 sandbox download --user-data relative box a
	# Options belong to their verbs.
	usage_error 2 sandbox read --json box a
	usage_error 2 sandbox write -r box a
	usage_error 2 sandbox read --all box a
	usage_error 2 sandbox glob --literal box a b
}

@test "usage errors of the verbs of a pool, and of --for and --thread" {
	local verb
	usage_error 2 sandbox acquire
	assert_match "$stderr" 'needs --for USER and --thread T'
	usage_error 2 sandbox acquire --for u --thread t extra
	usage_error 2 sandbox acquire --for u --thread t --ttl 0
	usage_error 2 sandbox acquire --for u --thread t --ttl 25h
	usage_error 2 sandbox acquire --for u --thread t --timeout soon
	usage_error 2 sandbox acquire --for u --thread t -u root
	usage_error 2 sandbox acquire --for u --thread
	usage_error 2 sandbox release
	usage_error 2 sandbox release a b
	usage_error 2 sandbox release --for u --thread t a
	usage_error 2 sandbox release --image demo a
	for verb in ps stats; do
		usage_error 2 sandbox "$verb" extra
		usage_error 2 sandbox "$verb" --for u --thread t
		usage_error 2 sandbox "$verb" --pool ''
	done
	usage_error 2 sandbox stats -q
	for verb in ${IN_BOX/exec/}; do
		usage_error 2 sandbox "$verb" --for u box a b
		assert_match "$stderr" 'belong together'
		usage_error 2 sandbox "$verb" --thread t box a b
		usage_error 2 sandbox "$verb" --image demo box a b
		usage_error 2 sandbox "$verb" --for u --thread t
		assert_match "$stderr" 'takes .* behind --for and --thread'
		usage_error 2 sandbox "$verb" --for u --thread t a b c
	done
	usage_error 125 sandbox exec --for u true
	usage_error 125 sandbox exec --thread t box true
	usage_error 125 sandbox exec --image demo box true
	usage_error 125 sandbox exec --for u --thread t
	usage_error 125 sandbox exec --for u --thread t box true
	usage_error 125 sandbox exec --for u --thread t -- true --text
}

@test "a configuration that is not there: 1, or 125 of exec, by option and by variable (K48)" {
	local verb
	for verb in 'ps' 'stats' 'release x' 'acquire --for u --thread t' 'read box /x'; do
		# shellcheck disable=SC2086 # words
		run --separate-stderr holt sandbox $verb --config /no/such/file
		assert_status 1
		assert_output ''
		assert_match "$stderr" "^holt: .*/no/such/file.*"$'\n'"hint: "
	done
	HOLT_CONFIG=/no/such/file run --separate-stderr holt sandbox exec box true
	assert_status 125
	assert_match "$stderr" "^holt: .*/no/such/file.*"$'\n'"hint: "
	# The option has the last word, and an empty variable is none.
	echo 'sandbox: {}' >"$TEST_DIR/config.yaml"
	HOLT_CONFIG=/no/such/file run -0 holt sandbox ps -q --config "$TEST_DIR/config.yaml"
	HOLT_CONFIG='' run -0 holt sandbox ps -q
	assert_output ''
}

@test "an empty pool: a heading, nothing, counts; a lease of nobody's sandbox is an error" {
	run -0 holt sandbox ps
	assert_output 'SANDBOX ID   USER   THREAD   STATE   SINCE   LEASE   HOLDER'
	run -0 holt sandbox ps --json
	assert_output ''
	run -0 holt sandbox stats
	assert_match "$output" $'^pool +default\nreplicas +3\nactive +0\nwarm +0\nstopped +0\nmaking +0$'
	echo $'sandbox:\n  pool: other\n  replicas: 7' >"$TEST_DIR/config.yaml"
	run -0 holt sandbox stats --json --config "$TEST_DIR/config.yaml"
	assert_output '{"pool":"other","replicas":7,"active":0,"warm":0,"stopped":0,"making":0}'
	run -0 holt sandbox stats --json --config "$TEST_DIR/config.yaml" --pool third
	assert_match "$output" '"pool":"third","replicas":7'
	local id
	for id in 0123456789abcdef ../.. "$(printf '%064d' 0)"; do
		run --separate-stderr holt sandbox release "$id"
		assert_status 1
		assert_match "$stderr" $'^holt: .*\nhint: '
	done
}

@test "an image that is not in the store, and none at all, are told with what to do" {
	run --separate-stderr holt sandbox exec --for u --thread t --pull never --image nothing-such true
	assert_status 125
	assert_output ''
	assert_match "$stderr" "^holt: .*nothing-such.*"$'\n'"hint: .*holt image import"
	run --separate-stderr holt sandbox acquire --for u --thread t
	assert_status 1
	assert_output ''
	assert_match "$stderr" $'^holt: .*image.*\nhint: '
	# Nothing is left of it.
	run -0 holt sandbox ps -q
	assert_output ''
}

@test "the home: HOLT_HOME, else that of the configuration" {
	printf 'sandbox:\n  home: %s\n' "$TEST_DIR/home-configured" >"$TEST_DIR/config.yaml"
	env -u HOLT_HOME "$HOLT" sandbox ps -q --config "$TEST_DIR/config.yaml"
	[[ -d $TEST_DIR/home-configured && ! -e $TEST_DIR/home-other ]]
	rm -r "$TEST_DIR/home-configured"
	HOLT_HOME=$TEST_DIR/home-other holt sandbox ps -q --config "$TEST_DIR/config.yaml"
	[[ ! -e $TEST_DIR/home-configured && -d $TEST_DIR/home-other ]]
}

@test "the manual lists all names that are left out" {
	local names='/^Directories and files with these names/,/^\.Ed/'
	diff <(sed -n "$names"'{s/^\\&//; /^\.B\|^\.Ed\|^Directories\|^or above/d; p}' "$ROOT/man/holt-sandbox.1" | xargs -n 1) \
		<(sed -n 's/^\t"\(.*\)",$/\1/p' "$ROOT/src/sandbox/ignore_list.c")
}

@test "a box that is not there: 1, or 125 of exec, with a hint (K48)" {
	local verb words
	for verb in ${IN_BOX/exec/}; do
		words=(/x)
		[[ ! $verb =~ ^(glob|grep|mv)$ ]] || words=(/x y)
		run --separate-stderr holt sandbox "$verb" no-such-box "${words[@]}" </dev/null
		assert_status 1
		assert_output ''
		assert_match "$stderr" "^holt: .*no-such-box.*"$'\n'"hint: "
	done
	run --separate-stderr holt sandbox exec no-such-box -- true
	assert_status 125
	assert_output ''
	assert_match "$stderr" "^holt: .*no-such-box.*"$'\n'"hint: "
	# Options may stand behind the words; "--" ends them.
	run --separate-stderr holt sandbox rm no-such-box /x -rf
	assert_status 1
	run --separate-stderr holt sandbox grep -- no-such-box /x --dashes
	assert_status 1
}
