#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154 # variables shared with bats and tests/lib
# What the program finds around it: file systems, kernel, init.

load ../lib/common
load ../lib/vm

@test "root, /proc, /sys, /dev, /dev/pts, /dev/shm, /tmp, hostname, hosts" {
	run -0 --separate-stderr holt run --hostname facts demo sh -c '
		while read -r dev on type opts _; do
			case $on in / | /proc | /sys | /dev | /dev/pts | /dev/shm | /sys/fs/cgroup)
				echo "type $on=$type"; echo "opts $on=$opts" ;;
			esac
		done </proc/mounts
		for d in / /tmp /dev/shm /proc /sys /dev /dev/pts /root /etc; do
			echo "mode $d=$(stat -c "%a %u:%g" $d)"
		done
		for n in null zero full random urandom tty ptmx; do
			echo "dev $n=$(stat -c "%F %t,%T %a" /dev/$n)"
		done
		for n in fd stdin stdout stderr; do echo "link $n=$(readlink /dev/$n)"; done
		echo "hostname=$(hostname)"
		echo "etc=$(cat /etc/hostname)"
		echo "hosts=$(grep -c "[[:space:]]facts$" /etc/hosts)"
		echo "localhost=$(grep -c "^127.0.0.1[[:space:]].*localhost" /etc/hosts)"
		echo "kernel=$(uname -r)"
		echo "init=$(cat /proc/1/comm)"
		echo "lo=$(cat /sys/class/net/lo/operstate)"
		echo "fds=$(ls /proc/self/fd | wc -l)"
		echo "umask=$(umask)"
		echo "ulimit=$(ulimit -n) $(ulimit -Hn)"
		echo "oom=$(cat /proc/self/oom_score_adj)"
		echo "sigign=$(sed -n "s/^SigIgn:.//p" /proc/self/status)"
		echo "sigblk=$(sed -n "s/^SigBlk:.//p" /proc/self/status)"
		echo "seconds=$(date +%s)"'
	local now
	now=$(date +%s)
	[[ -z $stderr ]] || fail "stderr: $stderr"
	assert_fact 'type \/' overlay
	assert_fact 'type \/proc' proc
	assert_fact 'type \/sys' sysfs
	assert_fact 'type \/dev' devtmpfs
	assert_fact 'type \/dev\/pts' devpts
	assert_fact 'type \/dev\/shm' tmpfs
	assert_fact 'type \/sys\/fs\/cgroup' cgroup2
	assert_match ",$(fact 'opts \/')," ',rw,'
	assert_match "$(fact 'opts \/proc')" 'nosuid.*nodev.*noexec'
	assert_match "$(fact 'opts \/sys')" 'nosuid.*nodev.*noexec'
	assert_match "$(fact 'opts \/dev')" nosuid
	assert_match "$(fact 'opts \/dev\/shm')" 'nosuid.*nodev'
	assert_fact 'mode \/' '755 0:0'
	assert_fact 'mode \/tmp' '1777 0:0'
	assert_fact 'mode \/dev\/shm' '1777 0:0'
	assert_fact 'mode \/root' '700 0:0'
	assert_fact 'dev null' 'character special file 1,3 666'
	assert_fact 'dev zero' 'character special file 1,5 666'
	assert_fact 'dev full' 'character special file 1,7 666'
	assert_fact 'dev random' 'character special file 1,8 666'
	assert_fact 'dev urandom' 'character special file 1,9 666'
	assert_fact 'dev tty' 'character special file 5,0 666'
	assert_fact 'dev ptmx' 'character special file 5,2 666'
	assert_fact 'link fd' /proc/self/fd
	assert_fact 'link stdin' /proc/self/fd/0
	assert_fact 'link stdout' /proc/self/fd/1
	assert_fact 'link stderr' /proc/self/fd/2
	assert_fact hostname facts
	assert_fact etc facts
	assert_fact hosts 1
	assert_fact localhost 1
	[[ $(fact kernel) != "$(uname -r)" ]] || fail "runs on the kernel of the host"
	assert_match "$(holt doctor)" " $(fact kernel) at "
	# Nothing but the three streams (and the directory that ls reads).
	assert_fact fds 4
	assert_fact umask 0022
	assert_fact ulimit '1024 524288'
	assert_fact oom 0
	assert_fact sigign 0000000000000000
	assert_fact sigblk 0000000000000000
	assert_between "the clock, in seconds from the host's" $(($(fact seconds) - now)) -2 2
}

@test "the root is writable everywhere, and no write outlives the box or reaches the image" {
	run -0 --separate-stderr holt run demo sh -e -c '
		echo new >/etc/new; mkdir -p /a/b/c; echo deep >/a/b/c/file
		echo changed >>/etc/passwd; grep -c changed /etc/passwd
		rm /etc/os-release; test ! -e /etc/os-release
		ln /etc/group /etc/group2; echo x >>/etc/group2; grep -c "^x$" /etc/group
		mv /opt /opt2; test -d /opt2; test ! -e /opt
		rm -r /srv; mkdir /srv; touch /srv/again; ls /srv
		chown 5:6 /etc/hosts; chmod 600 /etc/hosts; stat -c "%a %u:%g" /etc/hosts
		touch /bin/x; cp /bin/busybox /usr/bin/busybox2; /usr/bin/busybox2 echo copied
		mkfifo /fifo; mknod /node c 1 3; echo into >/node; ln -s /etc/new /sym; cat /sym
		head -c 50000000 /dev/zero >/big; stat -c %s /big; sync
		echo "free=$(df -k / | tail -n 1 | tr -s " " | cut -d " " -f 4)"'
	assert_equal "what the box saw" "${output%$'\n'*}" '1
1
again
600 5:6
copied
new
50000000'
	# The disk has 10 GiB by default, whatever the host has.
	assert_between "free KiB" "$(fact free)" $((8 * 1024 * 1024)) $((10 * 1024 * 1024))
	run -0 --separate-stderr holt run demo sh -c \
		'ls /etc/new /a /opt2 /big /fifo 2>/dev/null; ls -d /opt /etc/os-release; grep -c changed /etc/passwd; ls /srv'
	assert_output $'/etc/os-release\n/opt\n0'
}

@test "images that bring odd /dev, /proc, /sys, /tmp, /run" {
	mkdir -p "$TEST_DIR/odd/dev" "$TEST_DIR/odd/proc" "$TEST_DIR/odd/etc"
	echo fake >"$TEST_DIR/odd/dev/null"
	echo fake >"$TEST_DIR/odd/proc/cpuinfo"
	ln -s /etc/nowhere "$TEST_DIR/odd/etc/hosts"
	# Without /tmp, /run, /sys and /etc/hostname.
	mkdir -p "$TEST_DIR/few/bin"
	cp "$(command -v busybox)" "$TEST_DIR/few/bin/busybox"
	ln -sf busybox "$TEST_DIR/few/bin/sh"
	image odd --busybox --layer "$TEST_DIR/odd"
	image few --layer "$TEST_DIR/few"
	box odd odd sh -c 'echo gone >/dev/null; stat -c %F /dev/null; grep -c ^processor /proc/cpuinfo; readlink /etc/hosts'
	box few few sh -c 'busybox stat -c "%n %F %a" /tmp /run /sys /dev/shm /etc'
	boxes
	assert_box odd 0 $'character special file\n1\n/etc/nowhere'
	assert_box few 0 '/tmp directory 1777
/run directory 755
/sys directory 555
/dev/shm directory 1777
/etc directory 755'
}

@test "K04: 500 orphans leave no zombie, and init takes no time for it" {
	run -0 --separate-stderr holt run demo sh -c '
		i=0
		while [ $i -lt 500 ]; do
			# The inner shell ends before its child: an orphan.
			sh -c "{ :; exit 0; } & exit 0"
			i=$((i + 1))
		done
		sleep 1
		cat /proc/[0-9]*/stat 2>/dev/null | sed "s/.*) //" | cut -c1 | sort | uniq -c | tr -s " " >&2
		echo "zombies=$(cat /proc/[0-9]*/stat 2>/dev/null | sed "s/.*) //" | grep -c ^Z)"
		echo "last=$(sh -c "echo \$\$")"'
	assert_fact zombies 0
	# They really were there.
	assert_between "the last pid" "$(fact last)" 1000 100000
}
