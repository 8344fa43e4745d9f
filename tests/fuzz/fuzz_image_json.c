/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "base/str.h"
#include "image/manifest.h"
#include "image/ref.h"

#include <stdlib.h>
#include <string.h>

/*
 * Index, manifest and configuration from the same bytes, and the name that an index gives. What is
 * accepted must be in its limits and usable without another look: digests that are safe as file
 * names, lists that end, names that stay what they are. What is refused leaves nothing behind.
 */

#define REQUIRE(cond)            \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_index(const char *data, size_t size)
{
	struct descriptor d = {0};
	auto_free char *name = NULL;
	auto_error error = NULL;

	if (manifest_pick(data, size, &d, &name, &error) < 0) {
		REQUIRE(error && !name && !d.digest[0]);
		return;
	}
	REQUIRE(!error && digest_valid(d.digest));
	if (name) {
		auto_free char *again = NULL;
		REQUIRE(ref_normalise(name, &again, NULL) == 0 && strcmp(name, again) == 0);
	}
}

static void try_manifest(const char *data, size_t size)
{
	struct manifest m = {0};
	auto_error error = NULL;
	bool is_index = false;

	(void)manifest_is_index(data, size, &is_index, NULL);
	if (manifest_parse(data, size, &m, &error) < 0) {
		REQUIRE(error && !m.layers);
		return;
	}
	REQUIRE(!error && digest_valid(m.config.digest) && m.config.size <= CONFIG_BYTES_MAX);
	REQUIRE(m.n_layers <= MANIFEST_LAYERS_MAX);
	for (size_t i = 0; i < m.n_layers; i++)
		REQUIRE(digest_valid(m.layers[i].digest) && m.layers[i].size <= INT64_MAX);
	manifest_done(&m);
}

static void try_config(const char *data, size_t size)
{
	struct image_config c = {0};
	auto_error error = NULL;
	char **diff_ids = NULL;

	if (config_parse(data, size, &c, &diff_ids, &error) < 0) {
		REQUIRE(error && !c.env && !c.cmd && !c.entrypoint && !c.user && !diff_ids);
		return;
	}
	REQUIRE(!error);
	for (size_t i = 0; diff_ids && diff_ids[i]; i++)
		REQUIRE(digest_valid(diff_ids[i]));
	REQUIRE(!c.user || *c.user);
	REQUIRE(!c.working_dir || *c.working_dir);
	(void)config_check_platform(&c, NULL);
	config_done(&c);
	strv_free(diff_ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy of just this length, so that a sanitizer sees its end. */
	char *copy = malloc(size ? size : 1);

	REQUIRE(copy);
	if (size)
		memcpy(copy, data, size);
	try_index(copy, size);
	try_manifest(copy, size);
	try_config(copy, size);
	free(copy);
	return 0;
}
