# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2016 # expanded by other shells
# A host and a world for tests of boxes' networks: two network namespaces with a wire between them, so
# that real traffic flows and none of it leaves this machine.
#
#   here   192.0.2.1 and 2001:db8::1: where holt runs, with a resolv.conf and hosts of its own
#   there  192.0.2.2 and 2001:db8::2, the way to everything else; $WORLD is what its web server has
#
# As root these are plain namespaces, as another user those of a user namespace in which he is root.
# holt itself is started in `here` by the tests: the function holt is replaced.

# netns_setup: make both, with a web server there on ports 80 and 8080.
netns_setup() {
	local user=()
	((EUID == 0)) || user=(-Ur)
	export WORLD=$BATS_FILE_TMPDIR/world
	mkdir -p "$WORLD"
	echo hello from the world >"$WORLD/hello"
	# Each becomes what it starts, so $! is the process that has the namespaces.
	unshare "${user[@]}" -nm sleep 1800 >/dev/null 2>&1 3>&- &
	export NET_HERE=$!
	wait_for 5 netns_is_new "$NET_HERE" self
	netns_enter "$NET_HERE" -m
	nsenter "${ENTER[@]}" unshare -n sleep 1800 >/dev/null 2>&1 3>&- &
	export NET_THERE=$!
	wait_for 5 netns_is_new "$NET_THERE" "$NET_HERE"
	printf 'search example\nnameserver 192.0.2.2\n' >"$BATS_FILE_TMPDIR/resolv.conf"
	printf '127.0.0.1 localhost\n192.0.2.2 world.example\n' >"$BATS_FILE_TMPDIR/hosts"
	here sh -euc '
		mount --bind "$2/resolv.conf" /etc/resolv.conf
		mount --bind "$2/hosts" /etc/hosts
		ip link set lo up
		ip link add host type veth peer name world
		ip link set world netns "$1"
		ip addr add 192.0.2.1/24 dev host
		ip -6 addr add 2001:db8::1/64 dev host nodad
		ip link set host up
		ip route add default via 192.0.2.2
		ip -6 route add default via 2001:db8::2 2>/dev/null || true' sh "$NET_THERE" "$BATS_FILE_TMPDIR"
	there sh -euc '
		ip link set lo up
		ip addr add 192.0.2.2/24 dev world
		ip addr add 198.51.100.7/32 dev lo
		ip -6 addr add 2001:db8::2/64 dev world nodad
		ip link set world up'
	netns_enter "$NET_THERE"
	nsenter "${ENTER[@]}" busybox httpd -f -p 80 -h "$WORLD" >/dev/null 2>&1 3>&- &
	export NET_WEB=$!
}

netns_is_new() {
	[[ $(cat "/proc/$1/comm") == sleep &&
		$(readlink "/proc/$1/ns/net") != $(readlink "/proc/$2/ns/net") ]]
}

# netns_enter PID [OPTION]: nsenter's options for the namespaces of a process, into ENTER.
netns_enter() {
	ENTER=(-t "$1" -n "${@:2}")
	((EUID == 0)) || ENTER+=(-U --preserve-credentials)
	ENTER+=(--)
}

netns_teardown() {
	local pid
	for pid in "${NET_WEB:-}" "${NET_NAMES:-}" "${NET_THERE:-}" "${NET_HERE:-}"; do
		[[ -z $pid ]] || kill -9 "$pid" 2>/dev/null || true
	done
}

# Run a command in one of them.
here() {
	netns_enter "$NET_HERE" -m
	nsenter "${ENTER[@]}" "$@"
}

there() {
	netns_enter "$NET_THERE"
	nsenter "${ENTER[@]}" "$@"
}

holt() {
	here "$HOLT" "$@"
}
