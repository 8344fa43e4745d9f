/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: the rows wait in memory, cells apart by tabs, which no escaped text has, until all widths
 * are known. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GAP 3 /* blanks between columns */

void cli_table_open(struct cli_table *t, const char *const *heads)
{
	*t = (struct cli_table){0};
	while (t->columns < CLI_TABLE_COLUMNS && heads[t->columns])
		t->columns++;
	t->rows = open_memstream(&t->text, &t->len);
	cli_table_row(t, heads);
}

void cli_table_row(struct cli_table *t, const char *const *cells)
{
	for (size_t i = 0; i < t->columns && t->rows; i++) {
		const size_t width = cli_columns(cells[i]);

		if (width > t->widths[i])
			t->widths[i] = width;
		(void)fprintf(t->rows, "%s%c", cells[i], i + 1 < t->columns ? '\t' : '\n');
	}
}

static void print_cells(const struct cli_table *t, char *line, const char *line_end)
{
	for (size_t i = 0; line; i++) {
		const char *cell = strsep(&line, "\t");
		const size_t room = t->widths[i] + GAP;

		(void)printf("%s%*s", cell, line ? (int)(room - cli_columns(cell)) : 0, "");
	}
	(void)fputs(line_end, stdout);
}

int cli_table_close(struct cli_table *t, const char *line_end)
{
	int status = CLI_OK;

	if (!t->rows || fclose(t->rows) != 0) {
		(void)fprintf(stderr, "holt: cannot make a table: %s\n", strerror(errno));
		status = CLI_FAILED;
	}
	for (char *p = t->text; status == CLI_OK && line_end && p && *p;)
		print_cells(t, strsep(&p, "\n"), line_end);
	free(t->text);
	t->text = NULL;
	return status;
}
