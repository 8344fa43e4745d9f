/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The main thread works: it boots, pumps the streams and cleans up. A second thread takes the
 * signals, which all others block: the first SIGINT, SIGTERM, SIGHUP or SIGQUIT goes to the program
 * where it runs already, every other one ends the call by the cancel token.
 *
 * With a terminal (-t and -i) the keys that make signals are bytes for the program, and the thread
 * besides takes SIGWINCH (the program hears of the new size) and SIGCONT (whoever stopped us may
 * have changed the terminal). A hang-up goes to the program too, but a second later it ends the
 * call: there is nobody left to talk to. A program that was only attached to is left alone then.
 */
#include "foreground.h"
#include "terminal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HANGUP_GRACE_S 1

struct watch {
	struct foreground *f;
	pthread_mutex_t lock; /* of all below */
	holt_exec *exec; /* while it runs */
	int raw; /* the terminal is the program's */
	int forwarded;
	int hung_up;
	int signal; /* that ended the call, or 0 */
	int over;
};

static struct watch watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What is awaited; SIGUSR1 is main's word that it is over. A hang-up that the caller wants ignored,
 * as nohup does, stays ignored. (A shell starts its background jobs with SIGINT ignored, which is
 * no such wish.) */
static sigset_t awaited_signals(void)
{
	static const int signals[] = {SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGWINCH};
	struct sigaction hup;
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
		(void)sigaddset(&set, signals[i]);
	if (sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler == SIG_IGN)
		(void)sigdelset(&set, SIGHUP);
	return set;
}

static void resize_locked(struct watch *w)
{
	uint16_t rows = 0, cols = 0;

	if (!w->exec || !w->f->tty || terminal_size(&rows, &cols) < 0)
		return;
	(void)holt_exec_resize(w->exec, rows, cols);
}

static void on_end_locked(struct watch *w, int sig)
{
	if (w->exec && !w->forwarded && !(sig == SIGHUP && w->f->attached)) {
		w->forwarded = 1;
		w->hung_up = sig == SIGHUP && w->raw;
		(void)holt_exec_signal(w->exec, sig);
	} else {
		w->hung_up = 0;
		w->signal = sig;
		holt_cancel_trigger(w->f->cancel);
	}
}

/* Returns whether there is more to watch. */
static int on_signal(struct watch *w, int sig)
{
	(void)pthread_mutex_lock(&w->lock);
	if (sig == SIGWINCH)
		resize_locked(w);
	else if (sig == SIGCONT && w->raw)
		(void)terminal_raw();
	else if (sig != SIGCONT && sig != SIGUSR1)
		on_end_locked(w, sig);
	const int more = !w->over;
	(void)pthread_mutex_unlock(&w->lock);
	return more;
}

static void *signal_thread(void *arg)
{
	static const struct timespec grace = {.tv_sec = HANGUP_GRACE_S};
	const sigset_t set = awaited_signals();
	struct watch *w = arg;
	int sig = 0;

	do {
		/* Only this thread writes hung_up. */
		sig = sigtimedwait(&set, NULL, w->hung_up ? &grace : NULL);
		if (sig < 0)
			sig = errno == EAGAIN ? SIGHUP : SIGUSR1;
	} while (on_signal(w, sig));
	return NULL;
}

static void set_exec(struct watch *w, holt_exec *exec)
{
	(void)pthread_mutex_lock(&w->lock);
	w->exec = exec;
	/* It may have changed since the size went into the options. */
	resize_locked(w);
	if (exec && w->f->tty && w->f->interactive)
		w->raw = terminal_raw() == 0;
	if (!exec)
		w->raw = 0;
	(void)pthread_mutex_unlock(&w->lock);
	if (!exec)
		terminal_restore();
}

void foreground_tell(const holt_exit *result, uint64_t timeout_ms)
{
	if ((result->flags & HOLT_EXIT_TIMED_OUT) && timeout_ms)
		(void)fprintf(stderr,
			"holt: the command was killed after its time-out of %llu ms\n",
			(unsigned long long)timeout_ms);
	else if (result->flags & HOLT_EXIT_TIMED_OUT)
		(void)fprintf(stderr, "holt: the command was killed after its time-out\n");
	if (result->flags & HOLT_EXIT_OOM)
		(void)fprintf(stderr,
			"holt: the command ran out of memory; see --memory of 'holt run'\n");
}

int foreground_pump(struct foreground *f, holt_exec *exec, holt_error **reterr)
{
	holt_exit result = HOLT_EXIT_INIT;

	set_exec(&watch, exec);
	const int r = holt_exec_pump(exec, f->interactive ? STDIN_FILENO : -1, STDOUT_FILENO,
		STDERR_FILENO, &result, reterr);
	set_exec(&watch, NULL);
	if (r < 0)
		return -1;
	foreground_tell(&result, f->timeout_ms);
	return result.code;
}

/* What a shell expects of a writer whose reader is gone. */
static int broken_pipe(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGPIPE);
	(void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	(void)raise(SIGPIPE);
	return 128 + SIGPIPE;
}

static int failure_of(const struct foreground *f, const holt_error *error)
{
	return f->failure ? f->failure : error ? holt_error_exit_code(error) : CLI_RUN_FAILED;
}

static int no_thread(const struct foreground *f)
{
	(void)fprintf(stderr,
		"holt: %s: cannot start a thread\n"
		"hint: allow more processes (ulimit -u) and memory (ulimit -v)\n",
		f->verb);
	return failure_of(f, NULL);
}

static int work_watched(struct foreground *f, holt_home *home)
{
	holt_error *error = NULL;
	pthread_t thread;

	watch.f = f;
	if (pthread_create(&thread, NULL, signal_thread, &watch) != 0)
		return no_thread(f);
	const int code = f->work(f, home, &error);
	(void)pthread_mutex_lock(&watch.lock);
	watch.over = 1;
	(void)pthread_mutex_unlock(&watch.lock);
	(void)pthread_kill(thread, SIGUSR1);
	(void)pthread_join(thread, NULL);
	if (code >= 0)
		return code;
	/* After a hang-up, whichever of its consequences came first. */
	if (watch.signal || watch.hung_up) {
		holt_error_free(error);
		return 128 + (watch.signal ? watch.signal : SIGHUP);
	}
	if (holt_error_errno(error) == EPIPE && strcmp(holt_error_stage(error), "output") == 0) {
		holt_error_free(error);
		return broken_pipe();
	}
	return cli_error(failure_of(f, error), error);
}

int foreground_run(struct foreground *f)
{
	const sigset_t set = awaited_signals();
	holt_home *home = NULL;
	holt_error *error = NULL;
	int status = failure_of(f, NULL);

	if (f->tty && f->interactive && !f->detach && !isatty(STDIN_FILENO))
		return cli_usage(
			CLI_RUN_FAILED, f->verb, "-t with -i needs a terminal as standard input");
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	if (holt_cancel_new(&f->cancel, &error) < 0 || holt_home_open(NULL, &home, &error) < 0)
		(void)cli_error(status, error);
	else
		status = work_watched(f, home);
	holt_home_close(home);
	holt_cancel_free(f->cancel);
	return status;
}
