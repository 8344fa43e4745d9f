/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_CONFIG_H
#define HOLT_CONFIG_H

/*
 * The configuration of a provider: the section "sandbox" of a YAML file. holt-config(1) has all
 * keys with their defaults and ranges. Keys that holt does not know, and keys of other providers
 * that mean nothing here, are accepted and told as warnings.
 */

#include "home.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct holt_config holt_config;

#define HOLT_CONFIG_BYTES_MAX 1048576u

/**
 * holt_config_load - read a configuration file.
 * @path: a YAML file with a section "sandbox"; must not be NULL.
 * @ret: receives the configuration; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * A value that is "$NAME" is replaced by the environment's variable NAME.
 *
 * Returns: 0; -HOLT_ENOT_FOUND for a missing file; -HOLT_EINVALID for what is no YAML, a value out
 * of range, or a missing variable: the message has line and key, the object is the file;
 * -HOLT_ELIMIT for more than HOLT_CONFIG_BYTES_MAX, too many values or too deep ones;
 * -HOLT_EDENIED, -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_config_free.
 * Threads: any thread.
 * Blocks: for reading the file.
 * Since: 0.1
 */
HOLT_API int holt_config_load(const char *path, holt_config **ret, holt_error **reterr);

/**
 * holt_config_parse - the same from memory.
 * @text: the YAML; NULL with @len 0 gives the defaults.
 * @len: its length, up to HOLT_CONFIG_BYTES_MAX.
 * @name: what errors call it; NULL: "configuration".
 * @ret: receives the configuration; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_config_load.
 * Ownership: the caller frees *@ret with holt_config_free. @text and @name are copied.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_config_parse(
	const char *text, size_t len, const char *name, holt_config **ret, holt_error **reterr);

/**
 * holt_config_set - change one value, as if it stood in the file.
 * @config: a configuration that no provider was made with yet; must not be NULL.
 * @key: a key with a single value, such as "image", or "network.allow"; must not be NULL.
 * @value: the value as text, of the latter with commas between its entries; NULL: the default.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_ENOT_FOUND for an unknown key; -HOLT_EINVALID for a bad value, which changes
 * nothing; -HOLT_ENO_MEMORY.
 * Ownership: @value is copied.
 * Threads: one thread at a time per configuration.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_config_set(
	holt_config *config, const char *key, const char *value, holt_error **reterr);

/**
 * holt_config_get - tell a value.
 * @config: a configuration; must not be NULL.
 * @key: as holt_config_set takes it, or "environment"; must not be NULL.
 *
 * Returns: the value in effect as text, also a default; of "environment" the names with blanks
 * between them; NULL where there is none, and for an unknown key.
 * Ownership: borrowed until @config is changed or freed.
 * Threads: one thread at a time per configuration.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_config_get(holt_config *config, const char *key);

/**
 * holt_config_key - name the keys that holt uses, as holt_config_get takes them.
 * @index: from 0.
 *
 * Returns: a key; NULL behind the last one.
 * Ownership: static.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_config_key(size_t index);

/**
 * holt_config_warnings - tell what was accepted and does nothing.
 * @config: a configuration; must not be NULL.
 *
 * Returns: a NULL-terminated list of lines, each with file, line and key.
 * Ownership: borrowed until @config is freed.
 * Threads: one thread at a time per configuration.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *const *holt_config_warnings(holt_config *config);

/**
 * holt_config_json - tell all values in effect as one JSON object.
 * @config: a configuration; must not be NULL.
 *
 * Values of "environment" are left out, its names are told.
 *
 * Returns: a NUL-terminated string, or NULL without memory.
 * Ownership: borrowed until @config is changed or freed.
 * Threads: one thread at a time per configuration.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_config_json(holt_config *config);

/**
 * holt_config_home_options - tell how the configuration wants its home opened.
 * @config: a configuration; must not be NULL.
 * @ret: path, kernel and max_memory_bytes are set as far as the configuration has them; must be
 * initialised, must not be NULL.
 *
 * Returns: 0, or -HOLT_EINVALID where struct_size is not set.
 * Ownership: strings in @ret are borrowed until @config is changed or freed.
 * Threads: one thread at a time per configuration.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_config_home_options(holt_config *config, holt_home_options *ret);

/**
 * holt_config_free - free a configuration.
 * @config: a configuration, or NULL. Providers that were made with it do not need it any more.
 *
 * Returns: nothing.
 * Ownership: consumes @config.
 * Threads: any thread, while no other call uses @config.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_config_free(holt_config *config);

#ifdef __cplusplus
}
#endif
#endif
