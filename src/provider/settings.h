/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROVIDER_SETTINGS_H
#define PROVIDER_SETTINGS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The configuration of a provider (holt/config.h), read and checked. setting_rules.h
 * has one table of all keys; base/conf.h knows YAML.
 */
#define SETTINGS_MEMORY_MIN 128 /* MiB; this and the next four are the limits of boxes */
#define SETTINGS_MEMORY_MAX 262144
#define SETTINGS_CPUS_MAX   64
#define SETTINGS_DISK_MIN   INT64_C(67108864)
#define SETTINGS_DISK_MAX   INT64_C(17592186044416)
#define SETTINGS_SPARES_MAX 64

struct provider_config {
	char *pool; /* "default"; 1 to 32 of [a-z0-9-] */
	char *image; /* NULL: none was named */
	uint32_t pull; /* enum holt_pull_policy: whether its registry is asked for it */
	uint32_t memory_mib; /* 0: the default, as the next two */
	uint32_t cpus;
	uint64_t disk_bytes;
	char *network; /* "open"; or "allowlist", "isolated" */
	char **network_allow; /* what the former lets out, NULL-terminated; or NULL */
	char *accel; /* NULL: auto */
	char *home; /* NULL: the default, as the next two */
	char *kernel;
	uint64_t max_memory_bytes;
	char **environment; /* "KEY=VALUE", NULL-terminated; or NULL */
	uint32_t replicas; /* 3 */
	uint32_t spares; /* 0 */
	uint64_t idle_ms; /* 600,000; HOLT_FOREVER: never ended for being idle */
	uint64_t acquire_timeout_ms; /* 30,000 */
	uint64_t health_skip_ms; /* 0: no acquire goes without the health check */
	bool health_exec; /* it is a command, not the agent's sign of life */
	uint64_t pause_after_ms; /* HOLT_FOREVER: warm boxes are not paused */
	bool idle_stop; /* a box that was idle too long is stopped, not destroyed */
	uint64_t keep_disk_ms; /* then its disk stays for so long */
	bool shutdown_keep; /* a shutdown parks instead of destroying */
};

struct holt_config;

/* As the public functions of holt/config.h. */
int settings_load(const char *path, struct holt_config **ret, holt_error **reterr);
int settings_parse(const char *text, size_t len, const char *name, struct holt_config **ret,
	holt_error **reterr);
int settings_set(struct holt_config *c, const char *key, const char *value, holt_error **reterr);
const char *settings_get(struct holt_config *c, const char *key);
const char *settings_key(size_t index);
const char *const *settings_warnings(struct holt_config *c);
const char *settings_json(struct holt_config *c);
void settings_free(struct holt_config *c);

/* What a provider goes by; borrowed. */
const struct provider_config *settings_values(const struct holt_config *c);
/* A copy for a provider, which may outlive @c; NULL: the defaults. */
int provider_config_copy(
	const struct holt_config *c, struct provider_config *ret, holt_error **reterr);
void provider_config_done(struct provider_config *c);

#endif
