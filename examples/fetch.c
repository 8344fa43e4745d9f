/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has an image in the store, loading it where it is not there, and tells what arrives.
 *
 *     cc fetch.c -o fetch $(pkg-config --cflags --libs holt)
 *     ./fetch alpine:3
 */
#include <holt.h>

#include <stdio.h>

/* Phases that are not known here, of a later version, are no reason to stop. */
static void tell(const holt_pull_event *event, void *user)
{
	(void)user;
	if (event->phase == HOLT_PULL_LOADED)
		printf("layer %u of %u: %llu bytes\n", event->layer, event->layers,
			(unsigned long long)event->total_bytes);
	else if (event->phase == HOLT_PULL_DONE)
		printf("%s\n", event->changed ? "new" : "there already");
}

int main(int argc, char **argv)
{
	holt_pull_options options = HOLT_PULL_OPTIONS_INIT;
	holt_error *error = NULL;
	holt_image *image = NULL;
	holt_home *home = NULL;

	if (argc != 2) {
		fprintf(stderr, "usage: fetch REFERENCE\n");
		return 2;
	}
	options.policy = HOLT_PULL_MISSING;
	options.event = tell;
	int r = holt_home_open(NULL, &home, &error);
	if (r == 0)
		r = holt_image_pull(home, argv[1], &options, &image, &error);
	if (r == 0)
		printf("%s\n", holt_image_digest(image));
	else
		fprintf(stderr, "fetch: %s: %s\nhint: %s\n", holt_code_name(-r),
			holt_error_message(error), holt_error_hint(error));
	holt_error_free(error);
	holt_image_free(image);
	holt_home_close(home);
	return r == 0 ? 0 : 1;
}
