/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a command in a box of its own: the smallest real user of libholt.
 *
 *     cc run.c -o run $(pkg-config --cflags --libs holt)
 *     echo hello | ./run demo 10 cat
 */
#include <holt.h>

#include <stdio.h>
#include <stdlib.h>

/* Everything an error says; the exit code is the one a shell would give. */
static int print_error(holt_error *error)
{
	const int code = holt_error_exit_code(error);

	fprintf(stderr, "run: %s: %s\n", holt_code_name(holt_error_code(error)),
		holt_error_message(error));
	if (*holt_error_stage(error))
		fprintf(stderr, "     during: %s\n", holt_error_stage(error));
	if (*holt_error_object(error))
		fprintf(stderr, "     about: %s\n", holt_error_object(error));
	if (*holt_error_hint(error))
		fprintf(stderr, "     hint: %s\n", holt_error_hint(error));
	holt_error_free(error);
	return code;
}

int main(int argc, char **argv)
{
	holt_exec_options exec = HOLT_EXEC_OPTIONS_INIT;
	holt_exit result = HOLT_EXIT_INIT;
	holt_error *error = NULL;
	holt_home *home = NULL;

	if (argc < 4) {
		fprintf(stderr, "usage: run IMAGE SECONDS COMMAND [ARG...]\n");
		return 125;
	}
	exec.argv = (const char *const *)(argv + 3);
	exec.timeout_ms = strtoull(argv[2], NULL, 10) * 1000; /* 0: no deadline */

	if (holt_home_open(NULL, &home, &error) < 0)
		return print_error(error);
	/* The program's streams are ours: descriptors 0, 1 and 2. */
	if (holt_run(home, argv[1], NULL, &exec, 0, 1, 2, &result, &error) < 0)
		result.code = print_error(error);
	else if (result.flags & HOLT_EXIT_TIMED_OUT)
		fprintf(stderr, "run: killed after %s s\n", argv[2]);
	holt_home_close(home);
	return result.code;
}
