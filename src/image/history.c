/* SPDX-License-Identifier: Apache-2.0 */
#include "image/images.h"

#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "image/manifest.h"
#include "image/store.h"
#include "base/banned.h"

/* How an image was made, as its configuration tells; nothing of it is verified. */

/* One step as a line; members that are missing or of another type are empty. */
static int put_step(struct buf *b, const json_t *step, holt_error **reterr)
{
	static const char *const names[] = {"created", "created_by", "comment"};
	auto_json line = json_object();
	int r = line ? 0 : -1;

	for (size_t i = 0; r == 0 && i < sizeof names / sizeof *names; i++) {
		const json_t *text = json_object_get(step, names[i]);
		r = json_object_set_new(line, names[i],
			json_is_string(text) ? json_copy((json_t *)(uintptr_t)text)
					     : json_string(""));
	}
	if (r == 0)
		r = json_object_set_new(line, "empty_layer",
			json_boolean(json_is_true(json_object_get(step, "empty_layer"))));
	auto_free char *text = r == 0 ? json_text(line) : NULL;
	if (!text || buf_appends(b, text) < 0 || buf_appends(b, "\n") < 0)
		return err_nomem(reterr);
	return 0;
}

int image_history(struct image_store *s, const char *digest, char **ret, holt_error **reterr)
{
	auto_free char *config = NULL;
	auto_json doc = NULL;
	auto_buf b = BUF_INIT(4 * CONFIG_BYTES_MAX);
	int code = store_config(s, digest, &config, reterr);

	if (code == 0)
		code = json_parse(config, strlen(config), CONFIG_BYTES_MAX,
			"the image configuration", &doc, reterr);
	const json_t *steps = json_object_get(doc, "history");
	for (size_t i = json_array_size(steps); code == 0 && i-- > 0;)
		code = put_step(&b, json_array_get(steps, i), reterr);
	if (code < 0)
		return code;
	*ret = b.len ? mem_dup(b.data, b.len + 1) : mem_zalloc(1);
	return *ret ? 0 : err_nomem(reterr);
}
