/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: first [talk]
 *
 * For tests (K32, K33), in an image: what the first instructions of a program see of the machine's
 * clock, its random numbers and its names, as lines "KEY=value" in the order in which they were
 * asked for. "talk" goes on afterwards: it looks at both clocks a thousand times a second and
 * answers each line of its input with "now REAL MONO BACK JUMPS OLD NEW_REAL NEW_MONO":
 *
 *   REAL MONO          the clocks, in nanoseconds
 *   BACK               how often the monotonic clock was behind what it had been before
 *   JUMPS              how often the wall clock moved against it by more than JUMP_NS
 *   OLD                the last wall time before the last jump
 *   NEW_REAL NEW_MONO  the first look after it
 */
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RANDOM_LEN 16
#define JUMP_NS    20000000
#define LOOK_MS    1

struct look {
	int64_t real;
	int64_t mono;
};

static int64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	return clock_gettime(id, &ts) < 0 ? 0 : (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static struct look look_now(void)
{
	const int64_t real = clock_ns(CLOCK_REALTIME);

	return (struct look){.real = real, .mono = clock_ns(CLOCK_MONOTONIC)};
}

static void say_bytes(const char *key, const void *bytes, size_t len)
{
	(void)printf("%s=", key);
	for (size_t i = 0; i < len; i++)
		(void)printf("%02x", ((const uint8_t *)bytes)[i]);
	(void)printf("\n");
}

static void say_random(void)
{
	uint8_t bytes[RANDOM_LEN];
	const int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, bytes, sizeof(bytes)) == sizeof(bytes))
		say_bytes("urandom", bytes, sizeof(bytes));
	if (fd >= 0)
		(void)close(fd);
	if (getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes))
		say_bytes("getrandom", bytes, sizeof(bytes));
	/* What the kernel gave this program when it was started. */
	say_bytes("at_random", (const void *)getauxval(AT_RANDOM), RANDOM_LEN);
}

static void say_file(const char *key, const char *path)
{
	char line[256] = "";
	FILE *f = fopen(path, "re");

	if (f && fgets(line, sizeof(line), f))
		line[strcspn(line, "\n")] = 0;
	if (f)
		(void)fclose(f);
	(void)printf("%s=%s\n", key, line);
}

static void say_address(void)
{
	struct ifreq ifr = {.ifr_name = "eth0"};
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* A machine that has just booted has no driver yet. */
	const bool known = fd >= 0 && ioctl(fd, SIOCGIFHWADDR, &ifr) == 0;

	say_bytes("mac", ifr.ifr_hwaddr.sa_data, known ? 6 : 0);
	if (fd >= 0)
		(void)close(fd);
}

/* A line came, or the time for the next look. False at the end of the input. */
static bool await_line(bool *ret_line)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
	char line[64];

	*ret_line = poll(&p, 1, LOOK_MS) > 0;
	return !*ret_line || read(STDIN_FILENO, line, sizeof(line)) > 0;
}

static void talk(struct look last)
{
	struct look fresh = {0};
	int64_t old = 0;
	unsigned back = 0;
	unsigned jumps = 0;
	bool line = false;

	while (await_line(&line)) {
		const struct look now = look_now();
		const int64_t moved = (now.real - now.mono) - (last.real - last.mono);

		back += now.mono < last.mono;
		if (llabs(moved) > JUMP_NS) {
			jumps++;
			old = last.real;
			fresh = now;
		}
		last = now;
		if (line)
			(void)printf("now %" PRId64 " %" PRId64 " %u %u %" PRId64 " %" PRId64
				     " %" PRId64 "\n",
				now.real, now.mono, back, jumps, old, fresh.real, fresh.mono);
		(void)fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	const struct look begin = look_now();

	(void)printf("real=%" PRId64 "\nmono=%" PRId64 "\n", begin.real, begin.mono);
	say_random();
	say_file("boot_id", "/proc/sys/kernel/random/boot_id");
	say_file("uuid", "/proc/sys/kernel/random/uuid");
	say_file("machine_id", "/etc/machine-id");
	say_file("hostname_file", "/etc/hostname");
	say_file("hostname", "/proc/sys/kernel/hostname");
	say_address();
	if (fflush(stdout) == 0 && argc == 2 && strcmp(argv[1], "talk") == 0)
		talk(begin);
	return 0;
}
