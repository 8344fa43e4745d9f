/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_NETWORK_H
#define BENCH_NETWORK_H

#include <holt.h>

#include "record.h"

/* Put this process into a network of its own, with a neighbour at the other end of a cable, which
 * answers until this process ends. Before there is any thread. Needs root: 0, or -1 after having
 * said in the results why there is none. */
int network_make(void);

/* After network_make; network.c says what each figure holds. @image has python3. */
void bench_network(
	holt_home *home, const char *image, unsigned rounds, const struct record_host *host);

#endif
