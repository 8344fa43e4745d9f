/* SPDX-License-Identifier: Apache-2.0 */
/* A keeper whose machine is the agent as a plain process: for tests only, never installed. */
#include "box/keeper.h"

int main(void)
{
	return keeper_main(&vm_engine_fake);
}
