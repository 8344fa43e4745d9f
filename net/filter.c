/* SPDX-License-Identifier: Apache-2.0 */
#include "net/filter.h"

#include <string.h>

#include "base/mem.h"
#include "base/publish.h"
#include "flows.h"
#include "frame.h"
#include "pins.h"
#include "reach.h"
#include "refusals.h"
#include "base/banned.h"

/*
 * frame.c takes a frame apart, reach.c knows what nobody reaches, pins.c and flows.c remember. Here
 * they are asked in this order:
 *
 *   no frame, a source that is not the guest's, groups           drop
 *   the small network: neighbours, resolver, gateway             by its own rules
 *   a flow that is known, unless a SYN begins it again           pass
 *   an address that nobody reaches, or of the host               refuse
 *   an echo request by IPv6                                      refuse: the stack cannot
 *   mode open                                                    pass
 *   listed as an address, or pinned for a listed name            pass, and a flow begins
 *   else                                                         refuse
 *
 * The answers of published ports come before the host's addresses: who connects from the host to
 * one of its own addresses is its peer.
 */

#define PORT_DNS  53u
#define PORT_BOOT 67u /* DHCP: the agent has set the address */
#define PORT_TFTP 69u

#define ECHO4        8u
#define ECHO6        128u
#define ND_ROUTERS   133u /* solicitation */
#define ND_SOLICIT   135u
#define ND_ADVERTISE 136u
#define ND_HOPS      255u /* of a neighbour */

struct filter {
	enum net_mode mode;
	struct egress_rule *rules;
	size_t n_rules;
	struct publish_rule *ports;
	size_t n_ports;
	struct net_addr *host;
	size_t n_host;
	bool host_unknown;
	struct flows *flows;
	struct pins *pins;
	struct refusals *refusals;
	uint64_t now_ms; /* of the last frame: questions for names come in frames, too */
	struct net_addr guest[2], gateway[2], resolver[2]; /* IPv4, IPv6 */
};

static const uint8_t link_local[8] = {0xfe, 0x80};
static const struct net_addr link_gateway = {{0xfe, 0x80, [15] = 2}}; /* the stack's own */
static const struct net_addr all_routers = {{0xff, 2, [15] = 2}};
static const struct net_addr all_nodes = {{0xff, 2, [15] = 1}};
static const uint8_t solicited[13] = {0xff, 2, [11] = 1, [12] = 0xff};

static bool same(const struct net_addr *a, const struct net_addr *b)
{
	return memcmp(a, b, sizeof *a) == 0;
}

static int parse_rules(const struct net_spec *spec, struct filter *f, holt_error **reterr)
{
	size_t n = 0;

	while (spec->mode == NET_ALLOWLIST && spec->allow && spec->allow[n])
		n++;
	f->rules = mem_array(n + 1, sizeof *f->rules);
	for (; f->rules && f->n_rules < n; f->n_rules++) {
		const int r = egress_parse(spec->allow[f->n_rules], &f->rules[f->n_rules], reterr);
		if (r < 0)
			return r;
	}
	n = 0;
	while (spec->publish && spec->publish[n])
		n++;
	f->ports = mem_array(n + 1, sizeof *f->ports);
	for (; f->ports && f->n_ports < n; f->n_ports++) {
		const int r = publish_parse(
			spec->publish[f->n_ports], &f->ports[f->n_ports], reterr);
		if (r < 0)
			return r;
	}
	return f->rules && f->ports ? 0 : err_nomem(reterr);
}

int filter_new(const struct net_spec *spec, filter_refused_fn refused, void *user,
	struct filter **ret, holt_error **reterr)
{
	if (spec->mode == NET_ISOLATED)
		return err_make(reterr, HOLT_EINVALID, "an isolated box has nothing to filter");
	struct filter *f = mem_zalloc(sizeof *f);
	if (!f)
		return err_nomem(reterr);
	f->mode = spec->mode;
	f->flows = flows_new();
	f->pins = pins_new();
	f->refusals = refusals_new(refused, user);
	(void)net_addr_parse(NET_GUEST4, &f->guest[0]);
	(void)net_addr_parse(NET_GUEST6, &f->guest[1]);
	(void)net_addr_parse(NET_GATEWAY4, &f->gateway[0]);
	(void)net_addr_parse(NET_GATEWAY6, &f->gateway[1]);
	(void)net_addr_parse(NET_RESOLVER4, &f->resolver[0]);
	(void)net_addr_parse(NET_RESOLVER6, &f->resolver[1]);
	int r = parse_rules(spec, f, reterr);
	if (r == 0 && (!f->flows || !f->pins || !f->refusals))
		r = err_nomem(reterr);
	if (r < 0) {
		filter_free(f);
		return r;
	}
	*ret = f;
	return 0;
}

void filter_free(struct filter *f)
{
	if (!f)
		return;
	flows_free(f->flows);
	pins_free(f->pins);
	refusals_free(f->refusals);
	mem_free(f->rules);
	mem_free(f->ports);
	mem_free(f->host);
	mem_free(f);
}

void filter_set_host(struct filter *f, const struct net_addr *addresses, size_t n)
{
	struct net_addr *const copy = n > 0 && n <= FILTER_HOST_MAX
					      ? mem_dup(addresses, n * sizeof *copy)
					      : NULL;

	mem_free(f->host);
	f->host = copy;
	f->n_host = copy ? n : 0;
	f->host_unknown = n > 0 && !copy;
}

static bool is_host(const struct filter *f, const struct net_addr *a)
{
	for (size_t i = 0; i < f->n_host; i++) {
		if (same(a, &f->host[i]))
			return true;
	}
	return f->host_unknown;
}

static bool forbidden(const struct filter *f, const struct net_addr *a)
{
	struct net_addr carried[REACH_CARRIED_MAX];

	if (reach_never(a) || is_host(f, a))
		return true;
	const size_t n = reach_carried(a, carried);
	for (size_t i = 0; i < n; i++) {
		if (is_host(f, &carried[i]))
			return true;
	}
	return false;
}

static bool name_allowed(const struct filter *f, const char *name)
{
	for (size_t i = 0; i < f->n_rules; i++) {
		if (egress_matches_name(&f->rules[i], name))
			return true;
	}
	return false;
}

/* @port 0: with all its ports. */
static bool port_allowed(const struct egress_rule *r, uint16_t port)
{
	return r->port == 0 || (port != 0 && r->port == port);
}

static bool address_allowed(struct filter *f, const struct net_addr *a, uint16_t port)
{
	const char *name;
	unsigned at = 0;

	for (size_t i = 0; i < f->n_rules; i++) {
		if (port_allowed(&f->rules[i], port) && egress_matches_addr(&f->rules[i], a))
			return true;
	}
	while ((name = pins_next(f->pins, a, f->now_ms, &at))) {
		for (size_t i = 0; i < f->n_rules; i++) {
			if (port_allowed(&f->rules[i], port) &&
				egress_matches_name(&f->rules[i], name))
				return true;
		}
	}
	return false;
}

static enum filter_verdict refuse(struct filter *f, const struct frame *p)
{
	unsigned at = 0;
	const char *const name = pins_next(f->pins, &p->dest, f->now_ms, &at);
	const bool udp = p->kind == FRAME_UDP || (p->kind == FRAME_PART && p->proto == 17);
	const struct refusal r = {.name = name ? name : "",
		.address = p->dest,
		.port = p->port,
		.proto = p->kind == FRAME_TCP ? "tcp"
			 : udp                ? "udp"
					      : "icmp"};

	refusals_add(f->refusals, &r, f->now_ms);
	return FILTER_REFUSE;
}

static struct flow_key key_out(const struct frame *p)
{
	return (struct flow_key){.peer = p->dest,
		.peer_port = p->port,
		.guest_port = p->source_port,
		.udp = p->kind == FRAME_UDP,
		.ipv6 = p->ipv6};
}

static bool is_group(const struct net_addr *a)
{
	static const uint8_t all_ones[4] = {255, 255, 255, 255};
	static const uint8_t local[4] = {10, 0, 2, 255};

	if (!net_addr_is4(a))
		return a->bytes[0] == 0xff;
	return (a->bytes[12] & 0xf0) == 0xe0 || memcmp(a->bytes + 12, all_ones, 4) == 0 ||
	       memcmp(a->bytes + 12, local, 4) == 0;
}

static bool is_link_local(const struct net_addr *a)
{
	return memcmp(a->bytes, link_local, sizeof link_local) == 0;
}

static bool begins(const struct frame *p)
{
	return (p->tcp_flags & (FRAME_SYN | FRAME_ACK)) == FRAME_SYN;
}

static bool has_ports(const struct frame *p)
{
	return (p->kind == FRAME_TCP || p->kind == FRAME_UDP) && !p->fragment;
}

static enum filter_verdict out_arp(struct filter *f, const struct frame *p)
{
	static const struct net_addr nobody = {{[10] = 0xff, [11] = 0xff}};
	const bool probe = same(&p->source, &nobody) && same(&p->dest, &f->guest[0]);
	const bool mine = same(&p->source, &f->guest[0]);
	const bool inside = same(&p->dest, &f->gateway[0]) || same(&p->dest, &f->resolver[0]) ||
			    same(&p->dest, &f->guest[0]);

	return probe || (mine && inside) ? FILTER_PASS : FILTER_DROP;
}

/* In the small network, or the link itself. */
static bool is_neighbour(const struct filter *f, const struct net_addr *a)
{
	return is_link_local(a) || memcmp(a, &f->guest[1], NET_PREFIX6 / 8) == 0;
}

static bool is_stack(const struct filter *f, const struct net_addr *a)
{
	return same(a, &link_gateway) || same(a, &f->gateway[1]) || same(a, &f->resolver[1]);
}

static bool is_question(const struct filter *f, const struct frame *p)
{
	const bool group = memcmp(p->dest.bytes, solicited, sizeof solicited) == 0 &&
			   memcmp(p->dest.bytes + 13, p->target.bytes + 13, 3) == 0;

	return is_neighbour(f, &p->target) && (group || same(&p->dest, &p->target));
}

/* Neighbour discovery, which never leaves the link: between the guest and the stack. */
static enum filter_verdict out_neighbour(struct filter *f, const struct frame *p)
{
	static const struct net_addr nobody = {{0}};
	const bool mine = same(&p->source, &f->guest[1]) ||
			  (is_link_local(&p->source) && !same(&p->source, &link_gateway));
	bool good = false;

	if (p->hops != ND_HOPS || p->code != 0)
		return FILTER_DROP;
	if (p->type == ND_ROUTERS)
		good = same(&p->dest, &all_routers);
	else if (p->type == ND_SOLICIT)
		good = is_question(f, p);
	else if (p->type == ND_ADVERTISE)
		good = mine && is_neighbour(f, &p->target) && !is_stack(f, &p->target) &&
		       (is_stack(f, &p->dest) || same(&p->dest, &all_nodes));
	return good && (mine || same(&p->source, &nobody)) ? FILTER_PASS : FILTER_DROP;
}

static enum filter_verdict out_resolver(
	struct filter *f, const struct frame *p, struct filter_part *ret_part)
{
	if (p->fragment)
		return FILTER_DROP;
	if (p->port != PORT_DNS || !has_ports(p))
		return refuse(f, p);
	if (p->kind == FRAME_TCP)
		return FILTER_PASS;
	*ret_part = (struct filter_part){
		.data = p->data, .len = p->len, .port = p->source_port, .ipv6 = p->ipv6};
	return FILTER_NAMES;
}

/* Is it an answer of a published port? */
static bool is_answer(struct filter *f, const struct frame *p)
{
	const struct flow_key key = key_out(p);
	enum flow_way way = FLOW_OUT;

	return has_ports(p) && f->n_ports > 0 && !(p->kind == FRAME_TCP && begins(p)) &&
	       flows_use(f->flows, &key, FLOW_OUT, p->tcp_flags, f->now_ms, &way) && way == FLOW_IN;
}

static enum filter_verdict out_gateway(struct filter *f, const struct frame *p)
{
	if (p->fragment)
		return FILTER_DROP;
	if (p->kind == FRAME_ICMP4 || p->kind == FRAME_ICMP6)
		return FILTER_PASS;
	if (is_answer(f, p))
		return FILTER_PASS;
	if (p->kind == FRAME_UDP && (p->port == PORT_BOOT || p->port == PORT_TFTP))
		return FILTER_DROP;
	return refuse(f, p);
}

/* An address outside, with an allow-list. */
static enum filter_verdict out_listed(struct filter *f, const struct frame *p)
{
	const struct flow_key key = key_out(p);
	const bool begin = p->kind == FRAME_TCP && begins(p);

	if (has_ports(p) && !begin &&
		flows_use(f->flows, &key, FLOW_OUT, p->tcp_flags, f->now_ms, NULL))
		return FILTER_PASS;
	if (!address_allowed(f, &p->dest, has_ports(p) ? p->port : 0))
		return refuse(f, p);
	/* Without a memory of it, it would end with the pin: better not to begin. */
	if (has_ports(p) && (begin || p->kind == FRAME_UDP) &&
		!flows_add(f->flows, &key, FLOW_OUT, f->now_ms))
		return FILTER_DROP;
	return FILTER_PASS;
}

static enum filter_verdict out_packet(
	struct filter *f, const struct frame *p, struct filter_part *ret_part)
{
	const unsigned family = p->ipv6;

	if (!same(&p->source, &f->guest[family]) || is_group(&p->dest))
		return FILTER_DROP;
	if ((p->kind == FRAME_ICMP4 && (p->type != ECHO4 || p->code != 0)) ||
		(p->kind == FRAME_ICMP6 && (p->type != ECHO6 || p->code != 0)))
		return FILTER_DROP;
	if (same(&p->dest, &f->resolver[family]))
		return out_resolver(f, p, ret_part);
	if (same(&p->dest, &f->gateway[family]))
		return out_gateway(f, p);
	if (is_answer(f, p))
		return FILTER_PASS;
	if (forbidden(f, &p->dest))
		return refuse(f, p);
	/* No policy, and not told: the stack has no echo by IPv6 but its own, and would stay
	 * silent. */
	if (p->kind == FRAME_ICMP6)
		return FILTER_REFUSE;
	return f->mode == NET_OPEN ? FILTER_PASS : out_listed(f, p);
}

void filter_tick(struct filter *f, uint64_t now_ms)
{
	refusals_tick(f->refusals, now_ms);
}

enum filter_verdict filter_out(struct filter *f, const void *frame, size_t len, uint64_t now_ms,
	struct filter_part *ret_part)
{
	struct frame p;

	f->now_ms = now_ms;
	refusals_tick(f->refusals, now_ms);
	if (!frame_parse(frame, len, &p))
		return FILTER_DROP;
	if (p.kind == FRAME_ARP)
		return out_arp(f, &p);
	if (p.kind == FRAME_ICMP6 && p.type >= ND_ROUTERS && p.type <= ND_ADVERTISE)
		return out_neighbour(f, &p);
	return out_packet(f, &p, ret_part);
}

static bool published(const struct filter *f, uint16_t port, bool udp)
{
	for (size_t i = 0; i < f->n_ports; i++) {
		if (f->ports[i].guest_port == port && f->ports[i].udp == udp)
			return true;
	}
	return false;
}

/* Only the stack makes frames to the guest, and it begins connections for published ports alone. */
void filter_in(struct filter *f, const void *frame, size_t len, uint64_t now_ms)
{
	struct frame p;

	f->now_ms = now_ms;
	if ((f->mode == NET_OPEN && f->n_ports == 0) || !frame_parse(frame, len, &p) ||
		(p.kind != FRAME_TCP && p.kind != FRAME_UDP))
		return;
	const bool udp = p.kind == FRAME_UDP;
	const bool begin = udp || begins(&p);
	const struct flow_key key = {.peer = p.source,
		.peer_port = p.source_port,
		.guest_port = p.port,
		.udp = udp,
		.ipv6 = p.ipv6};

	if ((udp || !begin) && flows_use(f->flows, &key, FLOW_IN, p.tcp_flags, now_ms, NULL))
		return;
	/* Without memory the answers are refused: the peer sees a connection that fails. */
	if (begin && published(f, p.port, udp))
		(void)flows_add(f->flows, &key, FLOW_IN, now_ms);
}

bool filter_may_ask(struct filter *f, const char *name)
{
	char plain[EGRESS_HOST_MAX + 1];

	if (f->mode == NET_OPEN)
		return true;
	const bool good = egress_name(name, plain);
	if (good && name_allowed(f, plain))
		return true;
	const struct refusal r = {.name = good ? plain : name, .proto = "dns"};
	refusals_add(f->refusals, &r, f->now_ms);
	return false;
}

bool filter_learn(struct filter *f, const char *name, const struct net_addr *address,
	uint32_t ttl_s, uint64_t now_ms)
{
	char plain[EGRESS_HOST_MAX + 1];

	if (forbidden(f, address))
		return false;
	if (f->mode == NET_OPEN)
		return true;
	return egress_name(name, plain) && name_allowed(f, plain) &&
	       pins_add(f->pins, address, plain, ttl_s, now_ms);
}

bool filter_reachable(const struct filter *f, const struct net_addr *address)
{
	return !forbidden(f, address);
}

void filter_sizes(struct filter *f, uint64_t now_ms, size_t *ret_flows, size_t *ret_pins)
{
	*ret_flows = flows_count(f->flows, now_ms);
	*ret_pins = pins_count(f->pins, now_ms);
}
