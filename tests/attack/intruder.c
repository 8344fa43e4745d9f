/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile code inside a real QEMU: an object that takes the place of holt-open.so, which it
 * contains, so that QEMU's own start is as always. A thread of it waits until the guest says "now",
 * which is when all of the jail is in place: it writes so much that its disk grows by 4 MiB. Then
 * it makes its attempts (attempt.h), and writes behind the end of its disk what came of them:
 *
 *   begin NAME         before it tries; the last word of an intruder that is killed for it
 *   NAME DONE          nothing stopped it
 *   NAME ERRNO         that did; or KILLED: the thread was ended for it
 *   end
 *
 * With -DSTANDIN the same as a program in QEMU's place (HOLT_QEMU), which says it were one, and
 * does not wait. What it is to try, and on whom, stands in @prey_text, where the test writes it
 * into the copy of the object or program that it uses: a word, a blank and a value on each line.
 */
#include "attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "vmm/qemu_argv.h"

#define PREY_MAX   8192
#define WORD_MAX   512
#define SAFE_FD    40 /* above those that QEMU gets */
#define NOW_BLOCKS 8192 /* 4 MiB, in what st_blocks counts */
#define REPORT_MAX (512u * 1024u)
#define TRIALS_MAX 128
#define PATIENT_S  10 /* for an attempt */
#define LOOK_EVERY ((struct timespec){.tv_nsec = 20000000})

/* Volatile: the compiler must not know what is in it. */
static volatile const char prey_text[PREY_MAX] = "HOLT-PREY\n";

struct held held_files[] = {
	{"kernel", QEMU_FD_KERNEL, -1},
	{"initrd", QEMU_FD_INITRD, -1},
	{"rootfs", QEMU_FD_ROOTFS, -1},
	{"memory", QEMU_FD_MEMORY, -1},
	{"state", QEMU_FD_STATE, -1},
	{NULL, 0, 0},
};
int held_disk = -1;

struct trial {
	const struct attempt *attempt;
	long result;
	bool over;
};

static off_t report_at;
static off_t report_end;

long call(long nr, ...)
{
	long w[6];
	va_list ap;

	va_start(ap, nr);
	for (size_t i = 0; i < sizeof w / sizeof w[0]; i++)
		w[i] = va_arg(ap, long);
	va_end(ap);
	const long r = syscall(nr, w[0], w[1], w[2], w[3], w[4], w[5]);
	return r < 0 ? -errno : r;
}

/* ---- what the test says ---- */

const char *prey(const char *key)
{
	static char words[8][WORD_MAX];
	static unsigned next;
	static char text[PREY_MAX];
	const size_t len = strlen(key);
	char *ret = words[next++ % 8];

	if (text[0] == '\0') {
		for (size_t i = 0; i < PREY_MAX - 1; i++)
			text[i] = prey_text[i];
	}
	ret[0] = '\0';
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, len) == 0 && line[len] == ' ')
			(void)snprintf(ret, WORD_MAX, "%.*s", (int)strcspn(line + len + 1, "\n"),
				line + len + 1);
	}
	return ret;
}

long prey_number(const char *key)
{
	return strtol(prey(key), NULL, 10);
}

/* Is @name in the list of words that @key has? */
static bool listed(const char *key, const char *name)
{
	const size_t len = strlen(name);

	/* There is a line for each word. */
	for (const char *at = (const char *)(uintptr_t)prey_text; (at = strstr(at, key)); at++) {
		const char *value = at + strlen(key);
		if (at[-1] == '\n' && value[0] == ' ' && strncmp(value + 1, name, len) == 0 &&
			value[1 + len] == '\n')
			return true;
	}
	return false;
}

/* ---- what it says ---- */

void tell(const char *name, const char *result)
{
	char line[256];
	const int n = snprintf(line, sizeof line, "%s %s\n", name, result);

	if (n <= 0 || (size_t)n >= sizeof line || report_at + n > report_end)
		return;
	if (CALL(SYS_pwrite64, (long)held_disk, word(line), (long)n, (long)report_at) == n)
		report_at += n;
}

/* Some filters end the thread that makes a call, and only that: each attempt has one of its own. */
static void *try_in_thread(void *user)
{
	struct trial *t = user;

	t->result = t->attempt->fn();
	t->over = true;
	return NULL;
}

static void try(const struct attempt *a)
{
	/* One that hangs may still write to it later. */
	static struct trial trials[TRIALS_MAX];
	static size_t n;
	struct trial *t = &trials[n++ % TRIALS_MAX];
	struct timespec until = {0};
	pthread_t thread;

	*t = (struct trial){.attempt = a};
	tell("begin", a->name);
	if (pthread_create(&thread, NULL, try_in_thread, t) != 0) {
		tell(a->name, "UNTRIED");
		return;
	}
	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENT_S;
	if (pthread_timedjoin_np(thread, NULL, &until) != 0)
		tell(a->name, "HANGS");
	else if (!t->over)
		tell(a->name, "KILLED");
	else if (t->result >= 0)
		tell(a->name, "DONE");
	else
		tell(a->name, strerrorname_np((int)-t->result) ? strerrorname_np((int)-t->result)
							       : "UNKNOWN");
}

static void try_all(void)
{
	static const struct attempt *const tables[] = {
		file_attempts, net_attempts, kernel_attempts, process_attempts, speech_attempts};
	const bool some = strstr((const char *)(uintptr_t)prey_text, "\nonly ") != NULL;

	for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
		for (const struct attempt *a = tables[t]; a->name; a++) {
			if (listed("skip", a->name))
				continue;
			if (some ? listed("only", a->name) : tables[t] != speech_attempts)
				try(a);
		}
	}
	tell("end", "");
}

/* ---- how it gets there ---- */

static void keep(void)
{
	struct stat st;

	for (struct held *h = held_files; h->name; h++)
		h->fd = fcntl(h->number, F_DUPFD_CLOEXEC, SAFE_FD);
	held_disk = fcntl(QEMU_FD_DISK, F_DUPFD_CLOEXEC, SAFE_FD);
	if (held_disk >= 0 && fstat(held_disk, &st) == 0) {
		report_at = st.st_size;
		report_end = st.st_size + REPORT_MAX;
	}
}

#ifdef STANDIN

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--version") == 0) {
			(void)puts("QEMU emulator version 7.2.0");
			return 0;
		}
	}
	(void)signal(SIGXFSZ, SIG_IGN);
	keep();
	try_all();
	for (;;)
		(void)pause();
}

#else

static void *intrude(void *unused)
{
	struct stat st;
	blkcnt_t first = 0;

	if (CALL(SYS_fstat, (long)held_disk, word(&st)) < 0)
		return unused;
	first = st.st_blocks;
	while (st.st_blocks < first + NOW_BLOCKS) {
		const struct timespec t = LOOK_EVERY;
		(void)CALL(SYS_nanosleep, word(&t), 0L);
		if (CALL(SYS_fstat, (long)held_disk, word(&st)) < 0)
			return unused;
	}
	try_all();
	for (;;)
		(void)CALL(SYS_pause);
}

/* Before the shim's own, which closes the descriptor of the object. */
__attribute__((constructor)) static void begin(void)
{
	pthread_t thread;
	sigset_t all;
	sigset_t old;

	keep();
	if (held_disk < 0)
		return;
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	(void)pthread_create(&thread, NULL, intrude, NULL);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
}

#endif
