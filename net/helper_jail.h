/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_HELPER_JAIL_H
#define NET_HELPER_JAIL_H

#include "base/err.h"

/*
 * What the helper takes from itself once it is set up, within the jail that the keeper started it
 * in: capabilities, limits, and all system calls but those of its loop, which are about sockets it
 * has or makes, memory and time. Sockets are those of IPv4 and IPv6, and the one that tells the
 * addresses of this host; no file is opened and no program started.
 */
#define HELPER_FDS_MAX  1024u /* a connection has 256 KiB of buffers in libslirp */
#define HELPER_DATA_MAX (512ull << 20)

/* @empty_dir becomes the root directory; NULL: the jail has none. */
int helper_jail_enter(const char *empty_dir, holt_error **reterr);

#endif
