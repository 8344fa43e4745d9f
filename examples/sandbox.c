/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an agent does in a box that runs: a file in, a command, a search, a file out.
 *
 *     cc sandbox.c -o sandbox $(pkg-config --cflags --libs holt)
 *     holt run -d --name agent demo sleep 1000000 && ./sandbox agent
 */
#include <holt.h>

#include <stdio.h>
#include <string.h>

static int print_match(const holt_match *match, void *user)
{
	(void)user;
	printf("%s:%llu: ", match->path, (unsigned long long)match->line_number);
	(void)fwrite(match->line, 1, match->line_len, stdout); /* any bytes */
	return putchar('\n') == EOF; /* anything but 0 ends the search */
}

static int work(holt_sandbox *sandbox, holt_error **error)
{
	static const char script[] = "for i in 1 2 3; do echo line $i; done >out.txt\necho done\n";
	holt_command_options ten_seconds = HOLT_COMMAND_OPTIONS_INIT;
	holt_command *command = NULL;
	char *text = NULL;
	size_t len = 0;

	ten_seconds.timeout_ms = 10000;
	/* Each call tells a failure by a negative code, and why by *error. */
	int r = holt_sandbox_write(sandbox, "work/run.sh", script, strlen(script), NULL, error);
	if (r == 0)
		r = holt_sandbox_execute(
			sandbox, "cd work && sh run.sh", &ten_seconds, &command, error);
	if (r == 0)
		printf("%s", holt_command_output(command, HOLT_STDOUT, &len, NULL));
	holt_command_free(command);
	if (r == 0)
		r = holt_sandbox_grep(
			sandbox, "work", "LINE [23]$", NULL, print_match, NULL, NULL, error);
	if (r == 0)
		r = holt_sandbox_read(sandbox, "work/out.txt", NULL, &text, &len, error);
	if (r == 0)
		printf("%s", text);
	holt_free(text);
	return r;
}

int main(int argc, char **argv)
{
	holt_sandbox_options options = HOLT_SANDBOX_OPTIONS_INIT;
	holt_sandbox *sandbox = NULL;
	holt_error *error = NULL;
	holt_home *home = NULL;
	holt_box *box = NULL;

	options.cwd = "/tmp"; /* where relative paths begin */
	int r = holt_home_open(NULL, &home, &error);
	if (r == 0)
		r = holt_box_get(home, argc > 1 ? argv[1] : "agent", &box, &error);
	if (r == 0)
		r = holt_sandbox_open(box, &options, &sandbox, &error);
	if (r == 0)
		r = work(sandbox, &error);
	if (r < 0)
		fprintf(stderr, "sandbox: %s\nhint: %s\n", holt_error_message(error),
			holt_error_hint(error));
	holt_error_free(error);
	holt_sandbox_free(sandbox);
	holt_box_close(box);
	holt_home_close(home);
	return r < 0;
}
