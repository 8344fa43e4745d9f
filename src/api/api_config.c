/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/config.h"

#include "holt/box.h"
#include "holt/templates.h"
#include "api/options.h"
#include "base/conf.h"
#include "provider/settings.h"
#include "base/banned.h"

_Static_assert(HOLT_CONFIG_BYTES_MAX == CONF_BYTES_MAX, "one limit");
_Static_assert(
	HOLT_MEMORY_MIB_MIN == SETTINGS_MEMORY_MIN && HOLT_MEMORY_MIB_MAX == SETTINGS_MEMORY_MAX &&
		HOLT_CPUS_MAX == SETTINGS_CPUS_MAX && HOLT_DISK_BYTES_MIN == SETTINGS_DISK_MIN &&
		HOLT_DISK_BYTES_MAX == SETTINGS_DISK_MAX &&
		HOLT_TEMPLATE_SPARES_MAX == SETTINGS_SPARES_MAX,
	"a configuration allows what boxes do not");

HOLT_API int holt_config_load(const char *path, holt_config **ret, holt_error **reterr)
{
	if (!path || !ret)
		return api_null(path ? "ret" : "path", reterr);
	return settings_load(path, ret, reterr);
}

HOLT_API int holt_config_parse(
	const char *text, size_t len, const char *name, holt_config **ret, holt_error **reterr)
{
	if (!ret || (!text && len > 0))
		return api_null(ret ? "text" : "ret", reterr);
	return settings_parse(text, len, name, ret, reterr);
}

HOLT_API int holt_config_set(
	holt_config *config, const char *key, const char *value, holt_error **reterr)
{
	return key ? settings_set(config, key, value, reterr) : api_null("key", reterr);
}

HOLT_API const char *holt_config_get(holt_config *config, const char *key)
{
	return settings_get(config, key);
}

HOLT_API const char *holt_config_key(size_t index)
{
	return settings_key(index);
}

HOLT_API const char *const *holt_config_warnings(holt_config *config)
{
	return settings_warnings(config);
}

HOLT_API const char *holt_config_json(holt_config *config)
{
	return settings_json(config);
}

HOLT_API int holt_config_home_options(holt_config *config, holt_home_options *ret)
{
	const struct provider_config *const values = settings_values(config);

	if (!ret || ret->struct_size < sizeof *ret)
		return -HOLT_EINVALID;
	if (values->home)
		ret->path = values->home;
	if (values->kernel)
		ret->kernel = values->kernel;
	if (values->max_memory_bytes)
		ret->max_memory_bytes = values->max_memory_bytes;
	return 0;
}

HOLT_API void holt_config_free(holt_config *config)
{
	settings_free(config);
}
