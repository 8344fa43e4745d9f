/* SPDX-License-Identifier: Apache-2.0 */
#include "net/hosts_file.h"

#include <string.h>
#include <strings.h>

#include "base/banned.h"

#define HOSTS_LINE_MAX 1024u

static bool names_it(char *rest, const char *name)
{
	char *at = NULL;

	for (char *w = strtok_r(rest, " \t\r", &at); w; w = strtok_r(NULL, " \t\r", &at)) {
		if (!strcasecmp(w, name))
			return true;
	}
	return false;
}

/* The line's address, where the line has that name. */
static bool take_line(char *line, const char *name, struct net_addr *ret)
{
	line[strcspn(line, "#")] = 0;
	line += strspn(line, " \t");
	const size_t len = strcspn(line, " \t");
	if (!line[len])
		return false;
	line[len] = 0;
	return names_it(line + len + 1, name) && net_addr_parse(line, ret);
}

bool hosts_find(const char *text, const char *name, bool ipv6,
	struct net_addr ret[HOSTS_ADDRESSES_MAX], size_t *ret_n)
{
	bool found = false;

	*ret_n = 0;
	while (*text) {
		const size_t len = strcspn(text, "\n");
		char line[HOSTS_LINE_MAX];
		struct net_addr address;

		if (len < sizeof line) {
			memcpy(line, text, len);
			line[len] = 0;
			if (take_line(line, name, &address)) {
				found = true;
				if (net_addr_is4(&address) != ipv6 && *ret_n < HOSTS_ADDRESSES_MAX)
					ret[(*ret_n)++] = address;
			}
		}
		text += len + (text[len] == '\n');
	}
	return found;
}
