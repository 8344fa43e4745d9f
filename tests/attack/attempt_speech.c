/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an intruder says over the sockets that QEMU has to the keeper: noise instead of a monitor's
 * answers, floods, descriptors that nobody asked for. What is sent may be the end of the machine;
 * that of the keeper it must not be.
 */
#include "attempt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "wire/wire.h"
#include "vmm/qemu_argv.h"

#define NOISE   (1u << 20)
#define COPIES  200 /* descriptors with one message; the kernel takes 253 */
#define PATIENT 500 /* times 10 ms that a full socket is waited for */

static long say(int fd, const void *data, size_t len)
{
	const char *at = data;
	int waited = 0;

	while (len > 0 && waited < PATIENT) {
		const long n = CALL(SYS_sendto, (long)fd, word(at), (long)len,
			(long)(MSG_DONTWAIT | MSG_NOSIGNAL), 0L, 0L);
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		} else if (n != -EAGAIN) {
			return n;
		} else {
			const struct timespec t = {.tv_nsec = 10000000};
			(void)CALL(SYS_nanosleep, word(&t), 0L);
			waited++;
		}
	}
	return len == 0 ? 0 : -ETIME;
}

static long say_text(const char *text)
{
	return say(QEMU_FD_QMP, text, strlen(text));
}

/* Always the same, so that a failure can be repeated. */
static long noise(int fd)
{
	static unsigned char bytes[65536];
	unsigned x = 2463534242u;

	for (size_t i = 0; i < sizeof bytes; i++) {
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		bytes[i] = (unsigned char)x;
	}
	return say(fd, bytes, sizeof bytes);
}

static long noise_control(void)
{
	return noise(QEMU_FD_CONTROL);
}

static long noise_bulk(void)
{
	return noise(QEMU_FD_BULK);
}

static long noise_monitor(void)
{
	return noise(QEMU_FD_QMP);
}

/* A line that does not end. */
static long monitor_endless(void)
{
	static char line[NOISE];

	memset(line, ' ', sizeof line);
	return say(QEMU_FD_QMP, line, sizeof line);
}

static long monitor_deep(void)
{
	static char line[60000];

	memset(line, '[', sizeof line);
	line[sizeof line - 1] = '\n';
	return say(QEMU_FD_QMP, line, sizeof line);
}

static long monitor_number(void)
{
	return say_text("{\"return\": {}, \"id\": 99999999999999999999999999999999}\r\n");
}

static long monitor_unasked(void)
{
	return say_text("{\"return\": {}, \"id\": 9000000000}\r\n");
}

static long monitor_greeting(void)
{
	return say_text("{\"QMP\": {\"version\": {}, \"capabilities\": []}}\r\n");
}

static long monitor_text(void)
{
	return say_text("{\"event\": \"\\u001b]0;owned\\u0007\"}\r\n");
}

/* Each of them is as it should be. */
static long monitor_events(void)
{
	static const char event[] = "{\"timestamp\": {\"seconds\": 1, \"microseconds\": 2}, "
				    "\"event\": \"RTC_CHANGE\", \"data\": {\"offset\": 1}}\r\n";
	static char many[(sizeof event - 1) * 512];
	long r = 0;

	for (size_t i = 0; i < 512; i++)
		memcpy(many + i * (sizeof event - 1), event, sizeof event - 1);
	for (int i = 0; i < 100 && r == 0; i++)
		r = say(QEMU_FD_QMP, many, sizeof many);
	return r;
}

/* Escapes, zeros, bytes that are no text: 4 MiB of them. */
static long console_flood(void)
{
	static const char bad[] = "\033]0;owned\007\033[2J\r\nholt: all is well\0\xff\xfe\xc3(\n";
	static char many[(sizeof bad - 1) * 1024];
	long r = 0;

	for (size_t i = 0; i < 1024; i++)
		memcpy(many + i * (sizeof bad - 1), bad, sizeof bad - 1);
	for (size_t sent = 0; sent < 4 * NOISE && r == 0; sent += sizeof many)
		r = say(QEMU_FD_CONSOLE, many, sizeof many);
	return r;
}

/* ---- descriptors ---- */

static long pass(int fd, const void *data, size_t len)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(COPIES * sizeof(int))];
	} control = {.head = {.cmsg_len = CMSG_LEN(COPIES * sizeof(int)),
			     .cmsg_level = SOL_SOCKET,
			     .cmsg_type = SCM_RIGHTS}};
	struct iovec iov = {(void *)(uintptr_t)data, len};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof control};
	int *fds = (int *)(void *)CMSG_DATA(&control.head);
	long sent = 0;
	long r = 0;

	for (size_t i = 0; i < COPIES; i++)
		fds[i] = held_disk;
	for (int i = 0; i < 100; i++) {
		const struct timespec t = {.tv_nsec = 2000000};

		r = CALL(SYS_sendmsg, (long)fd, word(&msg), (long)(MSG_DONTWAIT | MSG_NOSIGNAL));
		sent += r > 0;
		(void)CALL(SYS_nanosleep, word(&t), 0L);
	}
	return sent > 0 ? sent : r;
}

/* A frame that a guest may send at any time. */
static long pass_control(void)
{
	static uint8_t frame[256];
	size_t len = 0;

	(void)wire_encode(&(struct wire_msg){.op = WIRE_OP_log,
				  .log = {.level = 2, .text = {(const uint8_t *)"x", 1}}},
		frame, sizeof frame, &len);
	return len > 0 ? pass(QEMU_FD_CONTROL, frame, len) : -EINVAL;
}

static long pass_console(void)
{
	return pass(QEMU_FD_CONSOLE, "x\n", 2);
}

/* Blanks before a message are allowed. */
static long pass_monitor(void)
{
	return pass(QEMU_FD_QMP, " ", 1);
}

static long pass_bulk(void)
{
	return pass(QEMU_FD_BULK, "x", 1);
}

const struct attempt speech_attempts[] = {
	{"noise-control", noise_control},
	{"noise-bulk", noise_bulk},
	{"noise-monitor", noise_monitor},
	{"monitor-endless", monitor_endless},
	{"monitor-deep", monitor_deep},
	{"monitor-number", monitor_number},
	{"monitor-unasked", monitor_unasked},
	{"monitor-greeting", monitor_greeting},
	{"monitor-text", monitor_text},
	{"monitor-events", monitor_events},
	{"console-flood", console_flood},
	{"pass-control", pass_control},
	{"pass-console", pass_console},
	{"pass-monitor", pass_monitor},
	{"pass-bulk", pass_bulk},
	{NULL, NULL},
};
