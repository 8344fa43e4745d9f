/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTEMPT_H
#define ATTEMPT_H

#include <stddef.h>
#include <stdint.h>

/*
 * What an intruder tries. An attempt is done with bare system calls, so that neither a library nor
 * what is preloaded is in the way, and harms nobody where it succeeds: what is overwritten is
 * overwritten with the same, what is killed gets signal 0. At least 0 is a success of the intruder,
 * else it is -errno.
 */
struct attempt {
	const char *name;
	long (*fn)(void);
};

/* A table each, with an end of NULL. */
extern const struct attempt file_attempts[];
extern const struct attempt process_attempts[];
extern const struct attempt kernel_attempts[];
extern const struct attempt net_attempts[];
/* Only where asked for by name, since they may end the machine. */
extern const struct attempt speech_attempts[];

/* The descriptors that it has of QEMU's: copies, since QEMU closes some of its own. FD -1: none. */
struct held {
	const char *name;
	int number; /* of enum qemu_fd */
	int fd;
};
extern struct held held_files[]; /* those that nobody may write; an end of NULL */
extern int held_disk;

/* A word of the test, "" where it gave none; and as a number, 0 then. */
const char *prey(const char *key);
long prey_number(const char *key);

/* The text of a line of its own in the report. */
void tell(const char *name, const char *result);

/* syscall() with -errno. */
long call(long nr, ...);
#define CALL(nr, ...) call((nr), ##__VA_ARGS__, 0L, 0L, 0L, 0L, 0L, 0L)

/* A pointer as a word of a system call. */
static inline long word(const void *p)
{
	return (long)(uintptr_t)p;
}

#endif
