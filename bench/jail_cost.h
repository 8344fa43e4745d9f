/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_JAIL_COST_H
#define BENCH_JAIL_COST_H

#include "clones.h"

/* @keepers: a directory with the keepers "jailed/holt-keeper" and "free/holt-keeper". */
void bench_jail(const struct clones *c, const char *keepers);

#endif
