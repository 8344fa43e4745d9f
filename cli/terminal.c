/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raw mode, and the way back out of it. The signals that a user or a system ends programs with are
 * awaited elsewhere (foreground.c) and lead through exit(); those of a bug are caught here.
 */
#include "terminal.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios saved;
static volatile sig_atomic_t is_raw;

void terminal_restore(void)
{
	if (is_raw)
		(void)tcsetattr(STDIN_FILENO, TCSANOW, &saved);
	is_raw = 0;
}

/* The default action is in place again, and follows when the handler returns. */
static void on_crash(int sig)
{
	terminal_restore();
	(void)raise(sig);
}

static void prepare_ends(void)
{
	static const int crashes[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
	static int done;
	struct sigaction now;
	struct sigaction ours = {.sa_handler = on_crash, .sa_flags = (int)SA_RESETHAND};

	if (done)
		return;
	done = 1;
	(void)atexit(terminal_restore);
	for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++) {
		/* A sanitizer's own handler is worth more. */
		if (sigaction(crashes[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
			(void)sigaction(crashes[i], &ours, NULL);
	}
}

int terminal_raw(void)
{
	struct termios raw;

	if (!is_raw && tcgetattr(STDIN_FILENO, &saved) < 0)
		return -1;
	prepare_ends();
	raw = saved;
	cfmakeraw(&raw);
	is_raw = 1;
	/* TCSAFLUSH would lose what was typed during the boot; TCSADRAIN waits for a terminal that
	 * is held up. */
	if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) < 0) {
		is_raw = 0;
		return -1;
	}
	return 0;
}

int terminal_size(uint16_t *ret_rows, uint16_t *ret_cols)
{
	static const int fds[] = {STDOUT_FILENO, STDIN_FILENO, STDERR_FILENO};
	struct winsize size = {0};

	for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
		if (ioctl(fds[i], TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col) {
			*ret_rows = size.ws_row;
			*ret_cols = size.ws_col;
			return 0;
		}
	}
	return -1;
}
