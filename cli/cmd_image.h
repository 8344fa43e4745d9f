/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CMD_IMAGE_H
#define CLI_CMD_IMAGE_H

#include "cli.h"

/* The verbs of holt image that have a file of their own. */

extern const char image_export_help[];
int image_export_main(int argc, char **argv, const void *user);
int image_history_main(int argc, char **argv, holt_home *home);

#endif
