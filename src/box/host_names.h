/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_HOST_NAMES_H
#define BOX_HOST_NAMES_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * The host's files about names, as its boxes get them: whole for the network helper, and of
 * resolv.conf the search list for the guest.
 */
#define HOST_RESOLV "/etc/resolv.conf"
#define HOST_HOSTS  "/etc/hosts"

/* Its text, at most NET_TEXT_MAX bytes, cut behind a line; what JSON could not hold is a question
 * mark. "" where it cannot be read, NULL without memory. */
json_t *host_file_text(const char *path);

/* Of a resolv.conf: the names of its last "search" or "domain" with a blank between them, and as
 * many whole ones as fit. */
void host_search(const char *resolv, char *ret, size_t cap);

/* Does it name any server? */
bool host_names_server(const char *resolv);

#endif
