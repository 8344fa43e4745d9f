# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Loaded by the files of tests/net after lib/common: a guest, a host and its neighbour.

setup() {
	common_setup
	skip_unless "no network namespaces for this user" namespaces true
	printf 'nameserver 192.0.2.2\n' >"$TEST_DIR/resolv"
	: >"$TEST_DIR/hosts"
}

# In a host's namespaces, where the caller is root.
namespaces() {
	local flags=(-n -p -f --mount-proc --kill-child)
	((EUID == 0)) || flags=(-U -r "${flags[@]}")
	unshare "${flags[@]}" "$@"
}

# net [OPTION-OF-GUEST...] -- COMMAND...
net() {
	namespaces timeout 100 "$ROOT/tests/net/world" "$HOLT_BUILD/tests/net/guest" --helper "$HOLT_BUILD/holt-net" \
		--resolv "$TEST_DIR/resolv" --hosts "$TEST_DIR/hosts" --told "$TEST_DIR/told" "$@"
}

# A script for the guest, which knows `peer`, `ask NAME TYPE [tcp]`, and `host COMMAND...` and
# `neighbour COMMAND...` for what runs at the other ends.
guest() {
	cat >"$TEST_DIR/script" <<-'END'
		peer() { "$HOLT_BUILD/tests/net/peer" "$@"; }
		ask() { "$HOLT_BUILD/tests/net/namepeer" ask 10.0.2.3 "$@"; }
		# must STATUS COMMAND...
		must() {
			local wanted=$1 got=0
			shift
			"$@" || got=$?
			((got == wanted)) || { echo "'$*' ended with $got, not $wanted"; exit 1; }
		}
		host() { nsenter -t "$GUEST_HELPER" -n "$@"; }
		neighbour() { nsenter -t "$WORLD_PEER" -n "$@"; }
		helper_fds() { ls "/proc/$GUEST_HELPER/fd" | wc -l; }
	END
	cat >>"$TEST_DIR/script"
}
