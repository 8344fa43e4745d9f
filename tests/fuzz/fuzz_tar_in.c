/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/tar_read.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * The agent's reader of tar archives. Checksums that are merely wrong would keep a fuzzer at the
 * door, so they are set right first in every block that looks like a header.
 *
 * What must hold for every entry that is accepted:
 *  - its strings end within what a header can hold, its numbers are in range;
 *  - its data has the size that was told, however it comes;
 *  - written again by tar_encode, it reads back as the same entry;
 * and a failure says what is wrong.
 */

#define INPUT_MAX (1u << 20)

#define REQUIRE(cond)            \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int file_of(const uint8_t *data, size_t size)
{
	const int fd = memfd_create("fuzz", MFD_CLOEXEC);

	REQUIRE(fd >= 0);
	REQUIRE(write(fd, data, size) == (ssize_t)size);
	REQUIRE(lseek(fd, 0, SEEK_SET) == 0);
	return fd;
}

static void set_sum(uint8_t *block)
{
	unsigned sum = 0;

	memset(block + 148, ' ', 8);
	for (int i = 0; i < TAR_BLOCK; i++)
		sum += block[i];
	for (int i = 5; i >= 0; i--, sum >>= 3)
		block[148 + i] = (uint8_t)('0' + (sum & 7));
	block[154] = 0;
}

/* Every block with something where the sum stands; some of them are data, which does no harm. */
static void set_sums(uint8_t *data, size_t size)
{
	for (size_t at = 0; at + TAR_BLOCK <= size; at += TAR_BLOCK)
		if (data[at + 148] == '0')
			set_sum(data + at);
}

static void check_again(const struct tar_entry *e)
{
	static uint8_t buf[TAR_HEAD_MAX];
	struct tar_reader r;
	struct tar_entry got;
	const size_t len = tar_encode(e, buf, sizeof buf);

	if (len == 0) {
		REQUIRE(strlen(e->name) > TAR_NAME_MAX || strlen(e->link) > TAR_NAME_MAX);
		return;
	}
	const int fd = file_of(buf, len);
	REQUIRE(tar_reader_init(&r, fd) == 0);
	REQUIRE(tar_next(&r, &got) == 1);
	REQUIRE(strcmp(got.name, e->name) == 0 && strcmp(got.link, e->link) == 0);
	REQUIRE(got.type == e->type && got.mode == e->mode && got.size == e->size);
	REQUIRE(got.uid == e->uid && got.gid == e->gid);
	REQUIRE(got.mtime_s == e->mtime_s && got.mtime_ns == e->mtime_ns);
	if (e->type == TAR_CHAR || e->type == TAR_BLOCK_DEVICE)
		REQUIRE(got.dev_major == e->dev_major && got.dev_minor == e->dev_minor);
	tar_reader_done(&r);
	(void)close(fd);
}

static void check_entry(struct tar_reader *r, const struct tar_entry *e)
{
	const uint8_t *data = NULL;
	uint64_t sum = 0;
	size_t len = 0;
	int rc = 0;

	REQUIRE(strlen(e->name) <= TAR_EXT_MAX && strlen(e->link) <= TAR_EXT_MAX);
	REQUIRE(e->mode <= 07777 && e->mtime_ns < 1000000000);
	REQUIRE(e->size <= INT64_MAX && e->uid <= INT64_MAX && e->gid <= INT64_MAX);
	/* Numbers of devices that Linux has; an empty name has no record. */
	if (e->type >= TAR_FILE && e->type <= TAR_FIFO && *e->name && e->dev_major < 4096 &&
		e->dev_minor < 1u << 20)
		check_again(e);
	if (e->type != TAR_FILE)
		return;
	while ((rc = tar_data(r, &data, &len)) > 0) {
		REQUIRE(len > 0 && len <= TAR_READ_SIZE);
		sum += len;
	}
	REQUIRE(rc < 0 ? *r->fault != 0 : sum == e->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tar_reader r;
	struct tar_entry e;
	int rc = 0;

	if (size == 0 || size > INPUT_MAX)
		return 0;
	uint8_t *const copy = malloc(size);
	REQUIRE(copy);
	memcpy(copy, data, size);
	set_sums(copy, size);
	const int fd = file_of(copy, size);
	free(copy);
	REQUIRE(tar_reader_init(&r, fd) == 0);
	while ((rc = tar_next(&r, &e)) > 0)
		check_entry(&r, &e);
	REQUIRE(rc == 0 || *r.fault);
	REQUIRE(tar_drain(&r) == 0);
	tar_reader_done(&r);
	(void)close(fd);
	return 0;
}
