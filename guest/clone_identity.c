/* SPDX-License-Identifier: Apache-2.0 */
#include "clone_identity.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * What makes a machine another than those that were cloned from the same template: its random
 * numbers, its names, the address of its card. A machine that cannot be told apart from another is
 * not handed out: what fails here fails the setup. Only the files in /etc are the image's business,
 * which may have made them what cannot be written.
 *
 * The agent itself keeps nothing that is random.
 */

#define HOSTNAME_MAX 64 /* as the kernel has it */

static int fail_seed(struct agent_fail *f, int errnum, const char *text)
{
	return agent_fail_set(f, errnum ? WIRE_FAIL_INTERNAL : WIRE_FAIL_INVALID, errnum, "seed",
		"/dev/urandom", "%s", text);
}

int identity_seed(const struct wire_bytes *seed, struct agent_fail *f)
{
	union {
		struct rand_pool_info info;
		char room[sizeof(struct rand_pool_info) + WIRE_SEED_SIZE];
	} u = {.info = {.buf_size = WIRE_SEED_SIZE, .entropy_count = WIRE_SEED_SIZE * 8}};

	if (seed->len != WIRE_SEED_SIZE)
		return fail_seed(f, 0, "the host sent no usable random seed");
	memcpy(u.info.buf, seed->data, WIRE_SEED_SIZE);
	const int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	/* The second makes every generator, also of each cpu, begin anew from the pool. */
	const bool done = fd >= 0 && ioctl(fd, RNDADDENTROPY, &u) == 0 &&
			  ioctl(fd, RNDRESEEDCRNG) == 0;
	const int errnum = errno;
	if (fd >= 0)
		(void)close(fd);
	return done ? 0 : fail_seed(f, errnum, "cannot seed the random numbers");
}

/* Does the file hold just this? */
static bool has_text(int dir_fd, const char *name, const char *text)
{
	char have[512];
	const size_t len = strlen(text);
	const int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	if (fd < 0)
		return false;
	const ssize_t n = read(fd, have, sizeof(have));
	(void)close(fd);
	return n == (ssize_t)len && memcmp(have, text, len) == 0;
}

/* A symlink in this place is the image's own arrangement and left alone. Old text is written over:
 * a file that is emptied and filled again goes to the disk as soon as it is closed, which is ext4's
 * way to be safe and costs a clone 30 ms. */
static void put_text(struct agent *a, int dir_fd, const char *name, mode_t mode, const char *text)
{
	const ssize_t len = (ssize_t)strlen(text);
	struct stat st = {0};
	const int fd = openat(
		dir_fd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode);

	if (fd < 0 || write(fd, text, (size_t)len) < 0 || fstat(fd, &st) < 0 ||
		(st.st_size > len && ftruncate(fd, len) < 0))
		agent_log(a, AGENT_LOG_WARN, "cannot write '/etc/%s': %s", name, strerror(errno));
	if (fd >= 0)
		(void)close(fd);
}

/* The files follow the names only when these change, so that later edits in the box stay. */
static void put_names(struct agent *a, const char *hostname, const char *machine_id)
{
	char text[512];

	(void)mkdir("/etc", 0755);
	const int dir_fd = open("/etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0) {
		agent_log(a, AGENT_LOG_WARN, "cannot open '/etc': %s", strerror(errno));
		return;
	}
	(void)snprintf(text, sizeof(text), "%s\n", hostname);
	if (*hostname && !has_text(dir_fd, "hostname", text)) {
		put_text(a, dir_fd, "hostname", 0644, text);
		(void)snprintf(text, sizeof(text),
			"127.0.0.1\tlocalhost\n"
			"::1\tlocalhost ip6-localhost ip6-loopback\n"
			"127.0.1.1\t%s\n",
			hostname);
		put_text(a, dir_fd, "hosts", 0644, text);
	}
	(void)snprintf(text, sizeof(text), "%s\n", machine_id);
	if (*machine_id && !has_text(dir_fd, "machine-id", text))
		put_text(a, dir_fd, "machine-id", 0444, text);
	(void)close(dir_fd);
}

static int set_names(struct agent *a, const struct wire_setup *req, struct agent_fail *f)
{
	char hostname[HOSTNAME_MAX + 1];
	char machine_id[WIRE_MACHINE_ID_LEN + 1];

	if (agent_copy_str(hostname, sizeof(hostname), &req->hostname) < 0 ||
		strpbrk(hostname, " \t\r\n/"))
		return agent_fail_set(f, WIRE_FAIL_INVALID, 0, "names", "hostname",
			"the host name is not usable");
	if (agent_copy_str(machine_id, sizeof(machine_id), &req->machine_id) < 0)
		return agent_fail_set(f, WIRE_FAIL_INVALID, 0, "names", "machine-id",
			"the machine id is longer than %d digits", WIRE_MACHINE_ID_LEN);
	if (*hostname && sethostname(hostname, strlen(hostname)) < 0)
		return agent_fail_set(
			f, WIRE_FAIL_INVALID, errno, "names", hostname, "cannot set the host name");
	put_names(a, hostname, machine_id);
	return 0;
}

/* The card is the only link with a device behind it; its name is the kernel's business. */
static bool find_card(char name[AGENT_DEVICE_MAX])
{
	char path[320];
	bool found = false;
	DIR *dir = opendir("/sys/class/net");

	if (!dir)
		return false;
	for (const struct dirent *d; !found && (d = readdir(dir));) {
		(void)snprintf(path, sizeof(path), "/sys/class/net/%s/device", d->d_name);
		found = d->d_name[0] != '.' && strlen(d->d_name) < AGENT_DEVICE_MAX &&
			access(path, F_OK) == 0;
		if (found)
			memcpy(name, d->d_name, strlen(d->d_name) + 1);
	}
	(void)closedir(dir);
	return found;
}

void identity_prepare(struct agent *a)
{
	if (!a->fake && a->card_fd < 0 && find_card(a->card))
		a->card_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

/* The address that a clone finds on its card is its template's. A machine that was not parked has
 * the right one, or will have it when the driver is there. */
static int set_address(struct agent *a, const struct wire_bytes *mac, struct agent_fail *f)
{
	struct ifreq ifr = {0};

	if (mac->len != 0 && mac->len != WIRE_MAC_SIZE)
		return agent_fail_set(f, WIRE_FAIL_INVALID, 0, "network", "mac",
			"the address of the network card is not of %d bytes", WIRE_MAC_SIZE);
	if (mac->len == 0 || a->card_fd < 0)
		return 0;
	(void)snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", a->card);
	bool done = ioctl(a->card_fd, SIOCGIFHWADDR, &ifr) == 0;
	if (done && memcmp(ifr.ifr_hwaddr.sa_data, mac->data, WIRE_MAC_SIZE) != 0) {
		memcpy(ifr.ifr_hwaddr.sa_data, mac->data, WIRE_MAC_SIZE);
		done = ioctl(a->card_fd, SIOCSIFHWADDR, &ifr) == 0;
	}
	return done ? 0
		    : agent_fail_set(f, WIRE_FAIL_INTERNAL, errno, "network", a->card,
			      "cannot set the address of '%s'", a->card);
}

int identity_take(struct agent *a, const struct wire_setup *req, struct agent_fail *f)
{
	const int rc = set_names(a, req, f);

	return rc < 0 ? rc : set_address(a, &req->mac, f);
}
