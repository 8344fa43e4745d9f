/* SPDX-License-Identifier: Apache-2.0 */
#include "base/digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

struct digest_ctx {
	EVP_MD_CTX *md;
};

static const char hex_digits[] = "0123456789abcdef";

static void to_hex(char *ret, const uint8_t *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		ret[2 * i] = hex_digits[data[i] >> 4];
		ret[2 * i + 1] = hex_digits[data[i] & 15];
	}
	ret[2 * len] = 0;
}

struct digest_ctx *digest_new(void)
{
	struct digest_ctx *ctx = mem_zalloc(sizeof *ctx);

	if (!ctx)
		return NULL;
	ctx->md = EVP_MD_CTX_new();
	if (!ctx->md || EVP_DigestInit_ex(ctx->md, EVP_sha256(), NULL) != 1) {
		digest_free(ctx);
		return NULL;
	}
	return ctx;
}

void digest_update(struct digest_ctx *ctx, const void *data, size_t len)
{
	(void)EVP_DigestUpdate(ctx->md, data, len);
}

void digest_final(struct digest_ctx *ctx, char ret_str[DIGEST_STR_LEN + 1])
{
	uint8_t raw[EVP_MAX_MD_SIZE] = {0};
	unsigned len = 0;

	(void)EVP_DigestFinal_ex(ctx->md, raw, &len);
	memcpy(ret_str, "sha256:", 7);
	to_hex(ret_str + 7, raw, 32);
}

void digest_free(struct digest_ctx *ctx)
{
	if (!ctx)
		return;
	EVP_MD_CTX_free(ctx->md);
	mem_free(ctx);
}

int digest_of(const void *data, size_t len, char ret_str[DIGEST_STR_LEN + 1])
{
	struct digest_ctx *ctx = digest_new();

	if (!ctx)
		return -ENOMEM;
	digest_update(ctx, data, len);
	digest_final(ctx, ret_str);
	digest_free(ctx);
	return 0;
}

bool digest_valid(const char *s)
{
	if (!str_starts(s, "sha256:") || strlen(s) != DIGEST_STR_LEN)
		return false;
	return strspn(s + 7, hex_digits) == DIGEST_HEX_LEN;
}
