/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/identity.h"

#include "api/options.h"
#include "provider/scope.h"
#include "base/banned.h"

_Static_assert(HOLT_SCOPE_TOKEN_LEN == SCOPE_TOKEN_LEN && HOLT_SCOPE_BYTES_MAX == SCOPE_BYTES_MAX,
	"one limit");

HOLT_API int holt_scope_token(const char *user, size_t user_len, const char *thread,
	size_t thread_len, char ret[HOLT_SCOPE_TOKEN_LEN + 1], holt_error **reterr)
{
	return ret ? scope_token(user, user_len, thread, thread_len, ret, reterr)
		   : api_null("ret", reterr);
}

HOLT_API int holt_is_scope_token(const char *text, size_t len)
{
	return scope_is_token(text, len);
}
