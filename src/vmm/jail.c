/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/jail.h"

#include <stdio.h>

#include "base/fd.h"
#include "vmm/jail_inside.h"
#include "base/banned.h"

static void set_finding(struct jail_finding *f, const struct jail *jail, enum jail_layer layer)
{
	f->available = !jail->lacks[layer];
	if (!f->available)
		(void)snprintf(f->reason, sizeof f->reason, "%s", jail->reasons[layer]);
	else if (layer == JAIL_LANDLOCK)
		(void)snprintf(f->reason, sizeof f->reason, "ABI %d", jail_landlock_abi());
	else
		(void)snprintf(f->reason, sizeof f->reason, "%s",
			layer == JAIL_SECCOMP ? "filters of system calls"
			: jail->direct        ? "made by root"
					      : "allowed to this user");
}

void jail_probe(struct jail_report *ret)
{
	const struct jail_spec spec = {.kind = JAIL_OF_VMM, .preload_fd = FD_NONE};
	auto_error error = NULL;
	auto_jail jail = NULL;

	*ret = (struct jail_report){0};
	const int r = jail_plan(&spec, &jail, &error);
	for (int i = 0; i < JAIL_LAYERS; i++) {
		struct jail_finding *f = &ret->layers[i];

		f->name = jail_layer_name((enum jail_layer)i);
		if (r == 0)
			set_finding(f, jail, (enum jail_layer)i);
		else
			(void)snprintf(f->reason, sizeof f->reason, "%s",
				error ? holt_error_message(error) : "no memory");
	}
	ret->sufficient = ret->layers[JAIL_SECCOMP].available &&
			  (ret->layers[JAIL_USER_NS].available ||
				  ret->layers[JAIL_LANDLOCK].available);
}
