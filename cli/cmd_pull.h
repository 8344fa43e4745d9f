/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CMD_PULL_H
#define CLI_CMD_PULL_H

/* holt image pull, for the verb image. */
extern const char image_pull_help[];
int image_pull_main(int argc, char **argv, const void *user);

#endif
