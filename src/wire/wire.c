/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/wire.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

/*
 * Encoder and decoder of the agent protocol, generated from ops.def.
 *
 * A reader or writer carries a "bad" flag that sticks: a field that does not fit sets it, later
 * fields do nothing, and the caller looks once at the end. Every length is compared with what is
 * left before a byte is touched. Encoding without a buffer only counts, so that wire_size and
 * wire_encode cannot disagree.
 *
 * The decoder trusts nothing, the encoder checks the same rules, so that what one side can encode
 * the other side can decode. Callable from any thread; there is no state.
 */

enum dir {
	DIR_HG = 1 << 0,
	DIR_GH = 1 << 1,
	DIR_BOTH = DIR_HG | DIR_GH,
	DIR_KC = 1 << 2,
	DIR_CK = 1 << 3
};

struct op_info {
	const char *name; /* NULL: no such op */
	uint32_t max;
	uint8_t lane;
	uint8_t dirs;
};

static const struct op_info ops[] = {
#define WIRE_OP(op, number, lane_, dir, max_, ...) \
	[number] = {.name = #op, .max = (max_), .lane = WIRE_##lane_, .dirs = DIR_##dir},
#include "wire/ops.def"
#undef WIRE_OP
};

#define N_OPS (sizeof(ops) / sizeof(ops[0]))

static const struct op_info *op_find(uint16_t op)
{
	return op < N_OPS && ops[op].name ? &ops[op] : NULL;
}

static bool side_accepts(enum wire_side side, uint8_t dirs)
{
	switch (side) {
	case WIRE_AS_HOST:
		return dirs & DIR_GH;
	case WIRE_AS_GUEST:
		return dirs & DIR_HG;
	case WIRE_AS_KEEPER:
		return dirs & (DIR_HG | DIR_CK);
	case WIRE_AS_CLIENT:
		return dirs & (DIR_GH | DIR_KC);
	}
	return false;
}

int wire_lane_of(uint16_t op)
{
	const struct op_info *info = op_find(op);

	return info ? info->lane : -1;
}

/* Rules that hold wherever a message comes from. */

static bool strs_ok(const uint8_t *data, uint32_t len, uint32_t count)
{
	uint32_t pos = 0;

	if (count > WIRE_STRS_MAX)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *end = pos < len ? memchr(data + pos, 0, len - pos) : NULL;
		if (!end)
			return false;
		pos = (uint32_t)(end - data) + 1;
	}
	return pos == len;
}

/* Ops that need the stream of an exec or a request. */
static bool op_of_stream(uint16_t op)
{
	return (op >= WIRE_OP_exec && op <= WIRE_OP_exit) || op == WIRE_OP_gap ||
	       (op >= WIRE_OP_attach && op < WIRE_OP_file_read);
}

/* A path is one for the kernel as well: not empty, no NUL in it. */
static bool path_ok(const struct wire_bytes *path)
{
	return path->len > 0 && path->len <= WIRE_PATH_MAX && !memchr(path->data, 0, path->len);
}

/* The same for one beneath a root, which may be the root itself. */
static bool relative_ok(const struct wire_bytes *path)
{
	return path->len == 0 || path_ok(path);
}

static bool type_ok(uint8_t type)
{
	return type >= WIRE_FILE_REGULAR && type <= WIRE_FILE_BLOCK;
}

static bool file_msg_ok(const struct wire_msg *m)
{
	if (m->stream != 0)
		return false;
	switch (m->op) {
	case WIRE_OP_file_read:
		return path_ok(&m->file_read.path);
	case WIRE_OP_file_write:
		return path_ok(&m->file_write.path);
	case WIRE_OP_file_stat:
		return path_ok(&m->file_stat.path);
	case WIRE_OP_file_mkdir:
		return path_ok(&m->file_mkdir.path);
	case WIRE_OP_file_move:
		return path_ok(&m->file_move.from) && path_ok(&m->file_move.to);
	case WIRE_OP_file_remove:
		return path_ok(&m->file_remove.path);
	case WIRE_OP_file_list:
		return path_ok(&m->file_list.root);
	case WIRE_OP_file_glob:
		return path_ok(&m->file_glob.root) && path_ok(&m->file_glob.pattern);
	case WIRE_OP_file_grep:
		return path_ok(&m->file_grep.root) && relative_ok(&m->file_grep.glob);
	case WIRE_OP_file_data:
		return m->file_data.bytes.len > 0 && m->file_data.bytes.len <= WIRE_DATA_MAX;
	case WIRE_OP_file_end:
		return m->file_end.abort_ <= 1;
	case WIRE_OP_file_info:
		return type_ok(m->file_info.type);
	case WIRE_OP_file_entry:
		return type_ok(m->file_entry.type) && relative_ok(&m->file_entry.path);
	case WIRE_OP_file_match:
		return m->file_match.line > 0 && relative_ok(&m->file_match.path) &&
		       m->file_match.text.len <= m->file_match.line_len;
	case WIRE_OP_file_done:
		return m->file_done.truncated <= 1;
	default:
		return true;
	}
}

static bool msg_ok(const struct wire_msg *m)
{
	if (op_of_stream(m->op) && m->stream == 0)
		return false;
	if (wire_lane_of(m->op) == WIRE_FILES)
		return file_msg_ok(m);
	switch (m->op) {
	case WIRE_OP_exec:
		return m->exec.out_credit <= WIRE_CREDIT_MAX;
	case WIRE_OP_started:
		return m->started.in_credit <= WIRE_CREDIT_MAX;
	case WIRE_OP_credit:
		return m->credit.channel <= WIRE_STDERR && m->credit.bytes <= WIRE_CREDIT_MAX;
	case WIRE_OP_data:
		return m->data.channel <= WIRE_STDERR && m->data.bytes.len > 0 &&
		       m->data.bytes.len <= WIRE_DATA_MAX;
	case WIRE_OP_eof:
		return m->eof.channel <= WIRE_STDERR;
	case WIRE_OP_freeze:
		return m->freeze.on <= 1;
	case WIRE_OP_network:
		return m->network.up <= WIRE_NETWORK_TEMPLATE;
	case WIRE_OP_pause:
		return m->pause.on <= 1;
	case WIRE_OP_hold:
		return m->hold.on_idle <= WIRE_IDLE_STOP;
	case WIRE_OP_attach:
		return m->attach.out_credit <= WIRE_CREDIT_MAX;
	case WIRE_OP_gap:
		return m->gap.channel == WIRE_STDOUT || m->gap.channel == WIRE_STDERR;
	case WIRE_OP_exit:
		return m->exit.kind <= WIRE_SIGNALED && m->exit.code <= 255;
	default:
		return true;
	}
}

/* Stdin flows towards the guest, the other two away from it; credit flows against its channel. */
static bool channel_ok(enum wire_side side, const struct wire_msg *m)
{
	const bool guestward = side == WIRE_AS_GUEST || side == WIRE_AS_KEEPER;

	switch (m->op) {
	case WIRE_OP_data:
		return guestward == (m->data.channel == WIRE_STDIN);
	case WIRE_OP_eof:
		return guestward == (m->eof.channel == WIRE_STDIN);
	case WIRE_OP_credit:
		return guestward != (m->credit.channel == WIRE_STDIN);
	default:
		return true;
	}
}

/* Reading. */

struct reader {
	const uint8_t *p;
	size_t left;
	bool bad;
};

static const uint8_t *take(struct reader *r, size_t n)
{
	const uint8_t *p = r->p;

	if (r->bad || n > r->left) {
		r->bad = true;
		return NULL;
	}
	r->p += n;
	r->left -= n;
	return p;
}

static uint64_t take_le(struct reader *r, unsigned n)
{
	const uint8_t *p = take(r, n);
	uint64_t v = 0;

	for (unsigned i = 0; p && i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

static struct wire_bytes take_bytes(struct reader *r)
{
	const uint32_t len = (uint32_t)take_le(r, 4);
	const uint8_t *p = take(r, len);

	return (struct wire_bytes){.data = p, .len = p ? len : 0};
}

static struct wire_strs take_strs(struct reader *r)
{
	const uint32_t count = (uint32_t)take_le(r, 4);
	const struct wire_bytes b = take_bytes(r);

	if (r->bad || !strs_ok(b.data, b.len, count)) {
		r->bad = true;
		return (struct wire_strs){0};
	}
	return (struct wire_strs){.data = b.data, .len = b.len, .count = count};
}

#define U8(n)    m->n = (uint8_t)take_le(r, 1);
#define U16(n)   m->n = (uint16_t)take_le(r, 2);
#define U32(n)   m->n = (uint32_t)take_le(r, 4);
#define U64(n)   m->n = take_le(r, 8);
#define BYTES(n) m->n = take_bytes(r);
#define STRS(n)  m->n = take_strs(r);
#define WIRE_OP(name, number, lane, dir, max, ...)                       \
	static void read_##name(struct reader *r, struct wire_##name *m) \
	{                                                                \
		__VA_ARGS__                                              \
	}
#include "wire/ops.def"
#undef WIRE_OP
#undef U8
#undef U16
#undef U32
#undef U64
#undef BYTES
#undef STRS

static void read_fields(struct reader *r, struct wire_msg *m)
{
	switch (m->op) {
#define WIRE_OP(name, number, lane, dir, max, ...) \
	case number:                               \
		read_##name(r, &m->name);          \
		break;
#include "wire/ops.def"
#undef WIRE_OP
	default:
		r->bad = true;
	}
}

enum wire_status wire_decode(enum wire_side side, enum wire_lane lane, const uint8_t *buf,
	size_t len, struct wire_msg *ret_msg, size_t *ret_used)
{
	struct reader r = {.p = buf, .left = len};
	struct wire_msg m = {0};

	if (len < WIRE_HEADER_SIZE) {
		*ret_used = WIRE_HEADER_SIZE;
		return WIRE_MORE;
	}
	const uint32_t payload = (uint32_t)take_le(&r, 4);
	m.op = (uint16_t)take_le(&r, 2);
	const uint16_t zero = (uint16_t)take_le(&r, 2);
	m.stream = (uint32_t)take_le(&r, 4);

	const struct op_info *info = op_find(m.op);
	if (!info || info->lane != lane || !side_accepts(side, info->dirs))
		return WIRE_BAD_OP;
	if (payload > info->max)
		return WIRE_BAD_LENGTH;
	if (zero)
		return WIRE_BAD_FIELD;
	if (payload > r.left) {
		*ret_used = WIRE_HEADER_SIZE + (size_t)payload;
		return WIRE_MORE;
	}

	r.left = payload;
	read_fields(&r, &m);
	if (r.bad || r.left || !msg_ok(&m) || !channel_ok(side, &m))
		return WIRE_BAD_FIELD;
	*ret_msg = m;
	*ret_used = WIRE_HEADER_SIZE + (size_t)payload;
	return WIRE_OK;
}

/* Writing; without a buffer it only counts. */

struct writer {
	uint8_t *buf;
	size_t cap;
	size_t len;
	bool bad;
};

static void put(struct writer *w, const void *data, size_t n)
{
	if (w->buf && !w->bad) {
		if (n > w->cap - w->len) {
			w->bad = true;
			return;
		}
		/* Bytes may already lie in their place, see WIRE_DATA_PREFIX. */
		if (n && w->buf + w->len != data)
			memcpy(w->buf + w->len, data, n);
	}
	w->len += n;
}

static void put_le(struct writer *w, uint64_t v, unsigned n)
{
	uint8_t b[8];

	assert(n <= sizeof(b));
	for (unsigned i = 0; i < n; i++)
		b[i] = (uint8_t)(v >> (8 * i));
	put(w, b, n);
}

static void put_bytes(struct writer *w, const struct wire_bytes *b)
{
	put_le(w, b->len, 4);
	put(w, b->data, b->len);
}

static void put_strs(struct writer *w, const struct wire_strs *s)
{
	if (w->buf && !strs_ok(s->data, s->len, s->count))
		w->bad = true;
	put_le(w, s->count, 4);
	put_le(w, s->len, 4);
	put(w, s->data, s->len);
}

#define U8(n)    put_le(w, m->n, 1);
#define U16(n)   put_le(w, m->n, 2);
#define U32(n)   put_le(w, m->n, 4);
#define U64(n)   put_le(w, m->n, 8);
#define BYTES(n) put_bytes(w, &m->n);
#define STRS(n)  put_strs(w, &m->n);
#define WIRE_OP(name, number, lane, dir, max, ...)                              \
	static void write_##name(struct writer *w, const struct wire_##name *m) \
	{                                                                       \
		__VA_ARGS__                                                     \
	}
#include "wire/ops.def"
#undef WIRE_OP

static void write_fields(struct writer *w, const struct wire_msg *m)
{
	switch (m->op) {
#define WIRE_OP(name, number, lane, dir, max, ...) \
	case number:                               \
		write_##name(w, &m->name);         \
		break;
#include "wire/ops.def"
#undef WIRE_OP
	default:
		assert(0 && "callers look the op up first");
	}
}

size_t wire_size(const struct wire_msg *msg)
{
	struct writer w = {.len = WIRE_HEADER_SIZE};

	if (!op_find(msg->op))
		return 0;
	write_fields(&w, msg);
	return w.len;
}

enum wire_status wire_encode(const struct wire_msg *msg, uint8_t *buf, size_t cap, size_t *ret_len)
{
	const struct op_info *info = op_find(msg->op);
	struct writer w = {.buf = buf, .cap = cap};

	if (!info)
		return WIRE_BAD_OP;
	if (!msg_ok(msg))
		return WIRE_BAD_FIELD;
	const size_t size = wire_size(msg);
	if (size > cap || size - WIRE_HEADER_SIZE > info->max)
		return WIRE_NO_SPACE;

	put_le(&w, size - WIRE_HEADER_SIZE, 4);
	put_le(&w, msg->op, 2);
	put_le(&w, 0, 2);
	put_le(&w, msg->stream, 4);
	write_fields(&w, msg);
	if (w.bad)
		return WIRE_BAD_FIELD;
	assert(w.len == size);
	*ret_len = size;
	return WIRE_OK;
}

size_t wire_frame_max(enum wire_side side, enum wire_lane lane)
{
	uint32_t max = 0;

	for (size_t i = 0; i < N_OPS; i++)
		if (ops[i].name && ops[i].lane == lane && side_accepts(side, ops[i].dirs) &&
			ops[i].max > max)
			max = ops[i].max;
	return WIRE_HEADER_SIZE + (size_t)max;
}

const char *wire_op_name(uint16_t op)
{
	const struct op_info *info = op_find(op);

	return info ? info->name : "?";
}

const char *wire_status_name(enum wire_status status)
{
	switch (status) {
	case WIRE_OK:
		return "ok";
	case WIRE_MORE:
		return "incomplete";
	case WIRE_BAD_OP:
		return "unknown or misdirected operation";
	case WIRE_BAD_LENGTH:
		return "frame longer than its operation allows";
	case WIRE_BAD_FIELD:
		return "malformed field";
	case WIRE_NO_SPACE:
		return "message too large";
	}
	return "?";
}

const char *wire_strs_next(const struct wire_strs *strs, uint32_t *pos)
{
	if (*pos >= strs->len)
		return NULL;
	const uint8_t *s = strs->data + *pos;
	const uint8_t *end = memchr(s, 0, strs->len - *pos);
	assert(end);
	*pos += (uint32_t)(end - s) + 1;
	return (const char *)s;
}
