/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: prey DIR LOG: what an intruder may want, made by the same user: a process with something
 * in its memory, listeners on every kind of address, shared memory. It prints how to reach each, as
 * lines "KEY VALUE", then closes its stdout; what reaches it is a line in LOG.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LISTENERS 5

static char secret[16] = "secret";

static struct {
	const char *name;
	int fd;
} listeners[LISTENERS];
static size_t n_listeners;

static void __attribute__((noreturn)) die(const char *what)
{
	perror(what);
	exit(1);
}

static void listen_at(
	const char *name, int domain, int type, const void *address, socklen_t len, long *ret_port)
{
	struct sockaddr_in at = {0};
	socklen_t n = sizeof at;
	const int fd = socket(domain, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, address, len) < 0 || (type == SOCK_STREAM && listen(fd, 16) < 0))
		die(name);
	if (ret_port && getsockname(fd, (struct sockaddr *)&at, &n) < 0)
		die(name);
	if (ret_port)
		*ret_port = ntohs(at.sin_port);
	listeners[n_listeners].name = name;
	listeners[n_listeners++].fd = fd;
}

/* An address of this host that is not its loopback; with none that one has to do. */
static struct in_addr host_address(void)
{
	struct in_addr found = {htonl(INADDR_LOOPBACK)};
	struct ifaddrs *all = NULL;

	if (getifaddrs(&all) < 0)
		return found;
	for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
		struct sockaddr_in in;

		if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET ||
			(a->ifa_flags & IFF_LOOPBACK))
			continue;
		memcpy(&in, a->ifa_addr, sizeof in);
		found = in.sin_addr;
	}
	freeifaddrs(all);
	return found;
}

static void listen_internet(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	char text[INET_ADDRSTRLEN];
	long port = 0;

	listen_at("tcp", AF_INET, SOCK_STREAM, &a, sizeof a, &port);
	(void)printf("tcp %ld\n", port);
	listen_at("udp", AF_INET, SOCK_DGRAM, &a, sizeof a, &port);
	(void)printf("udp %ld\n", port);
	a.sin_addr = host_address();
	listen_at("tcp-host", AF_INET, SOCK_STREAM, &a, sizeof a, &port);
	(void)printf("tcp-host %ld\nhost %s\n", port,
		inet_ntop(AF_INET, &a.sin_addr, text, sizeof text));
}

static void listen_local(const char *dir)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if ((size_t)snprintf(a.sun_path, sizeof a.sun_path, "%s/prey.sock", dir) >=
		sizeof a.sun_path)
		die("path");
	listen_at("unix", AF_UNIX, SOCK_STREAM, &a, sizeof a, NULL);
	if (chmod(a.sun_path, 0777) < 0)
		die("chmod");
	(void)printf("unix %s\n", a.sun_path);

	memset(a.sun_path, 0, sizeof a.sun_path);
	(void)snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "holt-prey-%d", (int)getpid());
	listen_at("abstract", AF_UNIX, SOCK_STREAM, &a,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(a.sun_path + 1)),
		NULL);
	(void)printf("abstract %s\n", a.sun_path + 1);
}

/* It goes with this process, whatever ends that. */
static void share_memory(void)
{
	const int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0666);

	if (id < 0 || shmat(id, NULL, 0) == (void *)-1 || shmctl(id, IPC_RMID, NULL) < 0)
		die("shared memory");
	(void)printf("shm %d\n", id);
}

static void serve(int log)
{
	struct pollfd fds[LISTENERS];

	for (size_t i = 0; i < n_listeners; i++)
		fds[i] = (struct pollfd){.fd = listeners[i].fd, .events = POLLIN};
	for (;;) {
		if (poll(fds, n_listeners, -1) < 0 && errno != EINTR)
			die("poll");
		for (size_t i = 0; i < n_listeners; i++) {
			char c;
			const int fd = fds[i].revents ? accept(fds[i].fd, NULL, NULL) : -1;

			if (fd >= 0)
				(void)close(fd);
			else if (!fds[i].revents || recv(fds[i].fd, &c, 1, 0) < 0)
				continue;
			(void)dprintf(log, "reached %s\n", listeners[i].name);
		}
	}
}

int main(int argc, char **argv)
{
	const int log = argc == 3 ? open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;

	if (log < 0) {
		(void)fputs("usage: prey DIR LOG\n", stderr);
		return 2;
	}
	listen_internet();
	listen_local(argv[1]);
	share_memory();
	(void)printf(
		"victim %d\nvictim-memory %lu\n", (int)getpid(), (unsigned long)(uintptr_t)secret);
	if (fflush(stdout) != 0 || !freopen("/dev/null", "w", stdout))
		die("stdout");
	serve(log);
}
