/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operations cannot make (links, fifos, modes, owners, many files at once) comes in as a tar
 * archive, which needs no program in the box. Entries, see README.md:
 *
 *   ["file", NAME, CONTENT, {...}] ["dir", NAME, {...}] ["symlink", NAME, TARGET]
 *   ["hardlink", NAME, NAME] ["fifo", NAME] ["series", PREFIX, COUNT, CONTENT]
 *
 * Names of more than 100 bytes get a header of GNU tar's kind in front.
 */
#include "case.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK      512
#define NAME_ROOM  100
#define SERIES_MAX 200000

struct tar {
	struct run *run;
	struct pile out;
	bool owners; /* an entry has one */
};

struct tar_file {
	char type;
	struct bytes name;
	struct bytes link;
	struct bytes content;
	uint64_t mode;
	uint64_t uid;
	uint64_t gid;
};

static void add_padded(struct tar *t, const void *data, size_t len)
{
	static const char zeros[BLOCK];

	pile_add(&t->out, data, len);
	pile_add(&t->out, zeros, (BLOCK - len % BLOCK) % BLOCK);
}

static void add_header(struct tar *t, const struct tar_file *f)
{
	char h[BLOCK] = {0};
	unsigned sum = 0;

	memcpy(h, f->name.data, f->name.len < NAME_ROOM ? f->name.len : NAME_ROOM);
	(void)snprintf(h + 100, 8, "%07o", (unsigned)f->mode);
	(void)snprintf(h + 108, 8, "%07o", (unsigned)f->uid);
	(void)snprintf(h + 116, 8, "%07o", (unsigned)f->gid);
	(void)snprintf(h + 124, 12, "%011zo", f->content.len);
	(void)snprintf(h + 136, 12, "%011o", 1000000000u);
	h[156] = f->type;
	memcpy(h + 157, f->link.data ? f->link.data : "",
		f->link.len < NAME_ROOM ? f->link.len : NAME_ROOM);
	memcpy(h + 257,
		"ustar\0"
		"00",
		8);
	memset(h + 148, ' ', 8);
	for (size_t i = 0; i < sizeof h; i++)
		sum += (unsigned char)h[i];
	(void)snprintf(h + 148, 8, "%06o", sum);
	pile_add(&t->out, h, sizeof h);
}

static void add_long(struct tar *t, char type, struct bytes text)
{
	const struct tar_file f = {
		.type = type, .name = {"././@LongLink", 13}, .content = {text.data, text.len + 1}};

	if (text.len <= NAME_ROOM)
		return;
	add_header(t, &f);
	add_padded(t, text.data, text.len + 1);
}

static void add_file(struct tar *t, const struct tar_file *f)
{
	add_long(t, 'L', f->name);
	add_long(t, 'K', f->link);
	add_header(t, f);
	add_padded(t, f->content.data, f->content.len);
}

static bool add_series(struct tar *t, json_t *entry, struct tar_file *f)
{
	const json_int_t count = json_integer_value(json_array_get(entry, 2));
	const char *prefix = f->name.data;
	char name[CASE_PATH_MAX];

	if (count < 1 || count > SERIES_MAX || json_array_size(entry) != 4 ||
		!value_get(t->run, json_array_get(entry, 3), &f->content))
		return case_fail(t->run, "bad data: a series is a prefix, a number and a content");
	for (json_int_t i = 0; i < count; i++) {
		const int n = snprintf(name, sizeof name, "%s%d", prefix, (int)i);

		f->name = (struct bytes){name, (size_t)n};
		add_file(t, f);
	}
	return true;
}

/* The object at the end of an entry. */
static bool take_options(struct tar *t, json_t *options, struct tar_file *f)
{
	const char *mode = json_string_value(json_object_get(options, "mode"));
	unsigned octal = 0;

	if (!options)
		return true;
	if (!expect_keys(t->run, options, "an entry", "mode uid gid") ||
		!value_uint(t->run, options, "uid", &f->uid) ||
		!value_uint(t->run, options, "gid", &f->gid))
		return false;
	t->owners |= json_object_get(options, "uid") || json_object_get(options, "gid");
	if (mode && sscanf(mode, "%o", &octal) != 1)
		return case_fail(t->run, "bad data: mode '%s'", mode);
	if (mode)
		f->mode = octal;
	return true;
}

static bool add_entry(struct tar *t, json_t *entry)
{
	static const struct {
		const char *name;
		char type;
		unsigned mode;
		size_t words;
	} types[] = {{"dir", '5', 0755, 2}, {"fifo", '6', 0644, 2}, {"file", '0', 0644, 3},
		{"hardlink", '1', 0644, 3}, {"series", 0, 0644, 4}, {"symlink", '2', 0777, 3}};
	const char *kind = json_string_value(json_array_get(entry, 0));
	size_t i = 0;

	while (kind && i < sizeof types / sizeof types[0] && strcmp(types[i].name, kind) != 0)
		i++;
	if (!kind || i == sizeof types / sizeof types[0] ||
		json_array_size(entry) < types[i].words ||
		json_array_size(entry) > types[i].words + 1)
		return case_fail(t->run, "bad data: an entry of an archive");
	struct tar_file f = {.type = types[i].type, .mode = types[i].mode};
	struct bytes *third = f.type == '0' ? &f.content : &f.link;
	if (!value_get(t->run, json_array_get(entry, 1), &f.name) ||
		!take_options(t, json_array_get(entry, types[i].words), &f))
		return false;
	if (types[i].type == 0) {
		f.type = '0';
		return add_series(t, entry, &f);
	}
	if (types[i].words == 3 && !value_get(t->run, json_array_get(entry, 2), third))
		return false;
	add_file(t, &f);
	return true;
}

static bool to_descriptor(struct tar *t, int *ret_fd)
{
	const int fd = memfd_create("contract.tar", MFD_CLOEXEC);
	size_t done = 0;

	while (fd >= 0 && done < t->out.len) {
		const ssize_t n = write(fd, t->out.data + done, t->out.len - done);

		if (n <= 0)
			break;
		done += (size_t)n;
	}
	if (fd < 0 || done < t->out.len || lseek(fd, 0, SEEK_SET) != 0) {
		if (fd >= 0)
			(void)close(fd);
		return case_fail(t->run, "cannot make an archive");
	}
	*ret_fd = fd;
	return true;
}

bool tar_make(struct run *run, json_t *entries, int *ret_fd, bool *ret_owners)
{
	static const char end[2 * BLOCK];
	struct tar t = {.run = run};
	bool ok = json_is_array(entries) || case_fail(run, "bad data: entries are an array");

	for (size_t i = 0; ok && i < json_array_size(entries); i++)
		ok = add_entry(&t, json_array_get(entries, i));
	pile_add(&t.out, end, sizeof end);
	ok = ok && to_descriptor(&t, ret_fd);
	*ret_owners = t.owners;
	free(t.out.data);
	return ok;
}
