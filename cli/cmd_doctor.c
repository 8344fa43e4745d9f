/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <getopt.h>
#include <stdio.h>

static void print_checks(const holt_doctor *doctor)
{
	static const char *const marks[] = {"ok  ", "warn", "FAIL"};

	for (size_t i = 0; i < holt_doctor_count(doctor); i++) {
		const char *name, *text, *advice;
		const int status = holt_doctor_check(doctor, i, &name, &text, &advice);

		(void)printf("%s  %-12s %s\n", marks[status], name, text);
		if (*advice)
			(void)printf("      %-12s -> %s\n", "", advice);
	}
	(void)printf("%s\n", holt_doctor_ok(doctor) ? "boxes can run on this host"
						    : "no box can run on this host");
}

static int doctor_main(int argc, char **argv)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {0}};
	holt_doctor *doctor = NULL;
	holt_error *error = NULL;
	int json = 0;
	int c;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c == 'j')
			json = 1;
		else
			return cli_bad_option(CLI_USAGE, "doctor", c, argv);
	}
	if (optind < argc)
		return cli_usage(CLI_USAGE, "doctor", "unexpected argument '%.64s'", argv[optind]);
	if (holt_doctor_run(NULL, &doctor, &error) < 0)
		return cli_error(CLI_FAILED, error);
	if (json)
		(void)printf("%s\n", holt_doctor_json(doctor));
	else
		print_checks(doctor);
	const int ok = holt_doctor_ok(doctor);
	holt_doctor_free(doctor);
	const int written = cli_finish();
	return ok ? written : CLI_FAILED;
}

const struct cli_verb verb_doctor = {
	.name = "doctor",
	.summary = "tell whether boxes can run on this host, and what to do if not",
	.group = CLI_HOST,
	.help = "Usage: holt doctor [--json]\n\n"
		"Checks the accelerator, QEMU, the guest kernel, the home and the jail's layers.\n"
		"Exits with 0 if a box can run, else with 1.\n\n"
		"Options:\n"
		"  --json  print one JSON object\n\n"
		"Example:\n"
		"  holt doctor --json | jq .accelerator\n",
	.main = doctor_main,
};
