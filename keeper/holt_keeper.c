/* SPDX-License-Identifier: Apache-2.0 */
/* holt-keeper: the process that owns one box's VM. Started by the library only; see box/keeper.c.
 */
#include "box/keeper.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/banned.h"

int main(int argc, char **argv)
{
	(void)argv;
	/* By hand it has no descriptors to work with. */
	if (argc != 1 || fcntl(KEEPER_FD_OWNER, F_GETFD) < 0) {
		(void)fputs("holt-keeper is started by holt; see holt(1)\n", stderr);
		return 2;
	}
	return keeper_main(&vm_engine_qemu);
}
