/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "net/filter.h"
#include "net/inet_sum.h"
#include "net/names_message.h"
#include "net/names_stream.h"
#include "net/poll_set.h"
#include "net/reject.h"

/*
 * What a guest sends, on its way through filter, names by TCP and refusals, without sockets. The
 * input is a row of steps, a byte each and what belongs to it:
 *
 *   0  two bytes of length, a frame
 *   1  port, flags, two bytes that are added to the sequence and acknowledgement numbers that fit,
 *      a byte of length, data: a segment to the resolver
 *   2  two bytes of length: the resolver answers the question that came last
 *   3  a byte: tenths of a second that pass
 *
 * Frames to the guest have the lengths they claim, a wait never ends before its time, and when the
 * guest falls silent, all connections end.
 */

#define REQUIRE(cond)            \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)
#define FRAME_ROOM 2048u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	struct filter *filter;
	struct names_streams *streams;
	struct reject_rate rate;
	uint64_t now;
	uint32_t asked; /* the question that came last */
	uint32_t seq, ack; /* that fit to what the guest got last */
} w;

/* The input, as far as it was read. */
static const uint8_t *at, *end;

static unsigned next(void)
{
	return at < end ? *at++ : 0;
}

static void ask(uint32_t id, const void *data, size_t len, void *user)
{
	(void)user;
	REQUIRE(len > 0 && len <= NAMES_QUESTION_MAX && data);
	w.asked = id;
	/* Some have no answer. */
	if (*(const uint8_t *)data & 1)
		names_streams_answer(w.streams, id, NULL, 0, w.now);
}

static void forget(uint32_t id, void *user)
{
	(void)user;
	(void)id;
}

static void check_to_guest(const uint8_t *frame, size_t len)
{
	const bool six = get16(frame + 12) == 0x86dd;
	const uint8_t *const ip = frame + 14;
	uint8_t guest[16];

	REQUIRE(len >= 34 && (six || get16(frame + 12) == 0x0800));
	REQUIRE(inet_pton(six ? AF_INET6 : AF_INET, six ? NET_GUEST6 : NET_GUEST4, guest) == 1);
	REQUIRE(memcmp(ip + (six ? 24 : 16), guest, six ? 16 : 4) == 0);
	REQUIRE(len == 14 + (six ? 40u + get16(ip + 4) : get16(ip + 2)));
}

static void to_guest(const void *frame, size_t len, void *user)
{
	const uint8_t *const p = frame;

	(void)user;
	check_to_guest(p, len);
	const uint8_t *const tcp = p + 14 + (get16(p + 12) == 0x86dd ? 40 : 20);
	const size_t head = (size_t)(tcp[12] >> 4) * 4;
	const uint32_t taken = (uint32_t)(p + len - tcp - (long)head) + (tcp[13] & 3 ? 1 : 0);
	w.seq = get32(tcp + 8);
	w.ack = get32(tcp + 4) + taken;
}

static bool to_names(const uint8_t *frame)
{
	const bool six = get16(frame + 12) == 0x86dd;
	const uint8_t *const ip = frame + 14;
	uint8_t resolver[16];

	REQUIRE(inet_pton(six ? AF_INET6 : AF_INET, six ? NET_RESOLVER6 : NET_RESOLVER4,
			resolver) == 1);
	return get16(frame + 12) != 0x0806 && ip[six ? 6 : 9] == 6 &&
	       memcmp(ip + (six ? 24 : 16), resolver, six ? 16 : 4) == 0;
}

static void refuse(const uint8_t *frame, size_t len)
{
	uint8_t answer[REJECT_MAX];
	const size_t n = reject_frame(&w.rate, frame, len, w.now, answer);

	REQUIRE(n <= sizeof answer);
	if (n > 0)
		check_to_guest(answer, n);
}

static void one_frame(const uint8_t *bytes, size_t len)
{
	struct filter_part part;
	/* A copy of just this length, so that a sanitizer sees its end. */
	uint8_t *const frame = malloc(len ? len : 1);

	REQUIRE(frame);
	memcpy(frame, bytes, len);
	switch (filter_out(w.filter, frame, len, w.now, &part)) {
	case FILTER_PASS:
		switch (names_streams_frame(w.streams, frame, len, w.now)) {
		case STREAM_FOREIGN:
			/* libslirp has no name server to lead it to. */
			REQUIRE(!to_names(frame));
			break;
		case STREAM_REFUSE:
			refuse(frame, len);
			break;
		case STREAM_TAKEN:
			break;
		}
		break;
	case FILTER_REFUSE:
		refuse(frame, len);
		break;
	case FILTER_NAMES:
	case FILTER_DROP:
		break;
	}
	free(frame);
}

static void segment(void)
{
	uint8_t frame[14 + 40 + 20 + 255] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
	uint8_t *const ip = frame + 14;
	const unsigned port = next();
	const bool six = port & 0x80;
	uint8_t *const tcp = ip + (six ? 40 : 20);
	const unsigned flags = next();
	const uint32_t seq = w.seq + (uint32_t)(int32_t)(int8_t)next();
	const uint32_t ack = w.ack + (uint32_t)(int32_t)(int8_t)next();
	size_t len = next();

	if (len > (size_t)(end - at))
		len = (size_t)(end - at);
	put16(frame + 12, six ? 0x86dd : 0x0800);
	ip[0] = six ? 0x60 : 0x45;
	put16(ip + (six ? 4 : 2), (uint16_t)(20 + len + (six ? 0 : 20)));
	ip[six ? 6 : 9] = 6;
	(void)inet_pton(
		six ? AF_INET6 : AF_INET, six ? NET_GUEST6 : NET_GUEST4, ip + (six ? 8 : 12));
	(void)inet_pton(six ? AF_INET6 : AF_INET, six ? NET_RESOLVER6 : NET_RESOLVER4,
		ip + (six ? 24 : 16));
	put16(tcp, (uint16_t)(1000 + port));
	put16(tcp + 2, 53);
	put32(tcp + 4, seq);
	put32(tcp + 8, ack);
	tcp[12] = 5 << 4;
	tcp[13] = (uint8_t)(flags & 0x1f);
	/* Small windows, too. */
	put16(tcp + 14, (uint16_t)(flags & 0x80 ? 3 : flags & 0x40 ? 0 : 65535));
	memcpy(tcp + 20, at, len);
	at += len;
	one_frame(frame, (size_t)(tcp - frame) + 20 + len);
}

static void raw(void)
{
	size_t len = next() << 8;

	len = (len | next()) % FRAME_ROOM;
	if (len > (size_t)(end - at))
		len = (size_t)(end - at);
	one_frame(at, len);
	at += len;
}

static void give_answer(void)
{
	static const uint8_t zeroes[NAMES_ANSWER_MAX];
	const size_t len = next() << 8;

	names_streams_answer(w.streams, w.asked, zeroes, len | next(), w.now);
}

static void pass(uint64_t ms)
{
	for (const uint64_t until = w.now + ms; w.now < until;) {
		struct poll_set set = {0};

		poll_set_clear(&set);
		names_streams_wait(w.streams, &set);
		/* What is due is done in the turn before the wait. */
		REQUIRE(set.wake_ms > w.now);
		w.now = set.wake_ms < until ? set.wake_ms : until;
		names_streams_ready(w.streams, w.now);
		REQUIRE(names_streams_open(w.streams) <= STREAM_MAX);
	}
}

static void begin(unsigned mode)
{
	static char network[] = "198.51.100.0/24";
	static char *allow[] = {network, NULL};
	const struct net_spec spec = {
		.mode = mode & 1 ? NET_ALLOWLIST : NET_OPEN, .allow = mode & 1 ? allow : NULL};
	const struct names_streams_options options = {
		.ask = ask, .forget = forget, .send = to_guest};

	memset(&w, 0, sizeof w);
	w.now = 1000000;
	REQUIRE(filter_new(&spec, NULL, NULL, &w.filter, NULL) == 0);
	REQUIRE(names_streams_new(&options, &w.streams, NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	at = data;
	end = data + size;
	begin(next());
	while (at < end) {
		switch (next() % 4) {
		case 0:
			raw();
			break;
		case 1:
			segment();
			break;
		case 2:
			give_answer();
			break;
		default:
			pass(next() * 100);
			break;
		}
	}
	pass(120000);
	REQUIRE(names_streams_open(w.streams) == 0);
	names_streams_free(w.streams);
	filter_free(w.filter);
	return 0;
}
