/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PULL_VIEW_H
#define CLI_PULL_VIEW_H

#include "cli.h"

enum pull_view_flags {
	PULL_VIEW_QUIET = 1 << 0, /* nothing is shown */
	PULL_VIEW_JSON = 1 << 1, /* events go to stdout, an object a line */
	PULL_VIEW_NEWS = 1 << 2 /* nothing is said of an image that was there already */
};

/* holt_image_pull with what it does shown on stderr; @o->event is set here. Returns 0 or a negative
 * code with an error. One call at a time. */
int pull_view(holt_home *home, const char *ref, holt_pull_options *o, unsigned flags,
	holt_image **ret, holt_error **reterr);

/* For a verb that is about to use @ref: have it by the rule of @policy (enum holt_pull_policy).
 * Returns as above. */
int pull_view_have(holt_home *home, const char *ref, int32_t policy, int quiet, holt_cancel *cancel,
	holt_error **reterr);

/* "missing", "always" or "never", as --pull has it. Returns 0, or -1 for any other word. */
int pull_view_policy(const char *text, int32_t *ret);

#endif
