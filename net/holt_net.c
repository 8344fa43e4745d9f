/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holt-net: the process between one box's network card and the world. The keeper starts it, with
 * two descriptors (base/net_link.h) and in a jail; nothing is in its arguments or environment.
 *
 *   read "spec" -> filter, stack -> bind published ports -> own jail -> "up" -> loop
 *
 * One thread, one loop. It ends with the keeper's socket, and when something is so wrong that going
 * on could let through what must not pass. Its exit status is 0 where the keeper went first.
 */
#include <fcntl.h>
#include <slirp/libslirp.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/net_link.h"
#include "base/str.h"
#include "net/filter.h"
#include "net/forward.h"
#include "net/helper_jail.h"
#include "net/host_addresses.h"
#include "net/keeper_link.h"
#include "net/names_stream.h"
#include "net/poll_set.h"
#include "net/resolver.h"
#include "net/stack.h"
#include "base/banned.h"

/* After a frame of the guest the filter may have something to tell that is new. */
#define TICK_MS 1200u

struct helper {
	struct keeper_link link;
	struct net_spec spec;
	struct host_addresses addresses;
	struct filter *filter;
	struct resolver *resolver;
	struct names_streams *streams;
	struct stack *stack;
	struct poll_set polls;
	uint64_t tick_ms; /* 0: the filter has nothing to tell */
	char **ports; /* as they were published */
	const char *empty_dir; /* the root directory when all is set up, or NULL */
};

static void send_frame(const void *frame, size_t len, void *user)
{
	const struct helper *h = user;

	stack_send(h->stack, frame, len);
}

static void ask_stream(uint32_t id, const void *data, size_t len, void *user)
{
	const struct helper *h = user;

	resolver_ask_stream(h->resolver, id, data, len);
}

static void forget_stream(uint32_t id, void *user)
{
	const struct helper *h = user;

	resolver_forget_stream(h->resolver, id);
}

static void answer_stream(uint32_t id, const void *data, size_t len, void *user)
{
	const struct helper *h = user;

	names_streams_answer(h->streams, id, data, len, clock_mono_ms());
}

static void want_names(void *user)
{
	struct helper *h = user;

	link_ask(&h->link, clock_mono_ms());
}

static int make_resolver(struct helper *h, holt_error **reterr)
{
	const struct resolver_options options = {
		.filter = h->filter,
		.allowlist = h->spec.mode == NET_ALLOWLIST,
		.send = send_frame,
		.answer = answer_stream,
		.want_names = want_names,
		.user = h,
	};
	const struct names_streams_options stream_options = {
		.ask = ask_stream,
		.forget = forget_stream,
		.send = send_frame,
		.user = h,
	};
	const int r = resolver_new(&options, &h->resolver, reterr);

	if (r < 0)
		return r;
	want_names(h);
	return names_streams_new(&stream_options, &h->streams, reterr);
}

static int make_stack(struct helper *h, holt_error **reterr)
{
	const struct stack_options options = {
		.frames = NET_FD_FRAMES,
		.ipv6 = net_host_has_ipv6(),
		.filter = h->filter,
		.resolver = h->resolver,
		.streams = h->streams,
	};

	return stack_new(&options, &h->stack, reterr);
}

static int helper_init(struct helper *h, holt_error **reterr)
{
	const uint64_t now = clock_mono_ms();
	int r = link_read_spec(&h->link, &h->spec, reterr);

	if (r == 0)
		r = filter_new(&h->spec, link_refused, &h->link, &h->filter, reterr);
	if (r == 0)
		r = host_addresses_refresh(&h->addresses, h->filter, now, reterr);
	if (r == 0)
		r = make_resolver(h, reterr);
	if (r == 0)
		r = make_stack(h, reterr);
	if (r == 0)
		r = forward_open(h->stack, &h->spec, &h->ports, reterr);
	if (r == 0)
		r = helper_jail_enter(h->empty_dir, reterr);
	if (r == 0)
		r = link_say_up(&h->link, stack_ipv6(h->stack), STACK_MTU, h->ports, reterr);
	return r;
}

static int keeper_speaks(struct helper *h, holt_error **reterr)
{
	struct link_names names;
	const int r = link_read_names(&h->link, &names, reterr);

	if (r <= 0)
		return r;
	resolver_set_names(h->resolver, names.resolv, names.hosts);
	return 0;
}

static void helper_tick(struct helper *h, bool heard)
{
	const uint64_t now = clock_mono_ms();

	if (h->tick_ms && now >= h->tick_ms) {
		filter_tick(h->filter, now);
		h->tick_ms = 0;
	}
	if (heard && !h->tick_ms)
		h->tick_ms = now + TICK_MS;
}

static int helper_turn(struct helper *h, holt_error **reterr)
{
	const uint64_t before = stack_heard_ms(h->stack);

	poll_set_clear(&h->polls);
	const int keeper = poll_set_add(&h->polls, NET_FD_KEEPER, POLLIN);
	if (h->tick_ms)
		poll_set_wake(&h->polls, h->tick_ms);
	poll_set_wake(&h->polls, link_tell(&h->link, clock_mono_ms()));
	resolver_wait(h->resolver, &h->polls);
	names_streams_wait(h->streams, &h->polls);
	stack_wait(h->stack, &h->polls);
	int r = poll_set_wait(&h->polls);
	if (r < 0)
		return err_errno(reterr, -r, "cannot wait for the guest");
	if (poll_set_got(&h->polls, keeper)) {
		r = keeper_speaks(h, reterr);
		if (r < 0)
			return r;
	}
	resolver_ready(h->resolver, &h->polls);
	names_streams_ready(h->streams, clock_mono_ms());
	r = stack_ready(h->stack, &h->polls);
	if (r < 0)
		return err_errno(reterr, -r, "cannot read from the guest's network card");
	const bool heard = stack_heard_ms(h->stack) != before;
	helper_tick(h, heard);
	if (!heard)
		return 0;
	return host_addresses_refresh(&h->addresses, h->filter, clock_mono_ms(), reterr);
}

static void helper_done(struct helper *h)
{
	stack_free(h->stack);
	names_streams_free(h->streams);
	resolver_free(h->resolver);
	filter_free(h->filter);
	host_addresses_done(&h->addresses);
	poll_set_done(&h->polls);
	net_spec_done(&h->spec);
	strv_free(h->ports);
}

int main(int argc, char **argv)
{
	static struct helper h = {.link = {.fd = NET_FD_KEEPER}, .addresses = {.spare = FD_NONE}};
	auto_error error = NULL;

	/* By hand it has no descriptors to work with. */
	if (argc > 2 || fcntl(NET_FD_FRAMES, F_GETFD) < 0 || fcntl(NET_FD_KEEPER, F_GETFD) < 0) {
		(void)fputs("holt-net is started by holt; see holt(1)\n", stderr);
		return 2;
	}
	h.empty_dir = argv[1];
	int r = helper_init(&h, &error);
	if (r < 0)
		link_say_failed(&h.link, error);
	while (r == 0)
		r = helper_turn(&h, &error);
	if (r != -HOLT_ECLOSED)
		(void)fprintf(stderr, "holt-net: %s\n", holt_error_message(error));
	helper_done(&h);
	return r == -HOLT_ECLOSED ? 0 : 1;
}
