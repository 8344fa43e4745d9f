/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_NETWORK_WISH_H
#define BOX_NETWORK_WISH_H

#include "base/net_link.h"

/* What fits into the specification that a keeper gets, with all else that stands there. */
#define NETWORK_LISTS_BYTES_MAX 40960u

/* The network that options ask for, each NULL where nothing is said: without @mode it is
 * "allowlist" where @allow has entries, else "open". HOLT_EINVALID with the entry as object,
 * HOLT_ELIMIT for more than the above. *ret borrows the lists. */
int network_wish_read(const char *mode, const char *const *allow, const char *const *publish,
	struct net_spec *ret, holt_error **reterr);

#endif
