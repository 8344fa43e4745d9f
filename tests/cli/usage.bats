#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # set by bats' run
# What the program says about itself, and about calls that make no sense.

load ../lib/common

@test "version names one version, the one of the build" {
	run -0 --separate-stderr holt version
	assert_match "$output" "^holt [0-9]+\.[0-9]+\.[0-9]+$"
	[[ -z $stderr ]]
}

# As the help lists them.
verbs() {
	holt --help | sed -n '/^Verbs/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

@test "help lists the verbs on stdout" {
	run -0 --separate-stderr holt --help
	for verb in config cp doctor events exec image inspect kill logs pause prune ps pull rename restart rm run \
		sandbox start stats stop system template unpause version wait; do
		assert_match "$output" $'\n'"  $verb "
	done
	assert_equal "number of verbs" "$(verbs | wc -l)" 27
	[[ -z $stderr ]]
	local by_option=$output
	run -0 holt help
	assert_output "$by_option"
}

@test "help of each verb: the same by both ways of asking" {
	for verb in $(verbs); do
		run -0 holt help "$verb"
		local by_help=$output
		run -0 holt "$verb" --help
		assert_output "$by_help"
	done
}

@test "every help text fits on a screen of 80 columns and has an example" {
	local verb line most
	for verb in '' $(verbs); do
		# shellcheck disable=SC2086 # no verb means no argument
		run -0 --keep-empty-lines holt $verb --help
		for line in "${lines[@]}"; do
			((${#line} <= 80)) || fail "wider than 80 columns: $line"
		done
		assert_match "$output" $'\nExample:\n  .*holt '
		# The list of verbs, the options of run and the verbs of sandbox are more than a screen's
		# 24 lines.
		most=24
		[[ -n $verb && $verb != run && $verb != sandbox ]] || most=48
		((${#lines[@]} <= most)) || fail "'$verb': longer than $most lines: ${#lines[@]}"
	done
}

@test "usage errors of run: 125 and one line (K48)" {
	usage_error 125 run
	usage_error 125 run --no-such-option demo
	usage_error 125 run --memory
	usage_error 125 run --memory lots demo
	usage_error 125 run --memory 0 demo
	usage_error 125 run --cpus 0 demo
	usage_error 125 run --cpus 1.5 demo
	usage_error 125 run --timeout -1 demo
	usage_error 125 run --timeout 10x demo
	usage_error 125 run -w relative demo
	usage_error 125 run -e =x demo
	usage_error 125 run -e '' demo
	usage_error 125 run --disk none demo
	usage_error 125 run --log-size x demo
	usage_error 125 run --pids-limit 0 demo
	usage_error 125 run --replay-size much demo
	usage_error 125 run --stop-signal SIGNOTHING demo
	usage_error 125 run --stop-signal 65 demo
	usage_error 125 run --stop-timeout soon demo
	usage_error 125 run --env-file /no/such/file demo
	# What is known from docker and not there yet is refused, not passed over.
	usage_error 125 run -v /a:/b demo
	assert_match "$stderr" 'not supported yet'
}

@test "usage errors of exec: 125 and one line (K48)" {
	usage_error 125 exec
	usage_error 125 exec box
	usage_error 125 exec --no-such-option box true
	usage_error 125 exec -w relative box true
	usage_error 125 exec --attach first box
	usage_error 125 exec --attach 1 box true
	usage_error 125 exec --attach 1 -e A=1 box
	usage_error 125 exec -v /a:/b box true
}

@test "-t with -i needs a terminal: 125 (K22)" {
	usage_error 125 run -it demo sh </dev/null
	assert_match "$stderr" 'needs a terminal'
	usage_error 125 exec -ti box sh </dev/null
}

@test "--env-file: lines that cannot be one are refused, with the file's name" {
	echo 'A B=1' >"$TEST_DIR/env"
	usage_error 125 run --env-file "$TEST_DIR/env" demo
	assert_match "$stderr" "$TEST_DIR/env"
	echo '=1' >"$TEST_DIR/env"
	usage_error 125 run --env-file "$TEST_DIR/env" demo
	head -c 3000000 /dev/zero | tr '\0' 'x' >"$TEST_DIR/env"
	usage_error 125 run --env-file "$TEST_DIR/env" demo
	usage_error 125 run --env-file "$TEST_DIR" demo
}

@test "an argument cannot write to the terminal through an error" {
	usage_error 2 $'f\e[31mly'
	assert_match "$stderr" 'f\\x1b\[31mly'
	run --separate-stderr holt rm $'no-such\e]0;x\abox'
	assert_status 1
	[[ $stderr != *$'\e'* ]] || fail "an escape went through: $stderr"
}

@test "without a verb: the help, and the status of a usage error" {
	run -2 --separate-stderr holt
	assert_match "$output" '^Usage: holt '
}

@test "usage errors of the other verbs: 2 and one line (K48)" {
	usage_error 2 fly
	usage_error 2 help fly
	usage_error 2 image
	usage_error 2 image fly
	usage_error 2 image import
	usage_error 2 image import a b
	usage_error 2 image import --name
	usage_error 2 image inspect
	usage_error 2 image rm
	usage_error 2 image ls extra
	usage_error 2 config
	usage_error 2 config fly
	usage_error 2 config check
	usage_error 2 config check a b
	usage_error 2 config check --yaml a
	usage_error 2 template
	usage_error 2 template fly
	usage_error 2 template build
	usage_error 2 template build a b
	usage_error 2 template build --memory lots demo
	usage_error 2 template build --cpus 0 demo
	usage_error 2 template build --disk none demo
	usage_error 2 template build --max 1g demo
	usage_error 2 template ls extra
	usage_error 2 template ls --bare
	usage_error 2 template rm
	usage_error 2 template rm --all
	usage_error 2 template prune extra
	usage_error 2 template prune --max much
	usage_error 2 doctor extra
	usage_error 2 doctor --no-such-option
	usage_error 2 version extra
	local verb
	for verb in cp inspect kill logs pause rename restart rm start stop unpause wait; do
		usage_error 2 "$verb"
	done
	for verb in cp events inspect kill logs pause prune ps rename restart rm start stats stop \
		unpause wait; do
		usage_error 2 "$verb" --no-such-option box
	done
	usage_error 2 ps extra
	usage_error 2 ps -aX
	usage_error 2 events extra
	usage_error 2 events --since yesterday
	usage_error 2 prune extra
	usage_error 2 kill -s NOTHING box
	usage_error 2 kill -s
	usage_error 2 stop -t soon box
	usage_error 2 restart -t -1 box
	usage_error 2 logs a b
	usage_error 2 logs -n few box
	usage_error 2 rename box
	usage_error 2 rename box a b
}

@test "cp: exactly one side is a box" {
	usage_error 2 cp a b
	usage_error 2 cp a:/x b:/y
	usage_error 2 cp ./a:x /b:y
	usage_error 2 cp box: x
	usage_error 2 cp - -
	usage_error 2 cp a:/x b c
}

@test "prune asks, or is told not to" {
	usage_error 2 prune </dev/null
	assert_match "$stderr" '-f'
	run -0 --separate-stderr holt prune -f
	assert_output ''
}

@test "templates of a home without any, and of images that are not there" {
	run -0 --separate-stderr holt template ls
	assert_output 'TEMPLATE ID   IMAGE   KIND   MEMORY   CPUS   DISK   SIZE   SPARES   USED'
	run -0 holt template ls -q
	assert_output ''
	run -0 holt template ls --json
	assert_output '[]'
	run -0 holt template prune
	assert_output '0 removed, 0 B'
	local verb
	local -A without=([build]=--pull=never [rm]=--)
	for verb in build rm; do
		run --separate-stderr holt template "$verb" "${without[$verb]}" no-such-image
		assert_status 1
		[[ -z $output ]] || fail "stdout: $output"
		assert_match "${stderr_lines[0]}" "^holt: .*no-such-image"
		assert_match "$stderr" $'\n'"hint: holt (image|template) ls"
	done
	run --separate-stderr holt template rm abcd
	assert_status 1
	run --separate-stderr holt template spares --pull never no-such-image 1
	assert_status 1
	assert_match "$stderr" "^holt: .*no-such-image.*"$'\n'"hint: "
}

@test "HOLT_TEMPLATE_BYTES, HOLT_IMAGE_BYTES or HOLT_MAX_MEMORY that is no size is an error of every verb, with a hint (K48)" {
	local name value
	for name in HOLT_TEMPLATE_BYTES HOLT_IMAGE_BYTES HOLT_MAX_MEMORY; do
		for value in 0 -1 8gb x 99999999999999999999; do
			run --separate-stderr env "$name=$value" "$HOLT" ps
			assert_status 1
			assert_match "$stderr" "$name is '$value'.*"$'\n'"hint: "
		done
		run -0 env "$name=1" "$HOLT" ps
		run -0 env "$name=8g" "$HOLT" ps
		run -0 env "$name=" "$HOLT" ps
	done
}

@test "a home without boxes" {
	run -0 --separate-stderr holt ps -a
	assert_match "$output" '^BOX ID +IMAGE +COMMAND +CREATED +STATUS +NAMES$'
	run -0 holt ps -aq
	assert_output ''
	run -0 holt ps -a --json
	assert_output ''
	run -0 holt ps -a --names
	assert_output ''
	run -0 --separate-stderr holt stats --no-stream
	assert_match "$output" '^BOX ID +NAME +CPU '
	run -0 holt events --since 0 --until 0s
	assert_output ''
}

@test "a box that is not there: 1, or 125 of exec, with a hint, by every verb (K48)" {
	local verb
	for verb in inspect kill logs pause restart rm start stats stop unpause wait; do
		run --separate-stderr holt "$verb" no-such-box
		assert_status 1
		assert_match "${stderr_lines[0]}" "^holt: .*no-such-box"
		assert_match "$stderr" $'\n'"hint: "
	done
	# Told, and no failure, as it is for docker.
	run -0 --separate-stderr holt rm -f no-such-box
	assert_output ''
	assert_match "$stderr" "^holt: .*no-such-box"
	run --separate-stderr holt exec no-such-box true
	assert_status 125
	assert_match "$stderr" "^holt: .*no-such-box"
	run --separate-stderr holt rename no-such-box x
	assert_status 1
	run --separate-stderr holt cp no-such-box:/x "$TEST_DIR"
	assert_status 1
	run --separate-stderr holt cp "$TEST_DIR" no-such-box:/x
	assert_status 1
	# Each is tried, and what was found is told: an empty array.
	run --separate-stderr holt inspect no-such-box neither
	assert_status 1
	assert_equal "the array" "$(jq -c . <<<"$output")" '[]'
	assert_equal "number of errors" "$(grep -c '^holt: ' <<<"$stderr")" 2
}

@test "an error says what, about which thing, and what to do (K48)" {
	run --separate-stderr holt run --pull never no-such-image true
	assert_status 125
	[[ -z $output ]]
	assert_match "${stderr_lines[0]}" "^holt: .*'no-such-image"
	assert_match "$stderr" $'\n'"hint: .*holt image"
	run --separate-stderr holt image inspect no-such-image
	assert_status 1
	assert_output '[]'
	assert_match "${stderr_lines[0]}" "^holt: .*'no-such-image"
}

@test "a full disk at stdout is an error" {
	skip_unless 'there is no /dev/full' test -c /dev/full
	run bash -c '"$HOLT" version >/dev/full'
	assert_status 1
	assert_match "$output" "cannot write to stdout"
}
