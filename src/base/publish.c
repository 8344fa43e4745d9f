/* SPDX-License-Identifier: Apache-2.0 */
#include "base/publish.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/banned.h"

#define TEXT_MAX 96u /* nothing longer can be right */

#define HINT_FORMS                                                                           \
	"a published port is [IP:]HOST:GUEST[/udp], such as '8080:80', '0.0.0.0:53:53/udp' " \
	"or '[::1]:8080:80'"

static int refuse(const char *text, const char *why, const char *hint, holt_error **reterr)
{
	const int r = err_make(reterr, HOLT_EINVALID, "%s: '%s'", why, text);

	err_stage(reterr, "network");
	err_object(reterr, text);
	err_hint(reterr, "%s", hint);
	return r;
}

/* "/tcp" or "/udp" at the end of @copy is cut off. */
static int take_proto(const char *text, char *copy, bool *ret_udp, holt_error **reterr)
{
	char *const slash = strchr(copy, '/');

	if (!slash)
		return 0;
	*ret_udp = strcmp(slash, "/udp") == 0;
	if (!*ret_udp && strcmp(slash, "/tcp") != 0)
		return refuse(text, "neither '/tcp' nor '/udp'", HINT_FORMS, reterr);
	*slash = 0;
	return 0;
}

static int take_address(const char *text, char *address, struct net_addr *ret, holt_error **reterr)
{
	const size_t len = strlen(address);
	const bool bracketed = address[0] == '[';

	if (bracketed && address[len - 1] != ']')
		return refuse(
			text, "the brackets do not close around an address", HINT_FORMS, reterr);
	if (bracketed) {
		address[len - 1] = 0;
		address++;
	} else if (strchr(address, ':')) {
		return refuse(text, "an IPv6 address without brackets, or too many ports",
			"write '[ADDRESS]:HOST:GUEST'", reterr);
	}
	if (!net_addr_parse(address, ret))
		return refuse(text, "not an address of the host",
			"give an IPv4 address, or an IPv6 address in brackets; '127.0.0.1' is this "
			"host alone, "
			"'0.0.0.0' every interface",
			reterr);
	if (net_addr_is4(ret) == bracketed)
		return refuse(
			text, "an IPv4 address written as IPv6", "write its IPv4 form", reterr);
	return 0;
}

static int take_port(
	const char *text, const char *port, bool any, uint16_t *ret, holt_error **reterr)
{
	uint64_t number = 0;

	if (strchr(port, '-'))
		return refuse(text, "ranges of ports cannot be published",
			"publish each port of its own", reterr);
	if ((*port || !any) && str_to_u64(port, UINT16_MAX, &number) < 0)
		return refuse(text, "a port is a number from 1 to 65535", HINT_FORMS, reterr);
	if (number == 0 && !any)
		return refuse(text, "the guest's port must be from 1 to 65535",
			"only the host's port may be left out, as in ':80'", reterr);
	*ret = (uint16_t)number;
	return 0;
}

int publish_parse(const char *text, struct publish_rule *ret, holt_error **reterr)
{
	struct publish_rule rule = {0};
	char copy[TEXT_MAX + 1];

	if (strlen(text) > TEXT_MAX)
		return refuse(text, "too long for a published port", HINT_FORMS, reterr);
	(void)snprintf(copy, sizeof copy, "%s", text);
	int r = take_proto(text, copy, &rule.udp, reterr);
	if (r < 0)
		return r;
	char *const guest = strrchr(copy, ':');
	if (!guest)
		return refuse(text, "no port of the host",
			"write 'HOST:GUEST', or ':GUEST' for any free port of the host", reterr);
	*guest = 0;
	char *const host = strrchr(copy, ':');
	if (host) {
		*host = 0;
		if (!*copy)
			return refuse(text, "an empty address",
				"leave out the address and its ':' for 127.0.0.1", reterr);
		r = take_address(text, copy, &rule.address, reterr);
	} else {
		(void)net_addr_parse("127.0.0.1", &rule.address);
	}
	if (r == 0)
		r = take_port(text, host ? host + 1 : copy, true, &rule.host_port, reterr);
	if (r == 0)
		r = take_port(text, guest + 1, false, &rule.guest_port, reterr);
	if (r == 0)
		*ret = rule;
	return r;
}

void publish_text(const struct publish_rule *r, char ret[PUBLISH_TEXT])
{
	char address[NET_ADDR_TEXT];

	net_addr_text(&r->address, address);
	(void)snprintf(ret, PUBLISH_TEXT,
		net_addr_is4(&r->address) ? "%s:%u:%u/%s" : "[%s]:%u:%u/%s", address, r->host_port,
		r->guest_port, r->udp ? "udp" : "tcp");
}
