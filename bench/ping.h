/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_PING_H
#define BENCH_PING_H

#include <holt.h>

#include "record.h"

/*
 * ping_idle and ping_under_bulk: how long the agent takes to answer, alone, and while 1 GiB flows
 * out of the box and four execs write small lines. The baseline is measured at the same moments: a
 * byte through `cat` on the host and back.
 */
void bench_ping(holt_box *box, const char *busybox, const struct record_host *host);

#endif
