/* SPDX-License-Identifier: Apache-2.0 */
#include "box/network_wish.h"

#include <string.h>

#include "base/banned.h"

static char **borrow(const char *const *list)
{
	union {
		const char *const *in;
		char **out;
	} u = {.in = list};

	return list && list[0] ? u.out : NULL;
}

static size_t bytes_of_list(char *const *list)
{
	size_t len = 0;

	for (; list && *list; list++)
		len += strlen(*list) + 1;
	return len;
}

int network_wish_read(const char *mode, const char *const *allow, const char *const *publish,
	struct net_spec *ret, holt_error **reterr)
{
	struct net_spec s = {.allow = borrow(allow), .publish = borrow(publish)};
	int r = 0;

	s.mode = s.allow ? NET_ALLOWLIST : NET_OPEN;
	if (mode)
		r = net_mode_parse(mode, &s.mode, reterr);
	if (r == 0)
		r = net_spec_check(&s, reterr);
	if (r == 0 && bytes_of_list(s.allow) + bytes_of_list(s.publish) > NETWORK_LISTS_BYTES_MAX) {
		r = err_make(reterr, HOLT_ELIMIT,
			"the lists of the network have more than %u bytes",
			NETWORK_LISTS_BYTES_MAX);
		err_hint(reterr, "allow domains ('*.example.com') or networks instead of hosts");
	}
	if (r == 0)
		*ret = s;
	return r;
}
