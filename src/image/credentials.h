/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_CREDENTIALS_H
#define IMAGE_CREDENTIALS_H

#include "base/err.h"
#include "base/json.h"

/*
 * Who we are at a registry: what docker's configuration says ($DOCKER_CONFIG/config.json, else
 * ~/.docker/config.json): "credHelpers" for this registry, "credsStore" (docker-credential-NAME
 * get, a program on PATH, told the registry on its stdin), "auths" (auth or username and password,
 * or an identity token). Never logged; memory that held a secret is wiped.
 */

struct credentials {
	char *user; /* NULL: nobody, the registry is asked without */
	char *password;
	char *identity_token; /* an OAuth2 refresh token instead of a password, or NULL */
};

#define CREDENTIALS_FILE_MAX   (1u << 20)
#define CREDENTIALS_SECRET_MAX (64u << 10) /* what a helper may say, and a password be */
#define CREDENTIALS_HELPER_MS  30000

/* @registry: host[:port], "docker.io" for Docker Hub (whose entry is called
 * https://index.docker.io/v1/). Nothing found is no error. @cancel may
 * be NULL. Blocks: until a helper has answered. */
int credentials_find(const char *registry, const volatile int *cancel, struct credentials *ret,
	holt_error **reterr);
void credentials_done(struct credentials *c);
#define auto_credentials __attribute__((cleanup(credentials_done))) struct credentials

/* Wipes a text and frees it; NULL is fine. */
void secret_free(char *text);
static inline void secret_freep(char **text)
{
	secret_free(*text);
}
/* Wipes the texts of a document; the document stays. */
void secret_wipe_json(json_t *doc);
#define auto_secret __attribute__((cleanup(secret_freep))) char *

#endif
