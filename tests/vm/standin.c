/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: as HOLT_QEMU or HOLT_KEEPER; the file "<this program>.conf" says what it does:
 *
 *   run PATH             the real program, which it becomes with the same arguments, environment
 *                        and descriptors
 *   [clone|freeze] env NAME=VALUE   with this variable besides
 *   [clone|freeze] memory MIB       with that limit of its address space
 *   [clone|freeze] die              it dies by signal 4
 *   [clone|freeze] hang             it does nothing
 *   [clone|freeze] attack FILE DIR  it tries to change every file of DIR that it has a descriptor
 *                        of, by all means, and writes into FILE what came of it, a line each:
 *                        "DESCRIPTOR NAME ATTEMPT errno" ("done" where nothing stopped it)
 *
 * For tests: what a QEMU can do and suffer that is started exactly as Holt starts it. A line that
 * begins with "clone" or "freeze" is for a QEMU that becomes a clone, or is to be saved. Static, so
 * that what is preloaded into QEMU is QEMU's.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENV_MAX 32
#define PAGE    4096

extern char **environ;

struct attempt {
	const char *name;
	long (*fn)(int fd); /* below 0, with errno, is what should come of it */
};

/* ---- attempts ---- */

static const char poison[] = "poison";

static long try_write(int fd)
{
	return write(fd, poison, sizeof(poison));
}

static long try_pwrite(int fd)
{
	return pwrite(fd, poison, sizeof(poison), PAGE);
}

static long try_truncate(int fd)
{
	return ftruncate(fd, PAGE);
}

static long try_allocate(int fd)
{
	return fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, PAGE);
}

static long try_punch(int fd)
{
	return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE);
}

static long try_copy(int fd)
{
	loff_t from = 0;
	loff_t to = PAGE;

	/* Of its own first page onto its second. */
	return copy_file_range(fd, &from, fd, &to, PAGE, 0);
}

static long try_send(int fd)
{
	const int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	return self < 0 ? 0 : sendfile(fd, self, NULL, PAGE);
}

static long try_splice(int fd)
{
	int ends[2];

	return pipe(ends) < 0 || write(ends[1], poison, sizeof(poison)) < 0
		       ? 0
		       : splice(ends[0], NULL, fd, NULL, sizeof(poison), 0);
}

static long try_map(int fd)
{
	return mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ? -1 : 0;
}

static long try_protect(int fd)
{
	void *page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);

	return page == MAP_FAILED ? 0 : mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

/* The way of debuggers, which write where the process itself may not. */
static long try_debugger(int fd)
{
	void *page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	const int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);

	return page == MAP_FAILED || mem < 0
		       ? 0
		       : pwrite(mem, poison, sizeof(poison), (off_t)(uintptr_t)page);
}

static const struct attempt attempts[] = {
	{"allocate", try_allocate},
	{"copy", try_copy},
	{"debugger", try_debugger},
	{"map", try_map},
	{"protect", try_protect},
	{"punch", try_punch},
	{"pwrite", try_pwrite},
	{"send", try_send},
	{"splice", try_splice},
	{"truncate", try_truncate},
	{"write", try_write},
};

/* Whether it is a file of that directory, by whatever way it was opened; its name then. */
static bool is_of(int fd, const char *dir, char name[NAME_MAX + 1])
{
	struct stat want;
	struct stat have;
	DIR *d = opendir(dir);
	bool found = false;

	if (!d || fstat(fd, &have) < 0)
		return false;
	for (const struct dirent *e; !found && (e = readdir(d));) {
		found = fstatat(dirfd(d), e->d_name, &want, 0) == 0 && S_ISREG(want.st_mode) &&
			want.st_dev == have.st_dev && want.st_ino == have.st_ino;
		if (found)
			(void)snprintf(name, NAME_MAX + 1, "%s", e->d_name);
	}
	(void)closedir(d);
	return found;
}

static void attack(const char *report, const char *dir)
{
	const int max = (int)sysconf(_SC_OPEN_MAX);
	char name[NAME_MAX + 1];
	FILE *out = fopen(report, "we");

	for (int fd = 0; out && fd < max; fd++) {
		if (!is_of(fd, dir, name))
			continue;
		for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
			const long r = attempts[i].fn(fd);
			(void)fprintf(out, "%d %s %s %s\n", fd, name, attempts[i].name,
				r < 0 ? strerrorname_np(errno) : "done");
		}
	}
	if (out)
		(void)fclose(out);
}

/* ---- what it is told ---- */

static bool is_kind(char *const *argv, const char *kind)
{
	bool incoming = false;
	bool memory = false;

	for (; *argv; argv++) {
		incoming |= strcmp(*argv, "-incoming") == 0;
		memory |= strncmp(*argv, "memory-backend-file,", 20) == 0;
	}
	return strcmp(kind, "clone") == 0 ? incoming : memory && !incoming;
}

/* What QEMU is started with is loaded besides. */
static char *joined(const char *before, const char *variable)
{
	char *both = NULL;

	return asprintf(&both, "%s:%s", before, strchr(variable, '=') + 1) < 0 ? NULL : both;
}

static void add_env(const char *variable)
{
	static char *env[ENV_MAX + 2];
	char *add = strdup(variable);
	size_t n = 0;

	for (char **at = environ; at && *at && n < ENV_MAX; at++) {
		if (strncmp(*at, "LD_PRELOAD=", 11) == 0 &&
			strncmp(variable, "LD_PRELOAD=", 11) == 0)
			add = joined(*at, variable);
		else
			env[n++] = *at;
	}
	env[n++] = add;
	env[n] = NULL;
	environ = env;
}

static void obey(const char *verb, const char *value, const char *more)
{
	if (strcmp(verb, "env") == 0) {
		add_env(value);
	} else if (strcmp(verb, "memory") == 0) {
		const rlim_t bytes = strtoul(value, NULL, 10) << 20;
		(void)setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes});
	} else if (strcmp(verb, "die") == 0) {
		/* The first process of a pid namespace is not killed by a signal of its own. */
		__builtin_trap();
	} else if (strcmp(verb, "hang") == 0) {
		for (;;)
			(void)pause();
	} else if (strcmp(verb, "attack") == 0) {
		attack(value, more);
	}
}

int main(int argc, char **argv)
{
	char conf[PATH_MAX] = "";
	char line[2 * PATH_MAX];
	char program[PATH_MAX] = "";
	char word[4][PATH_MAX];

	(void)argc;
	if (readlink("/proc/self/exe", conf, sizeof(conf) - sizeof(".conf")) > 0)
		(void)strcat(conf, ".conf");
	FILE *f = fopen(conf, "re");
	while (f && fgets(line, sizeof(line), f)) {
		memset(word, 0, sizeof(word));
		(void)sscanf(
			line, "%4095s %4095s %4095s %4095s", word[0], word[1], word[2], word[3]);
		if (strcmp(word[0], "run") == 0)
			(void)snprintf(program, sizeof(program), "%s", word[1]);
		else if (strcmp(word[0], "clone") != 0 && strcmp(word[0], "freeze") != 0)
			obey(word[0], word[1], word[2]);
		else if (is_kind(argv, word[0]))
			obey(word[1], word[2], word[3]);
	}
	if (f)
		(void)fclose(f);
	(void)execve(program, argv, environ);
	(void)fprintf(stderr, "standin: cannot run '%s': %s\n", program, strerror(errno));
	return 127;
}
