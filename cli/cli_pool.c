/* SPDX-License-Identifier: Apache-2.0 */
#include "cli_pool.h"

#include <stdlib.h>
#include <string.h>

#define BOX_NAME_MAX 128 /* "holt-", a pool of 32 characters, '-' and an id */

static const char *environment(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static int read_config(const struct pool_choice *c, holt_config **ret, holt_error **reterr)
{
	const char *path = c->config ? c->config : environment("HOLT_CONFIG");
	int r = path ? holt_config_load(path, ret, reterr)
		     : holt_config_parse(NULL, 0, NULL, ret, reterr);

	if (r == 0 && c->image)
		r = holt_config_set(*ret, "image", c->image, reterr);
	if (r == 0 && c->pool)
		r = holt_config_set(*ret, "pool", c->pool, reterr);
	if (r == 0 && c->pull)
		r = holt_config_set(*ret, "pull", c->pull, reterr);
	return r;
}

int pool_open(const struct pool_choice *choice, struct pool *ret, holt_error **reterr)
{
	holt_home_options options = HOLT_HOME_OPTIONS_INIT;

	*ret = (struct pool){0};
	const int r = read_config(choice, &ret->config, reterr);
	if (r < 0)
		return r;
	(void)holt_config_home_options(ret->config, &options);
	/* All verbs of one shell are about one home. */
	if (environment("HOLT_HOME"))
		options.path = NULL;
	return holt_home_open(&options, &ret->home, reterr);
}

int pool_provider(struct pool *p, const holt_sandbox_options *sandbox, holt_error **reterr)
{
	holt_provider_options options = HOLT_PROVIDER_OPTIONS_INIT;

	options.sandbox = sandbox;
	return holt_provider_open(p->home, p->config, &options, &p->provider, reterr);
}

const char *pool_name(struct pool *p)
{
	const char *name = holt_config_get(p->config, "pool");

	return name ? name : "";
}

void pool_close(struct pool *p)
{
	holt_provider_free(p->provider);
	holt_home_close(p->home);
	holt_config_free(p->config);
}

int pool_find_box(struct pool *p, const char *ref, holt_box **ret, holt_error **reterr)
{
	char name[BOX_NAME_MAX];
	holt_error *as_box = NULL;

	const int r = holt_box_get(p->home, ref, ret, &as_box);
	if (r == -HOLT_ENOT_FOUND && holt_is_scope_token(ref, strlen(ref))) {
		(void)snprintf(name, sizeof name, "holt-%s-%s", pool_name(p), ref);
		if (holt_box_get(p->home, name, ret, NULL) == 0) {
			holt_error_free(as_box);
			return 0;
		}
	}
	*reterr = as_box;
	return r;
}
