/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROVIDER_SETTINGS_INSIDE_H
#define PROVIDER_SETTINGS_INSIDE_H

#include "provider/setting_rules.h"

/* A configuration, for settings.c and settings_file.c. */
struct holt_config {
	char *name;
	char *texts[SETTINGS_MAX]; /* by setting_row; NULL: the default */
	char **environment; /* of the file; or NULL */
	char *names; /* of it, as text */
	struct provider_config values;
	char **warnings;
	size_t n_warnings;
	char *json;
};

static inline size_t setting_row(const struct setting *s)
{
	return (size_t)(s - settings);
}

/* Read a file's text into a new configuration; settings.c makes values of it. */
int settings_read(struct holt_config *c, const char *text, size_t len, holt_error **reterr);

/* What "$NAME" stands for, or NULL where there is no such variable; any other text stands for
 * itself (C-195). */
const char *settings_expand(const char *text);

#endif
