/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/contract.h"

#include "base/banned.h"

/*
 * What listing and searching leave out: of version control, dependencies, build results, editors,
 * systems, logs and caches. For one whole segment of a path, case counts. The order is that of the
 * contract.
 */
static const char *const ignored[] = {
	".git",
	".svn",
	".hg",
	".bzr",
	"node_modules",
	"__pycache__",
	".venv",
	"venv",
	".env",
	"env",
	".tox",
	".nox",
	".eggs",
	"*.egg-info",
	"site-packages",
	"dist",
	"build",
	".next",
	".nuxt",
	".output",
	".turbo",
	"target",
	"out",
	".idea",
	".vscode",
	"*.swp",
	"*.swo",
	"*~",
	".project",
	".classpath",
	".settings",
	".DS_Store",
	"Thumbs.db",
	"desktop.ini",
	"*.lnk",
	"*.log",
	"*.tmp",
	"*.temp",
	".upload-*.part",
	"*.bak",
	"*.cache",
	".cache",
	"logs",
	".coverage",
	"coverage",
	".nyc_output",
	"htmlcov",
	".pytest_cache",
	".mypy_cache",
	".ruff_cache",
	NULL,
};

const char *const *ignore_list(void)
{
	return ignored;
}
