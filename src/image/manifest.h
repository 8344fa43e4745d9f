/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_MANIFEST_H
#define IMAGE_MANIFEST_H

#include "base/digest.h"
#include "base/err.h"
#include "base/json.h"
#include "image/images.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The JSON documents of an OCI image (docker's schema 2 is read alike), as untrusted input. */

#define MANIFEST_BYTES_MAX  (4u << 20) /* of an index or a manifest */
#define CONFIG_BYTES_MAX    (8u << 20) /* of an image configuration */
#define MANIFEST_LAYERS_MAX 512
#define INDEX_ENTRIES_MAX   4096 /* of one index */
#define INDEX_DEPTH_MAX     4 /* indexes within indexes */

struct descriptor {
	char digest[DIGEST_STR_LEN + 1];
	uint64_t size;
};

/* Media types of what is made here; whatever comes from outside may have others. */
#define TYPE_PREFIX   "application/vnd.oci.image."
#define TYPE_INDEX    TYPE_PREFIX "index.v1+json"
#define TYPE_MANIFEST TYPE_PREFIX "manifest.v1+json"
#define TYPE_CONFIG   TYPE_PREFIX "config.v1+json"
#define TYPE_LAYER    TYPE_PREFIX "layer.v1.tar"

/* {"mediaType", "digest", "size"}; NULL without memory. */
json_t *descriptor_json(const struct descriptor *d, const char *type);

struct manifest {
	struct descriptor config;
	struct descriptor *layers; /* base first */
	size_t n_layers;
};

/* Whether the document is an index (of manifests) rather than a manifest. */
int manifest_is_index(const char *data, size_t len, bool *ret, holt_error **reterr);

/* Pick the entry for linux/amd64 out of an index; entries that name no platform count where none
 * matches. *ret_name: the image name that the index gives it, in fresh memory, or NULL. */
int manifest_pick(
	const char *data, size_t len, struct descriptor *ret, char **ret_name, holt_error **reterr);

int manifest_parse(const char *data, size_t len, struct manifest *ret, holt_error **reterr);
void manifest_done(struct manifest *m);

/* Read an image configuration; *ret_diff_ids is a NULL-terminated list of valid digests. */
int config_parse(const char *data, size_t len, struct image_config *ret, char ***ret_diff_ids,
	holt_error **reterr);
/* Refuse what cannot run on linux/amd64. */
int config_check_platform(const struct image_config *c, holt_error **reterr);
void config_done(struct image_config *c);

#endif
