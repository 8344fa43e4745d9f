/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_tty.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * A terminal in the place of the three pipes: one pty for each exec that asks for it. The program
 * has the slave as stdin, stdout and stderr and as its controlling terminal; the agent holds the
 * master twice, for output (out[0], for as long as there may be some) and for input. So the pump
 * treats them like pipes, under the same credit. What is different:
 *
 * - All output is stdout; stderr ends at once.
 * - End of input is the terminal's own character for it. The terminal stays.
 * - The master reads as "I/O error" while nobody has the slave open. That is the end of the output
 *   once the leader is gone; before, it may open the terminal again.
 * - When the leader ends, the kernel hangs the terminal up under all who still hold it. When the
 *   agent closes the master, it hangs up under the leader: SIGHUP and SIGCONT to it, and once it is
 *   gone to the group in the foreground.
 *
 * The kernel holds less than TTY_BUFFERED bytes of output on their way through a pty, and tells
 * only of those that have arrived at the master.
 */

#define TTY_BUFFERED 65536

/* What a person types may be UTF-8, of which a backspace takes a whole character. */
static void set_modes(int slave)
{
	struct termios t;

	if (tcgetattr(slave, &t) < 0)
		return;
	t.c_iflag |= IUTF8;
	(void)tcsetattr(slave, TCSANOW, &t);
}

int exec_tty_open(struct exec *e, const struct wire_exec *req, int *ret_slave)
{
	struct agent *a = e->agent;
	int locked = 0;
	/* Ours from here on, also in failure: exec_free closes it. */
	const int master = e->out[0].watch.fd = open(
		"/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

	if (master < 0 || ioctl(master, TIOCSPTLCK, &locked) < 0)
		return -errno;
	/* By path it could be another file: /dev/pts is the box's to change. */
	const int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -errno;
	*ret_slave = slave;
	e->tty = true;
	e->out[0].wide = true; /* there is no pipe to widen */
	e->out[1].hup = true;
	set_modes(slave);
	exec_tty_resize(e, req->rows, req->cols);
	int rc = agent_watch(a, &e->out[0].watch, master, EPOLLIN);
	if (rc < 0 || !(req->flags & WIRE_EXEC_STDIN))
		return rc;
	const int input = fcntl(master, F_DUPFD_CLOEXEC, 3);
	return input < 0 ? -errno : agent_watch(a, &e->in.watch, input, EPOLLOUT);
}

void exec_tty_resize(struct exec *e, uint16_t rows, uint16_t cols)
{
	const struct winsize size = {.ws_row = rows, .ws_col = cols};

	if (e->out[0].watch.fd >= 0)
		(void)ioctl(e->out[0].watch.fd, TIOCSWINSZ, &size);
}

uint32_t exec_tty_eof(const struct exec *e, uint8_t ret[EXEC_TTY_EOF_MAX])
{
	struct termios t = {.c_cc = {[VEOF] = 4}};

	(void)tcgetattr(e->in.watch.fd, &t);
	if (t.c_cc[VEOF] == _POSIX_VDISABLE)
		return 0;
	ret[0] = ret[1] = t.c_cc[VEOF];
	/* Behind an unfinished line the first one only hands over the line. */
	return (t.c_lflag & ICANON) && e->in.last != '\n' ? 2 : 1;
}

void exec_tty_hangup(struct exec *e)
{
	agent_close(e->agent, &e->in.watch);
	agent_close(e->agent, &e->out[0].watch);
	e->out[0].hup = true;
	e->out[0].rest_us = 0;
	exec_queue(e);
}

/* A look at the master lets arrive what was on its way. */
bool exec_tty_is_dry(int master)
{
	struct pollfd p = {.fd = master, .events = POLLIN};

	return poll(&p, 1, 0) < 1 || !(p.revents & POLLIN);
}

uint32_t exec_tty_owed(int master)
{
	return exec_tty_is_dry(master) ? 0 : TTY_BUFFERED;
}
