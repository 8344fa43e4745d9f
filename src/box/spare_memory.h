/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_SPARE_MEMORY_H
#define BOX_SPARE_MEMORY_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/*
 * When a spare gives way: it takes memory for something that may never happen, so a tenth of the
 * host's stays available for everything else.
 */
#define SPARE_MEMORY_PART 10

/* In KiB; 0 where it does not say. */
static inline unsigned long long spare_meminfo(const char *text, const char *key)
{
	const char *line = strstr(text, key);

	return line ? strtoull(line + strlen(key), NULL, 10) : 0;
}

/* By the text of /proc/meminfo; one that says nothing is no reason to go. */
static inline bool spare_memory_is_scarce(const char *text)
{
	return spare_meminfo(text, "MemAvailable:") <
	       spare_meminfo(text, "MemTotal:") / SPARE_MEMORY_PART;
}

#endif
