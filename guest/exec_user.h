/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_EXEC_USER_H
#define GUEST_EXEC_USER_H

#include "agent.h"

#define EXEC_GROUPS_MAX 1024 /* supplementary groups of one user */

struct exec_user {
	uid_t uid;
	gid_t gid;
	char home[1024];
	size_t n_groups;
	gid_t groups[EXEC_GROUPS_MAX];
};

/* Look up "", "user", "user:group" (names or numbers) in /etc/passwd and /etc/group of the current
 * root. Returns 0, or -errno with @f filled. */
int exec_user_find(const struct wire_bytes *spec, struct exec_user *ret, struct agent_fail *f);

#endif
