/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_IMAGE_WANT_H
#define BOX_IMAGE_WANT_H

#include "box/box_home.h"
#include "holt/sys/pool.h"
#include "image/pull.h"

/*
 * "Have it, or pull it": the one place where the network comes in. Everything that makes boxes and
 * templates takes images that are there; who wants more than that asks here before.
 */
struct image_wish {
	int policy; /* enum holt_pull_policy */
	/* How to pull; the registries are the home's, and cancel is the one below. */
	struct image_pull_options how;
	uint64_t timeout_ms; /* HOLT_FOREVER */
	holt_cancel *cancel; /* may be NULL */
};

/* The image that @ref means, by the rule of the policy. An id is looked up only, since no registry
 * knows it. What has arrived is kept where the time is too short (HOLT_ETIMEOUT), and the next one
 * who wants it goes on behind it. Holds no lock of the home's while it loads. */
int image_want(struct holt_home *home, const char *ref, const struct image_wish *w,
	struct image **ret, bool *ret_changed, holt_error **reterr);

#endif
