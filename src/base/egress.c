/* SPDX-License-Identifier: Apache-2.0 */
#include "base/egress.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/banned.h"

/*
 * Entries of allow-lists, and addresses of both families as one kind. An entry is a promise about
 * what a box may reach, so whatever could be meant in two ways is refused with the right form as a
 * hint: ranges of ports, addresses in networks ("10.0.0.5/8"), numbers that some programs take for
 * addresses ("127.1", "0x7f.1"), URLs.
 */

#define LABEL_MAX 63u /* of a DNS name */

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

bool net_addr_is4(const struct net_addr *a)
{
	return memcmp(a->bytes, mapped, sizeof mapped) == 0;
}

bool net_addr_parse(const char *text, struct net_addr *ret)
{
	struct net_addr a = {0};

	if (inet_pton(AF_INET, text, a.bytes + sizeof mapped) == 1)
		memcpy(a.bytes, mapped, sizeof mapped);
	else if (inet_pton(AF_INET6, text, a.bytes) != 1)
		return false;
	*ret = a;
	return true;
}

void net_addr_text(const struct net_addr *a, char ret[NET_ADDR_TEXT])
{
	const bool four = net_addr_is4(a);

	(void)inet_ntop(four ? AF_INET : AF_INET6, a->bytes + (four ? sizeof mapped : 0), ret,
		NET_ADDR_TEXT);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_host_char(char c)
{
	return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_';
}

/* One label of a name that is already in lower case; 0: it is none. */
static size_t label_len(const char *s)
{
	size_t n = 0;

	while (is_host_char(s[n]))
		n++;
	return n > LABEL_MAX || s[0] == '-' || (n && s[n - 1] == '-') ? 0 : n;
}

/* A last label that programs read as a number makes the whole thing an address in disguise. */
static bool looks_numeric(const char *label)
{
	return label[strspn(label, "0123456789")] == 0 ||
	       (label[0] == '0' && label[1] == 'x' &&
		       label[2 + strspn(label + 2, "0123456789abcdef")] == 0);
}

bool egress_name(const char *text, char ret[EGRESS_HOST_MAX + 1])
{
	char name[EGRESS_HOST_MAX + 1];
	size_t len = strnlen(text, EGRESS_HOST_MAX + 2);

	if (len > 0 && text[len - 1] == '.')
		len--;
	if (len == 0 || len > EGRESS_HOST_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		name[i] = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] | 0x20) : text[i];
	name[len] = 0;
	const char *label = name;
	for (;;) {
		const size_t n = label_len(label);

		if (n == 0 || (label[n] && label[n] != '.'))
			return false;
		if (!label[n])
			break;
		label += n + 1;
	}
	if (looks_numeric(label))
		return false;
	memcpy(ret, name, len + 1);
	return true;
}

bool egress_matches_name(const struct egress_rule *r, const char *name)
{
	if (r->kind == EGRESS_HOST)
		return strcmp(r->host, name) == 0;
	if (r->kind != EGRESS_DOMAIN)
		return false;
	const size_t len = strlen(name);
	const size_t tail = strlen(r->host);
	return len > tail + 1 && name[len - tail - 1] == '.' &&
	       memcmp(name + len - tail, r->host, tail) == 0;
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
	const uint8_t mask = (uint8_t)(0xff00u >> (bits % 8));

	return memcmp(a, b, bits / 8) == 0 &&
	       (bits % 8 == 0 || ((a[bits / 8] ^ b[bits / 8]) & mask) == 0);
}

bool egress_matches_addr(const struct egress_rule *r, const struct net_addr *a)
{
	return r->kind == EGRESS_NETWORK && net_addr_is4(&r->network) == net_addr_is4(a) &&
	       same_bits(r->network.bytes, a->bytes, r->prefix);
}

void egress_text(const struct egress_rule *r, char ret[EGRESS_TEXT])
{
	char address[NET_ADDR_TEXT];
	char prefix[8] = "";
	char port[8] = "";

	if (r->port)
		(void)snprintf(port, sizeof port, ":%u", r->port);
	if (r->kind != EGRESS_NETWORK) {
		(void)snprintf(ret, EGRESS_TEXT, "%s%.*s%s", r->kind == EGRESS_DOMAIN ? "*." : "",
			(int)EGRESS_HOST_MAX, r->host, port);
		return;
	}
	const bool four = net_addr_is4(&r->network);
	net_addr_text(&r->network, address);
	if (r->prefix != 128)
		(void)snprintf(prefix, sizeof prefix, "/%u", r->prefix - (four ? 96u : 0u));
	(void)snprintf(ret, EGRESS_TEXT, four ? "%s%s%s" : "[%s%s]%s", address, prefix, port);
}

/* What is wrong with an entry, and how it should be. */
static int refuse(const char *text, const char *why, const char *hint, holt_error **reterr)
{
	const int r = err_make(reterr, HOLT_EINVALID, "%s: '%s'", why, text);

	err_stage(reterr, "network");
	err_object(reterr, text);
	err_hint(reterr, "%s", hint);
	return r;
}

#define HINT_FORMS                                                                        \
	"an entry is a host, '*.domain', an address or a network, then perhaps ':PORT', " \
	"such as 'example.org:443', '10.1.0.0/16' or '[fd00::1]:80'"

/* The parts of an entry: what is before the port, without brackets. */
struct parts {
	char host[EGRESS_TEXT];
	const char *prefix; /* in host, behind its slash; or NULL */
	uint16_t port;
	bool bracketed;
};

static int split_port(const char *text, const char *port, struct parts *p, holt_error **reterr)
{
	uint64_t number = 0;

	if (strchr(port, '-') || strchr(port, ','))
		return refuse(text, "one entry has one port",
			"write an entry for each port, or none for all", reterr);
	if (str_to_u64(port, UINT16_MAX, &number) < 0 || number == 0)
		return refuse(text, "a port is a number from 1 to 65535",
			"leave ':PORT' out to allow all ports; IPv6 addresses with a port are "
			"'[ADDRESS]:PORT'",
			reterr);
	p->port = (uint16_t)number;
	return 0;
}

/* "[fd00::]/8:443" and "[fd00::/8]:443" both. */
static int split_brackets(const char *text, struct parts *p, holt_error **reterr)
{
	const char *const end = strchr(text, ']');
	const char *rest = end ? end + 1 : NULL;

	if (!end || (*rest && *rest != ':' && *rest != '/'))
		return refuse(
			text, "the brackets do not close around an address", HINT_FORMS, reterr);
	const size_t prefix = strcspn(rest, ":");
	(void)snprintf(p->host, sizeof p->host, "%.*s%.*s", (int)(end - text - 1), text + 1,
		(int)prefix, rest);
	p->bracketed = true;
	return rest[prefix] ? split_port(text, rest + prefix + 1, p, reterr) : 0;
}

static int split(const char *text, struct parts *p, holt_error **reterr)
{
	const char *const colon = strchr(text, ':');
	int r = 0;

	if (text[0] == '[') {
		r = split_brackets(text, p, reterr);
	} else if (colon && !strchr(colon + 1, ':')) {
		(void)snprintf(p->host, sizeof p->host, "%.*s", (int)(colon - text), text);
		r = split_port(text, colon + 1, p, reterr);
	} else {
		(void)snprintf(p->host, sizeof p->host, "%s", text);
	}
	char *const slash = strchr(p->host, '/');
	if (slash) {
		*slash = 0;
		p->prefix = slash + 1;
	}
	return r;
}

static int parse_prefix(
	const char *text, const char *prefix, struct egress_rule *rule, holt_error **reterr)
{
	const unsigned first = net_addr_is4(&rule->network) ? 96 : 0;
	struct net_addr masked = {0};
	uint64_t bits = 128 - first;

	if (prefix && str_to_u64(prefix, 128 - first, &bits) < 0)
		return refuse(text, "not a length of a network",
			"after '/' comes a number up to 32 for IPv4 and up to 128 for IPv6",
			reterr);
	rule->prefix = (uint8_t)(first + bits);
	for (unsigned i = 0; i < rule->prefix; i++)
		masked.bytes[i / 8] |= (uint8_t)(rule->network.bytes[i / 8] & (0x80u >> (i % 8)));
	if (memcmp(&masked, &rule->network, sizeof masked) == 0)
		return 0;
	struct egress_rule network = *rule;
	network.network = masked;
	char form[EGRESS_TEXT], single[NET_ADDR_TEXT], hint[2 * EGRESS_TEXT];
	egress_text(&network, form);
	net_addr_text(&rule->network, single);
	(void)snprintf(hint, sizeof hint, "write '%s' for the network or '%s' for the one address",
		form, single);
	return refuse(text, "an address inside a network is neither", hint, reterr);
}

static int parse_host(
	const char *text, const struct parts *p, struct egress_rule *rule, holt_error **reterr)
{
	const bool domain = str_starts(p->host, "*.");

	if (p->bracketed || strchr(p->host, ':'))
		return refuse(text, "not an IPv6 address", HINT_FORMS, reterr);
	if (p->prefix)
		return refuse(text, "only addresses have a '/'",
			"write a host without scheme and path: 'example.org:443'", reterr);
	if (strcmp(p->host, "*") == 0)
		return refuse(text, "'*' alone is no entry",
			"mode 'open' allows everything; '0.0.0.0/0' and '::/0' allow every address",
			reterr);
	if (!domain && strchr(p->host, '*'))
		return refuse(text, "'*' stands only for the first part of a name",
			"write '*.example.org' for every name below example.org", reterr);
	rule->kind = domain ? EGRESS_DOMAIN : EGRESS_HOST;
	if (!egress_name(p->host + (domain ? 2 : 0), rule->host))
		return refuse(text, "neither a host name nor an address", HINT_FORMS, reterr);
	return 0;
}

static int check_text(const char *text, holt_error **reterr)
{
	const char *c = text;

	if (!*text)
		return refuse(text, "an empty entry allows nothing", HINT_FORMS, reterr);
	for (; *c; c++) {
		if ((unsigned char)*c >= 0x80)
			return refuse(text, "host names are written in ASCII",
				"write the name's 'xn--' form", reterr);
		if (*c <= ' ' || *c == 0x7f)
			return refuse(text, "space or control character in an entry",
				"give each entry of its own", reterr);
	}
	if ((size_t)(c - text) >= EGRESS_TEXT)
		return refuse(text, "too long for an entry", HINT_FORMS, reterr);
	if (strstr(text, "://") || strchr(text, '@'))
		return refuse(text, "an entry is no URL",
			"write a host without scheme, user and path: 'example.org:443'", reterr);
	return 0;
}

int egress_parse(const char *text, struct egress_rule *ret, holt_error **reterr)
{
	struct egress_rule rule = {0};
	struct parts p = {0};
	int r = check_text(text, reterr);

	if (r == 0)
		r = split(text, &p, reterr);
	if (r < 0)
		return r;
	rule.port = p.port;
	if (!net_addr_parse(p.host, &rule.network)) {
		r = parse_host(text, &p, &rule, reterr);
	} else if (net_addr_is4(&rule.network) && strchr(p.host, ':')) {
		return refuse(text, "an IPv4 address written as IPv6",
			"write its IPv4 form, such as '192.0.2.1'", reterr);
	} else if (net_addr_is4(&rule.network) && p.bracketed) {
		return refuse(text, "brackets are for IPv6", HINT_FORMS, reterr);
	} else {
		rule.kind = EGRESS_NETWORK;
		r = parse_prefix(text, p.prefix, &rule, reterr);
	}
	if (r == 0)
		*ret = rule;
	return r;
}
