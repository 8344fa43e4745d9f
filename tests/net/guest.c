/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest [OPTION...] -- COMMAND...: a guest without a machine, for tests of holt-net.
 *
 * Starts the helper in the network namespace it is called in and plays QEMU and keeper for it. The
 * command runs in a new network namespace whose only card is the other end of the frames, so that
 * the kernel's own TCP/IP is the guest's. Ends with the command's status. Needs to be root in its
 * user namespace (`unshare -Ur`).
 *
 *   --helper PATH    the helper
 *   --spec JSON      what it may reach
 *   --mtu N          of the card, instead of the helper's
 *   --resolv FILE    the host's resolv.conf, read again each time the helper asks
 *   --hosts FILE     the host's hosts
 *   --told FILE      every message of the helper, one a line
 *   --packet         a packet socket on a veth even where there is /dev/net/tun
 *   --eof            close the keeper's end when the command ends, and report whether the helper
 *                    ended by itself within two seconds
 * The command gets GUEST_HELPER, the helper's process id.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/net_link.h"

static struct {
	const char *helper;
	const char *spec;
	const char *mtu;
	const char *resolv;
	const char *hosts;
	FILE *told;
	bool packet;
	bool eof;
} options = {.helper = "holt-net", .spec = "{\"mode\":\"open\"}"};

static void die(const char *what)
{
	(void)fprintf(stderr, "guest: %s: %s\n", what, strerror(errno));
	exit(125);
}

static void run(const char *format, ...) __attribute__((format(__printf__, 1, 2)));
static void run(const char *format, ...)
{
	char command[512];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(command, sizeof command, format, ap);
	va_end(ap);
	if (system(command) != 0) {
		(void)fprintf(stderr, "guest: failed: %s\n", command);
		exit(125);
	}
}

static pid_t start_helper(int frames, int keeper)
{
	const pid_t pid = fork();

	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* First out of the way of the numbers that are agreed upon. */
	const int high_frames = fcntl(frames, F_DUPFD, 20);
	const int high_keeper = fcntl(keeper, F_DUPFD, 20);
	(void)dup2(high_frames, NET_FD_FRAMES);
	(void)dup2(high_keeper, NET_FD_KEEPER);
	for (int fd = NET_FD_END; fd < 40; fd++)
		(void)close(fd);
	(void)execl(options.helper, "holt-net", (char *)NULL);
	die(options.helper);
	return -1;
}

static char *read_file(const char *path)
{
	char *text = calloc(1, NET_TEXT_MAX + 1);
	FILE *f = path ? fopen(path, "r") : NULL;

	if (f) {
		(void)!fread(text, 1, NET_TEXT_MAX, f);
		(void)fclose(f);
	}
	return text;
}

static void say(int keeper, const char *key, json_t *body)
{
	json_t *message = json_pack("{s:o}", key, body);
	char *text = json_dumps(message, JSON_COMPACT);

	if (send(keeper, text, strlen(text), MSG_NOSIGNAL) < 0)
		(void)fprintf(stderr, "guest: the helper does not listen: %s\n", strerror(errno));
	free(text);
	json_decref(message);
}

static void say_names(int keeper)
{
	char *resolv = read_file(options.resolv);
	char *hosts = read_file(options.hosts);

	say(keeper, "names", json_pack("{s:s, s:s}", "resolv", resolv, "hosts", hosts));
	free(resolv);
	free(hosts);
}

/* NULL at the helper's end. */
static json_t *hear(int keeper)
{
	static char text[NET_MESSAGE_MAX];
	const ssize_t n = recv(keeper, text, sizeof text, 0);

	if (n <= 0)
		return NULL;
	if (options.told) {
		(void)fprintf(options.told, "%.*s\n", (int)n, text);
		(void)fflush(options.told);
	}
	return json_loadb(text, (size_t)n, 0, NULL);
}

static json_t *wait_up(int keeper)
{
	for (;;) {
		json_t *message = hear(keeper);

		if (!message) {
			(void)fprintf(stderr, "guest: the helper ended before it was up\n");
			exit(124);
		}
		if (json_object_get(message, "failed")) {
			json_dumpf(message, stderr, 0);
			(void)fputc('\n', stderr);
			exit(123);
		}
		if (json_object_get(message, "up"))
			return message;
		if (json_object_get(message, "ask"))
			say_names(keeper);
		json_decref(message);
	}
}

static int open_tap(void)
{
	struct ifreq ifr = {.ifr_flags = IFF_TAP | IFF_NO_PI};
	const int fd = options.packet ? -1 : open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);

	(void)snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "eth0");
	if (fd >= 0 && ioctl(fd, TUNSETIFF, &ifr) == 0)
		return fd;
	if (fd >= 0)
		(void)close(fd);
	return -1;
}

/* Frames must arrive as a card would send them: with checksums, and not larger than they may be. */
static void switch_off(int fd, uint32_t what)
{
	struct ethtool_value value = {.cmd = what};
	struct ifreq ifr = {.ifr_data = (void *)&value};

	(void)snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "eth0");
	if (ioctl(fd, SIOCETHTOOL, &ifr) < 0)
		die("ethtool");
}

static int open_veth(void)
{
	struct sockaddr_ll where = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	const int size = 8 << 20;

	if (fd < 0)
		die("packet socket");
	run("ip link add eth0 type veth peer name wire && ip link set wire mtu 65535 up");
	where.sll_ifindex = (int)if_nametoindex("wire");
	/* Whoever may not force it gets as much as the host allows. */
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	if (bind(fd, (struct sockaddr *)&where, sizeof where) < 0)
		die("bind to the wire");
	switch_off(fd, ETHTOOL_STXCSUM);
	switch_off(fd, ETHTOOL_STSO);
	switch_off(fd, ETHTOOL_SGSO);
	return fd;
}

static int make_card(const json_t *up)
{
	int fd;
	char mtu[16];
	const char *sends = options.mtu;

	if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0)
		die("unshare");
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		die("mount");
	fd = open_tap();
	const bool veth = fd < 0;
	if (veth)
		fd = open_veth();
	(void)snprintf(mtu, sizeof mtu, "%d", (int)json_integer_value(json_object_get(up, "mtu")));
	sends = sends ? sends : mtu;
	/* A machine's card takes larger frames than it sends; one half of a pair does not, so there
	 * the limit is the route's. */
	run("ip link set lo up && ip link set eth0 mtu %s up", veth ? mtu : sends);
	run("ip addr add %s/%d dev eth0 && ip route add default via %s mtu %s", NET_GUEST4,
		NET_PREFIX4, NET_GATEWAY4, sends);
	if (json_is_true(json_object_get(up, "ipv6")))
		run("ip addr add %s/%d dev eth0 nodad && ip route add default via %s mtu %s",
			NET_GUEST6, NET_PREFIX6, NET_GATEWAY6, sends);
	run("f=$(mktemp) && echo nameserver %s >$f && mount --bind $f /etc/resolv.conf && rm $f",
		NET_RESOLVER4);
	return fd;
}

static pid_t start_command(char **argv, pid_t helper)
{
	char number[16];
	const pid_t pid = fork();

	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)snprintf(number, sizeof number, "%d", (int)helper);
	(void)setenv("GUEST_HELPER", number, 1);
	(void)execvp(argv[0], argv);
	die(argv[0]);
	return -1;
}

/* As a machine does, it holds a frame back until the other end takes it, for a while. */
static void pass_on(int to, const char *frame, size_t len)
{
	struct pollfd out = {.fd = to, .events = POLLOUT};

	for (unsigned i = 0; i < 20; i++) {
		if (send(to, frame, len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return;
		if (errno == ENOTSOCK) {
			(void)!write(to, frame, len);
			return;
		}
		if (errno != EAGAIN && errno != ENOBUFS)
			return;
		(void)poll(&out, 1, 5);
	}
}

static void copy(int from, int to, unsigned most)
{
	static char frame[65600];

	for (unsigned i = 0; i < most; i++) {
		ssize_t n;

		do {
			n = recv(from, frame, sizeof frame, MSG_DONTWAIT);
			if (n < 0 && errno == ENOTSOCK)
				n = read(from, frame, sizeof frame);
		} while (n < 0 && errno == EINTR);
		if (n <= 0)
			return;
		pass_on(to, frame, (size_t)n);
	}
}

/* Until the command has ended. */
static int play(int card, int frames, int keeper, pid_t command)
{
	int status;

	for (;;) {
		struct pollfd fds[] = {{.fd = card, .events = POLLIN},
			{.fd = frames, .events = POLLIN}, {.fd = keeper, .events = POLLIN}};

		(void)poll(fds, 3, 50);
		if (fds[0].revents)
			copy(card, frames, 64);
		if (fds[1].revents)
			copy(frames, card, 64);
		if (fds[2].revents) {
			json_t *message = hear(keeper);

			if (json_object_get(message, "ask"))
				say_names(keeper);
			if (!message)
				keeper = -1;
			json_decref(message);
		}
		if (waitpid(command, &status, WNOHANG) == command)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	}
}

static bool helper_ends(pid_t helper, int keeper)
{
	(void)close(keeper);
	for (unsigned i = 0; i < 200; i++) {
		int status;

		if (waitpid(helper, &status, WNOHANG) == helper)
			return WIFEXITED(status) && WEXITSTATUS(status) == 0;
		(void)usleep(10000);
	}
	return false;
}

static char **take_options(char **argv)
{
	for (argv++; *argv && strcmp(*argv, "--"); argv++) {
		if (!strcmp(*argv, "--packet"))
			options.packet = true;
		else if (!strcmp(*argv, "--eof"))
			options.eof = true;
		else if (!argv[1])
			break;
		else if (!strcmp(*argv, "--helper"))
			options.helper = *++argv;
		else if (!strcmp(*argv, "--spec"))
			options.spec = *++argv;
		else if (!strcmp(*argv, "--mtu"))
			options.mtu = *++argv;
		else if (!strcmp(*argv, "--resolv"))
			options.resolv = *++argv;
		else if (!strcmp(*argv, "--hosts"))
			options.hosts = *++argv;
		else if (!strcmp(*argv, "--told"))
			options.told = fopen(*++argv, "we");
		else
			break;
	}
	if (!*argv || strcmp(*argv, "--") || !argv[1]) {
		(void)fputs("usage: guest [OPTION...] -- COMMAND...\n", stderr);
		exit(2);
	}
	return argv + 1;
}

int main(int argc, char **argv)
{
	int frames[2];
	int keeper[2];

	(void)argc;
	argv = take_options(argv);
	(void)signal(SIGPIPE, SIG_IGN);
	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, frames) < 0 ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, keeper) < 0)
		die("socketpair");
	const pid_t helper = start_helper(frames[1], keeper[1]);
	(void)close(frames[1]);
	(void)close(keeper[1]);
	say(keeper[0], "spec", json_loads(options.spec, 0, NULL));
	json_t *up = wait_up(keeper[0]);
	const int card = make_card(json_object_get(up, "up"));
	const int status = play(card, frames[0], keeper[0], start_command(argv, helper));
	if (options.eof && !helper_ends(helper, keeper[0])) {
		(void)fprintf(stderr, "guest: the helper did not end by itself\n");
		return 126;
	}
	(void)kill(helper, SIGKILL);
	return status;
}
