/* SPDX-License-Identifier: Apache-2.0 */
#include "net/upstreams.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/fd.h"
#include "base/str.h"
#include "base/banned.h"

#define PORT          53
#define LINE_MAX_     256u /* of a line; what is longer holds nothing that counts */
#define ATTEMPTS_MAX  3u
#define TIMEOUT_MAX_S 3u

/* Not if_nametoindex, whose socket is of a kind that the helper's jail refuses. */
static unsigned interface_index(const char *name)
{
	struct ifreq ifr = {0};
	auto_fd fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t number;

	if (str_to_u64(name, UINT32_MAX, &number) == 0)
		return (unsigned)number;
	(void)snprintf(ifr.ifr_name, sizeof ifr.ifr_name, "%s", name);
	if (fd < 0 || ioctl(fd, SIOCGIFINDEX, &ifr) < 0)
		return 0;
	return (unsigned)ifr.ifr_ifindex;
}

static void add_server(struct upstreams *u, char *text)
{
	struct upstream up = {0};
	struct sockaddr_in *in = (struct sockaddr_in *)&up.address;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&up.address;
	char *scope = strchr(text, '%');

	if (u->n == UPSTREAMS_MAX)
		return;
	if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(PORT);
		up.len = sizeof *in;
		u->list[u->n++] = up;
		return;
	}
	if (scope)
		*scope++ = 0;
	if (inet_pton(AF_INET6, text, &in6->sin6_addr) != 1)
		return;
	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(PORT);
	in6->sin6_scope_id = scope ? interface_index(scope) : 0;
	up.len = sizeof *in6;
	u->list[u->n++] = up;
}

/* "timeout:3" */
static bool number_option(const char *word, const char *name, unsigned max, unsigned *ret)
{
	const size_t len = strlen(name);
	uint64_t value;

	if (strncmp(word, name, len) != 0 || str_to_u64(word + len, UINT32_MAX, &value) < 0)
		return false;
	*ret = value > max ? max : value < 1 ? 1 : (unsigned)value;
	return true;
}

static void add_option(struct upstreams *u, const char *word)
{
	unsigned seconds;

	if (number_option(word, "timeout:", TIMEOUT_MAX_S, &seconds))
		u->timeout_ms = seconds * 1000;
	else if (!strcmp(word, "rotate"))
		u->rotate = true;
	else if (!strcmp(word, "use-vc"))
		u->use_tcp = true;
	else
		(void)number_option(word, "attempts:", ATTEMPTS_MAX, &u->attempts);
}

static void take_line(struct upstreams *u, char *line)
{
	static const char blanks[] = " \t\r";
	char *rest = NULL;
	char *key = strtok_r(line, blanks, &rest);
	char *word = key ? strtok_r(NULL, blanks, &rest) : NULL;

	if (!word)
		return;
	if (!strcmp(key, "nameserver"))
		add_server(u, word);
	if (!strcmp(key, "options")) {
		for (; word; word = strtok_r(NULL, blanks, &rest))
			add_option(u, word);
	}
}

void upstreams_parse(const char *resolv, struct upstreams *ret)
{
	*ret = (struct upstreams){
		.timeout_ms = UPSTREAMS_TIMEOUT_MS, .attempts = UPSTREAMS_ATTEMPTS};
	while (*resolv) {
		const size_t len = strcspn(resolv, "\n");
		char line[LINE_MAX_];

		/* A comment begins in the first column only. */
		if (len < sizeof line && *resolv != '#' && *resolv != ';') {
			memcpy(line, resolv, len);
			line[len] = 0;
			take_line(ret, line);
		}
		resolv += len + (resolv[len] == '\n');
	}
}
