/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: makebox IMAGE NAME...
 *
 * For tests: makes boxes that are kept, without starting them, which no verb of holt does.
 */
#include "holt.h"

#include <stdio.h>

static int make(holt_home *home, const char *image, const char *name, holt_error **reterr)
{
	holt_box_options options = HOLT_BOX_OPTIONS_INIT;
	holt_box *box = NULL;

	options.name = name;
	options.flags = HOLT_BOX_KEEP;
	const int r = holt_box_create(home, image, &options, &box, reterr);
	holt_box_close(box);
	return r;
}

int main(int argc, char **argv)
{
	holt_home *home = NULL;
	holt_error *error = NULL;
	int r = holt_home_open(NULL, &home, &error);

	for (int i = 2; i < argc && r == 0; i++)
		r = make(home, argv[1], argv[i], &error);
	if (r < 0)
		(void)fprintf(
			stderr, "makebox: %s: %s\n", holt_code_name(-r), holt_error_message(error));
	holt_error_free(error);
	holt_home_close(home);
	return r < 0;
}
