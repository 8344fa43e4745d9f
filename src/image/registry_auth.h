/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_REGISTRY_AUTH_H
#define IMAGE_REGISTRY_AUTH_H

#include "image/credentials.h"
#include "image/http.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * How a registry is told who asks: from the challenges of a 401 to the value of an Authorization
 * header. RFC 9110 (challenges), RFC 7617 (Basic), the distribution project's token protocol
 * (Bearer: a token server is asked, by GET with user and password, by POST with a refresh token).
 */

#define CHALLENGE_BYTES_MAX  8192u /* of one header line */
#define CHALLENGE_PARAMS_MAX 32u /* of one challenge */
#define TOKEN_BYTES_MAX      (64u << 10) /* of a token server's answer */

enum challenge_scheme { CHALLENGE_NONE, CHALLENGE_BASIC, CHALLENGE_BEARER };

struct challenge {
	enum challenge_scheme scheme;
	char *realm; /* of Bearer: the URL of the token server */
	char *service; /* or NULL */
	char *scope; /* or NULL */
};

/* The best of what is asked for: Bearer before Basic, the first of a kind. @lines are values of
 * WWW-Authenticate, each one or more challenges; may be NULL. HOLT_EPROTOCOL for a line that breaks
 * the grammar, HOLT_EUNSUPPORTED where there is neither. */
int challenge_pick(char *const *lines, struct challenge *ret, holt_error **reterr);
void challenge_done(struct challenge *c);
#define auto_challenge __attribute__((cleanup(challenge_done))) struct challenge

struct auth_where {
	struct http *http; /* asks the token server */
	const char *url; /* of the registry that asked */
	const char *scope; /* where the challenge names none */
	bool insecure; /* secrets may go by http to anywhere */
};

/* The value of Authorization that answers a challenge, a secret. HOLT_EDENIED where there is no
 * login and one is needed, or the login is refused. */
int auth_answer(const struct auth_where *w, const struct challenge *c,
	const struct credentials *who, char **ret, holt_error **reterr);

#endif
