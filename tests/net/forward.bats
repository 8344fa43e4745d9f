# SPDX-License-Identifier: Apache-2.0
# Published ports of holt-net with real traffic, from the host itself and from its neighbour.
load ../lib/common
load net


# spec PORT...: a box without names and ports of its own.
spec() {
	jq -nc '{mode: "open", publish: $ARGS.positional}' --args "$@"
}

# bats test_tags=user
@test "K42: TCP and UDP of a published port, from the host's loopback, its addresses and a neighbour" {
	guest <<-'END'
		peer serve 10.0.2.15 & peer serve fd68:6f6c:7400::15 &
		sleep 0.3
		export PEER_PORT=8007
		for to in 127.0.0.1 192.0.2.1 ::1 2001:db8:1::1; do
			must 0 host "$HOLT_BUILD/tests/net/peer" udp "$to" 1000
			must 0 host "$HOLT_BUILD/tests/net/peer" udp "$to" 1000
			must 0 host "$HOLT_BUILD/tests/net/peer" many "$to" 20 4
		done
		for to in 192.0.2.1 2001:db8:1::1; do
			must 0 neighbour "$HOLT_BUILD/tests/net/peer" udp "$to" 1000
			must 0 neighbour "$HOLT_BUILD/tests/net/peer" many "$to" 20 4
		done
		PEER_PORT=8019 must 0 host "$HOLT_BUILD/tests/net/peer" get 127.0.0.1 1000000
		PEER_PORT=8019 must 0 neighbour "$HOLT_BUILD/tests/net/peer" get 192.0.2.1 1000000
	END
	local ports=(0.0.0.0:8007:7 0.0.0.0:8007:7/udp '[::]:8007:7' '[::]:8007:7/udp' 0.0.0.0:8019:19)
	run net --spec "$(spec "${ports[@]}")" -- bash "$TEST_DIR/script"
	assert_status 0
	run net --spec "$(spec "${ports[@]}" | jq -c '.mode = "allowlist" | .allow = []')" -- bash "$TEST_DIR/script"
	assert_status 0
}

# bats test_tags=user
@test "K42: a published port opens no way to the host's own services" {
	guest <<-'END'
		peer serve 10.0.2.15 &
		sleep 0.3
		# A peer on the host's loopback, which the gateway stands for in the guest.
		PEER_PORT=8007 must 0 host "$HOLT_BUILD/tests/net/peer" udp 127.0.0.1 100
		PEER_PORT=8007 must 0 host "$HOLT_BUILD/tests/net/peer" many 127.0.0.1 3 1
		# It is there, but not for the guest.
		must 0 host "$HOLT_BUILD/tests/net/peer" udp 127.0.0.1 100
		for to in 10.0.2.2 10.0.2.3 fd68:6f6c:7400::2 fd68:6f6c:7400::3 192.0.2.1 2001:db8:1::1; do
			must 3 peer udp "$to" 10
			must 3 peer connect "$to" 7
			must 3 peer connect "$to" 9
		done
		must 0 busybox ping -c 1 -W 1 10.0.2.2
	END
	run net --spec "$(spec 8007:7 8007:7/udp)" -- bash "$TEST_DIR/script"
	assert_status 0
}

# bats test_tags=user
@test "K42: a port that is taken, an address that the host has not, and any free port" {
	run net --spec "$(spec 127.0.0.1:7:7)" -- true
	assert_status 123
	assert_match "$output" 'Address already in use'
	assert_match "$output" '127.0.0.1:7:7/tcp'
	run net --spec "$(spec 127.0.0.1:7:7/udp)" -- true
	assert_status 123
	assert_match "$output" 'Address already in use'
	run net --spec "$(spec 198.51.100.1:8007:7)" -- true
	assert_status 123
	assert_match "$output" 'an address that this host has'
	# The same number twice, and one for another protocol.
	run net --spec "$(spec 8007:7 8007:9)" -- true
	assert_status 123
	run -0 net --spec "$(spec 8007:7 8007:7/udp 127.0.0.2:8007:7 :9)" -- true
	run -0 jq -r 'select(.up).up.ports[]' "$TEST_DIR/told"
	assert_equal "ports" "$(grep -c . <<<"$output")" 4
	assert_match "${lines[3]}" '127\.0\.0\.1:[1-9][0-9]*:9/tcp'
}

# bats test_tags=user
@test "K42: only the address that was asked for listens" {
	guest <<-'END'
		peer serve 10.0.2.15 &
		sleep 0.2
		must 0 host "$HOLT_BUILD/tests/net/peer" connect 127.0.0.2 8007
		must 3 host "$HOLT_BUILD/tests/net/peer" connect 127.0.0.1 8007
		must 3 neighbour "$HOLT_BUILD/tests/net/peer" connect 192.0.2.1 8007
		host ss -Hlnt 'sport = 8007' | awk '{print $4}'
	END
	run -0 net --spec "$(spec 127.0.0.2:8007:7)" -- bash "$TEST_DIR/script"
	assert_equal "what listens" "${lines[-1]}" 127.0.0.2:8007
}

# bats test_tags=user
@test "K42: a port is published anew at once, whatever connections its helper ended with" {
	local spec
	spec=$(spec 0.0.0.0:8007:7 0.0.0.0:8007:7/udp)
	guest <<-'END'
		peer serve 10.0.2.15 &
		sleep 0.2
		host "$HOLT_BUILD/tests/net/peer" hold 127.0.0.1 8007 20 >"$1.$$" &
		until [[ -s $1.$$ ]]; do sleep 0.1; done
		[[ $(cat "$1.$$") == 20 ]] || { echo "$(cat "$1.$$") connections"; exit 1; }
		PEER_PORT=8007 must 0 host "$HOLT_BUILD/tests/net/peer" many 127.0.0.1 20 4
	END
	cat >"$TEST_DIR/twice" <<-'END'
		"$@" || exit 1
		"$@" || exit 2
	END
	run namespaces timeout 60 "$ROOT/tests/net/world" bash "$TEST_DIR/twice" "$HOLT_BUILD/tests/net/guest" \
		--helper "$HOLT_BUILD/holt-net" --resolv "$TEST_DIR/resolv" --hosts "$TEST_DIR/hosts" --spec "$spec" \
		-- bash "$TEST_DIR/script" "$TEST_DIR/f"
	assert_status 0
}

# bats test_tags=user
@test "K42: 50 connections at once while the guest does not answer yet" {
	guest <<-'END'
		# The port is closed to the guest's own stack, so that its SYNs wait.
		ip link set eth0 down
		host "$HOLT_BUILD/tests/net/peer" hold 127.0.0.1 8007 50 >"$1.held" &
		sleep 0.5
		peer serve 10.0.2.15 &
		sleep 0.3
		ip link set eth0 up
		until [[ -s $1.held ]]; do sleep 0.1; done
		cat "$1.held"
		for ((i = 0; i < 80; i++)); do
			(($(ss -Hnt state established 'sport = 7' | wc -l) >= 50)) && exit 0
			sleep 0.1
		done
		ss -Hnt | wc -l
		exit 1
	END
	run -0 net --spec "$(spec 8007:7)" -- bash "$TEST_DIR/script" "$TEST_DIR/f"
	assert_output 50
}
