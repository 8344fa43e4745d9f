/* SPDX-License-Identifier: Apache-2.0 */
#include "base/net_link.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/publish.h"
#include "base/str.h"
#include "base/banned.h"

static const char *const mode_names[] = {
	[NET_ALLOWLIST] = "allowlist",
	[NET_ISOLATED] = "isolated",
	[NET_OPEN] = "open",
};

const char *net_mode_name(enum net_mode mode)
{
	return mode_names[mode];
}

int net_mode_parse(const char *text, enum net_mode *ret, holt_error **reterr)
{
	for (unsigned i = 0; i < sizeof mode_names / sizeof *mode_names; i++) {
		if (strcmp(text, mode_names[i]) == 0) {
			*ret = (enum net_mode)i;
			return 0;
		}
	}
	if (strcmp(text, "none") == 0) {
		*ret = NET_ISOLATED;
		return 0;
	}
	const int r = err_make(reterr, HOLT_EINVALID, "unknown network mode '%s'", text);
	err_stage(reterr, "network");
	err_object(reterr, text);
	err_hint(reterr, "modes are 'open', 'allowlist' and 'isolated'");
	return r;
}

void net_spec_done(struct net_spec *s)
{
	strv_free(s->allow);
	strv_free(s->publish);
	*s = (struct net_spec){0};
}

static int list_copy(char **from, char ***ret)
{
	*ret = from ? strv_dup((const char *const *)from) : NULL;
	return from && !*ret ? -HOLT_ENO_MEMORY : 0;
}

int net_spec_copy(const struct net_spec *from, struct net_spec *ret)
{
	struct net_spec copy = {.mode = from->mode};

	if (list_copy(from->allow, &copy.allow) < 0 ||
		list_copy(from->publish, &copy.publish) < 0) {
		net_spec_done(&copy);
		return -HOLT_ENO_MEMORY;
	}
	*ret = copy;
	return 0;
}

static int refuse(const char *entry, const char *why, const char *hint, holt_error **reterr)
{
	const int r = err_make(reterr, HOLT_EINVALID, "%s: '%s'", why, entry);

	err_stage(reterr, "network");
	err_object(reterr, entry);
	err_hint(reterr, "%s", hint);
	return r;
}

static int check_allow(const struct net_spec *s, holt_error **reterr)
{
	struct egress_rule rule;
	size_t n = 0;

	if (s->allow && s->allow[0] && s->mode != NET_ALLOWLIST)
		return refuse(s->allow[0], "an allow-list without the mode that uses it",
			"choose the network mode 'allowlist', or leave the list out", reterr);
	for (; s->allow && s->allow[n]; n++) {
		if (n == NET_ALLOW_MAX)
			return refuse(s->allow[n], "an allow-list has at most 256 entries",
				"use '*.domain' or networks for many of a kind", reterr);
		const int r = egress_parse(s->allow[n], &rule, reterr);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Two sockets of the host cannot have one port; and the guest's answers of one UDP port can only
 * leave by one socket. */
static bool clash(const struct publish_rule *a, const struct publish_rule *b)
{
	const bool same_address = memcmp(&a->address, &b->address, sizeof a->address) == 0;
	const bool same_family = net_addr_is4(&a->address) == net_addr_is4(&b->address);

	return a->udp == b->udp &&
	       ((a->host_port && a->host_port == b->host_port && same_address) ||
		       (a->udp && a->guest_port == b->guest_port && same_family));
}

static int check_publish(const struct net_spec *s, holt_error **reterr)
{
	struct publish_rule rules[NET_PUBLISH_MAX];
	size_t n = 0;

	if (s->publish && s->publish[0] && s->mode == NET_ISOLATED)
		return refuse(s->publish[0], "an isolated box has no ports to publish",
			"choose the network mode 'open' or 'allowlist'", reterr);
	for (; s->publish && s->publish[n]; n++) {
		if (n == NET_PUBLISH_MAX)
			return refuse(s->publish[n], "a box has at most 64 published ports",
				"publish fewer, or one that leads to the others", reterr);
		const int r = publish_parse(s->publish[n], &rules[n], reterr);
		if (r < 0)
			return r;
		for (size_t i = 0; i < n; i++) {
			if (clash(&rules[i], &rules[n]))
				return refuse(s->publish[n], "published twice",
					"a port of the host, and a UDP port of the guest, is "
					"published once",
					reterr);
		}
	}
	return 0;
}

int net_spec_check(const struct net_spec *s, holt_error **reterr)
{
	const int r = check_allow(s, reterr);

	return r < 0 ? r : check_publish(s, reterr);
}

/* Entries in their one form, so that equal lists are equal texts; what is no entry stays as it is
 * and is refused by whoever reads it. */
static json_t *allow_json(char **list)
{
	json_t *array = json_array();

	for (size_t i = 0; array && list && list[i]; i++) {
		struct egress_rule rule;
		char text[EGRESS_TEXT];
		const bool good = egress_parse(list[i], &rule, NULL) == 0;

		if (good)
			egress_text(&rule, text);
		if (json_array_append_new(array, json_from_bytes(good ? text : list[i])) < 0) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

static json_t *publish_json(char **list)
{
	json_t *array = json_array();

	for (size_t i = 0; array && list && list[i]; i++) {
		struct publish_rule rule;
		char text[PUBLISH_TEXT];
		const bool good = publish_parse(list[i], &rule, NULL) == 0;

		if (good)
			publish_text(&rule, text);
		if (json_array_append_new(array, json_from_bytes(good ? text : list[i])) < 0) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

json_t *net_spec_json(const struct net_spec *s)
{
	return json_pack("{s:s, s:o, s:o}", "mode", net_mode_name(s->mode), "allow",
		allow_json(s->allow), "publish", publish_json(s->publish));
}

/* A list is as long as it may be before a copy is made of it. */
static int get_list(
	const json_t *object, const char *key, size_t max, char ***ret, holt_error **reterr)
{
	if (json_array_size(json_object_get(object, key)) > max)
		return err_make(reterr, HOLT_EINVALID, "'%s' has more than %zu entries", key, max);
	return json_get_strv(object, key, ret, reterr);
}

int net_spec_parse(const json_t *object, struct net_spec *ret, holt_error **reterr)
{
	auto_net_spec spec = {0};
	const char *mode = NULL;
	int r = json_get_str(object, "mode", &mode, reterr);

	if (r == 0 && !mode)
		r = err_make(reterr, HOLT_EINVALID, "a network without 'mode'");
	if (r == 0)
		r = net_mode_parse(mode, &spec.mode, reterr);
	if (r == 0)
		r = get_list(object, "allow", NET_ALLOW_MAX, &spec.allow, reterr);
	if (r == 0)
		r = get_list(object, "publish", NET_PUBLISH_MAX, &spec.publish, reterr);
	if (r == 0)
		r = net_spec_check(&spec, reterr);
	if (r < 0)
		return r;
	*ret = spec;
	spec = (struct net_spec){0};
	return 0;
}

bool net_host_has_ipv6(void)
{
	/* Any address of the Internet will do: a datagram socket that is connected sends nothing.
	 */
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(53)};
	struct sockaddr_in6 own;
	socklen_t len = sizeof own;
	auto_fd fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)inet_pton(AF_INET6, "2000::1", &to.sin6_addr);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) < 0 ||
		getsockname(fd, (struct sockaddr *)&own, &len) < 0)
		return false;
	return !IN6_IS_ADDR_LINKLOCAL(&own.sin6_addr) && !IN6_IS_ADDR_LOOPBACK(&own.sin6_addr);
}
