/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_POOL_DIRECTORIES_H
#define BOX_POOL_DIRECTORIES_H

#include "box/call_bounds.h"
#include "box/keeper.h"
#include "box/lifecycle.h"

/* Make the directories of the box's record, if it has any, in the running box, for their owner; he
 * may write there. A box that began with them needs nothing. */
int pool_directories_make(
	struct holt_box *b, const struct call_bounds *bounds, holt_error **reterr);

/* Those of its record as a template can have them: none where there are none, or too many. */
void pool_directories_of(const struct holt_box *b, struct keeper_directories *ret);
/* The same for a list; @owner as of an exec. */
void pool_directories_fill(
	const char *const *list, const char *owner, struct keeper_directories *ret);

#endif
