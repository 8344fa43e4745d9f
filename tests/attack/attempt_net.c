/* SPDX-License-Identifier: Apache-2.0 */
/* What an intruder tries to reach: listeners of the host, by every kind of address. */
#include "attempt.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static long with_socket(int domain, int type, long nr, const void *address, size_t len)
{
	const long fd = CALL(SYS_socket, (long)domain, (long)(type | SOCK_CLOEXEC), 0L);
	long r = fd;

	if (fd >= 0 && nr == SYS_sendto)
		r = CALL(nr, fd, word("x"), 1L, 0L, word(address), (long)len);
	else if (fd >= 0)
		r = CALL(nr, fd, word(address), (long)len);
	if (fd >= 0)
		(void)CALL(SYS_close, fd);
	return r;
}

static struct sockaddr_in internet(const char *address, long port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

	(void)inet_pton(AF_INET, address, &a.sin_addr);
	return a;
}

static struct sockaddr_un local(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	(void)snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	return a;
}

static long connect_loopback(void)
{
	const struct sockaddr_in a = internet("127.0.0.1", prey_number("tcp"));

	return with_socket(AF_INET, SOCK_STREAM, SYS_connect, &a, sizeof a);
}

static long connect_host(void)
{
	const struct sockaddr_in a = internet(prey("host"), prey_number("tcp-host"));

	return with_socket(AF_INET, SOCK_STREAM, SYS_connect, &a, sizeof a);
}

static long send_udp(void)
{
	const struct sockaddr_in a = internet("127.0.0.1", prey_number("udp"));

	return with_socket(AF_INET, SOCK_DGRAM, SYS_sendto, &a, sizeof a);
}

static long connect_unix(void)
{
	const struct sockaddr_un a = local(prey("unix"));

	return with_socket(AF_UNIX, SOCK_STREAM, SYS_connect, &a, sizeof a);
}

static long connect_other_keeper(void)
{
	const struct sockaddr_un a = local(prey("keeper-sock"));

	return with_socket(AF_UNIX, SOCK_SEQPACKET, SYS_connect, &a, sizeof a);
}

static long connect_abstract(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	const char *name = prey("abstract");
	const size_t len = strlen(name);

	memcpy(a.sun_path + 1, name, len);
	return with_socket(AF_UNIX, SOCK_STREAM, SYS_connect, &a,
		offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

/* To be found by others. */
static long listen_unix(void)
{
	char path[108];

	(void)snprintf(path, sizeof path, "%.80s/holt-intruder", prey("open-dir"));
	const struct sockaddr_un a = local(path);
	const long r = with_socket(AF_UNIX, SOCK_STREAM, SYS_bind, &a, sizeof a);
	if (r == 0)
		(void)CALL(SYS_unlink, word(path));
	return r;
}

/* Just a socket: reaches nobody by itself. */
static long make_socket(void)
{
	return with_socket(AF_UNIX, SOCK_STREAM, SYS_getsockname, NULL, 0) == -EFAULT ? 0 : -EPERM;
}

static long make_raw_socket(void)
{
	const long fd = CALL(SYS_socket, (long)AF_PACKET, (long)SOCK_RAW, 0L);

	if (fd >= 0)
		(void)CALL(SYS_close, fd);
	return fd;
}

static long make_netlink_socket(void)
{
	const long fd = CALL(SYS_socket, (long)AF_NETLINK, (long)SOCK_RAW, (long)NETLINK_ROUTE);

	if (fd >= 0)
		(void)CALL(SYS_close, fd);
	return fd;
}

/* A segment of shared memory that everybody may write. */
static long attach_shared_memory(void)
{
	const long at = CALL(SYS_shmat, prey_number("shm"), 0L, 0L);

	if (at >= 0)
		(void)CALL(SYS_shmdt, at);
	return at;
}

const struct attempt net_attempts[] = {
	{"connect-loopback", connect_loopback},
	{"connect-host", connect_host},
	{"send-udp", send_udp},
	{"connect-unix", connect_unix},
	{"connect-other-keeper", connect_other_keeper},
	{"connect-abstract", connect_abstract},
	{"listen-unix", listen_unix},
	{"make-socket", make_socket},
	{"make-raw-socket", make_raw_socket},
	{"make-netlink-socket", make_netlink_socket},
	{"attach-shared-memory", attach_shared_memory},
	{NULL, NULL},
};
