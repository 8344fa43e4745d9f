/* SPDX-License-Identifier: Apache-2.0 */
#include "tar_format.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "guest_banned.h"

/*
 * The headers of tar archives: no I/O, no memory, every number checked.
 *
 * Read: POSIX ustar, its forerunner without magic, GNU tar's headers with numbers in base 256, and
 * the records of extended ("pax") headers. Written: ustar, and in front of it an extended header
 * for what ustar cannot say: a name or target that does not fit, a size of 8 GiB or more, an owner
 * of 2^21 or more, a time with a fraction or outside of 1970-2242.
 *
 * Names are bytes. In ustar fields they stand as they are. In extended headers POSIX wants UTF-8,
 * so a record with other bytes is announced by "hdrcharset=BINARY": libarchive then gives back the
 * same bytes in every locale without a word, GNU tar does too and tells that it does not know the
 * keyword, and therefore the keyword is written only where it is needed. Without it, libarchive in
 * the C locale gives back valid UTF-8 unchanged too, but calls that a warning.
 */

/* Where the fields of a header are. */
struct field {
	size_t at;
	size_t len;
};

static const struct field f_name = {0, 100};
static const struct field f_mode = {100, 8};
static const struct field f_uid = {108, 8};
static const struct field f_gid = {116, 8};
static const struct field f_size = {124, 12};
static const struct field f_mtime = {136, 12};
static const struct field f_sum = {148, 8};
static const struct field f_type = {156, 1};
static const struct field f_link = {157, 100};
static const struct field f_magic = {257, 8}; /* and version */
static const struct field f_major = {329, 8};
static const struct field f_minor = {337, 8};
static const struct field f_prefix = {345, 155};

static const char ustar_magic[8] = {'u', 's', 't', 'a', 'r', 0, '0', '0'};

#define OCTAL_7_MAX  ((UINT64_C(1) << 21) - 1)
#define OCTAL_11_MAX ((UINT64_C(1) << 33) - 1)
#define NSEC_PER_SEC 1000000000

bool tar_is_zero(const uint8_t block[TAR_BLOCK])
{
	return block[0] == 0 && memcmp(block, block + 1, TAR_BLOCK - 1) == 0;
}

/* Two's complement, big-endian, with the top bit of the first byte as the mark. */
static int decode_base256(const uint8_t *p, size_t len, int64_t *ret)
{
	const bool negative = p[0] & 0x40;
	uint64_t v = negative ? UINT64_MAX : 0;

	for (size_t i = 0; i < len; i++) {
		const uint8_t byte = i > 0 ? p[i] : (uint8_t)(negative ? p[i] | 0x80 : p[i] & 0x7f);
		/* What is shifted out must be nothing but sign. */
		if (v >> 55 != (negative ? 0x1ff : 0))
			return -EINVAL;
		v = v << 8 | byte;
	}
	*ret = (int64_t)v;
	return *ret == INT64_MIN ? -EINVAL : 0; /* so that all can be negated */
}

/* Octal digits between blanks; an empty field is 0. */
static int decode_number(const uint8_t *block, struct field f, int64_t *ret)
{
	const uint8_t *p = block + f.at;
	size_t i = 0;
	uint64_t v = 0;

	if (p[0] & 0x80)
		return decode_base256(p, f.len, ret);
	while (i < f.len && p[i] == ' ')
		i++;
	for (; i < f.len && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(p[i] - '0'); /* at most 36 bits */
	for (; i < f.len; i++)
		if (p[i] != ' ' && p[i] != 0)
			return -EINVAL;
	*ret = (int64_t)v;
	return 0;
}

static int decode_count(const uint8_t *block, struct field f, uint64_t *ret)
{
	int64_t v = 0;
	const int rc = decode_number(block, f, &v);

	*ret = (uint64_t)v;
	return rc < 0 || v < 0 ? -EINVAL : 0;
}

static int decode_device(const uint8_t *block, struct field f, uint32_t *ret)
{
	uint64_t v = 0;
	const int rc = decode_count(block, f, &v);

	*ret = (uint32_t)v;
	return rc < 0 || v > UINT32_MAX ? -EINVAL : 0;
}

/* The sum of all bytes with the field of the sum as blanks. Some old programs took bytes as signed.
 */
static int check_sum(const uint8_t block[TAR_BLOCK])
{
	int64_t stored = 0;
	int64_t plain = 0;
	int64_t with_sign = 0;

	for (size_t i = 0; i < TAR_BLOCK; i++) {
		const bool own = i - f_sum.at < f_sum.len;
		plain += own ? ' ' : block[i];
		with_sign += own ? ' ' : (int8_t)block[i];
	}
	if (decode_number(block, f_sum, &stored) < 0)
		return -EINVAL;
	return stored == plain || stored == with_sign ? 0 : -EINVAL;
}

static size_t copy_field(char *dst, const uint8_t *block, struct field f)
{
	const size_t len = strnlen((const char *)block + f.at, f.len);

	memcpy(dst, block + f.at, len);
	dst[len] = 0;
	return len;
}

static void decode_names(const uint8_t *block, struct tar_names *names)
{
	size_t len = 0;

	/* GNU tar keeps other things in the place of the prefix, and has another magic. */
	if (memcmp(block + f_magic.at, ustar_magic, 6) == 0)
		len = copy_field(names->name, block, f_prefix);
	if (len > 0)
		names->name[len++] = '/';
	(void)copy_field(names->name + len, block, f_name);
	(void)copy_field(names->link, block, f_link);
}

int tar_decode(const uint8_t block[TAR_BLOCK], struct tar_names *names, struct tar_entry *ret)
{
	struct tar_entry e = {.type = (char)block[f_type.at]};
	uint64_t mode = 0;
	const int rc = check_sum(block);
	const bool device = e.type == TAR_CHAR || e.type == TAR_BLOCK_DEVICE;

	if (rc < 0 || decode_count(block, f_mode, &mode) < 0 ||
		decode_count(block, f_uid, &e.uid) < 0 || decode_count(block, f_gid, &e.gid) < 0 ||
		decode_count(block, f_size, &e.size) < 0 ||
		decode_number(block, f_mtime, &e.mtime_s) < 0)
		return -EINVAL;
	/* Without magic there may be anything in these. */
	if (device && (decode_device(block, f_major, &e.dev_major) < 0 ||
			      decode_device(block, f_minor, &e.dev_minor) < 0))
		return -EINVAL;
	decode_names(block, names);
	e.mode = (uint32_t)(mode & 07777);
	e.name = names->name;
	e.link = names->link;
	*ret = e;
	return 0;
}

/* Decimal digits up to @end, at most INT64_MAX. */
static int decode_decimal(const char *s, const char *end, uint64_t *ret)
{
	uint64_t v = 0;

	if (s == end)
		return -EINVAL;
	for (; s < end; s++) {
		const unsigned digit = (unsigned)(*s - '0');
		if (digit > 9 || v > ((uint64_t)INT64_MAX - digit) / 10)
			return -EINVAL;
		v = v * 10 + digit;
	}
	*ret = v;
	return 0;
}

/* Seconds with a sign and a fraction; digits behind the ninth are dropped. */
static int decode_time(const char *s, const char *end, int64_t *ret_s, uint32_t *ret_ns)
{
	const bool negative = s < end && *s == '-';
	const char *dot = memchr(s, '.', (size_t)(end - s));
	uint64_t sec = 0;
	uint32_t nsec = 0;
	uint32_t unit = NSEC_PER_SEC / 10;

	if (decode_decimal(s + negative, dot ? dot : end, &sec) < 0)
		return -EINVAL;
	for (const char *p = dot ? dot + 1 : end; p < end; p++, unit /= 10) {
		if (*p < '0' || *p > '9')
			return -EINVAL;
		nsec += (uint32_t)(*p - '0') * unit;
	}
	*ret_s = negative ? -(int64_t)sec : (int64_t)sec;
	*ret_ns = nsec;
	if (negative && nsec > 0) {
		*ret_s -= 1;
		*ret_ns = NSEC_PER_SEC - nsec;
	}
	return 0;
}

/* One record without its length and newline: "@key=@value". An empty value takes back the record.
 */
static int pax_record(struct tar_pax *pax, const char *key, const char *value, const char *end)
{
	const bool set = value < end;
	int rc = 0;

	if (strcmp(key, "path") == 0) {
		pax->name = set ? value : NULL;
	} else if (strcmp(key, "linkpath") == 0) {
		pax->link = set ? value : NULL;
	} else if (strcmp(key, "size") == 0) {
		pax->has_size = set;
		rc = set ? decode_decimal(value, end, &pax->size) : 0;
	} else if (strcmp(key, "uid") == 0) {
		pax->has_uid = set;
		rc = set ? decode_decimal(value, end, &pax->uid) : 0;
	} else if (strcmp(key, "gid") == 0) {
		pax->has_gid = set;
		rc = set ? decode_decimal(value, end, &pax->gid) : 0;
	} else if (strcmp(key, "mtime") == 0) {
		pax->has_mtime = set;
		rc = set ? decode_time(value, end, &pax->mtime_s, &pax->mtime_ns) : 0;
	} else {
		pax->sparse |= strncmp(key, "GNU.sparse.", 11) == 0;
		return 0;
	}
	/* A name would end where no other reader ends it. */
	return memchr(value, 0, (size_t)(end - value)) ? -EINVAL : rc;
}

int tar_pax_decode(char *body, size_t len, struct tar_pax *ret)
{
	struct tar_pax pax = {0};
	char *const all_end = body + len;

	while (body < all_end) {
		uint64_t n = 0;
		char *const blank = memchr(body, ' ', (size_t)(all_end - body));
		if (!blank || decode_decimal(body, blank, &n) < 0 ||
			n > (uint64_t)(all_end - body) || n < (uint64_t)(blank - body) + 2)
			return -EINVAL;
		char *const end = body + n - 1;
		char *const equals = memchr(blank + 1, '=', (size_t)(end - blank - 1));
		if (*end != '\n' || !equals)
			return -EINVAL;
		*equals = 0;
		*end = 0;
		if (pax_record(&pax, blank + 1, equals + 1, end) < 0)
			return -EINVAL;
		body = end + 1;
	}
	*ret = pax;
	return 0;
}

void tar_pax_apply(const struct tar_pax *pax, struct tar_entry *e)
{
	if (pax->name)
		e->name = pax->name;
	if (pax->link)
		e->link = pax->link;
	if (pax->has_size)
		e->size = pax->size;
	if (pax->has_uid)
		e->uid = pax->uid;
	if (pax->has_gid)
		e->gid = pax->gid;
	if (pax->has_mtime) {
		e->mtime_s = pax->mtime_s;
		e->mtime_ns = pax->mtime_ns;
	}
}

static void put_octal(uint8_t *block, struct field f, uint64_t v)
{
	block[f.at + f.len - 1] = 0;
	for (size_t i = f.len - 1; i-- > 0; v >>= 3)
		block[f.at + i] = (uint8_t)('0' + (v & 7));
}

/* Seven digits' worth of sum, written as POSIX wants it: six digits, NUL, blank. */
static void put_sum(uint8_t *block)
{
	uint64_t sum = 0;

	memset(block + f_sum.at, ' ', f_sum.len);
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += block[i];
	put_octal(block, (struct field){f_sum.at, f_sum.len - 1}, sum);
}

/* Put @name into name and prefix. Returns whether it fits; else its beginning is there. */
static bool put_name(uint8_t *block, const char *name)
{
	const size_t len = strlen(name);

	if (len <= f_name.len) {
		memcpy(block + f_name.at, name, len);
		return true;
	}
	/* The slash between the two is not stored; the first one that leaves little enough. */
	for (size_t i = len - 1 - f_name.len; i <= f_prefix.len && i + 1 < len; i++)
		if (i > 0 && name[i] == '/') {
			memcpy(block + f_prefix.at, name, i);
			memcpy(block + f_name.at, name + i + 1, len - i - 1);
			return true;
		}
	memcpy(block + f_name.at, name, f_name.len);
	return false;
}

static bool is_utf8(const char *s)
{
	const uint8_t *p = (const uint8_t *)s;

	while (*p) {
		const unsigned more = *p < 0x80                 ? 0
				      : *p >= 0xc2 && *p < 0xe0 ? 1
				      : *p >= 0xe0 && *p < 0xf0 ? 2
				      : *p >= 0xf0 && *p < 0xf5 ? 3
								: 4;
		if (more == 4)
			return false;
		/* No overlong forms, no surrogates, nothing over U+10FFFF. */
		if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) ||
			(*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f))
			return false;
		for (unsigned i = 1; i <= more; i++)
			if ((p[i] & 0xc0) != 0x80)
				return false;
		p += more + 1;
	}
	return true;
}

/* The body of an extended header as it grows. */
struct body {
	char *data;
	size_t len;
	size_t cap;
	bool full;
};

static void put_record(struct body *b, const char *key, const char *value)
{
	const size_t rest = strlen(key) + strlen(value) + 3; /* blank, '=', newline */
	size_t digits = 1;
	size_t power = 10;

	/* The length counts its own digits. */
	for (; rest + digits >= power; digits++)
		power *= 10;
	if (b->full || rest + digits >= b->cap - b->len) {
		b->full = true;
		return;
	}
	(void)snprintf(b->data + b->len, b->cap - b->len, "%zu %s=%s\n", rest + digits, key, value);
	b->len += rest + digits;
}

static void put_count_record(struct body *b, const char *key, uint64_t v)
{
	char s[24];

	(void)snprintf(s, sizeof(s), "%llu", (unsigned long long)v);
	put_record(b, key, s);
}

static void put_time_record(struct body *b, int64_t sec, uint32_t nsec)
{
	const bool negative = sec < 0;
	uint64_t whole = negative ? 0 - (uint64_t)sec : (uint64_t)sec;
	char s[48];

	/* The seconds count down to the past, the fraction goes up from them. */
	if (negative && nsec > 0) {
		whole--;
		nsec = NSEC_PER_SEC - nsec;
	}
	int len = snprintf(
		s, sizeof(s), "%s%llu.%09u", negative ? "-" : "", (unsigned long long)whole, nsec);
	while (s[len - 1] == '0')
		s[--len] = 0;
	if (s[len - 1] == '.')
		s[--len] = 0;
	put_record(b, "mtime", s);
}

/* A header of which only names and type are missing; what does not fit is left 0 there and gets its
 * record in @b. */
static void put_numbers(uint8_t *block, const struct tar_entry *e, struct body *b)
{
	const bool time_fits = e->mtime_s >= 0 && (uint64_t)e->mtime_s <= OCTAL_11_MAX;

	put_octal(block, f_mode, e->mode & 07777);
	put_octal(block, f_uid, e->uid <= OCTAL_7_MAX ? e->uid : 0);
	put_octal(block, f_gid, e->gid <= OCTAL_7_MAX ? e->gid : 0);
	put_octal(block, f_size, e->size <= OCTAL_11_MAX ? e->size : 0);
	put_octal(block, f_mtime, time_fits ? (uint64_t)e->mtime_s : 0);
	put_octal(block, f_major, e->dev_major);
	put_octal(block, f_minor, e->dev_minor);
	if (e->uid > OCTAL_7_MAX)
		put_count_record(b, "uid", e->uid);
	if (e->gid > OCTAL_7_MAX)
		put_count_record(b, "gid", e->gid);
	if (e->size > OCTAL_11_MAX)
		put_count_record(b, "size", e->size);
	if (!time_fits || e->mtime_ns > 0)
		put_time_record(b, e->mtime_s, e->mtime_ns);
}

static void put_names(uint8_t *block, const struct tar_entry *e, struct body *b)
{
	const size_t link_len = strlen(e->link);
	const bool link_fits = link_len <= f_link.len;
	const bool name_fits = put_name(block, e->name);

	memcpy(block + f_link.at, e->link, link_fits ? link_len : f_link.len);
	if ((!name_fits && !is_utf8(e->name)) || (!link_fits && !is_utf8(e->link)))
		put_record(b, "hdrcharset", "BINARY");
	if (!name_fits)
		put_record(b, "path", e->name);
	if (!link_fits)
		put_record(b, "linkpath", e->link);
}

static void put_end(uint8_t *block, char type)
{
	block[f_type.at] = (uint8_t)type;
	memcpy(block + f_magic.at, ustar_magic, f_magic.len);
	put_sum(block);
}

size_t tar_encode(const struct tar_entry *e, uint8_t *buf, size_t cap)
{
	uint8_t block[TAR_BLOCK] = {0};

	if (strlen(e->name) > TAR_NAME_MAX || strlen(e->link) > TAR_NAME_MAX ||
		cap < (size_t)3 * TAR_BLOCK)
		return 0;
	/* The body is made where it will be, behind its header; room is left for the last one. */
	struct body b = {.data = (char *)buf + TAR_BLOCK, .cap = cap - (size_t)2 * TAR_BLOCK};
	put_names(block, e, &b);
	put_numbers(block, e, &b);
	put_end(block, e->type);
	const size_t padded = (b.len + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
	if (b.full || padded > b.cap)
		return 0;
	if (b.len == 0) {
		memcpy(buf, block, TAR_BLOCK);
		return TAR_BLOCK;
	}
	struct body none = {0};
	const struct tar_entry x = {.mode = 0644, .size = b.len, .mtime_s = 0};
	memset(buf, 0, TAR_BLOCK);
	memset(buf + TAR_BLOCK + b.len, 0, padded - b.len);
	(void)put_name(buf, "././@PaxHeader");
	put_numbers(buf, &x, &none);
	put_end(buf, TAR_PAX);
	memcpy(buf + TAR_BLOCK + padded, block, TAR_BLOCK);
	return (size_t)2 * TAR_BLOCK + padded;
}
