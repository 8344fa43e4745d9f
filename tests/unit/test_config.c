/* SPDX-License-Identifier: Apache-2.0 */
/* The configuration of a provider: each key with its rule, variables, warnings, and what comes of
 * it. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "holt/box.h"
#include "holt/config.h"
#include "holt/image_pull.h"
#include "provider/settings.h"

#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"

static void config_freep(holt_config **c)
{
	holt_config_free(*c);
}
#define auto_config __attribute__((cleanup(config_freep))) holt_config *

static holt_config *parse(const char *text)
{
	holt_config *c = NULL;
	auto_error error = NULL;

	const int r = holt_config_parse(text, strlen(text), "f.yaml", &c, &error);
	ck_assert_msg(r == 0, "%s: %s", text, error ? holt_error_message(error) : "");
	ck_assert_ptr_null(error);
	return c;
}

/* One line of the section. */
static holt_config *with(const char *line)
{
	auto_free char *text = str_printf("sandbox:\n  %s\n", line);

	return parse(text);
}

static void refused_text(const char *text, int code, const char *part, unsigned line)
{
	holt_config *c = NULL;
	auto_error error = NULL;
	char where[32];

	const int r = holt_config_parse(text, strlen(text), "f.yaml", &c, &error);
	ck_assert_msg(r == -code, "%s: %d", text, r);
	ck_assert_ptr_null(c);
	ck_assert_msg(strstr(holt_error_message(error), part), "%s: '%s' is not in '%s'", text,
		part, holt_error_message(error));
	(void)snprintf(where, sizeof where, "in line %u of 'f.yaml'", line);
	ck_assert_msg(strstr(holt_error_message(error), where), "%s", holt_error_message(error));
	ck_assert_str_eq(holt_error_object(error), "f.yaml");
	ck_assert_str_eq(holt_error_stage(error), "config");
}

static void refused(const char *line, const char *part)
{
	auto_free char *text = str_printf("# comment\nsandbox:\n  %s\n", line);

	refused_text(text, HOLT_EINVALID, part, 3);
}

static size_t count_warnings(holt_config *c)
{
	return strv_len(holt_config_warnings(c));
}

static void check_defaults(holt_config *c)
{
	const struct provider_config *v = settings_values(c);

	ck_assert_str_eq(v->pool, "default");
	ck_assert_ptr_null(v->image);
	ck_assert_uint_eq(v->pull, HOLT_PULL_MISSING);
	ck_assert_uint_eq(v->memory_mib, HOLT_MEMORY_MIB_DEFAULT);
	ck_assert_uint_eq(v->cpus, 1);
	ck_assert_uint_eq(v->disk_bytes, HOLT_DISK_BYTES_DEFAULT);
	ck_assert_str_eq(v->network, "open");
	ck_assert_ptr_null(v->network_allow);
	ck_assert_ptr_null(v->accel);
	ck_assert_ptr_null(v->home);
	ck_assert_ptr_null(v->kernel);
	ck_assert_uint_eq(v->max_memory_bytes, 0);
	ck_assert_ptr_null(v->environment);
	ck_assert_uint_eq(v->replicas, 3);
	ck_assert_uint_eq(v->spares, 0);
	ck_assert_uint_eq(v->idle_ms, 600000);
	ck_assert_uint_eq(v->acquire_timeout_ms, 30000);
	ck_assert_uint_eq(v->health_skip_ms, 0);
	ck_assert(!v->health_exec);
	ck_assert(v->pause_after_ms == HOLT_FOREVER);
	ck_assert(!v->idle_stop);
	ck_assert_uint_eq(v->keep_disk_ms, 86400000);
	ck_assert(!v->shutdown_keep);
}

/* C-192 */
START_TEST(defaults)
{
	holt_config *c = NULL;

	ck_assert_int_eq(holt_config_parse(NULL, 0, NULL, &c, NULL), 0);
	check_defaults(c);
	ck_assert_uint_eq(count_warnings(c), 0);
	holt_config_free(c);
	check_defaults(c = parse("sandbox:\n"));
	ck_assert_uint_eq(count_warnings(c), 0);
	holt_config_free(c);
	check_defaults(c = parse("sandbox: {}\nmodels: [1, {a: $NONE}]\n"));
	ck_assert_uint_eq(count_warnings(c), 0);
	holt_config_free(c);
	/* A file that is for something else. */
	check_defaults(c = parse("models: []\n"));
	ck_assert_uint_eq(count_warnings(c), 1);
	ck_assert_str_eq(holt_config_warnings(c)[0],
		"no section 'sandbox', so all defaults hold, in line 1 of 'f.yaml'");
	holt_config_free(c);
	check_defaults(c = parse(""));
	ck_assert_uint_eq(count_warnings(c), 1);
	holt_config_free(c);
}
END_TEST

/* C-192: null is as if the key were not there. */
START_TEST(null_is_the_default)
{
	static const char *const keys[] = {"accel", "acquire_timeout", "cpus", "disk",
		"environment", "health_check", "health_check_skip_seconds", "home", "idle_timeout",
		"image", "keep_disk_for", "kernel", "max_memory", "memory_mib", "network",
		"on_idle", "on_shutdown", "pause_warm_after", "pool", "pull", "replicas", "spares",
		"ownership", "mounts", "port", "use", "prewarm"};

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		auto_free char *line = str_printf("%s: %s", keys[i], i % 2 ? "null" : "");
		auto_config c = with(line);

		check_defaults(c);
	}
}
END_TEST

/* C-192, C-193 */
START_TEST(values_of_boxes)
{
	auto_config c = parse("sandbox:\n"
			      "  image: python:3.12-slim\n"
			      "  memory_mib: 2048\n"
			      "  cpus: 2\n"
			      "  disk: 20G\n"
			      "  network: isolated\n"
			      "  accel: tcg\n"
			      "  home: /srv/holt\n"
			      "  kernel: /boot/vmlinuz\n"
			      "  max_memory: 8g\n"
			      "  pool: team-1\n"
			      "  environment: {LANG: C.UTF-8, _x1: '5', EMPTY: ''}\n");
	const struct provider_config *v = settings_values(c);

	ck_assert_str_eq(v->image, "python:3.12-slim");
	ck_assert_uint_eq(v->memory_mib, 2048);
	ck_assert_uint_eq(v->cpus, 2);
	ck_assert_uint_eq(v->disk_bytes, 20ull << 30);
	ck_assert_str_eq(v->accel, "tcg");
	ck_assert_str_eq(v->home, "/srv/holt");
	ck_assert_str_eq(v->kernel, "/boot/vmlinuz");
	ck_assert_uint_eq(v->max_memory_bytes, 8ull << 30);
	ck_assert_str_eq(v->pool, "team-1");
	ck_assert_uint_eq(strv_len((const char *const *)v->environment), 3);
	ck_assert_str_eq(v->environment[0], "LANG=C.UTF-8");
	ck_assert_str_eq(v->environment[1], "_x1=5");
	ck_assert_str_eq(v->environment[2], "EMPTY=");
	ck_assert_uint_eq(count_warnings(c), 0);
}
END_TEST

static uint64_t idle_of(const char *value)
{
	auto_free char *line = str_printf("idle_timeout: %s", value);
	auto_config c = with(line);

	return settings_values(c)->idle_ms;
}

/* C-192, C-193: 0 is not "unset", and 0 and less switch it off. */
START_TEST(idle_timeout)
{
	ck_assert_uint_eq(idle_of("1"), 1000);
	ck_assert_uint_eq(idle_of("86401"), 86401000);
	ck_assert_uint_eq(idle_of("'90'"), 90000);
	ck_assert(idle_of("0") == HOLT_FOREVER);
	ck_assert(idle_of("-1") == HOLT_FOREVER);
	ck_assert(idle_of("-9223372036854775807") == HOLT_FOREVER);
	ck_assert(idle_of("9223372036854775807") == HOLT_FOREVER);
	refused("idle_timeout: 1.5", "'idle_timeout' is '1.5', not a whole number");
	refused("idle_timeout: 10m", "not a whole number");
	refused("idle_timeout: true", "not a whole number");
	refused("idle_timeout: 99999999999999999999", "not a whole number");
}
END_TEST

START_TEST(times)
{
	auto_config c = parse("sandbox:\n"
			      "  acquire_timeout: 5\n"
			      "  health_check_skip_seconds: 2.5\n"
			      "  pause_warm_after: 90s\n"
			      "  keep_disk_for: 1.5h\n");
	static const struct {
		const char *text;
		uint64_t ms;
	} table[] = {{"0", 0}, {"90", 90000}, {"0.5", 500}, {"500ms", 500}, {"10m", 600000},
		{"2h", 7200000}, {"1d", 86400000}, {"'.25'", 250}, {"0.0001", 1}, {"0.1ms", 1}};

	ck_assert_uint_eq(settings_values(c)->acquire_timeout_ms, 5000);
	ck_assert_uint_eq(settings_values(c)->health_skip_ms, 2500);
	ck_assert_uint_eq(settings_values(c)->pause_after_ms, 90000);
	ck_assert_uint_eq(settings_values(c)->keep_disk_ms, 5400000);
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		auto_free char *line = str_printf("keep_disk_for: %s", table[i].text);
		auto_config d = with(line);

		ck_assert_uint_eq(settings_values(d)->keep_disk_ms, table[i].ms);
	}
	/* What is not 0 does not become 0. */
	auto_config little = with("health_check_skip_seconds: 0.0001");
	ck_assert_uint_eq(settings_values(little)->health_skip_ms, 1);
	refused("keep_disk_for: -1", "'keep_disk_for' is '-1', not a time such as");
	refused("keep_disk_for: 10 m", "not a time");
	refused("keep_disk_for: 10w", "not a time");
	refused("keep_disk_for: m", "not a time");
	refused("keep_disk_for: 1.2.3", "not a time");
	refused("pause_warm_after: 99999999999999d", "not a time");
	refused("pause_warm_after: never", "not a time");
}
END_TEST

/* C-192: what may not stand there. */
START_TEST(values_out_of_their_rules)
{
	static const struct {
		const char *line;
		const char *part;
	} table[] = {
		{"use: deerflow", "'use' is 'deerflow', not of the form module:Class"},
		{"use: ':X'", "not of the form"},
		{"use: 'a:'", "not of the form"},
		{"allow_host_bash: maybe", "'allow_host_bash' is 'maybe', not true or false"},
		{"allow_host_bash: 2", "not true or false"},
		{"image: ''", "'image' is '', not a text of at least one character"},
		{"image: 3.12", "'image' is a number to YAML, not a text: put it into quotes"},
		{"image: yes", "'image' is true or false to YAML"},
		{"image: [a]", "'image' is a map or list, not a single value"},
		{"port: http", "'port' is 'http', not a whole number"},
		{"replicas: 0", "'replicas' is '0', not a whole number from 1"},
		{"replicas: -1", "from 1 to 2147483647"},
		{"replicas: 3.0", "not a whole number"},
		{"replicas: 0x3", "not a whole number"},
		{"replicas: 1_000", "not a whole number"},
		{"replicas: 010", "not a whole number"},
		{"replicas: many", "'replicas' is 'many', not"},
		{"replicas: ''", "'replicas' is '', not"},
		{"overflow_policy: drop", "not one of burst|reject|wait"},
		{"acquire_timeout: 0", "'acquire_timeout' is '0', not a whole number "
				       "of at least 1"},
		{"acquire_timeout: 0.5", "of at least 1"},
		{"burst_limit: -1", "of at least 0"},
		{"container_prefix: 5", "is a number to YAML"},
		{"health_check_skip_seconds: -0.1", "'health_check_skip_seconds' is '-0.1', not a "
						    "number of at least 0"},
		{"health_check_skip_seconds: .inf", "of at least 0"},
		{"health_check_skip_seconds: .nan", "of at least 0"},
		{"ownership: memory", "'ownership' is not a map"},
		{"ownership: {type: file}", "'ownership.type' is 'file', not one of memory|redis"},
		{"ownership: {renewal_interval_seconds: 0}", "not a number above 0"},
		{"ownership: {renewal_interval_seconds: .inf}", "not a number above 0"},
		{"ownership: {ttl_multiplier: 1.9}", "not a number of at least 2"},
		{"ownership: {key_prefix: 1}", "'ownership.key_prefix' is a number"},
		{"mounts: {a: b}", "'mounts' is no list of mounts"},
		{"mounts: [/data]", "'mounts' needs a host_path and a container_path"},
		{"mounts: [{host_path: /a}]", "needs a host_path and a container_path"},
		{"mounts: [{container_path: /a}]", "needs a host_path and a container_path"},
		{"mounts: [{host_path: ~, container_path: /a}]", "needs a host_path"},
		{"mounts: [{host_path: 1, container_path: /a}]", "is a number"},
		{"mounts: [{host_path: /a, container_path: /b, read_only: x}]", "read_only"},
		{"thread_data_mounts: auto", "not true or false"},
		{"environment: [A]", "'environment' is no map of names and texts"},
		{"environment: A=b", "'environment' is no map of names and texts"},
		{"environment: {A: 1}", "'environment.A' is a number to YAML"},
		{"environment: {A: true}", "'environment.A' is true or false to YAML"},
		{"environment: {A: }",
			"'environment.A' has no value; an empty one is written as ''"},
		{"environment: {A: [x]}", "'environment.A' is a map or list"},
		{"bash_output_max_chars: -1", "of at least 0"},
		{"read_file_output_max_chars: -1", "of at least 0"},
		{"ls_output_max_chars: x", "of at least 0"},
		{"bash_command_timeout: 0", "of at least 1"},
		{"network: {mode: closed}", "'network.mode' is 'closed', not one of"},
		{"network: closed", "'network' is 'closed', not one of allowlist|isolated|open"},
		{"memory_mib: 127", "'memory_mib' is '127', not a whole number "
				    "from 128 to 262144"},
		{"memory_mib: 0", "from 128 to 262144"},
		{"memory_mib: 512m", "from 128 to 262144"},
		{"cpus: 0", "from 1 to 64"},
		{"cpus: 65", "from 1 to 64"},
		{"cpus: 1.5", "from 1 to 64"},
		{"disk: 63m", "'disk' is '63m', not a size from 64m to 16t"},
		{"disk: 17t", "from 64m to 16t"},
		{"disk: big", "from 64m to 16t"},
		{"max_memory: 0", "'max_memory' is '0', not a size such as 512m or 10g"},
		{"max_memory: 1.5g", "not a size"},
		{"max_memory: 99999999999g", "not a size"},
		{"spares: 65", "from 0 to 64"},
		{"spares: -1", "from 0 to 64"},
		{"accel: hax", "not one of auto|kvm|tcg"},
		{"on_idle: keep", "not one of destroy|stop"},
		{"on_shutdown: stop", "not one of destroy|keep"},
		{"pull: newer", "not one of always|missing|never"},
		{"health_check: http", "not one of ping|exec"},
		{"pool: ''", "not 1 to 32 of a-z, 0-9 and '-'"},
		{"pool: Team", "not 1 to 32"},
		{"pool: a/b", "not 1 to 32"},
		{"pool: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "not 1 to 32"},
		{"home: ''", "not a text of at least one character"},
		{"kernel: 6", "is a number to YAML"},
		{"<<: {replicas: 5}", "'<<' merges maps"},
		{"ownership: {<<: {type: memory}}", "'ownership.<<' merges maps"},
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		refused(table[i].line, table[i].part);
	refused_text("sandbox: 5\n", HOLT_EINVALID, "'sandbox' is not a map of keys", 1);
	refused_text("sandbox: [a]\n", HOLT_EINVALID, "'sandbox' is not a map of keys", 1);
	refused_text("\n- a\n", HOLT_EINVALID, "the file is not a map", 2);
	refused_text(
		"sandbox:\n  cpus: 1\n  cpus: 2\n", HOLT_EINVALID, "'cpus' is there a second", 3);
	refused_text("sandbox:\n  environment:\n    A: x\n    B-C: y\n", HOLT_EINVALID,
		"'environment.B-C' has a name that is no POSIX name of a variable", 4);
	refused_text("sandbox: {a: [}\n", HOLT_EINVALID, "no valid YAML", 1);
}
END_TEST

/* C-192: open where nothing is said; a list alone is a wish for what it lists. */
START_TEST(networks)
{
	static const struct {
		const char *line;
		const char *mode;
		const char *allow; /* NULL: no list */
	} fine[] = {{"image: x", "open", NULL}, {"network: {}", "open", NULL},
		{"network: {mode: }", "open", NULL}, {"network: {allow: []}", "open", NULL},
		{"network: open", "open", NULL}, {"network: isolated", "isolated", NULL},
		{"network: {mode: isolated}", "isolated", NULL},
		{"network: allowlist", "allowlist", NULL},
		{"network: {allow: [a.example]}", "allowlist", "a.example"},
		{"network: {mode: allowlist, allow: [a.example, '*.b.example:443', 192.0.2.0/24, "
		 "'[fd00::1]:80']}",
			"allowlist", "a.example,*.b.example:443,192.0.2.0/24,[fd00::1]:80"}};

	for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
		auto_config c = with(fine[i].line);
		const char *allow = holt_config_get(c, "network.allow");

		ck_assert_str_eq(settings_values(c)->network, fine[i].mode);
		ck_assert_str_eq(holt_config_get(c, "network"), fine[i].mode);
		ck_assert_str_eq(holt_config_get(c, "network.mode"), fine[i].mode);
		ck_assert_int_eq(allow != NULL, fine[i].allow != NULL);
		if (allow)
			ck_assert_str_eq(allow, fine[i].allow);
	}
}
END_TEST

/* C-192: what would open more, or less, than is meant. */
START_TEST(bad_networks)
{
	refused_text("sandbox:\n  network: {mode: open, allow: [a.example]}\n", HOLT_EINVALID,
		"'network.allow' is for the mode allowlist, not 'open'", 2);
	refused_text("sandbox:\n  network:\n    mode: isolated\n    allow: [a.example]\n",
		HOLT_EINVALID, "'network.allow' is for the mode allowlist, not 'isolated'", 2);
	refused_text("sandbox:\n  network:\n    allow:\n      - a.example\n      - a..b\n",
		HOLT_EINVALID, "'network.allow' has an entry that is of no use: ", 5);
	refused_text("sandbox:\n  network: {allow: a.example}\n", HOLT_EINVALID,
		"'network.allow' is no list of texts", 2);
	refused_text("sandbox:\n  network: {allow: [443]}\n", HOLT_EINVALID,
		"'network.allow' is a number to YAML", 2);
	refused_text("sandbox:\n  network: {allow: ['a.example,b.example']}\n", HOLT_EINVALID,
		"'network.allow' has an entry that is empty or has a comma", 2);
	refused_text("sandbox:\n  network: {allow: ['']}\n", HOLT_EINVALID,
		"'network.allow' has an entry that is empty", 2);
}
END_TEST

/* C-192 */
START_TEST(networks_that_are_set)
{
	auto_config c = with("image: x");

	ck_assert_int_eq(holt_config_set(c, "network.allow", "a.example, 192.0.2.1:53", NULL), 0);
	ck_assert_str_eq(settings_values(c)->network, "allowlist");
	ck_assert_str_eq(settings_values(c)->network_allow[0], "a.example");
	ck_assert_str_eq(settings_values(c)->network_allow[1], "192.0.2.1:53");
	ck_assert_ptr_null(settings_values(c)->network_allow[2]);
	ck_assert_ptr_nonnull(strstr(holt_config_json(c),
		"\"network\":\"allowlist\",\"network.allow\":[\"a.example\",\"192.0.2.1:53\"]"));
	ck_assert_int_eq(holt_config_set(c, "network.allow", "a.example,", NULL), 0);
	ck_assert_int_eq(holt_config_set(c, "network.allow", "a.example,,b", NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_config_set(c, "network.allow", NULL, NULL), 0);
	ck_assert_str_eq(settings_values(c)->network, "open");
	ck_assert_int_eq(holt_config_set(c, "network.mode", "isolated", NULL), 0);
	ck_assert_str_eq(settings_values(c)->network, "isolated");
}
END_TEST

/* C-192, C-194: what other providers and programs need is checked, taken, and does nothing. */
START_TEST(keys_that_do_nothing)
{
	static const struct {
		const char *line;
		const char *warning;
	} table[] = {
		{"use: deerflow.community.boxlite:BoxliteProvider", "'use' does nothing here: "},
		{"allow_host_bash: false", "'allow_host_bash' does nothing here: "},
		{"port: 8080", "'port' does nothing here: a sandbox has no port, in line 2 of "
			       "'f.yaml'"},
		{"overflow_policy: wait", "'overflow_policy' does nothing"},
		{"burst_limit: 0", "'burst_limit' does nothing"},
		{"container_prefix: x", "'container_prefix' does nothing"},
		{"ownership: {type: redis}", "'ownership.type' does nothing"},
		{"ownership: {redis_url: 'redis://x'}", "'ownership.redis_url' does nothing"},
		{"ownership: {renewal_interval_seconds: 0.5}",
			"'ownership.renewal_interval_seconds'"},
		{"ownership: {ttl_multiplier: 2}", "'ownership.ttl_multiplier' does nothing"},
		{"ownership: {key_prefix: 'a:b'}", "'ownership.key_prefix' does nothing"},
		{"ownership: {other: 1}", "'ownership.other' is no key that is known"},
		{"mounts: []", "'mounts' does nothing"},
		{"mounts: [{host_path: /a, container_path: /b, read_only: true}]", "'mounts' does"},
		{"thread_data_mounts: true", "'thread_data_mounts' does nothing"},
		{"bash_output_max_chars: 0", "'bash_output_max_chars' does nothing"},
		{"read_file_output_max_chars: 50000", "'read_file_output_max_chars' does nothing"},
		{"ls_output_max_chars: 20000", "'ls_output_max_chars' does nothing"},
		{"bash_command_timeout: 600", "'bash_command_timeout' does nothing"},
		{"provisioner_api_key: k", "'provisioner_api_key' does nothing"},
		{"prewarm: {enabled: true, n: 3}", "'prewarm' does nothing"},
		{"network: {allowlist: [a.example]}",
			"'network.allowlist' is no key that is known"},
		{"api_key: x", "'api_key' is no key that is known, in line 2 of 'f.yaml'"},
		{"\"k\\e[1m\": 1", "'k\\x1b[1m' is no key"},
		{"ownership.type: memory", "'ownership.type' is no key that is known"},
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		auto_config c = with(table[i].line);

		ck_assert_msg(count_warnings(c) == 1, "%s", table[i].line);
		ck_assert_msg(str_starts(holt_config_warnings(c)[0], table[i].warning), "%s",
			holt_config_warnings(c)[0]);
		check_defaults(c);
	}
}
END_TEST

START_TEST(warnings_end)
{
	char text[8192] = "sandbox:\n";
	size_t len = strlen(text);

	for (int i = 0; i < 200; i++)
		len += (size_t)snprintf(text + len, sizeof text - len, "  k%d: 1\n", i);
	auto_config c = parse(text);
	ck_assert_uint_eq(count_warnings(c), 65);
	ck_assert_str_eq(holt_config_warnings(c)[64], "more of the kind in 'f.yaml'");
}
END_TEST

/* C-195 */
START_TEST(variables)
{
	setenv("HOLT_TEST_IMAGE", "debian:12", 1);
	setenv("HOLT_TEST_NUMBER", "7", 1);
	setenv("HOLT_TEST_EMPTY", "", 1);
	setenv("HOLT_TEST_DOLLAR", "$HOLT_TEST_IMAGE", 1);
	unsetenv("HOLT_TEST_NONE");
	auto_config c = parse("sandbox:\n"
			      "  image: $HOLT_TEST_IMAGE\n"
			      "  replicas: \"$HOLT_TEST_NUMBER\"\n"
			      "  environment: {A: $HOLT_TEST_EMPTY, B: 'x$HOLT_TEST_IMAGE', "
			      "C: $HOLT_TEST_DOLLAR, D: $HOLT_TEST_NUMBER}\n");
	const struct provider_config *v = settings_values(c);

	ck_assert_str_eq(v->image, "debian:12");
	ck_assert_uint_eq(v->replicas, 7);
	ck_assert_str_eq(v->environment[0], "A=");
	ck_assert_str_eq(v->environment[1], "B=x$HOLT_TEST_IMAGE");
	ck_assert_str_eq(v->environment[2], "C=$HOLT_TEST_IMAGE");
	ck_assert_str_eq(v->environment[3], "D=7");
	refused("image: $HOLT_TEST_NONE",
		"'image' is the variable 'HOLT_TEST_NONE', which is not in the environment");
	refused("image: '$'", "'image' is the variable ''");
	refused("image: $HOLT_TEST_IMAGE/x", "is the variable 'HOLT_TEST_IMAGE/x'");
	refused("environment: {A: $HOLT_TEST_NONE}", "'environment.A' is the variable");
	refused("replicas: $HOLT_TEST_IMAGE", "'replicas' is 'debian:12', not a whole number");
	refused("image: $HOLT_TEST_EMPTY", "'image' is ''");
	/* Also where it does nothing. */
	refused("provisioner_api_key: $HOLT_TEST_NONE", "'provisioner_api_key' is the variable");
	refused("other: {a: [b, $HOLT_TEST_NONE]}", "'other' is the variable");
	refused("prewarm: {a: $HOLT_TEST_NONE}", "'prewarm' is the variable");
	refused("mounts: [{host_path: $HOLT_TEST_NONE, container_path: /b}]", "'mounts' is the");
}
END_TEST

START_TEST(secrets_stay_out_of_messages)
{
	auto_error error = NULL;
	holt_config *c = NULL;
	char text[6000] = "sandbox:\n  provisioner_api_key: ";
	const size_t len = strlen(text);

	memset(text + len, 's', 5000);
	ck_assert_int_eq(holt_config_parse(text, strlen(text), "f", &c, &error), -HOLT_EINVALID);
	ck_assert_ptr_null(strstr(holt_error_message(error), "sss"));
	ck_assert_ptr_nonnull(
		strstr(holt_error_message(error), "'provisioner_api_key' is not a text"));
	auto_config d = with("environment: {TOKEN: s3cret}");
	ck_assert_ptr_null(strstr(holt_config_json(d), "s3cret"));
	ck_assert_ptr_nonnull(strstr(holt_config_json(d), "\"environment\":[\"TOKEN\"]"));
}
END_TEST

START_TEST(single_values)
{
	auto_config c = with("replicas: 5");
	auto_error error = NULL;

	ck_assert_str_eq(holt_config_get(c, "replicas"), "5");
	ck_assert_str_eq(holt_config_get(c, "idle_timeout"), "600");
	ck_assert_ptr_null(holt_config_get(c, "image"));
	ck_assert_ptr_null(holt_config_get(c, "nothing"));
	ck_assert_ptr_null(holt_config_get(c, "ownership"));
	ck_assert_ptr_null(holt_config_get(c, "environment"));

	ck_assert_int_eq(holt_config_set(c, "image", "debian:12", NULL), 0);
	ck_assert_str_eq(settings_values(c)->image, "debian:12");
	ck_assert_str_eq(holt_config_get(c, "image"), "debian:12");
	ck_assert_ptr_nonnull(strstr(holt_config_json(c), "\"image\":\"debian:12\""));
	ck_assert_int_eq(holt_config_set(c, "replicas", NULL, NULL), 0);
	ck_assert_uint_eq(settings_values(c)->replicas, 3);
	ck_assert_ptr_nonnull(strstr(holt_config_json(c), "\"replicas\":3"));

	ck_assert_int_eq(holt_config_set(c, "replicas", "0", &error), -HOLT_EINVALID);
	ck_assert_str_eq(holt_error_message(error),
		"'replicas' is '0', not a whole number from 1 to 2147483647");
	ck_assert_str_eq(holt_error_object(error), "replicas");
	ck_assert_uint_eq(settings_values(c)->replicas, 3);
	ck_assert_int_eq(holt_config_set(c, "nothing", "1", NULL), -HOLT_ENOT_FOUND);
	ck_assert_int_eq(holt_config_set(c, "environment", "A=b", NULL), -HOLT_ENOT_FOUND);
	ck_assert_int_eq(holt_config_set(c, "mounts", "x", NULL), -HOLT_ENOT_FOUND);
	ck_assert_int_eq(holt_config_set(c, "network.mode", "closed", NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_config_set(c, "image", "$HOLT_TEST_NONE", NULL), -HOLT_EINVALID);
	ck_assert_str_eq(holt_config_get(c, "image"), "debian:12");
	ck_assert_int_eq(holt_config_set(c, NULL, "x", NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_config_set(c, "on_idle", "stop", NULL), 0);
	ck_assert_int_eq(holt_config_set(c, "on_shutdown", "keep", NULL), 0);
	ck_assert_int_eq(holt_config_set(c, "health_check", "exec", NULL), 0);
	ck_assert(settings_values(c)->idle_stop && settings_values(c)->shutdown_keep &&
		  settings_values(c)->health_exec);
	auto_config d = with("environment: {A: x, BC: y}");
	ck_assert_str_eq(holt_config_get(d, "environment"), "A BC");
}
END_TEST

START_TEST(all_keys_as_json)
{
	auto_config c = with("{image: \"x\\e\", pause_warm_after: 1.5, max_memory: 1g, "
			     "idle_timeout: -5, health_check_skip_seconds: 0.25}");
	char quoted[64];
	size_t n = 0;

	for (const char *key; (key = holt_config_key(n)); n++) {
		(void)snprintf(quoted, sizeof quoted, "\"%s\":", key);
		ck_assert_msg(strstr(holt_config_json(c), quoted) != NULL, "%s", key);
	}
	ck_assert_uint_eq(n, 23);
	ck_assert_str_eq(holt_config_json(c),
		"{\"accel\":\"auto\",\"acquire_timeout\":30,\"cpus\":1,\"disk\":10737418240,"
		"\"environment\":[],\"health_check\":\"ping\",\"health_check_skip_seconds\":0.25,"
		"\"home\":null,\"idle_timeout\":-5,\"image\":\"x\\u001B\",\"keep_disk_for\":86400,"
		"\"kernel\":null,\"max_memory\":1073741824,\"memory_mib\":512,"
		"\"network\":\"open\",\"network.allow\":[],\"on_idle\":\"destroy\",\"on_shutdown\":"
		"\"destroy\","
		"\"pause_warm_after\":1.5,\"pool\":\"default\",\"pull\":\"missing\",\"replicas\":3,"
		"\"spares\":0}");
}
END_TEST

START_TEST(files)
{
	char dir[] = "/tmp/holt-config-XXXXXX";
	holt_config *c = NULL;
	auto_error error = NULL;
	static char big[HOLT_CONFIG_BYTES_MAX + 1];

	ck_assert_ptr_nonnull(mkdtemp(dir));
	auto_free char *path = str_printf("%s/c.yaml", dir);
	ck_assert_int_eq(holt_config_load(path, &c, &error), -HOLT_ENOT_FOUND);
	ck_assert_str_eq(holt_error_object(error), path);
	ck_assert_ptr_nonnull(strstr(holt_error_message(error), path));
	ck_assert_int_eq(holt_config_load(dir, &c, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(fs_write_atomic(AT_FDCWD, path, "sandbox: {replicas: 9}\n", 23, 0600), 0);
	ck_assert_int_eq(holt_config_load(path, &c, NULL), 0);
	ck_assert_uint_eq(settings_values(c)->replicas, 9);
	holt_config_free(c);
	memset(big, '#', sizeof big);
	ck_assert_int_eq(fs_write_atomic(AT_FDCWD, path, big, sizeof big, 0600), 0);
	ck_assert_int_eq(holt_config_load(path, &c, NULL), -HOLT_ELIMIT);
	ck_assert_int_eq(holt_config_parse(big, sizeof big, "big", &c, NULL), -HOLT_ELIMIT);
	ck_assert_int_eq(holt_config_load(NULL, &c, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_config_load(path, NULL, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_config_parse(NULL, 3, NULL, &c, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
}
END_TEST

START_TEST(homes)
{
	auto_config c = with("{home: /h, kernel: /k, max_memory: 2g}");
	auto_config none = with("image: x");
	holt_home_options o = HOLT_HOME_OPTIONS_INIT;

	o.path = "/before";
	ck_assert_int_eq(holt_config_home_options(none, &o), 0);
	ck_assert_str_eq(o.path, "/before");
	ck_assert_ptr_null(o.kernel);
	ck_assert_int_eq(holt_config_home_options(c, &o), 0);
	ck_assert_str_eq(o.path, "/h");
	ck_assert_str_eq(o.kernel, "/k");
	ck_assert_uint_eq(o.max_memory_bytes, 2ull << 30);
	o.struct_size = 0;
	ck_assert_int_eq(holt_config_home_options(c, &o), -HOLT_EINVALID);
}
END_TEST

/* C-196: a provider's copy does not follow the configuration. */
START_TEST(copies)
{
	struct provider_config v = {0};
	holt_config *c = with("{image: x, environment: {A: b}}");

	ck_assert_int_eq(provider_config_copy(c, &v, NULL), 0);
	ck_assert_int_eq(holt_config_set(c, "image", "y", NULL), 0);
	holt_config_free(c);
	ck_assert_str_eq(v.image, "x");
	ck_assert_str_eq(v.environment[0], "A=b");
	provider_config_done(&v);
	ck_assert_ptr_null(v.image);
	ck_assert_int_eq(provider_config_copy(NULL, &v, NULL), 0);
	ck_assert_str_eq(v.pool, "default");
	ck_assert_uint_eq(v.idle_ms, 600000);
	provider_config_done(&v);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
	const char *const text = "sandbox: {image: x, port: 1, other: 2, environment: {A: b}}\n";
	holt_config *c = NULL;
	unsigned long n = 0;
	int r = -1;

	while (!c) {
		auto_error error = NULL;

		mem_fail_at(++n);
		r = holt_config_parse(text, strlen(text), "f", &c, &error);
		mem_fail_at(0);
		ck_assert(r == 0 || r == -HOLT_ENO_MEMORY);
		ck_assert((error != NULL) == (r < 0));
	}
	ck_assert_uint_gt(n, 30);
	for (r = -1, n = 0; r < 0;) {
		mem_fail_at(++n);
		r = holt_config_set(c, "image", "y", NULL);
		mem_fail_at(0);
		ck_assert_str_eq(holt_config_get(c, "image"), r < 0 ? "x" : "y");
		ck_assert_str_eq(settings_values(c)->image, r < 0 ? "x" : "y");
	}
	holt_config_free(c);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {defaults, null_is_the_default, values_of_boxes, idle_timeout,
		times, values_out_of_their_rules, networks, bad_networks, networks_that_are_set,
		keys_that_do_nothing, warnings_end, variables, secrets_stay_out_of_messages,
		single_values, all_keys_as_json, files, homes, copies, every_allocation_may_fail};
	Suite *s = suite_create("config");
	TCase *t = tcase_create("all");

	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
