/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_REFUSALS_H
#define NET_REFUSALS_H

#include "filter.h"

/*
 * What was refused, so that it is told without a flood: each name, address, port and protocol at
 * once and then once a minute with how often it was, and REFUSALS_TOLD of all together a minute.
 * What is over that is counted and told in a later minute, unless REFUSALS_MAX others pushed it
 * out: the counts are what was seen at least.
 */
#define REFUSALS_MAX       512u
#define REFUSALS_TOLD      120u
#define REFUSALS_MINUTE_MS 60000u

struct refusals;

struct refusals *refusals_new(filter_refused_fn tell, void *user);
void refusals_free(struct refusals *rs);
/* @r->count does not matter. */
void refusals_add(struct refusals *rs, const struct refusal *r, uint64_t now_ms);
/* Tell what is due; cheap, for every frame. */
void refusals_tick(struct refusals *rs, uint64_t now_ms);

#endif
