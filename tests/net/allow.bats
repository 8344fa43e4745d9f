#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What an allow-list lets out and what it does not, with real traffic and with a name server that says
# what an attacker would have it say. Whatever is refused is refused within a second, and the host sends
# no packet for it: its own counters tell.
load ../lib/common
load net

bats_require_minimum_version 1.5.0

# listed ENTRY... <SCRIPT: run the script in a guest that may reach these. It knows:
#   reached ADDRESS PORT      by TCP
#   refused COMMAND...        ends with a refusal within a second, and the host sends nothing
#   ask NAME TYPE [tcp]       of the guest's resolver
#   is TEXT NAME TYPE [tcp]   what it answers, on one line
listed() {
	local spec
	spec=$(jq -cn '{mode: "allowlist", allow: $ARGS.positional}' --args "$@")
	cat - >"$TEST_DIR/tail"
	cat - "$TEST_DIR/tail" >"$TEST_DIR/script" <<-'END'
		peer() { "$HOLT_BUILD/tests/net/peer" "$@"; }
		ask() { "$HOLT_BUILD/tests/net/namepeer" ask 10.0.2.3 "$@"; }
		other() { "$HOLT_BUILD/tests/net/namepeer" ask "$@"; }
		wrong() { echo "line ${BASH_LINENO[1]}: $*"; exit 1; }
		is() {
			local got
			got=$(ask "${@:2}" | tr '\n' ' ')
			[[ $got == "$1 " ]] || wrong "'${*:2}' gives '$got', not '$1'"
		}
		reached() { peer connect "$@" || wrong "'$*' is not reached"; }
		# Datagrams and connections that the host's programs have begun, and echo requests.
		sent() {
			nsenter -t "$GUEST_HELPER" -n awk '
				/^Udp: [0-9]/ { print $5 } /^Tcp: [0-9]/ { print $6 } /^Icmp: [0-9]/ { print $22 }
				/^(Udp6OutDatagrams|Icmp6OutEchos) / { print $2 }' /proc/net/snmp /proc/net/snmp6
		}
		refused() {
			local got=0 start=${EPOCHREALTIME//./} before
			before=$(sent)
			start=${EPOCHREALTIME//./}
			"$@" 2>/dev/null || got=$?
			((${EPOCHREALTIME//./} - start < 1000000)) || wrong "'$*' took a second"
			[[ $got == 3 ]] || wrong "'$*' ended with $got, not 3"
			[[ $(sent) == "$before" ]] || wrong "'$*' made the host send something"
		}
		# A name that is not listed: told so, and nobody is asked.
		unlisted() {
			local before
			before=$(sent)
			is 'code 5' "$@"
			[[ $(sent) == "$before" ]] || wrong "'$*' was asked for"
		}
	END
	run net --spec "$spec" -- bash "$TEST_DIR/script"
	assert_status 0
}

# told: what was refused, one a line.
told() {
	run -0 jq -r 'select(.refused).refused | "\(.proto) \(.name) \(.address) \(.port)"' "$TEST_DIR/told"
}

# bats test_tags=user
@test "K38: a listed name is reached at its port; other names, ports, literals and resolvers are refused" {
	listed a.test:7 <<-'END'
		refused peer connect 192.0.2.2 7
		is 'code 0 1 192.0.2.2' a.test 1
		reached 192.0.2.2 7
		peer udp 192.0.2.2 100 || wrong 'udp'
		for port in 9 443; do
			refused peer connect 192.0.2.2 $port
		done
		# What is below it, above it or looks like it.
		for name in other.test x.a.test test xa.test a.test.other.test a.tes a-test $'b\xc3\xbc.test'; do
			unlisted "$name" 1
			unlisted "$name" 28 tcp
			unlisted "$name" 65
		done
		unlisted a.test 252 tcp
		other fd68:6f6c:7400::3 other.test 1 | grep -qx 'code 5' || wrong 'by IPv6'
		# Literals, which nobody has asked for.
		for a in 192.0.2.3 198.51.100.7 2001:db8:1::2 2001:db8:1::3; do
			refused peer connect $a 7
			refused peer udp $a 10
		done
		# Other resolvers: UDP, TCP, TLS, HTTPS.
		for a in 192.0.2.2 192.0.2.3 2001:db8:1::2; do
			refused other $a a.test 1
			refused other $a a.test 1 tcp
			refused peer connect $a 853
			refused peer connect $a 443
		done
		for port in 1 80 853; do
			refused peer connect 10.0.2.3 $port
		done
		# Refusals of the same second are told together.
		sleep 1.5
	END
	told
	assert_match "$output" $'(^|\n)dns other\.test  0(\n|$)'
	assert_match "$output" $'(^|\n)tcp a\.test 192\.0\.2\.2 9(\n|$)'
	assert_match "$output" $'(^|\n)tcp  192\.0\.2\.3 7(\n|$)'
	assert_match "$output" $'(^|\n)tcp  2001:db8:1::2 853(\n|$)'
	assert_match "$output" $'(^|\n)udp a\.test 192\.0\.2\.2 53(\n|$)'
}

# bats test_tags=user
@test "K38: an empty list refuses each name and each address" {
	listed <<-'END'
		unlisted a.test 1
		is 'code 0 1 127.0.0.1' localhost 1
		refused peer connect 192.0.2.2 7
		refused peer udp 192.0.2.2 7
		refused peer connect 2001:db8:1::2 7
	END
}

# bats test_tags=user
@test "K38: the same name in other spellings: dot, case, xn--, below a domain; aliases by what was asked for" {
	listed A.Test.:7 xn--BCHER-kva.192-0-2-3.all.test:7 alias.test:9 '*.aaaa.test:7' <<-'END'
		for name in a.test a.test. A.TEST a.TEST.; do
			is 'code 0 1 192.0.2.2' $name 1
		done
		reached 192.0.2.2 7
		is 'code 0 1 192.0.2.3' XN--bcher-KVA.192-0-2-3.all.test 1
		reached 192.0.2.3 7
		# In two steps, of which neither is listed; a port of the name that was asked for.
		refused peer connect 192.0.2.2 9
		is 'code 0 5 middle.test 5 a.test 1 192.0.2.2' alias.test 1
		reached 192.0.2.2 9
		refused peer connect 192.0.2.2 19
		unlisted middle.test 1
		unlisted x.alias.test 1
		# Below a domain, at any depth, but not itself.
		unlisted aaaa.test 28
		unlisted xaaaa.test 28
		refused peer connect 2001:db8:1::2 7
		is 'code 0 28 2001:db8:1::2' x.Y.aaaa.test. 28
		reached 2001:db8:1::2 7
		refused peer connect 2001:db8:1::3 7
		# Hints of addresses are not given, nor asked for.
		before=$(sent)
		is 'code 0' a.test 65
		is 'code 0' a.test 64
		[[ $(sent) == "$before" ]] || wrong 'hints were asked for'
	END
	# Where an alias leads being listed does not list the alias.
	listed a.test:7 middle.test:7 <<-'END'
		unlisted alias.test 1
		refused peer connect 192.0.2.2 7
	END
}

# bats test_tags=user
@test "K38: addresses and networks, by IPv4 and IPv6; echo needs all ports" {
	listed 192.0.2.2 192.0.2.3:7 '[2001:db8:1::2]:7' 2001:db8:1::3/128 198.51.100.0/24 <<-'END'
		reached 192.0.2.2 7
		reached 192.0.2.2 9
		reached 192.0.2.3 7
		reached 2001:db8:1::2 7
		reached 2001:db8:1::3 9
		refused peer connect 192.0.2.3 9
		refused peer connect 2001:db8:1::2 9
		echo 0 0 >/proc/sys/net/ipv4/ping_group_range
		peer echo 192.0.2.2 || wrong 'no echo'
		# By IPv6 nobody has an echo from outside, listed or not.
		for a in 192.0.2.3 192.0.2.77 192.0.2.1 2001:db8:1::2 2001:db8:1::3; do
			refused peer echo $a
		done
		# Other resolvers are addresses like others.
		other 192.0.2.2 a.test 1 | grep -qx '1 192.0.2.2' || wrong 'a listed resolver'
		unlisted a.test 1
	END
	listed 192.0.2.0/24:7 '[2001:db8:1::2/127]:9' <<-'END'
		reached 192.0.2.2 7
		reached 192.0.2.3 7
		reached 2001:db8:1::3 9
		refused peer connect 192.0.2.2 9
		refused peer connect 192.0.3.2 7
		refused peer connect 2001:db8:1::4 9
		refused peer connect 2001:db8:1::3 7
		refused peer connect 192.0.2.1 7
	END
}

# bats test_tags=user
@test "K38: nothing lists the host, metadata services, or IPv6's ways to write them" {
	listed 0.0.0.0/0 ::/0 '*.test' <<-'END'
		reached 192.0.2.2 7
		reached 2001:db8:1::2 7
		ip route add 127.0.0.0/8 via 10.0.2.2 dev eth0 2>/dev/null || true
		for a in 192.0.2.1 169.254.169.254 10.0.2.2 2001:db8:1::1 fd68:6f6c:7400::2 \
			64:ff9b::192.0.2.1 64:ff9b::169.254.169.254 64:ff9b:1::192.0.2.2 2002:c000:0201::1 \
			2001:0:c000:201::1 2001:db8:1::5efe:192.0.2.1; do
			refused peer connect $a 7
		done
		# By names as by numbers: what nobody reaches is no answer.
		is 'code 0' 192-0-2-1.127-0-0-1.169-254-169-254.10-0-2-2.0-0-0-0.all.test 1
		is 'code 0' 0--1.2001-db8-1--1.0--ffff-c000-202.all.test 28
		is 'code 0' fe80--1.64-ff9b--c000-201.2002-7f00-1--1.all.test 28
		is 'code 0 1 192.0.2.3' 127-0-0-1.192-0-2-3.192-0-2-1.all.test 1
		is 'code 0 1 192.0.2.2' mixed.test 1
		sleep 1.5
	END
	told
	assert_match "$output" $'(^|\n)tcp  169\.254\.169\.254 7(\n|$)'
}

# bats test_tags=user
@test "K38: a name that turns: not to the host, to another address at the same port, and each only for its time" {
	listed '*.turn.test:7' <<-'END'
		name=192-0-2-2.127-0-0-1.169-254-169-254.192-0-2-1.192-0-2-3.turn.test
		is 'code 0 1 192.0.2.2' $name 1
		exec 5<>/dev/tcp/192.0.2.2/7 6<>/dev/udp/192.0.2.2/7
		reached 192.0.2.2 7
		for a in '' 169.254.169.254 192.0.2.1; do
			is 'code 0' $name 1
			[[ -z $a ]] || refused peer connect $a 7
		done
		refused peer connect 192.0.2.3 7
		is 'code 0 1 192.0.2.3' $name 1
		reached 192.0.2.3 7
		refused peer connect 192.0.2.3 9
		say() { printf %s "$2" >&"$1" && read -r -n 1 -t 2 back <&"$1" && [[ $back == "$2" ]]; }
		say 5 a && say 6 b || wrong 'both were begun'
		# An answer for no seconds is good for ten of them.
		sleep 10.5
		refused peer connect 192.0.2.2 7
		refused peer connect 192.0.2.3 7
		refused peer udp 192.0.2.3 7
		say 5 c && say 6 d || wrong 'what was begun has ended with the answer'
		is 'code 0 1 192.0.2.2' 192-0-2-2.turn.test 1
		reached 192.0.2.2 7
	END
}

# bats test_tags=user
@test "K38: a name of the host's own list is reached by it where it is listed; an alias of the host never" {
	printf '192.0.2.3 box.example\n192.0.2.1 me.example\n127.0.1.1 me.example myself\n' >"$TEST_DIR/hosts"
	: >"$TEST_DIR/resolv"
	listed box.example:7 me.example myself <<-'END'
		unlisted other.example 1
		is 'code 0 1 192.0.2.3' box.example 1
		reached 192.0.2.3 7
		is 'code 0' me.example 1
		is 'code 0' myself 1
		refused peer connect 192.0.2.1 7
		unlisted box 1
	END
}
