/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/setting_rules.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/conf.h"
#include "base/egress.h"
#include "base/mem.h"
#include "base/net_link.h"
#include "base/str.h"
#include "provider/scope.h"
#include "base/banned.h"

#define SHOWN_MAX   160u /* of a value in a message */
#define MILLION     INT64_C(1000000)
#define SECONDS_MAX INT64_C(315360000000) /* ten thousand years; what is longer is for ever */
#define COUNT_MAX   INT64_C(2147483647)
#define ANY_INT     .min = INT64_MIN, .max = INT64_MAX
#define ABOVE_0     1 /* of millionths */
#define ENTRY_MAX   (EGRESS_HOST_MAX + 64) /* of a list, with its NUL; a longer one is no entry */

#define FIELD(kind, name) .field = FIELD_##kind, .at = offsetof(struct provider_config, name)

static const char other_provider[] = "another kind of provider uses it";
static const char tool_layer[] = "it is a limit of the tools above";
static const char ownership[] = "the keeper of each box knows who has it";
static const char no_mounts[] = "no directory of the host is mounted";

const struct setting settings[] = {
	{"accel", SETTING_CHOICE, .fallback = "auto", .choices = "auto|kvm|tcg",
		FIELD(TEXT, accel)},
	{"acquire_timeout", SETTING_SECONDS, .fallback = "30", .min = 1, .max = INT64_MAX,
		FIELD(U64, acquire_timeout_ms)},
	{"allow_host_bash", SETTING_BOOL, .unused = "no command ever runs on the host"},
	{"bash_command_timeout", SETTING_COUNT, .min = 1, .max = INT64_MAX, .unused = tool_layer},
	{"bash_output_max_chars", SETTING_COUNT, .max = INT64_MAX, .unused = tool_layer},
	{"burst_limit", SETTING_COUNT, .max = INT64_MAX, .unused = other_provider},
	{"container_prefix", SETTING_TEXT, .unused = "names of boxes are made of 'pool'"},
	{"cpus", SETTING_COUNT, .fallback = "1", .min = 1, .max = SETTINGS_CPUS_MAX,
		FIELD(U32, cpus)},
	{"disk", SETTING_SIZE, .fallback = "10g", .min = SETTINGS_DISK_MIN,
		.max = SETTINGS_DISK_MAX, FIELD(U64, disk_bytes)},
	{.key = "environment", .type = SETTING_ENVIRONMENT},
	{"health_check", SETTING_CHOICE, .fallback = "ping", .choices = "ping|exec",
		FIELD(FLAG, health_exec)},
	{"health_check_skip_seconds", SETTING_DECIMAL, .fallback = "0", .max = INT64_MAX,
		FIELD(U64, health_skip_ms)},
	{"home", SETTING_TEXT, FIELD(TEXT, home)},
	{"idle_timeout", SETTING_SECONDS, .fallback = "600", ANY_INT, FIELD(U64, idle_ms)},
	{"image", SETTING_TEXT, FIELD(TEXT, image)},
	{"keep_disk_for", SETTING_DURATION, .fallback = "1d", FIELD(U64, keep_disk_ms)},
	{"kernel", SETTING_TEXT, FIELD(TEXT, kernel)},
	{"ls_output_max_chars", SETTING_COUNT, .max = INT64_MAX, .unused = tool_layer},
	{"max_memory", SETTING_SIZE, .min = 1, .max = INT64_MAX, FIELD(U64, max_memory_bytes)},
	{"memory_mib", SETTING_COUNT, .fallback = "512", .min = SETTINGS_MEMORY_MIN,
		.max = SETTINGS_MEMORY_MAX, FIELD(U32, memory_mib)},
	{"mounts", SETTING_MOUNTS, .unused = no_mounts},
	{"network", SETTING_CHOICE, .fallback = "open", .choices = "allowlist|isolated|open",
		FIELD(TEXT, network)},
	{"network.allow", SETTING_ALLOW, FIELD(LIST, network_allow)},
	{"on_idle", SETTING_CHOICE, .fallback = "destroy", .choices = "destroy|stop",
		FIELD(FLAG, idle_stop)},
	{"on_shutdown", SETTING_CHOICE, .fallback = "destroy", .choices = "destroy|keep",
		FIELD(FLAG, shutdown_keep)},
	{"overflow_policy", SETTING_CHOICE, .choices = "burst|reject|wait",
		.unused = other_provider},
	{.key = "ownership", .type = SETTING_GROUP},
	{"ownership.key_prefix", SETTING_TEXT, .unused = ownership},
	{"ownership.redis_url", SETTING_TEXT, .unused = ownership, .secret = true},
	{"ownership.renewal_interval_seconds", SETTING_DECIMAL, .min = ABOVE_0, .max = INT64_MAX,
		.unused = ownership},
	{"ownership.ttl_multiplier", SETTING_DECIMAL, .min = 2 * MILLION, .max = INT64_MAX,
		.unused = ownership},
	{"ownership.type", SETTING_CHOICE, .choices = "memory|redis", .unused = ownership},
	{"pause_warm_after", SETTING_DURATION, FIELD(U64, pause_after_ms)},
	{"pool", SETTING_POOL, .fallback = "default", FIELD(TEXT, pool)},
	{"port", SETTING_COUNT, ANY_INT, .unused = "a sandbox has no port"},
	{"prewarm", SETTING_ANY, .unused = "'spares' makes sandboxes ahead"},
	{"provisioner_api_key", SETTING_TEXT, .unused = other_provider, .secret = true},
	{"pull", SETTING_CHOICE, .fallback = "missing", .choices = "always|missing|never",
		FIELD(U32, pull)}, /* in the order of enum holt_pull_policy */
	{"read_file_output_max_chars", SETTING_COUNT, .max = INT64_MAX, .unused = tool_layer},
	{"replicas", SETTING_COUNT, .fallback = "3", .min = 1, .max = COUNT_MAX,
		FIELD(U32, replicas)},
	{"spares", SETTING_COUNT, .fallback = "0", .max = SETTINGS_SPARES_MAX, FIELD(U32, spares)},
	{"thread_data_mounts", SETTING_BOOL, .unused = no_mounts},
	{"use", SETTING_CLASS, .unused = "it is for the program that chooses the provider"},
};
const size_t n_settings = sizeof settings / sizeof settings[0];

_Static_assert(sizeof settings / sizeof settings[0] <= SETTINGS_MAX, "one text for each");

const struct setting *setting_find(const char *key)
{
	if (strcmp(key, "network.mode") == 0)
		key = "network";
	for (size_t i = 0; i < n_settings; i++) {
		if (strcmp(settings[i].key, key) == 0)
			return &settings[i];
	}
	return NULL;
}

bool setting_is_single(const struct setting *s)
{
	return s->type != SETTING_ANY && s->type != SETTING_ENVIRONMENT &&
	       s->type != SETTING_GROUP && s->type != SETTING_MOUNTS;
}

bool setting_is_text(const struct setting *s)
{
	return s->type == SETTING_ALLOW || s->type == SETTING_CHOICE || s->type == SETTING_CLASS ||
	       s->type == SETTING_POOL || s->type == SETTING_TEXT;
}

/* ---- values ---- */

static int refuse(const struct setting *s, const char *text, char why[SETTING_WHY_MAX],
	const char *fmt, ...) __attribute__((format(__printf__, 4, 5)));

static int refuse(
	const struct setting *s, const char *text, char why[SETTING_WHY_MAX], const char *fmt, ...)
{
	char shown[SHOWN_MAX], wanted[SETTING_WHY_MAX - SHOWN_MAX - 16];
	const size_t len = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(wanted, sizeof wanted, fmt, ap);
	va_end(ap);
	(void)str_escape(
		shown, sizeof shown, text, len < SHOWN_MAX / 4 ? len : SHOWN_MAX / 4, false);
	if (s->secret)
		(void)snprintf(why, SETTING_WHY_MAX, "is not %s", wanted);
	else
		(void)snprintf(why, SETTING_WHY_MAX, "is '%s'%s, not %s", shown,
			len < SHOWN_MAX / 4 ? "" : "...", wanted);
	return -HOLT_EINVALID;
}

/* A whole number in decimal digits: others (YAML has four more ways) are told to be rewritten. */
static bool parse_count(const char *text, int64_t *ret)
{
	const bool negative = *text == '-';
	uint64_t n = 0;

	text += *text == '-' || *text == '+';
	if ((text[0] == '0' && text[1]) || str_to_u64(text, INT64_MAX, &n) < 0)
		return false;
	*ret = negative ? -(int64_t)n : (int64_t)n;
	return true;
}

/* "1", "1.5", ".5": millionths, more digits are rounded up, so that what is not 0 stays so. */
static bool parse_decimal(const char *text, size_t len, int64_t *ret)
{
	char whole_text[24];
	const size_t n_whole = strspn(text, "0123456789");
	const size_t n_part = text[n_whole] == '.' ? strspn(text + n_whole + 1, "0123456789") : 0;
	const char *const part = text + n_whole + 1;
	uint64_t whole = 0;
	int64_t millionths = 0;

	if (n_whole + n_part == 0 || n_whole >= sizeof whole_text ||
		n_whole + n_part + (text[n_whole] == '.') != len)
		return false;
	memcpy(whole_text, text, n_whole);
	whole_text[n_whole] = 0;
	if (n_whole > 0 && str_to_u64(whole_text, INT64_MAX / MILLION - 1, &whole) < 0)
		return false;
	for (size_t i = 0; i < 6; i++)
		millionths = millionths * 10 + (i < n_part ? part[i] - '0' : 0);
	if (n_part > 6 && strspn(part + 6, "0") < n_part - 6)
		millionths++;
	*ret = (int64_t)whole * MILLION + millionths;
	return true;
}

/* "10m", "1.5h", "90", "500ms": ms, at most those of SECONDS_MAX. */
static bool parse_duration(const char *text, int64_t *ret)
{
	static const struct {
		const char *unit;
		int64_t ms;
	} units[] = {
		{"ms", 1}, {"s", 1000}, {"", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
	const size_t len = strspn(text, "0123456789.");
	int64_t n = 0;

	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
		if (strcmp(text + len, units[i].unit) != 0)
			continue;
		if (!parse_decimal(text, len, &n) || n / MILLION > SECONDS_MAX * 1000 / units[i].ms)
			return false;
		*ret = n / MILLION * units[i].ms +
		       (n % MILLION * units[i].ms + MILLION - 1) / MILLION;
		return true;
	}
	return false;
}

/* Which of "a|b|c" it is, from 0; -1 for none. */
static int choice_of(const char *choices, const char *text)
{
	const size_t len = strlen(text);

	for (int i = 0; choices; i++) {
		const size_t n = strcspn(choices, "|");

		if (n == len && memcmp(choices, text, len) == 0)
			return i;
		choices = choices[n] ? choices + n + 1 : NULL;
	}
	return -1;
}

static int check_choice(const struct setting *s, const char *text, int64_t *ret, char *why)
{
	const int i = choice_of(s->choices, text);

	if (i < 0)
		return refuse(s, text, why, "one of %s", s->choices);
	*ret = i;
	return 0;
}

/* "64m", as sizes are written. */
static void size_text(int64_t bytes, char *ret, size_t size)
{
	static const char units[] = "kmgt";
	size_t unit = 0;

	while (unit < 4 && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	(void)snprintf(ret, size, "%lld%.1s", (long long)bytes, unit ? units + unit - 1 : "");
}

static int refuse_size(const struct setting *s, const char *text, char *why)
{
	char least[32], most[32];

	if (s->max == INT64_MAX)
		return refuse(s, text, why, "a size such as 512m or 10g");
	size_text(s->min, least, sizeof least);
	size_text(s->max, most, sizeof most);
	return refuse(s, text, why, "a size from %s to %s", least, most);
}

static int check_size(const struct setting *s, const char *text, int64_t *ret, char *why)
{
	uint64_t n = 0;

	if (str_to_bytes(text, &n) < 0 || n > INT64_MAX || (int64_t)n < s->min ||
		(int64_t)n > s->max)
		return refuse_size(s, text, why);
	*ret = (int64_t)n;
	return 0;
}

/* A whole number, or one in millionths. */
static int check_number(const struct setting *s, const char *text, int64_t *ret, char *why)
{
	const bool whole = s->type != SETTING_DECIMAL;
	const char *const what = whole ? "a whole number" : "a number";
	const int64_t unit = whole ? 1 : MILLION;
	int64_t n = 0;

	if ((whole ? parse_count(text, &n) : parse_decimal(text, strlen(text), &n)) &&
		n >= s->min && n <= s->max) {
		*ret = n;
		return 0;
	}
	if (s->min == INT64_MIN)
		return refuse(s, text, why, "a whole number");
	if (!whole && s->min == ABOVE_0)
		return refuse(s, text, why, "%s above 0", what);
	if (s->max == INT64_MAX)
		return refuse(
			s, text, why, "%s of at least %lld", what, (long long)(s->min / unit));
	return refuse(s, text, why, "%s from %lld to %lld", what, (long long)(s->min / unit),
		(long long)(s->max / unit));
}

/* module:Class, as the contract names a provider. */
static int check_class(const struct setting *s, const char *text, char *why)
{
	const char *const colon = strchr(text, ':');

	return colon && colon != text && colon[1] && !strchr(colon + 1, ':')
		       ? 0
		       : refuse(s, text, why, "of the form module:Class");
}

static int check_text(const struct setting *s, const char *text, char *why)
{
	const size_t len = strlen(text);
	const size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");

	if (s->type == SETTING_POOL && (len == 0 || len > POOL_NAME_MAX || name != len))
		return refuse(s, text, why, "1 to %u of a-z, 0-9 and '-'", POOL_NAME_MAX);
	if (s->type == SETTING_CLASS)
		return check_class(s, text, why);
	if (len == 0 && s->field != FIELD_NONE)
		return refuse(s, text, why, "a text of at least one character");
	if (len > SETTING_TEXT_MAX)
		return refuse(s, text, why, "a text of at most %u bytes", SETTING_TEXT_MAX);
	return 0;
}

/* One entry of a list, which ends at a comma or with the text. */
static const char *next_entry(const char **at, char entry[ENTRY_MAX])
{
	const size_t len = strcspn(*at, ",");
	const char *from = *at + strspn(*at, " ");
	size_t n = from < *at + len ? (size_t)(*at + len - from) : 0;

	while (n > 0 && from[n - 1] == ' ')
		n--;
	n = n < ENTRY_MAX ? n : ENTRY_MAX - 1;
	memcpy(entry, from, n);
	entry[n] = 0;
	*at += len + ((*at)[len] == ',');
	return entry;
}

static int check_allow(const struct setting *s, const char *text, char *why)
{
	struct egress_rule rule;
	char room[ENTRY_MAX];
	size_t n = 0;

	if (strlen(text) > SETTING_LIST_MAX)
		return refuse(s, text, why, "a list of at most %u bytes", SETTING_LIST_MAX);
	for (const char *at = text; *at; n++) {
		const char *entry = next_entry(&at, room);
		auto_error error = NULL;

		if (egress_parse(entry, &rule, &error) < 0) {
			(void)snprintf(why, SETTING_WHY_MAX, "has an entry that is of no use: %s",
				holt_error_message(error));
			return -HOLT_EINVALID;
		}
	}
	return n > NET_ALLOW_MAX
		       ? refuse(s, text, why, "a list of at most %u entries", NET_ALLOW_MAX)
		       : 0;
}

int setting_check(
	const struct setting *s, const char *text, int64_t *ret, char why[SETTING_WHY_MAX])
{
	bool yes = false;

	*ret = 0;
	switch (s->type) {
	case SETTING_ALLOW:
		return check_allow(s, text, why);
	case SETTING_BOOL:
		if (!conf_text_bool(text, &yes))
			return refuse(s, text, why, "true or false");
		*ret = yes;
		return 0;
	case SETTING_CHOICE:
		return check_choice(s, text, ret, why);
	case SETTING_COUNT:
	case SETTING_DECIMAL:
	case SETTING_SECONDS:
		return check_number(s, text, ret, why);
	case SETTING_DURATION:
		return parse_duration(text, ret)
			       ? 0
			       : refuse(s, text, why,
					 "a time such as 90 (seconds), 500ms, 10m or 2h");
	case SETTING_SIZE:
		return check_size(s, text, ret, why);
	case SETTING_CLASS:
	case SETTING_POOL:
	case SETTING_TEXT:
		return check_text(s, text, why);
	case SETTING_ANY:
	case SETTING_ENVIRONMENT:
	case SETTING_GROUP:
	case SETTING_MOUNTS:
		break;
	}
	return 0;
}

/* ---- fields ---- */

/* Numbers as fields have them: times in ms. */
static uint64_t as_field(const struct setting *s, int64_t n)
{
	if (s->type == SETTING_SECONDS)
		return n <= 0 || n > SECONDS_MAX ? HOLT_FOREVER : (uint64_t)n * 1000;
	if (s->type == SETTING_DECIMAL)
		return ((uint64_t)n + 999) / 1000;
	return (uint64_t)n;
}

static int set_text(const struct setting *s, const char *text, char **field)
{
	/* What "auto" means is said where machines are started. */
	const bool automatic = s->type == SETTING_CHOICE && strcmp(text, "auto") == 0;
	char *const copy = automatic ? NULL : str_dup(text);

	if (!copy && !automatic)
		return -ENOMEM;
	mem_free(*field);
	*field = copy;
	return 0;
}

static int set_list(const char *text, char ***field)
{
	char **list = mem_array(NET_ALLOW_MAX + 1, sizeof *list);
	char room[ENTRY_MAX];
	size_t n = 0;
	bool ok = list != NULL;

	for (const char *at = text; ok && *at && n < NET_ALLOW_MAX;) {
		list[n] = str_dup(next_entry(&at, room));
		ok = list[n++] != NULL;
	}
	if (!ok) {
		strv_free(list);
		return -ENOMEM;
	}
	strv_free(*field);
	*field = list;
	return 0;
}

int setting_apply(const struct setting *s, const char *text, struct provider_config *ret)
{
	void *const field = (char *)ret + s->at;
	char why[SETTING_WHY_MAX];
	int64_t n = 0;

	(void)setting_check(s, text, &n, why);
	switch (s->field) {
	case FIELD_FLAG:
		*(bool *)field = n > 0;
		break;
	case FIELD_LIST:
		return set_list(text, field);
	case FIELD_TEXT:
		return set_text(s, text, field);
	case FIELD_U32:
		*(uint32_t *)field = (uint32_t)n;
		break;
	case FIELD_U64:
		*(uint64_t *)field = as_field(s, n);
		break;
	case FIELD_NONE:
		break;
	}
	return 0;
}
