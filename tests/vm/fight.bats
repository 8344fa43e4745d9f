#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2154 # bats' variables
# Providers in several processes fight over one pool; tests/vm/fight.c says what must hold.

load ../lib/common
load ../lib/vm

setup() {
	common_setup
	CONFIG=$BATS_TEST_TMPDIR/config.yaml
	printf 'sandbox:\n  image: demo\n  pool: fight\n  replicas: 2\n  idle_timeout: 5\n' >"$CONFIG"
}

teardown() {
	((${#FIGHTERS[@]} == 0)) || kill -9 "${FIGHTERS[@]}" 2>/dev/null || true
	remove_boxes
	common_teardown
}

# fighter NAME SECONDS: in the background.
fighter() {
	"$HOLT_BUILD/tests/vm/fight" "$CONFIG" "$2" "$1" >"$BATS_TEST_TMPDIR/$1.out" \
		2>"$BATS_TEST_TMPDIR/$1.err" 3>&- &
	FIGHTERS[$1]=$!
}
# Global, since bats reads this file within a function: of an array that is not associative all names
# mean the first element.
declare -gA FIGHTERS=()

said() {
	local code=0
	wait "${FIGHTERS[$1]}" || code=$?
	unset "FIGHTERS[$1]"
	[[ $code == 0 ]] || fail "$1 ended with $code:" "$(<"$BATS_TEST_TMPDIR/$1.err")"
	output=$(<"$BATS_TEST_TMPDIR/$1.out")
	echo "# $output" >&3
	[[ $output =~ ^"$1 turns="([0-9]+)" " ]] || fail "not what a fighter says: $output"
	((BASH_REMATCH[1] > 0)) || fail "not one turn: $output"
}

# The boxes of the pool, of which none is held: nobody is there any more.
parked() {
	local states
	states=$(holt sandbox ps --pool fight --json | jq -r .state)
	[[ -z $(grep -vx warm <<<"$states") ]]
}

pool_is_empty() {
	[[ -z $(holt sandbox ps --pool fight -q) && -z $(holt ps -aq) ]]
}

# bats test_tags=user
@test "K27 K36: two processes fight over the pool of a home, a third is killed again and again" {
	local seconds=60 until
	[[ ${HOLT_LONG:-} != 1 ]] || seconds=120
	((EUID == 0)) || seconds=20
	until=$((SECONDS + seconds))
	fighter one "$seconds"
	fighter two "$seconds"
	while ((SECONDS < until - 5)); do
		fighter victim 100
		sleep 4
		kill -9 "${FIGHTERS[victim]}" || fail "it ended by itself:" \
			"$(<"$BATS_TEST_TMPDIR/victim.err")"
		wait "${FIGHTERS[victim]}" 2>/dev/null || true
		unset 'FIGHTERS[victim]'
	done
	said one
	said two
	wait_for 5 parked
	# What is left goes by itself.
	wait_for 40 pool_is_empty
}
