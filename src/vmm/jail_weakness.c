/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/jail.h"

#include "base/banned.h"

/* In a file of its own, so that a program of the tests can have another one; see jail.h. */
const char *jail_weakness(void)
{
	return "nothing";
}
