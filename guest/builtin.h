/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_BUILTIN_H
#define GUEST_BUILTIN_H

#include <stddef.h>
#include <stdint.h>

/* A function of the agent that runs like a program: in a process of its own, with its arguments, on
 * descriptors 0 to 2. It returns its exit status. */
struct builtin {
	const char *name;
	int (*run)(int argc, char *const *argv);
};

/* NULL for an unknown name. */
const struct builtin *builtin_find(const char *name);

/* Tell the failure of this process, as one line on stderr:
 *
 *   ERRNO <tab> STAGE <tab> OBJECT <tab> TEXT <newline>
 *
 * ERRNO is a decimal Linux errno. OBJECT is a path, or empty; bytes outside of printable ASCII, and
 * the backslash, are \xHH in it; what is longer than BUILTIN_OBJECT_MAX bytes ends in "...". TEXT
 * is for people. Call it once, and end with status 1. Both return -1. */
#define BUILTIN_OBJECT_MAX   1024
#define BUILTIN_ESCAPED_SIZE (4 * BUILTIN_OBJECT_MAX + 4)
int builtin_fault(int errnum, const char *stage, const char *object, const char *text);
/* The same with a text of the form: WHAT 'OBJECT': the name of the errno. */
int builtin_errno(int errnum, const char *stage, const char *object, const char *what);

/* An object as it stands in that line. */
void builtin_escape(const char *s, char dst[BUILTIN_ESCAPED_SIZE]);

/* Write all. Returns 0 or -errno. */
int builtin_write(int fd, const void *data, size_t len);

int builtin_files(int argc, char *const *argv);
int builtin_path_stat(int argc, char *const *argv);
int builtin_tar_in(int argc, char *const *argv);
int builtin_tar_out(int argc, char *const *argv);

#endif
