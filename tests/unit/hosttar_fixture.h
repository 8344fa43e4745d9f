/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_HOSTTAR_FIXTURE_H
#define TESTS_UNIT_HOSTTAR_FIXTURE_H

/*
 * For the tests of hosttar: a directory with src/ to pack, dst/ to unpack into, and outside/, which
 * has to be as it was after every test; streams in memory.
 */

#include "image_fixture.h"

#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "image/hosttar.h"

#include <errno.h>

static char dir[64];
static int top; /* src/, dst/, outside/ */
static int src;
static int dst;

static inline void write_file(int at, const char *name, const void *data, size_t len)
{
	const int fd = openat(at, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fd_write_full(fd, data, len), 0);
	close(fd);
}

static inline void write_text(int at, const char *name, const char *text)
{
	write_file(at, name, text, strlen(text));
}

static inline int make_dir(const char *name)
{
	ck_assert_int_eq(mkdirat(top, name, 0755), 0);
	const int fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static inline void setup(void)
{
	umask(022);
	snprintf(dir, sizeof dir, "/tmp/holt-hosttar-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	src = make_dir("src");
	dst = make_dir("dst");
	close(make_dir("outside"));
	write_text(top, "outside/secret", "secret");
}

/* Whatever a test did: the outside is as it was. */
static inline void teardown(void)
{
	char *text = NULL;
	struct stat st;

	ck_assert_int_eq(fs_read_file(top, "outside/secret", 100, &text, NULL), 0);
	ck_assert_str_eq(text, "secret");
	mem_free(text);
	ck_assert_int_eq(fstatat(top, "outside", &st, 0), 0);
	ck_assert_uint_eq(st.st_nlink, 2);
	ck_assert_int_eq(fstatat(top, "outside/secret", &st, 0), 0);
	ck_assert_uint_eq(st.st_nlink, 1);
	ck_assert_uint_eq(st.st_mode & 07777, 0644);
	close(src);
	close(dst);
	close(top);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
}

/* ---- pipes in memory ---- */

struct memory {
	struct tarbuf b;
	size_t at;
	size_t piece; /* bytes at once; 0: as many as asked for */
	int *cancel_at; /* count down, then cancel */
	int cancel;
};

static inline int memory_write(void *user, const void *data, size_t len, holt_error **reterr)
{
	struct memory *m = user;

	(void)reterr;
	(void)fixture_write(NULL, &m->b, data, len);
	return 0;
}

static inline int memory_read(
	void *user, void *data, size_t size, size_t *ret_len, holt_error **reterr)
{
	struct memory *m = user;
	size_t n = m->b.len - m->at;

	(void)reterr;
	n = n < size ? n : size;
	if (m->piece && n > m->piece)
		n = m->piece;
	if (m->cancel_at && --*m->cancel_at == 0)
		m->cancel = 1;
	if (n > 0)
		memcpy(data, m->b.data + m->at, n);
	m->at += n;
	*ret_len = n;
	return 0;
}

static inline struct tarbuf pack(const char *name, const char *as, uint32_t flags)
{
	struct memory m = {0};
	const struct hosttar_pipe out = {.write = memory_write, .user = &m};
	auto_error e = NULL;

	ck_assert_msg(
		hosttar_pack(src, name, as, flags, &out, &e) == 0, "%s", holt_error_message(e));
	return m.b;
}

static size_t piece = 777; /* of a stream, at once */

static inline int unpack_code(struct tarbuf b, const char *as, uint32_t flags, holt_error **reterr)
{
	struct memory m = {.b = b, .piece = piece};
	const struct hosttar_pipe in = {.read = memory_read, .user = &m};

	return hosttar_unpack(dst, as, flags, &in, reterr);
}

static inline void unpack(struct tarbuf b, const char *as, uint32_t flags)
{
	auto_error e = NULL;

	ck_assert_msg(unpack_code(b, as, flags, &e) == 0, "%s", holt_error_message(e));
	free(b.data);
}

/* Unpack a table that must fail with @code; its message holds @text. */
static inline void refused(const struct ent *table, int code, const char *text)
{
	const struct tarbuf b = fixture_tar(table, NULL);
	auto_error e = NULL;

	ck_assert_int_eq(unpack_code(b, "t", 0, &e), -code);
	ck_assert_msg(strstr(holt_error_message(e), text) != NULL, "'%s' lacks '%s'",
		holt_error_message(e), text);
	ck_assert_str_ne(holt_error_stage(e), "");
	ck_assert_str_ne(holt_error_object(e), "");
	free(b.data);
}

static inline struct stat look(int at, const char *name)
{
	struct stat st;

	ck_assert_msg(fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0, "'%s': %s", name,
		strerror(errno));
	return st;
}

static inline void has_text(int at, const char *name, const char *want)
{
	char *text = NULL;

	ck_assert_int_eq(fs_read_file(at, name, 1 << 20, &text, NULL), 0);
	ck_assert_str_eq(text, want);
	mem_free(text);
}

static inline bool is_there(int at, const char *name)
{
	return faccessat(at, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static inline void set_time(int at, const char *name, time_t s, long ns)
{
	const struct timespec times[2] = {{.tv_sec = s, .tv_nsec = ns}, {s, ns}};

	ck_assert_int_eq(utimensat(at, name, times, AT_SYMLINK_NOFOLLOW), 0);
}

#endif
