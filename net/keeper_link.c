/* SPDX-License-Identifier: Apache-2.0 */
#include "net/keeper_link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/* A message as JSON; *ret NULL: none waits. */
static int read_message(struct keeper_link *l, int flags, json_t **ret, holt_error **reterr)
{
	auto_free char *text = mem_zalloc(NET_MESSAGE_MAX);
	ssize_t n;

	*ret = NULL;
	if (!text)
		return err_nomem(reterr);
	do {
		n = recv(l->fd, text, NET_MESSAGE_MAX, flags | MSG_TRUNC);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n < 0)
		return err_errno(reterr, errno, "cannot read from the keeper");
	if (n == 0)
		return err_make(reterr, HOLT_ECLOSED, "the keeper is gone");
	if ((size_t)n > NET_MESSAGE_MAX)
		return err_make(reterr, HOLT_EPROTOCOL, "a message of the keeper has %zd bytes", n);
	return json_parse(text, (size_t)n, NET_MESSAGE_MAX, "message of the keeper", ret, reterr);
}

int link_read_spec(struct keeper_link *l, struct net_spec *ret, holt_error **reterr)
{
	auto_json message = NULL;
	const int r = read_message(l, 0, &message, reterr);

	if (r < 0)
		return r;
	const json_t *spec = json_object_get(message, "spec");
	if (!json_is_object(spec))
		return err_make(reterr, HOLT_EPROTOCOL, "the keeper's first message is no 'spec'");
	return net_spec_parse(spec, ret, reterr);
}

void link_names_done(struct link_names *n)
{
	mem_free(n->resolv);
	mem_free(n->hosts);
	*n = (struct link_names){0};
}

/* A text that is missing is an empty one. */
static int text_member(const json_t *object, const char *key, char **ret, holt_error **reterr)
{
	int r = json_get_bytes(object, key, ret, reterr);

	if (r == 0 && !*ret) {
		*ret = str_dup("");
		r = *ret ? 0 : err_nomem(reterr);
	}
	return r;
}

int link_read_names(struct keeper_link *l, struct link_names *ret, holt_error **reterr)
{
	auto_json message = NULL;
	struct link_names names = {0};
	int r = read_message(l, MSG_DONTWAIT, &message, reterr);

	if (r < 0 || !message)
		return r;
	const json_t *object = json_object_get(message, "names");
	if (!json_is_object(object))
		return err_make(reterr, HOLT_EPROTOCOL, "the keeper sends something unknown");
	r = text_member(object, "resolv", &names.resolv, reterr);
	if (r == 0)
		r = text_member(object, "hosts", &names.hosts, reterr);
	if (r < 0) {
		link_names_done(&names);
		return r;
	}
	*ret = names;
	return 1;
}

/* Takes the body, which may be NULL for want of memory. */
static int say(struct keeper_link *l, const char *what, json_t *body)
{
	auto_json message = json_object();

	if (!body || json_object_set_new(message, what, body) < 0)
		return -ENOMEM;
	auto_free char *text = json_text(message);
	if (!text)
		return -ENOMEM;
	const size_t len = strlen(text);
	if (len > NET_MESSAGE_MAX)
		return -EMSGSIZE;
	return send(l->fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

int link_say_up(struct keeper_link *l, bool ipv6, unsigned mtu, char **ports, holt_error **reterr)
{
	const int r = say(l, "up",
		json_pack("{s:b, s:i, s:o}", "ipv6", ipv6, "mtu", (int)mtu, "ports",
			json_from_list((const char *const *)ports)));

	return r < 0 ? err_errno(reterr, -r, "cannot tell the keeper that the network is up") : 0;
}

void link_say_failed(struct keeper_link *l, const holt_error *error)
{
	const char *object = holt_error_object(error);
	const char *hint = holt_error_hint(error);
	json_t *body = json_object();

	/* What cannot be added for want of memory is missing in the message. */
	(void)json_object_set_new(body, "errno", json_integer(holt_error_errno(error)));
	(void)json_object_set_new(body, "text", json_from_bytes(holt_error_message(error)));
	(void)json_object_set_new(body, "object", json_from_bytes(object ? object : ""));
	(void)json_object_set_new(body, "hint", json_from_bytes(hint ? hint : ""));
	(void)say(l, "failed", body);
}

void link_ask(struct keeper_link *l, uint64_t now_ms)
{
	if (l->asked_ms && now_ms - l->asked_ms < LINK_ASK_MS)
		return;
	l->asked_ms = now_ms;
	(void)say(l, "ask", json_object());
}

static bool is_same(const struct link_refusal *a, const struct refusal *r)
{
	return a->port == r->port && !strcmp(a->proto, r->proto) &&
	       !memcmp(&a->address, &r->address, sizeof a->address) && !strcmp(a->name, r->name);
}

void link_refused(const struct refusal *r, void *user)
{
	struct keeper_link *l = user;
	struct link_refusal *new;

	for (size_t i = 0; i < l->n_refusals; i++) {
		if (is_same(&l->refusals[i], r)) {
			l->refusals[i].count += r->count;
			return;
		}
	}
	if (l->n_refusals == LINK_REFUSALS)
		return;
	new = &l->refusals[l->n_refusals++];
	*new = (struct link_refusal){.address = r->address, .port = r->port, .count = r->count};
	(void)snprintf(new->name, sizeof new->name, "%s", r->name);
	(void)snprintf(new->proto, sizeof new->proto, "%s", r->proto);
}

static int tell_one(struct keeper_link *l, const struct link_refusal *r)
{
	static const struct net_addr none;
	char address[NET_ADDR_TEXT] = "";
	json_t *body = json_object();

	if (memcmp(&r->address, &none, sizeof none) != 0)
		net_addr_text(&r->address, address);
	(void)json_object_set_new(body, "name", json_from_bytes(r->name));
	(void)json_object_set_new(body, "address", json_string(address));
	(void)json_object_set_new(body, "port", json_integer(r->port));
	(void)json_object_set_new(body, "proto", json_string(r->proto));
	(void)json_object_set_new(body, "count", json_integer(r->count));
	return say(l, "refused", body);
}

uint64_t link_tell(struct keeper_link *l, uint64_t now_ms)
{
	if (!l->n_refusals)
		return UINT64_MAX;
	if (l->told_ms && now_ms - l->told_ms < LINK_REFUSALS_MS)
		return l->told_ms + LINK_REFUSALS_MS;
	l->told_ms = now_ms;
	/* A keeper that is too slow to read misses some. */
	for (size_t i = 0; i < l->n_refusals; i++)
		(void)tell_one(l, &l->refusals[i]);
	l->n_refusals = 0;
	return UINT64_MAX;
}
