#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2016,SC2154,SC2317 # for the shells of boxes; set by run; called by bats
# The network of boxes on real machines: what they reach, what reaches them, and what is told of it.
# Frames and policy have tests of their own in tests/net; here is what the keeper, the guest and the
# command line make of them.

load ../lib/common
load ../lib/vm
load ../lib/netns

setup_file() {
	common_setup_file
	netns_setup
	demo_image
}

teardown_file() {
	netns_teardown
	common_teardown_file
}

teardown() {
	remove_boxes
	common_teardown
}

# What a box sees of its network, one fact a line.
readonly LOOK='
	ip addr show dev eth0 | grep -o "inet 10.0.2.15/24" || echo no address
	ip route | grep -o "^default via 10.0.2.2" || echo no route
	sed -n "s/^nameserver //p" /etc/resolv.conf
	grep -c UP /sys/class/net/eth0/operstate >/dev/null; cat /sys/class/net/eth0/mtu'

# For a box: `get HOST PORT FILE` prints the last line of a web page. This busybox has no wget that
# works without the files of a C library.
readonly GET='get() {
	printf "GET %s HTTP/1.0\r\n\r\n" "$3" | nc -w 5 "$1" "$2" | tail -n 1 | grep .
}
'

# For a box: `address NAME` prints what its resolver answers. This busybox resolves nothing by itself.
readonly ADDRESS='address() {
	nslookup -type=a "$1" 2>/dev/null | sed -n "/^Name/,\$ s/^Address[^:]*: //p" | grep .
}
'

# net_of BOX FILTER: of its network, as inspect tells.
net_of() {
	net_settled "$1"
	holt inspect "$1" | jq -r ".[0].network | $2"
}

# bats test_tags=user
@test "network: open is the default: address, route, resolver, MTU; others are reached, the host is not (K38)" {
	netns_enter "$NET_HERE" -m
	nsenter "${ENTER[@]}" busybox httpd -f -p 8099 -h "$WORLD" >/dev/null 2>&1 3>&- &
	local server=$!
	wait_for 5 here busybox nc -w 1 127.0.0.1 8099 </dev/null
	run -0 --separate-stderr holt run demo sh -c "$GET$LOOK
		get 192.0.2.2 80 /hello
		get 2001:db8::2 80 /hello
		for host in 192.0.2.1 127.0.0.1 10.0.2.2 169.254.169.254 2001:db8::1; do
			get \$host 8099 /hello 2>/dev/null && echo \$host is reached
		done
		true"
	assert_output $'inet 10.0.2.15/24\ndefault via 10.0.2.2\n10.0.2.3\n1500\nhello from the world\nhello from the world'
	kill "$server"
}

# bats test_tags=user
@test "network: isolated: the link is down, nothing is reached, resolv.conf is the image's; no helper runs" {
	run -0 --separate-stderr holt run --network isolated demo sh -c "$GET"'
		cat /sys/class/net/eth0/operstate
		ip addr show dev eth0 | grep -c inet
		get 192.0.2.2 80 /hello 2>/dev/null || echo unreachable
		test -e /etc/resolv.conf && cat /etc/resolv.conf
		true'
	assert_output $'down\n0\nunreachable'
	holt run -d --name iso --network none demo sleep 60
	assert_equal network "$(net_of iso '"\(.mode) \(.state) \(.address)"')" 'isolated down '
	# Its template had the card up.
	assert_equal origin "$(holt inspect iso | jq -r '.[0].state.origin')" template
	[[ -z $(helper_of iso) ]] || fail 'an isolated box has a helper'
}

# bats test_tags=user
@test "network: an allow-list lets out what it lists; the rest is refused at once and told (K38)" {
	run -0 --separate-stderr holt run --name listed --allow 198.51.100.7:80 --allow world.example:80 demo \
		sh -c "$GET$ADDRESS"'
		begun=$(date +%s)
		get 192.0.2.2 80 /hello 2>/dev/null || echo not asked for
		get "$(address World.Example.)" 80 /hello
		get 198.51.100.7 80 /hello
		get 192.0.2.2 8080 /hello 2>/dev/null || echo port refused
		get 198.51.100.8 80 /hello 2>/dev/null || echo address refused
		nslookup other.example 2>&1 | grep -o REFUSED | head -n 1
		test $(($(date +%s) - begun)) -le 4 || echo it took long
		# What is refused is told each second.
		sleep 2'
	assert_output "not asked for
hello from the world
hello from the world
port refused
address refused
REFUSED"
	run -0 holt events --since 1m --until 0s --json
	grep '"refused"' <<<"$output" | jq -es 'map(select(.name == "listed" and .count >= 1)) |
		any(.address == "192.0.2.2" and .port == 8080 and .proto == "tcp" and .host == "world.example") and
		any(.address == "198.51.100.8" and .port == 80) and
		any(.host == "other.example" and .proto == "dns")' >/dev/null ||
		fail "no events of what was refused: $output"
	run -0 holt events --since 1m --until 0s
	assert_match "$output" ' refused [0-9a-f]{12} name=listed host=world.example address=192.0.2.2 port=8080 proto=tcp count=[0-9]+'
	assert_equal network "$(holt inspect listed | jq -c '.[0].network | [.mode, .allow]')" \
		'["allowlist",["198.51.100.7:80","world.example:80"]]'
}

# bats test_tags=user
@test "network: 4 MB arrive whole both ways, by name, open and with a list; a connection outlives a pause" {
	local mode sum
	# This nc ends with the end of what it is sent, but not of what nobody writes to.
	mkfifo "$BATS_TEST_TMPDIR/silence"
	exec 4<>"$BATS_TEST_TMPDIR/silence"
	head -c 4194304 /dev/urandom >"$WORLD/big"
	sum=$(sha256sum <"$WORLD/big")
	for mode in '--network open' '--allow world.example'; do
		there busybox nc -l -p 9000 <&4 >"$BATS_TEST_TMPDIR/up" 3>&- &
		local server=$!
		# shellcheck disable=SC2086 # options
		run -0 --separate-stderr holt run $mode demo sh -c "$ADDRESS"'
			to=$(address world.example)
			printf "GET /big HTTP/1.0\r\n\r\n" | nc -w 20 $to 80 | tail -c 4194304 >/big
			sha256sum </big
			nc -w 20 $to 9000 </big'
		assert_equal "down, $mode" "$output" "$sum"
		wait "$server"
		assert_equal "up, $mode" "$(sha256sum <"$BATS_TEST_TMPDIR/up")" "$sum"
	done
	there busybox nc -l -p 9001 <&4 >"$BATS_TEST_TMPDIR/slow" 3>&- &
	server=$!
	holt run -d --name slow demo sh -c '(echo one; sleep 1; echo two) | nc -w 30 192.0.2.2 9001'
	wait_for 10 grep -q one "$BATS_TEST_TMPDIR/slow"
	holt pause slow >/dev/null
	sleep 2
	holt unpause slow >/dev/null
	wait "$server"
	assert_equal 'over a pause' "$(<"$BATS_TEST_TMPDIR/slow")" $'one\ntwo'
}

# bats test_tags=user
@test "network: -p: ports as docker has them, on 127.0.0.1 unless said otherwise; holt port and ps; again after a restart (K42)" {
	holt run -d --name web -p 18080:80 -p 0.0.0.0:0:80 -p 18007:7/udp demo \
		sh -c 'mkdir /w; echo from the box >/w/a; httpd -p 80 -h /w; sleep 600'
	holt cp "$HOLT_BUILD/tests/net/peer" web:/peer
	holt exec -d web /peer serve 0.0.0.0 >/dev/null
	run -0 --separate-stderr holt port web 80
	assert_equal 'lines of port' "${#lines[@]}" 2
	assert_equal 'first port' "${lines[0]}" 127.0.0.1:18080
	assert_match "${lines[1]}" '^0\.0\.0\.0:[1-9][0-9]+$'
	local any=${lines[1]#*:}
	run -0 holt port web 7/udp
	assert_output 127.0.0.1:18007
	run -0 holt port web
	assert_output "80/tcp -> 127.0.0.1:18080"$'\n'"80/tcp -> 0.0.0.0:$any"$'\n'"7/udp -> 127.0.0.1:18007"
	run -1 --separate-stderr holt port web 7
	assert_match "$stderr" "no port of 'web' leads to 7"
	run -0 holt ps
	assert_match "${lines[0]}" ' PORTS +NAMES$'
	assert_match "${lines[1]}" "127\.0\.0\.1:18080->80/tcp, 0\.0\.0\.0:$any->80/tcp, 127\.0\.0\.1:18007->7/udp +web\$"
	assert_equal inspect "$(net_of web '.state + " " + (.ports | join(" "))')" \
		"up 127.0.0.1:18080:80/tcp 0.0.0.0:$any:80/tcp 127.0.0.1:18007:7/udp"
	wait_for 10 here busybox wget -q -O - http://127.0.0.1:18080/a
	assert_equal 'by 127.0.0.1' "$(here busybox wget -q -O - http://127.0.0.1:18080/a)" 'from the box'
	assert_equal 'from outside' "$(there busybox wget -q -O - "http://192.0.2.1:$any/a")" 'from the box'
	run ! there busybox wget -q -T 3 -O - http://192.0.2.1:18080/a
	assert_equal 'by UDP' "$(here bash -c 'exec 4<>/dev/udp/127.0.0.1/18007
		echo datagram >&4; timeout 5 head -c 9 <&4')" datagram
	# The same port again: who is second is told, by name and with a way out.
	run -125 --separate-stderr holt run -p 18080:80 demo true
	assert_match "$stderr" '18080'
	assert_match "$stderr" 'hint: '
	assert_match "$stderr" 'in use'
	holt restart -t 0 web >/dev/null
	wait_for 10 here busybox wget -q -O - http://127.0.0.1:18080/a
	holt stop -t 0 web >/dev/null
	run -0 holt port web
	assert_output ''
	run ! here busybox wget -q -T 3 -O - http://127.0.0.1:18080/a
	# What was served leaves nothing behind that holds the port.
	run -0 --separate-stderr holt run -p 18080:80 -p 18007:7/udp demo true
}

# bats test_tags=user
@test "network: a helper that is killed: told, inspected, the link is down, the box runs on; none is left after kill -9 of the keeper" {
	local pid keeper
	holt run -d --name lost demo sleep 600
	pid=$(helper_of lost)
	[[ -n $pid ]] || fail 'there is no helper'
	kill -9 "$pid"
	wait_for 5 is_lost lost
	assert_match "$(net_of lost .text)" 'killed by signal 9'
	run -0 --separate-stderr holt exec lost sh -c 'cat /sys/class/net/eth0/operstate; echo alive'
	assert_output $'down\nalive'
	run -0 holt events --since 1m --until 0s --json
	grep network-lost <<<"$output" | jq -e '.name == "lost" and .exit_code == 137' >/dev/null ||
		fail "no event of the loss: $output"
	holt restart -t 0 lost >/dev/null
	wait_for 5 is_up lost
	pid=$(helper_of lost)
	keeper=$(holt inspect lost | jq '.[0].state.keeper_pid')
	kill -9 "$keeper"
	wait_for 5 is_gone "$pid"
}

is_lost() {
	[[ $(net_of "$1" .state) == lost ]]
}

is_up() {
	[[ $(net_of "$1" .state) == up ]]
}

is_gone() {
	[[ ! -e /proc/$1/exe ]]
}

# bats test_tags=user
@test "network: resolv.conf is ours at the first start, then his who changed it; clones, spares and restarted boxes have the network" {
	holt template spares demo 1 >/dev/null
	wait_for 30 spare_waits
	holt run -d --name spare demo sleep 600
	assert_equal origin "$(holt inspect spare | jq -r '.[0].state.origin')" spare
	[[ -n $(helper_of spare) ]] || fail 'a box from a spare has no helper'
	assert_equal 'from a spare' "$(holt exec spare sh -c "${GET}get 192.0.2.2 80 /hello")" \
		'hello from the world'
	holt template spares demo 0 >/dev/null
	holt exec spare sh -c 'echo "nameserver 192.0.2.9" >/etc/resolv.conf'
	holt restart -t 0 spare >/dev/null
	assert_equal 'origin of the second' "$(holt inspect spare | jq -r '.[0].state.origin')" bare
	assert_equal 'what he wrote' "$(holt exec spare cat /etc/resolv.conf)" 'nameserver 192.0.2.9'
	assert_equal 'from a bare template' \
		"$(holt exec spare sh -c "${GET}get 192.0.2.2 80 /hello")" 'hello from the world'
	run -0 --separate-stderr holt run --no-template demo sh -c "$GET$LOOK
		get 192.0.2.2 80 /hello"
	assert_output $'inet 10.0.2.15/24\ndefault via 10.0.2.2\n10.0.2.3\n1500\nhello from the world'
}

spare_waits() {
	[[ $(holt template ls --json | jq -r 'map(select(.bare | not)) | map(.spares_ready) | add') == 1 ]]
}

# bats test_tags=user
@test "network: clones find their card set up, with nothing of the template's own; an isolated one has its image's resolv.conf" {
	mkdir -p "$BATS_TEST_TMPDIR/own/etc"
	echo 'nameserver 192.0.2.77' >"$BATS_TEST_TMPDIR/own/etc/resolv.conf"
	image own --busybox --layer "$BATS_TEST_TMPDIR/own"
	local mode
	for mode in open isolated open; do
		holt run -d --name one --network $mode own sleep 600
		run -0 --separate-stderr holt exec one sh -c '
			sed -n "s/^nameserver //p" /etc/resolv.conf
			ip addr show dev eth0 | grep -c "inet6 fe80"
			ip addr show dev eth0 | grep -c "inet6 fd68"
			ip neigh show nud reachable; ip neigh show nud stale; cat /proc/net/arp | wc -l'
		case $mode in
		# IPv6 is there where the host has it.
		open) assert_match "$output" $'^10.0.2.3\n0\n[01]\n1$' ;;
		isolated) assert_output $'192.0.2.77\n0\n0\n1' ;;
		esac
		holt rm -f one >/dev/null
	done
}

# bats test_tags=user
@test "network: a helper that never comes up is the end of its box, which began without it" {
	mkdir "$BATS_TEST_TMPDIR/bin"
	cp "$HOLT_BUILD"/holt-{keeper,open.so} "$BATS_TEST_TMPDIR/bin"
	# It goes on for ever and says nothing that is known.
	cp "$(command -v yes)" "$BATS_TEST_TMPDIR/bin/holt-net"
	HOLT_KEEPER=$BATS_TEST_TMPDIR/bin/holt-keeper run -125 --separate-stderr holt run -p 0:80 demo true
	assert_match "$stderr" 'network helper was not ready within 5 seconds'
	HOLT_KEEPER=$BATS_TEST_TMPDIR/bin/holt-keeper holt run -d --name never demo sleep 600
	wait_for 10 has_ended never
	run -0 holt events --since 1m --until 0s --json
	grep '"die"' <<<"$output" | jq -e 'select(.name == "never") | .exit_code == 125 and
		.reason == "host failed"' >/dev/null || fail "its end is told in another way: $output"
}

has_ended() {
	[[ $(holt inspect "$1" | jq -r .[0].state.status) != running ]]
}

# bats test_tags=user
@test "network: names and the search list of the host, by the resolver of the box; two boxes do not see each other (K41)" {
	holt run -d --name one -p 0.0.0.0:18090:80 demo sh -c 'mkdir /w; echo one >/w/hello; httpd -f -p 80 -h /w'
	holt run -d --name two demo sleep 600
	local name
	for name in one two; do
		run -0 --separate-stderr holt exec $name sh -c 'grep -v "^#" /etc/resolv.conf; nslookup world.example'
		assert_match "$output" $'nameserver 10\.0\.2\.3\nsearch example\n'
		assert_match "$output" 'Address.*192\.0\.2\.2'
	done
	[[ $(helper_of one) != "$(helper_of two)" ]] || fail 'two boxes have one helper'
	wait_for 10 here busybox wget -q -O - http://127.0.0.1:18090/hello
	# What one serves is at this address and port in one, and nowhere for two.
	run -0 --separate-stderr holt exec two sh -c "$GET"'
		for at in "10.0.2.15 80" "10.0.2.2 80" "10.0.2.2 18090" "127.0.0.1 18090" "192.0.2.1 18090"; do
			get $at /hello 2>/dev/null && echo $at is reached
		done
		get 192.0.2.2 80 /hello'
	assert_output 'hello from the world'
}

# bats test_tags=user
@test "network: a host that names no server is told of; names fail at once, addresses are reached (K41)" {
	echo 'search example' >"$BATS_FILE_TMPDIR/resolv.conf"
	holt run -d --name mute demo sleep 600
	printf 'search example\nnameserver 192.0.2.2\n' >"$BATS_FILE_TMPDIR/resolv.conf"
	assert_match "$(net_of mute '.state + " " + .text')" '^up .*names no server'
	run -0 holt events --since 1m --until 0s
	assert_match "$output" ' no-resolver [0-9a-f]{12} name=mute text=.*names no server'
	run -0 --separate-stderr holt exec mute sh -c "$GET"'
		begun=$(date +%s)
		nslookup other.example 2>&1 | grep -o SERVFAIL | head -n 1
		nslookup world.example | grep -o 192.0.2.2
		get 192.0.2.2 80 /hello
		test $(($(date +%s) - begun)) -le 3 || echo it took long'
	assert_output $'SERVFAIL\n192.0.2.2\nhello from the world'
}

# C-192
# bats test_tags=user
@test "network: a provider's sandbox is open by default, has the list of its configuration, and is replaced when its network is lost" {
	local first
	export HOLT_CONFIG=$BATS_TEST_TMPDIR/config.yaml
	printf 'sandbox:\n  image: demo\n' >"$HOLT_CONFIG"
	run -0 --separate-stderr holt sandbox exec --for ann --thread 1 -- "${GET}get 192.0.2.2 80 /hello"
	assert_output 'hello from the world'
	first=$(holt ps -q)
	kill -9 "$(helper_of "$first")"
	wait_for 5 is_lost "$first"
	run -0 --separate-stderr holt sandbox exec --for ann --thread 1 -- "${GET}get 192.0.2.2 80 /hello"
	assert_output 'hello from the world'
	[[ $(holt ps -q) != "$first" ]] || fail 'the sandbox without a network is still there'
	printf '  network: {allow: ["198.51.100.7:80"]}\n' >>"$HOLT_CONFIG"
	run -0 --separate-stderr holt sandbox exec --for ann --thread 1 -- "${GET}
		get 198.51.100.7 80 /hello; get 192.0.2.2 80 /hello 2>/dev/null || echo refused"
	assert_output $'hello from the world\nrefused'
	holt sandbox release --for ann --thread 1 >/dev/null || true
}

# bats test_tags=user
@test "network: what makes no sense is refused before anything is made, with the entry" {
	local line
	while read -r line; do
		# shellcheck disable=SC2086 # options
		run -125 --separate-stderr holt run ${line%%|*} demo true
		assert_match "$stderr" "${line#*|}"
	done <<-'END'
		--network closed|'closed'
		--network isolated -p 80:80|'80:80'
		--network open --allow a.example|'a.example'
		--allow a..b|'a..b'
		-p 99999:1|'99999:1'
		-p 80|'80'
		-p 1.2.3:80:80|'1.2.3:80:80'
	END
	[[ -z $(holt ps -aq) ]] || fail 'a box was made'
}
