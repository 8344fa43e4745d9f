/* SPDX-License-Identifier: Apache-2.0 */
#include "net/stack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <slirp/libslirp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/net_link.h"
#include "net/filter.h"
#include "net/names_stream.h"
#include "net/poll_set.h"
#include "net/reject.h"
#include "net/resolver.h"
#include "base/banned.h"

/* A router advertisement would give the guest addresses and routes that its agent did not. */
#define ICMP6_ROUTER_ADVERTISEMENT 134u
/* libslirp begins a new timer with each advertisement; none is wanted. */
#define NO_SLIRP_TIMER ((void *)1)

struct waiting {
	struct waiting *next;
	size_t len;
	uint8_t frame[];
};

struct stack {
	Slirp *slirp;
	struct filter *filter;
	struct resolver *resolver;
	struct names_streams *streams;
	struct reject_rate reject_rate;
	int frames;
	int place; /* of it in the poll set */
	bool ipv6;
	unsigned mtu;
	int error; /* of the card, for good */
	uint64_t heard_ms;
	uint64_t lost;
	struct waiting *first;
	struct waiting **last;
	size_t waiting_bytes;
	struct poll_set *filling; /* while slirp adds to it */
	const struct poll_set *polled; /* while slirp asks it */
	bool listens[STACK_LISTENERS_END]; /* by descriptor */
	uint64_t pause_ms; /* nobody is accepted before; 0: at once */
	uint8_t in[STACK_FRAME_MAX];
};

/* Frames for the guest. */

static bool frame_out(struct stack *s, const void *frame, size_t len)
{
	if (send(s->frames, frame, len, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return true;
	switch (errno) {
	case EAGAIN:
	case ENOBUFS:
	case ENOMEM:
	case EINTR:
		return false;
	case EMSGSIZE:
		s->lost++;
		return true;
	default:
		/* Nobody holds the other end: the machine is gone, and the keeper will say so. */
		s->lost++;
		return true;
	}
}

static void queue_put(struct stack *s, const void *frame, size_t len)
{
	struct waiting *w = s->waiting_bytes + len > STACK_QUEUE_MAX ? NULL
								     : mem_zalloc(sizeof *w + len);

	if (!w) {
		s->lost++;
		return;
	}
	w->len = len;
	memcpy(w->frame, frame, len);
	*s->last = w;
	s->last = &w->next;
	s->waiting_bytes += len;
}

static void queue_drop_first(struct stack *s)
{
	struct waiting *w = s->first;

	s->first = w->next;
	if (!s->first)
		s->last = &s->first;
	s->waiting_bytes -= w->len;
	mem_free(w);
}

static void queue_run(struct stack *s)
{
	while (s->first && frame_out(s, s->first->frame, s->first->len))
		queue_drop_first(s);
}

void stack_send(struct stack *s, const void *frame, size_t len)
{
	if (s->first || !frame_out(s, frame, len))
		queue_put(s, frame, len);
}

static bool is_advertisement(const uint8_t *frame, size_t len)
{
	return len > 54 && frame[12] == 0x86 && frame[13] == 0xdd && frame[20] == IPPROTO_ICMPV6 &&
	       frame[54] == ICMP6_ROUTER_ADVERTISEMENT;
}

/* What libslirp calls. */

static ssize_t slirp_sends(const void *frame, size_t len, void *user)
{
	struct stack *s = user;

	if (len > STACK_FRAME_MAX || is_advertisement(frame, len))
		return (ssize_t)len;
	filter_in(s->filter, frame, len, clock_mono_ms());
	stack_send(s, frame, len);
	return (ssize_t)len;
}

static void slirp_complains(const char *message, void *user)
{
	(void)message;
	(void)user;
}

static int64_t slirp_clock_ns(void *user)
{
	(void)user;
	return (int64_t)clock_mono_us() * 1000;
}

static void *slirp_timer_new(SlirpTimerId id, void *timer_user, void *user)
{
	(void)id;
	(void)timer_user;
	(void)user;
	return NO_SLIRP_TIMER;
}

static void slirp_timer_free(void *timer, void *user)
{
	(void)timer;
	(void)user;
}

static void slirp_timer_mod(void *timer, int64_t at_ms, void *user)
{
	(void)timer;
	(void)at_ms;
	(void)user;
}

static void slirp_fd(int fd, void *user)
{
	(void)fd;
	(void)user;
}

/* All is one thread, which looks at every socket before it waits again. */
static void slirp_notify(void *user)
{
	(void)user;
}

static const SlirpCb callbacks = {
	.send_packet = slirp_sends,
	.guest_error = slirp_complains,
	.clock_get_ns = slirp_clock_ns,
	.timer_new_opaque = slirp_timer_new,
	.timer_free = slirp_timer_free,
	.timer_mod = slirp_timer_mod,
	.register_poll_fd = slirp_fd,
	.unregister_poll_fd = slirp_fd,
	.notify = slirp_notify,
};

static Slirp *slirp_make(struct stack *s)
{
	SlirpConfig config = {
		.version = 4,
		.in_enabled = true,
		.in6_enabled = s->ipv6,
		.vprefix_len = NET_PREFIX6,
		.if_mtu = s->mtu,
		.if_mru = s->mtu,
		/* Off, or datagrams of a published port could not be answered to the host itself.
		 * The filter lets nothing else to the gateway, which stands for the host here. */
		.disable_host_loopback = false,
		.disable_dns = true,
		.disable_dhcp = true,
	};

	(void)inet_pton(AF_INET, NET_GATEWAY4, &config.vhost);
	(void)inet_pton(AF_INET, NET_RESOLVER4, &config.vnameserver);
	(void)inet_pton(AF_INET, NET_GUEST4, &config.vdhcp_start);
	config.vnetmask.s_addr = htonl(~0u << (32 - NET_PREFIX4));
	config.vnetwork.s_addr = config.vhost.s_addr & config.vnetmask.s_addr;
	(void)inet_pton(AF_INET6, NET_GATEWAY6, &config.vhost6);
	(void)inet_pton(AF_INET6, NET_RESOLVER6, &config.vnameserver6);
	config.vprefix_addr6 = config.vhost6;
	memset(&config.vprefix_addr6.s6_addr[NET_PREFIX6 / 8], 0, 16 - NET_PREFIX6 / 8);
	return slirp_new(&config, &callbacks, s);
}

int stack_new(const struct stack_options *options, struct stack **ret, holt_error **reterr)
{
	struct stack *s = mem_zalloc(sizeof *s);

	if (!s)
		return err_nomem(reterr);
	s->frames = options->frames;
	s->place = -1;
	s->ipv6 = options->ipv6;
	s->mtu = options->mtu ? options->mtu : STACK_MTU;
	s->filter = options->filter;
	s->resolver = options->resolver;
	s->streams = options->streams;
	s->last = &s->first;
	s->slirp = slirp_make(s);
	if (!s->slirp) {
		stack_free(s);
		return err_make(reterr, HOLT_EINTERNAL, "libslirp refuses the guest's network");
	}
	*ret = s;
	return 0;
}

void stack_free(struct stack *s)
{
	if (!s)
		return;
	if (s->slirp)
		slirp_cleanup(s->slirp);
	while (s->first)
		queue_drop_first(s);
	mem_free(s);
}

Slirp *stack_slirp(struct stack *s)
{
	return s->slirp;
}

void stack_listens(struct stack *s, int fd)
{
	if (fd >= 0 && fd < STACK_LISTENERS_END)
		s->listens[fd] = true;
}

bool stack_ipv6(const struct stack *s)
{
	return s->ipv6;
}

uint64_t stack_heard_ms(const struct stack *s)
{
	return s->heard_ms;
}

uint64_t stack_lost(const struct stack *s)
{
	return s->lost;
}

/* Frames of the guest. */

static void frame_refuse(struct stack *s, size_t len, uint64_t now_ms)
{
	uint8_t answer[REJECT_MAX];
	const size_t n = reject_frame(&s->reject_rate, s->in, len, now_ms, answer);

	if (n > 0)
		stack_send(s, answer, n);
}

static void frame_pass(struct stack *s, size_t len, uint64_t now_ms)
{
	switch (names_streams_frame(s->streams, s->in, len, now_ms)) {
	case STREAM_FOREIGN:
		slirp_input(s->slirp, s->in, (int)len);
		break;
	case STREAM_REFUSE:
		frame_refuse(s, len, now_ms);
		break;
	case STREAM_TAKEN:
		break;
	}
}

static void frame_in(struct stack *s, size_t len)
{
	const uint64_t now = clock_mono_ms();
	struct filter_part part;

	s->heard_ms = now;
	switch (filter_out(s->filter, s->in, len, now, &part)) {
	case FILTER_PASS:
		frame_pass(s, len, now);
		break;
	case FILTER_REFUSE:
		frame_refuse(s, len, now);
		break;
	case FILTER_NAMES:
		resolver_ask(s->resolver, s->in, len, &part);
		break;
	case FILTER_DROP:
		break;
	}
}

static void frames_in(struct stack *s)
{
	for (unsigned n = 0; n < STACK_FRAMES_AT_ONCE; n++) {
		const ssize_t len = recv(s->frames, s->in, sizeof s->in, MSG_DONTWAIT | MSG_TRUNC);

		if (len >= 0 && (size_t)len > sizeof s->in)
			continue;
		if (len > 0)
			frame_in(s, (size_t)len);
		if (len >= 0 || errno == EINTR)
			continue;
		if (errno != EAGAIN && errno != ECONNRESET && errno != ECONNREFUSED)
			s->error = -errno;
		return;
	}
}

static bool is_listener(const struct stack *s, int fd)
{
	return fd >= 0 && fd < STACK_LISTENERS_END && s->listens[fd];
}

/* May libslirp accept? */
static bool has_free_descriptor(const struct stack *s)
{
	auto_fd fd = fcntl(s->frames, F_DUPFD_CLOEXEC, 0);

	return fd >= 0;
}

static int slirp_adds(int fd, int events, void *user)
{
	struct stack *s = user;
	short wanted = 0;

	if (s->pause_ms && is_listener(s, fd))
		return poll_set_add(s->filling, FD_NONE, 0);
	if (events & SLIRP_POLL_IN)
		wanted |= POLLIN;
	if (events & SLIRP_POLL_OUT)
		wanted |= POLLOUT;
	if (events & SLIRP_POLL_PRI)
		wanted |= POLLPRI;
	return poll_set_add(s->filling, fd, wanted);
}

static int slirp_asks(int place, void *user)
{
	struct stack *s = user;
	const short got = poll_set_got(s->polled, place);
	int events = 0;

	if (got && is_listener(s, s->polled->fds[place].fd) && !has_free_descriptor(s)) {
		s->pause_ms = clock_mono_ms() + STACK_PAUSE_MS;
		return 0;
	}
	if (got & POLLIN)
		events |= SLIRP_POLL_IN;
	if (got & POLLOUT)
		events |= SLIRP_POLL_OUT;
	if (got & POLLPRI)
		events |= SLIRP_POLL_PRI;
	if (got & POLLERR)
		events |= SLIRP_POLL_ERR;
	if (got & POLLHUP)
		events |= SLIRP_POLL_HUP;
	return events;
}

void stack_wait(struct stack *s, struct poll_set *set)
{
	uint32_t timeout_ms = UINT32_MAX;

	if (s->pause_ms && clock_mono_ms() >= s->pause_ms)
		s->pause_ms = 0;
	if (s->pause_ms)
		poll_set_wake(set, s->pause_ms);
	s->place = poll_set_add(set, s->frames, (short)(POLLIN | (s->first ? POLLOUT : 0)));
	s->filling = set;
	slirp_pollfds_fill(s->slirp, &timeout_ms, slirp_adds, s);
	s->filling = NULL;
	if (timeout_ms != UINT32_MAX)
		poll_set_wake(set, clock_mono_ms() + timeout_ms);
}

int stack_ready(struct stack *s, const struct poll_set *set)
{
	if (poll_set_got(set, s->place) & POLLOUT)
		queue_run(s);
	s->polled = set;
	slirp_pollfds_poll(s->slirp, 0, slirp_asks, s);
	s->polled = NULL;
	if (poll_set_got(set, s->place) & ~POLLOUT)
		frames_in(s);
	return s->error;
}
