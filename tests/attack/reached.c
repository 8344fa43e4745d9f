/* SPDX-License-Identifier: Apache-2.0 */
/* usage: reached NAME ... FD: the program that an intruder wants to execute; says so, into FD. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc > 2)
		(void)dprintf((int)strtol(argv[argc - 1], NULL, 10), "%s DONE\n", argv[1]);
	return 0;
}
