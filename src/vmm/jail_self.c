/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the keeper gives up once its machine runs. It talks to QEMU, which may have become the
 * guest's, and to the guest's agent. From here on it starts nothing; it writes in its home, reads
 * what the host says about names and memory, takes clients from a socket that is open, and ends
 * QEMU. As root it keeps the one capability that ending a process of another user needs.
 *
 * It stays readable for its own user in /proc: that user may end it anyway.
 */
#include "vmm/jail_inside.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/banned.h"

#ifndef HOLT_SANITIZED
static int filter_self(void)
{
	auto_free struct sock_filter *filter = NULL;
	unsigned short n = 0;
	const int r = jail_filter_make_self(&filter, &n);

	if (r < 0)
		return r;
	return jail_filter_install(filter, n) < 0 ? -errno : 0;
}
#endif

int jail_self(int home)
{
	const uint64_t keep = geteuid() == 0 ? jail_permitted_caps() & 1ull << CAP_KILL : 0;
	int r = 0;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
#ifdef HOLT_SANITIZED
	(void)home; /* reports go elsewhere */
#else
	if (!jail_is_weak("landlock"))
		r = jail_landlock_self(home);
#endif
	if (r == 0 && jail_drop_caps(keep) < 0)
		r = -errno;
#ifndef HOLT_SANITIZED /* whose search for leaks at the end traces a process of its own */
	if (r == 0 && !jail_is_weak("filter"))
		r = filter_self();
#endif
	return r;
}
