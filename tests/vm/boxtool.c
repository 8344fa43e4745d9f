/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: boxtool [-b BOOT_TIMEOUT_MS] IMAGE { [-t TIMEOUT_MS] [-x] COMMAND }...
 *
 * For tests: what the command line of holt does not offer. Starts one box and runs the commands in
 * it, one after the other, each with /bin/sh -c, or with -x as one word without a shell. Stdout and
 * stderr are those of the programs; besides, stderr has one line for each event:
 *
 *   ready attempts=N hello_ms=N ready_ms=N accel=NAME box_id=ID
 *   exit code=N signal=N flags=N took_ms=N      took_ms is measured here, around start and pump
 *   error code=NAME stage=S object=O took_ms=N  and then "message: ..." and "hint: ..."
 *
 * Exit status: 0 where the box started, whatever became of the commands; else 1.
 */
#include "holt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ms(void)
{
	struct timespec ts = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void tell_error(holt_error *error, uint64_t since_ms)
{
	fprintf(stderr, "error code=%s stage=%s object=%s took_ms=%llu\n",
		holt_code_name(holt_error_code(error)), holt_error_stage(error),
		holt_error_object(error), (unsigned long long)(now_ms() - since_ms));
	fprintf(stderr, "message: %s\nhint: %s\n", holt_error_message(error),
		holt_error_hint(error));
	holt_error_free(error);
}

static void tell_ready(holt_box *box)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;

	if (holt_box_get_info(box, &info) < 0)
		return;
	fprintf(stderr, "ready attempts=%u hello_ms=%llu ready_ms=%llu accel=%s box_id=%s\n",
		info.attempts, (unsigned long long)(info.hello_us / 1000),
		(unsigned long long)(info.ready_us / 1000), info.accel, holt_box_id(box));
}

static void run_step(holt_box *box, const char *command, uint64_t timeout_ms, int shell)
{
	const char *const by_shell[] = {"/bin/sh", "-c", command, NULL};
	const char *const direct[] = {command, NULL};
	holt_exec_options options = HOLT_EXEC_OPTIONS_INIT;
	holt_exit result = HOLT_EXIT_INIT;
	holt_exec *exec = NULL;
	holt_error *error = NULL;
	const uint64_t start_ms = now_ms();

	options.argv = shell ? by_shell : direct;
	options.timeout_ms = timeout_ms;
	int r = holt_exec_start(box, &options, &exec, &error);
	if (r == 0)
		r = holt_exec_pump(exec, -1, STDOUT_FILENO, STDERR_FILENO, &result, &error);
	if (r < 0)
		tell_error(error, start_ms);
	else
		fprintf(stderr, "exit code=%d signal=%d flags=%u took_ms=%llu\n", result.code,
			result.signal, result.flags, (unsigned long long)(now_ms() - start_ms));
	holt_exec_free(exec);
}

static void run_steps(holt_box *box, char **argv)
{
	uint64_t timeout_ms = 0;
	int shell = 1;

	for (; *argv; argv++) {
		if (strcmp(*argv, "-t") == 0 && argv[1]) {
			timeout_ms = strtoull(*++argv, NULL, 10);
		} else if (strcmp(*argv, "-x") == 0) {
			shell = 0;
		} else {
			run_step(box, *argv, timeout_ms, shell);
			timeout_ms = 0;
			shell = 1;
		}
	}
}

int main(int argc, char **argv)
{
	holt_start_options options = HOLT_START_OPTIONS_INIT;
	holt_home *home = NULL;
	holt_box *box = NULL;
	holt_error *error = NULL;
	const uint64_t start_ms = now_ms();

	options.flags = HOLT_START_NO_TEMPLATE; /* it is here to test boots */
	argv++;
	if (argc > 3 && strcmp(*argv, "-b") == 0) {
		options.boot_timeout_ms = strtoull(argv[1], NULL, 10);
		argv += 2;
	}
	if (!*argv) {
		fprintf(stderr, "usage: boxtool [-b MS] IMAGE { [-t MS] [-x] COMMAND }...\n");
		return 2;
	}
	int r = holt_home_open(NULL, &home, &error);
	if (r == 0)
		r = holt_box_create(home, *argv, NULL, &box, &error);
	if (r == 0)
		r = holt_box_start(box, &options, NULL, &error);
	if (r == 0) {
		tell_ready(box);
		run_steps(box, argv + 1);
	} else {
		tell_error(error, start_ms);
	}
	holt_box_close(box);
	holt_home_close(home);
	return r < 0;
}
