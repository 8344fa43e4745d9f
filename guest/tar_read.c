/* SPDX-License-Identifier: Apache-2.0 */
#include "tar_read.h"

#include "guest_mem.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * Entries of an archive out of a stream that cannot be rewound: one buffer, and one text each for
 * what may stand in front of an entry (an extended header, GNU tar's long name and long target), at
 * most TAR_EXT_MAX. If there are several of a kind, the last one counts. Global extended headers
 * are read over: other readers do the same, and what they hold in practice is a comment.
 *
 * The end is two blocks of zeros, or one and the end of the stream. A stream that ends between two
 * entries was cut off: nobody knows what is missing.
 */

int tar_reader_init(struct tar_reader *r, int fd)
{
	*r = (struct tar_reader){.fd = fd, .fault = "", .buf = gmem_array(TAR_READ_SIZE, 1)};
	return r->buf ? 0 : -ENOMEM;
}

void tar_reader_done(struct tar_reader *r)
{
	gmem_free(r->buf);
	gmem_free(r->long_name.data);
	gmem_free(r->long_link.data);
	gmem_free(r->pax_body.data);
	*r = (struct tar_reader){.fd = -EBADF};
}

static int fault(struct tar_reader *r, int errnum, const char *text)
{
	r->fault = text;
	return -errnum;
}

static int fault_cut(struct tar_reader *r)
{
	return fault(r, EINVAL, r->begun ? "the archive is cut off" : "this is not a tar archive");
}

/* Read once, behind what is there. Returns the bytes that came, 0 at the end, or -errno. */
static int fill(struct tar_reader *r)
{
	ssize_t n = 0;

	if (r->pos > 0) {
		memmove(r->buf, r->buf + r->pos, r->len - r->pos);
		r->len -= r->pos;
		r->pos = 0;
	}
	if (r->ended)
		return 0;
	do
		n = read(r->fd, r->buf + r->len, TAR_READ_SIZE - r->len);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return fault(r, errno, "cannot read the archive");
	r->ended = n == 0;
	r->len += (size_t)n;
	return (int)n; /* at most TAR_READ_SIZE */
}

/* A block: 1, 0 at the end of the stream, or -errno. */
static int take_block(struct tar_reader *r, const uint8_t **ret)
{
	while (r->len - r->pos < TAR_BLOCK) {
		const int n = fill(r);
		if (n < 0)
			return n;
		if (n == 0)
			return r->len > r->pos ? fault_cut(r) : 0;
	}
	*ret = r->buf + r->pos;
	r->pos += TAR_BLOCK;
	return 1;
}

/* Up to @max bytes of what is there, or comes with one read; never 0. */
static int take_some(struct tar_reader *r, uint64_t max, const uint8_t **ret, size_t *ret_len)
{
	if (r->pos == r->len) {
		const int n = fill(r);
		if (n <= 0)
			return n < 0 ? n : fault_cut(r);
	}
	const size_t there = r->len - r->pos;
	*ret = r->buf + r->pos;
	*ret_len = there < max ? there : (size_t)max;
	r->pos += *ret_len;
	return 1;
}

static void set_size(struct tar_reader *r, uint64_t size)
{
	r->data_left = size;
	r->padding_left = (uint32_t)(-size % TAR_BLOCK);
}

int tar_data(struct tar_reader *r, const uint8_t **ret, size_t *ret_len)
{
	if (r->data_left == 0)
		return 0;
	const int rc = take_some(r, r->data_left, ret, ret_len);
	if (rc > 0)
		r->data_left -= *ret_len;
	return rc;
}

static int skip_rest(struct tar_reader *r)
{
	const uint8_t *p = NULL;
	size_t len = 0;
	int rc = 0;

	while ((rc = tar_data(r, &p, &len)) > 0)
		;
	while (rc == 0 && r->padding_left > 0) {
		rc = take_some(r, r->padding_left, &p, &len);
		if (rc > 0) {
			r->padding_left -= (uint32_t)len;
			rc = 0;
		}
	}
	return rc;
}

/* The data of the entry as one string. Returns 0 or -errno. */
static int take_text(struct tar_reader *r, struct tar_text *t, size_t *ret_len)
{
	const uint8_t *p = r->buf;
	size_t len = 0;
	size_t n = 0;
	int rc = 0;

	if (r->data_left > TAR_EXT_MAX)
		return fault(r, EINVAL, "an extended header of the archive is too long");
	if (r->data_left >= t->cap) {
		gmem_free(t->data);
		t->cap = (size_t)r->data_left + 1;
		t->data = gmem_array(t->cap, 1);
		if (!t->data) {
			t->cap = 0;
			return fault(r, ENOMEM, "no memory for an extended header");
		}
	}
	while ((rc = tar_data(r, &p, &len)) > 0) {
		memcpy(t->data + n, p, len);
		n += len;
	}
	t->data[n] = 0;
	*ret_len = n;
	return rc < 0 ? rc : skip_rest(r);
}

/* A block of zeros was there. */
static int take_end(struct tar_reader *r)
{
	const uint8_t *block = NULL;
	const int rc = take_block(r, &block);

	r->begun = true;
	if (rc > 0 && !tar_is_zero(block))
		return fault(r, EINVAL, "the archive goes on behind a block of zeros");
	return rc < 0 ? rc : 0;
}

/* A header: 1, 0 at the end of the archive, or -errno. */
static int take_header(struct tar_reader *r, struct tar_entry *e)
{
	const uint8_t *block = NULL;
	const int rc = take_block(r, &block);

	if (rc <= 0)
		return rc < 0 ? rc : fault_cut(r);
	if (tar_is_zero(block))
		return take_end(r);
	if (tar_decode(block, &r->names, e) < 0)
		return fault(r, EINVAL,
			r->begun ? "a header of the archive is damaged"
				 : "this is not a tar archive");
	r->begun = true;
	set_size(r, e->size);
	return 1;
}

/* Make of header and what stood in front of it what the rest of the world sees. */
static int finish(struct tar_reader *r, const struct tar_pax *pax, struct tar_entry *e)
{
	tar_pax_apply(pax, e);
	if (pax->sparse)
		return fault(
			r, EOPNOTSUPP, "the archive holds a sparse file of GNU tar's own kind");
	if (e->type == 0 || e->type == '7') /* '7' asked for contiguous blocks */
		e->type = TAR_FILE;
	const size_t len = strlen(e->name);
	if (e->type == TAR_FILE && len > 0 && e->name[len - 1] == '/')
		e->type = TAR_DIR; /* as it was written before there was a type for it */
	else if (e->type >= TAR_HARD_LINK && e->type <= TAR_FIFO)
		e->size = 0; /* there is no data, whatever the field says */
	set_size(r, e->size);
	if (e->type != TAR_FILE)
		e->size = 0;
	return 1;
}

static int take_pax(struct tar_reader *r, struct tar_pax *pax)
{
	size_t len = 0;
	const int rc = take_text(r, &r->pax_body, &len);

	if (rc < 0)
		return rc;
	return tar_pax_decode(r->pax_body.data, len, pax) < 0
		       ? fault(r, EINVAL, "an extended header of the archive is damaged")
		       : 0;
}

int tar_next(struct tar_reader *r, struct tar_entry *ret)
{
	const char *name = NULL;
	const char *link = NULL;
	struct tar_pax pax = {0};
	struct tar_entry e;
	size_t len = 0;
	int rc = skip_rest(r);

	while (rc == 0) {
		rc = take_header(r, &e);
		if (rc <= 0)
			return rc;
		switch (e.type) {
		case TAR_PAX:
			rc = take_pax(r, &pax);
			break;
		case TAR_PAX_GLOBAL:
			rc = skip_rest(r);
			break;
		case TAR_GNU_NAME:
			rc = take_text(r, &r->long_name, &len);
			name = r->long_name.data;
			break;
		case TAR_GNU_LINK:
			rc = take_text(r, &r->long_link, &len);
			link = r->long_link.data;
			break;
		default:
			e.name = name ? name : e.name;
			e.link = link ? link : e.link;
			*ret = e;
			return finish(r, &pax, ret);
		}
	}
	return rc;
}

int tar_drain(struct tar_reader *r)
{
	int n = 0;

	do {
		r->pos = r->len;
		n = fill(r);
	} while (n > 0);
	return n;
}
