/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROVIDER_SETTING_RULES_H
#define PROVIDER_SETTING_RULES_H

#include "provider/settings.h"

/*
 * The keys of a provider's configuration, one row each: what may stand there, what holds where
 * nothing does, and which field of struct provider_config it ends up in. Keys that the contract has
 * and that mean nothing to Holt have rows, too: a bad value is an error whoever uses it.
 */
enum setting_type {
	SETTING_ALLOW, /* a list of what a network lets out: texts, as one with commas between them
			*/
	SETTING_ANY, /* whatever it is */
	SETTING_BOOL,
	SETTING_CHOICE,
	SETTING_CLASS, /* module:Class */
	SETTING_COUNT, /* a whole number */
	SETTING_DECIMAL, /* a number, in millionths */
	SETTING_DURATION, /* "10m", or seconds: in ms */
	SETTING_ENVIRONMENT, /* a map of texts */
	SETTING_GROUP, /* a map whose members have rows "group.member" */
	SETTING_MOUNTS, /* a list of maps */
	SETTING_POOL, /* a pool's name */
	SETTING_SECONDS, /* whole ones: in ms; 0 and less are HOLT_FOREVER */
	SETTING_SIZE, /* "10g", or bytes */
	SETTING_TEXT
};

struct setting {
	const char *key;
	enum setting_type type;
	const char *fallback; /* as text; NULL: none */
	int64_t min; /* of a number as it is written; of SETTING_DECIMAL in millionths */
	int64_t max;
	const char *choices; /* "a|b" */
	const char *unused; /* why it does nothing here; NULL: it does */
	bool secret; /* no message has its value */
	enum setting_field {
		FIELD_NONE,
		FIELD_FLAG,
		FIELD_LIST,
		FIELD_TEXT,
		FIELD_U32,
		FIELD_U64
	} field;
	size_t at; /* offset of the field */
};

#define SETTING_TEXT_MAX 4096u /* as the longest path */
#define SETTING_LIST_MAX 40960u /* a list as one text */
#define SETTINGS_MAX     64u /* rows */
#define SETTING_WHY_MAX  320u

extern const struct setting settings[];
extern const size_t n_settings;

/* NULL where there is none. "network.mode" is "network". */
const struct setting *setting_find(const char *key);
/* Whether its value is one text. */
bool setting_is_single(const struct setting *s);
/* Whether a value has to be text to YAML, so that what looks like a number needs quotes. */
bool setting_is_text(const struct setting *s);

/* What a value comes to: for SETTING_CHOICE the number of the choice, for SETTING_BOOL 0 or 1. The
 * number 0 for texts. 0, or the negative code and in @why the end of a sentence that begins with
 * the key. */
int setting_check(
	const struct setting *s, const char *text, int64_t *ret, char why[SETTING_WHY_MAX]);
/* The same of a text that is known to be good, into its field; -ENOMEM. */
int setting_apply(const struct setting *s, const char *text, struct provider_config *ret);

#endif
