# SPDX-License-Identifier: Apache-2.0
# holt-net with real traffic: a guest that is the kernel's own TCP/IP, a host, and a peer, each in a
# network namespace of its own (tests/net/world). No machine is started.
load ../lib/common
load net

bats_require_minimum_version 1.5.0

# bats test_tags=user
@test "TCP, UDP and echo requests reach a neighbour of the host, by IPv4 and IPv6" {
	guest <<-'END'
		for a in 192.0.2.2 2001:db8:1::2; do
			must 0 peer get "$a" 100000
			must 0 peer post "$a" 100000
			must 0 peer udp "$a" 1400
		done
		must 0 busybox ping -c 2 -W 2 192.0.2.2
		must 0 busybox ping -c 1 -W 2 10.0.2.2
	END
	run -0 net -- bash "$TEST_DIR/script"
	run -0 jq -c 'select(.up).up | [.ipv6, .mtu]' "$TEST_DIR/told"
	assert_output '[true,1500]'
}

# bats test_tags=user
@test "without a way out by IPv6 the guest has none" {
	guest <<-'END'
		must 3 peer connect 2001:db8:1::2 7
		must 0 peer connect 192.0.2.2 7
	END
	NO_IPV6=1 run -0 net -- bash "$TEST_DIR/script"
	run -0 jq -c 'select(.up).up.ipv6' "$TEST_DIR/told"
	assert_output false
}

# bats test_tags=user
@test "K40: 100 MB arrive whole both ways, whatever the MTU of the way and of the card" {
	local path card
	guest <<-'END'
		must 0 peer get 192.0.2.2 100000000
		must 0 peer post 192.0.2.2 100000000
		must 0 peer get 2001:db8:1::2 1000000
		must 0 peer post 2001:db8:1::2 1000000
		must 0 peer udp 192.0.2.2 9000
	END
	for path in 1280 1500 9000; do
		for card in 1280 1500; do
			PATH_MTU=$path run net --mtu "$card" -- bash "$TEST_DIR/script"
			((status == 0)) || fail "path $path, card $card: $output"
		done
	done
}

# bats test_tags=user
@test "K40: ten times 1,000 short connections with half-close leave nothing in the helper" {
	guest <<-'END'
		before=$(helper_fds)
		for ((i = 0; i < 10; i++)); do
			must 0 peer many 192.0.2.2 1000 10
		done
		for ((i = 0; i < 300; i++)); do
			[[ $(helper_fds) != "$before" ]] || exit 0
			sleep 0.1
		done
		echo "$(helper_fds) descriptors instead of $before"
		exit 1
	END
	run net -- bash "$TEST_DIR/script"
	assert_status 0
	run net --spec '{"mode":"allowlist","allow":["192.0.2.0/24"]}' -- bash "$TEST_DIR/script"
	assert_status 0
}

# bats test_tags=user
@test "nobody reaches the host: loopback, its own addresses, link-local, and IPv6's ways to write them" {
	guest <<-'END'
		ip addr del 127.0.0.1/8 dev lo
		ip -6 addr del ::1/128 dev lo
		ip route add 127.0.0.0/8 via 10.0.2.2 dev eth0 2>/dev/null || true
		must 3 peer connect 10.0.2.2 7
		must 3 peer connect 10.0.2.3 7
		must 3 peer connect 192.0.2.1 7
		must 3 peer connect 169.254.169.254 7
		must 3 peer connect fd68:6f6c:7400::2 7
		must 3 peer connect 2001:db8:1::1 7
		must 3 peer connect 64:ff9b::192.0.2.1 7
		must 3 peer connect 64:ff9b::127.0.0.1 7
		must 3 peer connect 2002:c000:0201::1 7
		must 3 peer udp 192.0.2.1 10
		must 3 peer udp 169.254.169.254 10
		must 1 busybox ping -c 1 -W 1 192.0.2.1
		must 0 peer connect 192.0.2.2 7
	END
	run -0 net -- bash "$TEST_DIR/script"
	run -0 jq -r 'select(.refused).refused | select(.port == 7) | .proto + " " + .address' "$TEST_DIR/told"
	assert_match "$output" 'tcp 192\.0\.2\.1'
	assert_match "$output" 'udp 192\.0\.2\.1'
	assert_match "$output" 'tcp 169\.254\.169\.254'
	assert_match "$output" 'tcp 2001:db8:1::1'
}

# bats test_tags=user
@test "an address that the host gets later is refused within two seconds" {
	guest <<-'END'
		must 0 peer connect 192.0.2.2 7
		nsenter -t "$GUEST_HELPER" -n ip addr add 198.51.100.7/32 dev lo
		sleep 0.2
		# Frames make the helper look; its list is at most a second old.
		sleep 1
		must 0 peer connect 192.0.2.2 7
		got=$("$HOLT_BUILD/tests/net/peer" connect 198.51.100.7 7 2>&1) && exit 1
		echo "$got"
	END
	run -0 net -- bash "$TEST_DIR/script"
	run -0 jq -r 'select(.refused).refused.address' "$TEST_DIR/told"
	assert_output 198.51.100.7
}

# bats test_tags=user
@test "K41: names of any kind, large answers, by UDP and TCP" {
	guest <<-'END'
		is() { local got; got=$(ask "${@:2}" | tr '\n' ' '); [[ $got == "$1 " ]] || { echo "'${*:2}' gives '$got'"; exit 1; }; }
		is 'code 0 1 192.0.2.2' a.test 1
		is 'code 0 1 192.0.2.2' A.TEST. 1
		is 'code 0 28 2001:db8:1::2' aaaa.test 28
		is 'code 0 5 middle.test 5 a.test 1 192.0.2.2' alias.test 1
		is 'code 0 16 192.0.2.2' who.test 16
		is 'code 3' nothing.test 1
		is 'code 2' fail.test 1
		is 'code 0 cut' big.test 1
		is 'code 0 1 192.0.2.2' a.test 1 tcp
		is 'code 0 1 192.0.2.2' slow.test 1
		# What nobody may reach is left out; the name stays.
		is 'code 0 1 192.0.2.2' mixed.test 1
		is 'code 0' local.test 1
		[[ $(ask big.test 1 tcp | grep -c '^1 198') == 200 ]]
		[[ $(getent ahostsv4 big.test | cut -d' ' -f1 | sort -u | wc -l) == 200 ]]
		before=$(helper_fds)
		for ((i = 0; i < 40; i++)); do ask big.test 1 tcp & done | grep -c '^1 198' | grep -qx 8000
		sleep 0.3
		[[ $(helper_fds) == "$before" ]]
		[[ $("$HOLT_BUILD/tests/net/namepeer" ask fd68:6f6c:7400::3 big.test 1 tcp | wc -l) == 201 ]]
		"$HOLT_BUILD/tests/net/namepeer" ask fd68:6f6c:7400::3 a.test 1 | grep -qx '1 192.0.2.2'
	END
	run net -- bash "$TEST_DIR/script"
	assert_status 0
}

# bats test_tags=user
@test "K41: whatever the host's resolv.conf says: stub, first one dead, IPv6 only, empty, changed" {
	guest <<-'END'
		ask who.test 16
	END
	printf '# a stub\nnameserver 127.0.0.53\noptions edns0 trust-ad\nsearch example.test\n' >"$TEST_DIR/resolv"
	run -0 net -- bash "$TEST_DIR/script"
	assert_output $'code 0\n16 127.0.0.53'
	# Nobody answers there; nobody listens there.
	printf 'nameserver 192.0.2.99\nnameserver 192.0.2.2\n' >"$TEST_DIR/resolv"
	run -0 net -- bash "$TEST_DIR/script"
	assert_output $'code 0\n16 192.0.2.2'
	printf 'nameserver 127.0.0.54\nnameserver 192.0.2.2\n' >"$TEST_DIR/resolv"
	run -0 net -- bash "$TEST_DIR/script"
	assert_output $'code 0\n16 192.0.2.2'
	printf 'nameserver 2001:db8:1::2\n' >"$TEST_DIR/resolv"
	run -0 net -- bash "$TEST_DIR/script"
	assert_output $'code 0\n16 2001:db8:1::2'
	: >"$TEST_DIR/resolv"
	run -0 net -- bash "$TEST_DIR/script"
	assert_output 'code 2'
	# The one that lives is remembered: only the first question waits.
	printf 'nameserver 192.0.2.99\nnameserver 192.0.2.2\n' >"$TEST_DIR/resolv"
	guest <<-'END'
		ask a.test 1
		start=${EPOCHREALTIME//./}
		ask a.test 1
		((${EPOCHREALTIME//./} - start < 500000))
		echo nameserver 127.0.0.53 >"$1"
		# The helper asks for the file where it is older than five seconds, with the next question.
		sleep 5.5
		ask a.test 1
		sleep 0.5
		ask who.test 16
	END
	run -0 net -- bash "$TEST_DIR/script" "$TEST_DIR/resolv"
	assert_equal "the last answer" "${lines[-1]}" '16 127.0.0.53'
}

# bats test_tags=user
@test "K41: localhost is the guest's own, and names of the host's list are known" {
	printf '192.0.2.2 Listed.example alias-of-it # comment\n127.0.1.1 self\n' >"$TEST_DIR/hosts"
	: >"$TEST_DIR/resolv"
	guest <<-'END'
		for name in localhost LOCALHOST. x.localhost; do
			ask "$name" 1 | grep -qx '1 127.0.0.1' && ask "$name" 28 | grep -qx '28 ::1' || exit 1
		done
		ask listed.example 1 | grep -qx '1 192.0.2.2' && ask ALIAS-of-it 1 tcp | grep -qx '1 192.0.2.2' || exit 2
		[[ $(ask self 1) == 'code 0' && $(ask other 1) == 'code 2' ]] || exit 3
		# The guest's own list comes before all that.
		printf '192.0.2.77 a.test\n' >"$1.own" && mount --bind "$1.own" /etc/hosts
		getent hosts a.test | grep -q '^192.0.2.77 '
	END
	run net -- bash "$TEST_DIR/script" "$TEST_DIR/hosts"
	assert_status 0
}

# bats test_tags=user
@test "K38: with an allow-list a name is the way to its address, and nothing else is" {
	guest <<-'END'
		must 3 peer connect 192.0.2.2 7
		[[ $(ask other.test 1) == 'code 5' && $(ask a.test 65) == 'code 0' ]] || exit 1
		[[ $(ask a.test 1) == $'code 0\n1 192.0.2.2' ]] || exit 2
		must 0 peer connect 192.0.2.2 7
		must 3 peer connect 192.0.2.2 9
		must 3 peer connect 2001:db8:1::2 7
		must 3 "$HOLT_BUILD/tests/net/namepeer" ask 192.0.2.2 a.test 1
		must 3 "$HOLT_BUILD/tests/net/namepeer" ask 192.0.2.2 a.test 1 tcp
		# Refusals of the same second are told together.
		sleep 2.5
	END
	run net --spec '{"mode":"allowlist","allow":["a.test:7"]}' -- bash "$TEST_DIR/script"
	assert_status 0
	run -0 jq -r 'select(.refused).refused | .proto + " " + .name + .address' "$TEST_DIR/told"
	assert_match "$output" 'dns other\.test'
	assert_match "$output" 'tcp 192\.0\.2\.2'
}

# bats test_tags=user
@test "the helper ends with the keeper's end, and by itself it does nothing" {
	run -0 net --eof -- true
	run -2 --separate-stderr bash -c 'exec "$HOLT_BUILD/holt-net" 3>&- 4>&-'
	# shellcheck disable=SC2154 # set by bats' run
	assert_match "$stderr" 'holt-net is started by holt'
	run net --spec '{"mode":"isolated"}' -- true
	assert_status 123
	assert_match "$output" 'isolated'
}

# bats test_tags=user
@test "the helper has no privileges, no files, and a list of system calls" {
	# A sanitizer's own calls are not known, so that build has no list.
	local seccomp=2
	[[ $(nm -D "$HOLT_BUILD/holt-net") != *__asan_init* ]] || seccomp=0
	guest <<-'END'
		grep -qx $'CapEff:\t0000000000000000' "/proc/$GUEST_HELPER/status"
		grep -qx $'CapPrm:\t0000000000000000' "/proc/$GUEST_HELPER/status"
		grep -qx $'NoNewPrivs:\t1' "/proc/$GUEST_HELPER/status"
		grep -qx $'Seccomp:\t'"$1" "/proc/$GUEST_HELPER/status"
		grep -q '^Max open files *1024 ' "/proc/$GUEST_HELPER/limits"
	END
	run net -- bash -e "$TEST_DIR/script" "$seccomp"
	assert_status 0
}

# bats test_tags=user
@test "a guest that uses up all descriptors loses neither its network nor the host's patience" {
	guest <<-'END'
		peer serve 10.0.2.15 &
		sleep 0.2
		"$HOLT_BUILD/tests/net/peer" hold 192.0.2.2 7 1100 >"$1.held" &
		holder=$!
		until [[ -s $1.held ]]; do sleep 0.1; done
		(($(cat "$1.held") < 1024 && $(helper_fds) >= 1024)) || { echo "$(cat "$1.held") connections"; exit 1; }
		# Somebody waits at a published port, and cannot be accepted.
		host "$HOLT_BUILD/tests/net/peer" hold 127.0.0.1 8007 3 >/dev/null &
		sleep 0.3
		cpu() { awk '{print $14 + $15}' "/proc/$GUEST_HELPER/stat"; }
		before=$(cpu)
		sleep 2
		spent=$(($(cpu) - before))
		((spent < 40)) || { echo "$spent hundredths of a second in two"; exit 2; }
		# The host's addresses are still read.
		host ip addr add 198.51.100.7/32 dev lo
		must 0 busybox ping -c 1 -W 1 10.0.2.2
		sleep 1.1
		must 3 peer connect 198.51.100.7 7
		kill "$holder"
		for ((i = 0; i < 100; i++)); do
			peer connect 192.0.2.2 7 2>/dev/null && break
			sleep 0.1
		done
		((i < 100)) || exit 3
		[[ $(ask a.test 1) == $'code 0\n1 192.0.2.2' ]] || exit 4
		PEER_PORT=8007 must 0 host "$HOLT_BUILD/tests/net/peer" many 127.0.0.1 3 1
	END
	run net --spec '{"mode":"open","publish":["8007:7"]}' -- bash "$TEST_DIR/script" "$TEST_DIR/f"
	assert_status 0
}
