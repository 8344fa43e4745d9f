/* SPDX-License-Identifier: Apache-2.0 */
#include "baseline.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BOOT_TIMEOUT_MS 60000
#define CONSOLE_MAX     8192
#define FIRST_WORD      "plainboot:" /* begins the line of plainboot-init */
#define MODE_PROGRAM    0100755u
#define CPIO_ALIGN      4

extern char **environ;

double now_ms(void)
{
	struct timespec ts = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static int fail(const char *what, const char *object)
{
	(void)fprintf(stderr, "bench: %s '%s': %s\n", what, object, strerror(errno));
	return -1;
}

/* The number behind @key in a file of /proc, or -1. */
static long proc_number(pid_t pid, const char *file, const char *key)
{
	char path[64];
	char line[256];
	long value = -1;

	(void)snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, file);
	FILE *f = fopen(path, "re");
	if (!f)
		return -1;
	while (value < 0 && fgets(line, sizeof line, f)) {
		if (strncmp(line, key, strlen(key)) == 0)
			value = strtol(line + strlen(key), NULL, 10);
	}
	(void)fclose(f);
	return value;
}

double pss_kib(pid_t pid)
{
	return (double)proc_number(pid, "smaps_rollup", "Pss:");
}

double private_kib(pid_t pid)
{
	return (double)(proc_number(pid, "smaps_rollup", "Private_Clean:") +
			proc_number(pid, "smaps_rollup", "Private_Dirty:"));
}

pid_t parent_of(pid_t pid)
{
	return (pid_t)proc_number(pid, "status", "PPid:");
}

/* The plain machine. */

static void cpio_entry(FILE *f, const char *name, unsigned mode, const char *data, size_t len)
{
	static const char zeros[CPIO_ALIGN];
	const size_t name_size = strlen(name) + 1;

	(void)fprintf(f, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", 0, mode, 0,
		0, 1, 0, (unsigned)len, 0, 0, 0, 0, (unsigned)name_size, 0);
	(void)fwrite(name, 1, name_size, f);
	(void)fwrite(zeros, 1, -(size_t)ftell(f) % CPIO_ALIGN, f);
	(void)fwrite(data, 1, len, f);
	(void)fwrite(zeros, 1, -(size_t)ftell(f) % CPIO_ALIGN, f);
}

static int write_initrd(const char *path, const char *init)
{
	struct stat st;
	FILE *in = fopen(init, "re");
	FILE *out = fopen(path, "we");
	char *data = in && fstat(fileno(in), &st) == 0 ? malloc((size_t)st.st_size + 1) : NULL;
	int r = -1;

	if (data && out && fread(data, 1, (size_t)st.st_size, in) == (size_t)st.st_size) {
		cpio_entry(out, "init", MODE_PROGRAM, data, (size_t)st.st_size);
		cpio_entry(out, "TRAILER!!!", 0, "", 0);
		r = 0;
	}
	free(data);
	if (in)
		(void)fclose(in);
	if (out && fclose(out) != 0)
		r = -1;
	return r < 0 ? fail("cannot pack", init) : 0;
}

/* Copy a word with its first @from replaced by @to; the word itself where there is none, NULL
 * without room. */
static const char *replaced(struct plain *p, const char *word, const char *from, const char *to)
{
	const char *at = strstr(word, from);
	char *const start = p->text + p->text_len;
	const size_t room = sizeof p->text - p->text_len;

	if (!at)
		return word;
	const int len = snprintf(
		start, room, "%.*s%s%s", (int)(at - word), word, to, at + strlen(from));
	if (len < 0 || (size_t)len >= room)
		return NULL;
	p->text_len += (size_t)len + 1;
	return start;
}

/* The kernel command line with the serial port as its console. */
static const char *to_serial(struct plain *p, const char *value)
{
	if (strstr(value, "console=hvc0"))
		return replaced(p, value, "console=hvc0", "console=ttyS0");
	return replaced(p, value, "", "console=ttyS0 ");
}

static void add(struct plain *p, const char *option, const char *value)
{
	if (p->n_words + 3 > PLAIN_WORDS_MAX)
		return;
	p->argv[p->n_words++] = option;
	if (value)
		p->argv[p->n_words++] = value;
}

static void add_common(struct plain *p)
{
	add(p, "-initrd", p->initrd);
	add(p, "-nodefaults", NULL);
	add(p, "-no-user-config", NULL);
	add(p, "-no-reboot", NULL);
	add(p, "-display", "none");
	add(p, "-serial", "stdio");
}

/* Take over what makes the machine and the kernel's start, and nothing else. */
static int take_words(struct plain *p, const char *end)
{
	static const char *const kept[] = {"-accel", "-cpu", "-smp", "-m", "-rtc"};

	for (const char *word = p->text; word < end; word += strlen(word) + 1) {
		const char *value = word + strlen(word) + 1;
		if (value >= end)
			break;
		for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
			if (strcmp(word, kept[i]) == 0)
				add(p, word, value);
		}
		if (strcmp(word, "-machine") == 0)
			add(p, word, replaced(p, value, "isa-serial=off", "isa-serial=on"));
		else if (strcmp(word, "-append") == 0)
			add(p, word, to_serial(p, value));
		else if (strcmp(word, "-kernel") == 0) {
			const char *slash = strrchr(value, '/');
			p->kernel_nr = slash ? (int)strtol(slash + 1, NULL, 10) : -1;
			add(p, word, value);
		}
	}
	return p->kernel_nr > STDERR_FILENO ? 0 : -1;
}

static int read_words(struct plain *p, pid_t pid)
{
	char path[64];

	(void)snprintf(path, sizeof path, "/proc/%ld/cmdline", (long)pid);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	/* Half of the room is for changed words. */
	const ssize_t len = fd < 0 ? -1 : read(fd, p->text, sizeof p->text / 2);
	if (fd >= 0)
		(void)close(fd);
	if (len <= 0)
		return fail("cannot read", path);
	p->text[len] = 0;
	p->text_len = (size_t)len + 1;
	add(p, "qemu-system-x86_64", NULL);
	if (take_words(p, p->text + len) < 0) {
		(void)fprintf(stderr, "bench: the box's QEMU has no kernel on its command line\n");
		return -1;
	}
	add_common(p);
	return 0;
}

int plain_init(struct plain *p, pid_t vmm_pid, const char *init, const char *dir)
{
	char path[64];

	*p = (struct plain){.kernel_fd = -1, .kernel_nr = -1};
	(void)snprintf(p->initrd, sizeof p->initrd, "%s/plain.cpio", dir);
	(void)snprintf(path, sizeof path, "/proc/%ld/exe", (long)vmm_pid);
	if (readlink(path, p->qemu, sizeof p->qemu - 1) < 0)
		return fail("cannot read", path);
	if (read_words(p, vmm_pid) < 0 || write_initrd(p->initrd, init) < 0)
		return -1;
	(void)snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)vmm_pid, p->kernel_nr);
	p->kernel_fd = open(path, O_RDONLY | O_CLOEXEC);
	return p->kernel_fd < 0 ? fail("cannot open", path) : 0;
}

/* The value of @option among the words, or "". */
static const char *value_of(const struct plain *p, const char *option)
{
	for (size_t i = 0; i + 1 < p->n_words; i++) {
		if (strcmp(p->argv[i], option) == 0)
			return p->argv[i + 1];
	}
	return "";
}

int plain_init_stock(struct plain *p, const struct plain *from, const char *kernel)
{
	const int kvm = strncmp(value_of(from, "-accel"), "kvm", 3) == 0;
	const char *tsc = strstr(value_of(from, "-append"), "tsc_early_khz=");

	*p = (struct plain){.kernel_fd = -1, .kernel_nr = -1};
	memcpy(p->qemu, from->qemu, sizeof p->qemu);
	memcpy(p->initrd, from->initrd, sizeof p->initrd);
	(void)snprintf(p->text, sizeof p->text,
		"console=ttyS0 quiet panic=-1 reboot=t nokaslr %.*s",
		tsc ? (int)strcspn(tsc, " ") : 0, tsc ? tsc : "");
	add(p, "qemu-system-x86_64", NULL);
	add(p, "-machine", "microvm");
	add(p, "-accel", kvm ? "kvm" : "tcg");
	add(p, "-cpu", kvm ? "host" : "max");
	add(p, "-m", value_of(from, "-m"));
	add(p, "-kernel", kernel);
	add(p, "-append", p->text);
	add_common(p);
	return access(kernel, R_OK) < 0 ? fail("cannot read", kernel) : 0;
}

void plain_done(struct plain *p)
{
	if (p->kernel_fd >= 0)
		(void)close(p->kernel_fd);
	p->kernel_fd = -1;
}

static pid_t spawn_plain(const struct plain *p, int out_fd)
{
	posix_spawn_file_actions_t actions;
	pid_t pid = -1;

	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	(void)posix_spawn_file_actions_adddup2(&actions, out_fd, 1);
	if (p->kernel_nr >= 0)
		(void)posix_spawn_file_actions_adddup2(&actions, p->kernel_fd, p->kernel_nr);
	/* The words are not changed; the type is older than const. */
	union {
		const char *const *in;
		char *const *out;
	} words = {.in = p->argv};
	errno = posix_spawn(&pid, p->qemu, &actions, NULL, words.out, environ);
	const int failed = errno;
	(void)posix_spawn_file_actions_destroy(&actions);
	return failed ? -1 : pid;
}

/* Read until the whole line is there. Returns the line, or NULL: end or time-out. */
static const char *read_line(int fd, char *text, size_t cap)
{
	const double until = now_ms() + BOOT_TIMEOUT_MS;
	size_t len = 0;

	for (;;) {
		const double left = until - now_ms();
		struct pollfd pfd = {.fd = fd, .events = POLLIN};
		if (left <= 0 || len + 1 >= cap || poll(&pfd, 1, (int)left + 1) <= 0)
			return NULL;
		const ssize_t n = read(fd, text + len, cap - 1 - len);
		if (n <= 0)
			return NULL;
		len += (size_t)n;
		text[len] = 0;
		const char *line = strstr(text, FIRST_WORD);
		if (line && strchr(line, '\n'))
			return line;
	}
}

int plain_boot(const struct plain *p, double *ret_ms, double *ret_pss_kib)
{
	char text[CONSOLE_MAX] = "";
	int out[2];

	if (pipe2(out, O_CLOEXEC) < 0)
		return fail("cannot make", "a pipe");
	const double start = now_ms();
	const pid_t pid = spawn_plain(p, out[1]);
	(void)close(out[1]);
	if (pid < 0) {
		(void)close(out[0]);
		return fail("cannot start", p->qemu);
	}
	const char *line = read_line(out[0], text, sizeof text);
	*ret_ms = now_ms() - start;
	/* Stopped, since it would end by itself while its memory is looked at. */
	(void)kill(pid, SIGSTOP);
	*ret_pss_kib = pss_kib(pid);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	(void)close(out[0]);
	if (line)
		return 0;
	(void)fprintf(stderr, "bench: the plain machine said nothing; console: %s\n", text);
	return -1;
}

int program_run(const char *const *argv, const char *stdin_path, double *ret_ms)
{
	posix_spawn_file_actions_t actions;
	union {
		const char *const *in;
		char *const *out;
	} words = {.in = argv};
	pid_t pid = -1;
	int status = -1;

	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_addopen(
		&actions, 0, stdin_path ? stdin_path : "/dev/null", O_RDONLY, 0);
	(void)posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	const double start = now_ms();
	errno = posix_spawnp(&pid, argv[0], &actions, NULL, words.out, environ);
	if (errno == 0)
		(void)waitpid(pid, &status, 0);
	*ret_ms = now_ms() - start;
	(void)posix_spawn_file_actions_destroy(&actions);
	return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
