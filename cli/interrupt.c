/* SPDX-License-Identifier: Apache-2.0 */
#include "interrupt.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_int came;
static holt_cancel *token; /* lives as long as the process: the thread is never joined */
static sigset_t awaited;

static void *wait_for_signals(void *arg)
{
	int sig = 0;

	while (sigwait(&awaited, &sig) == 0) {
		if (atomic_exchange(&came, sig))
			_exit(128 + sig);
		holt_cancel_trigger(token);
	}
	return arg;
}

int interrupt_watch(holt_cancel **ret, holt_error **reterr)
{
	struct sigaction hup;
	pthread_t thread;
	const int r = holt_cancel_new(&token, reterr);

	if (r < 0)
		return r;
	(void)sigemptyset(&awaited);
	(void)sigaddset(&awaited, SIGINT);
	(void)sigaddset(&awaited, SIGTERM);
	if (sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler != SIG_IGN)
		(void)sigaddset(&awaited, SIGHUP);
	(void)pthread_sigmask(SIG_BLOCK, &awaited, NULL);
	/* Without the thread the signals end the process, as they always did. */
	if (pthread_create(&thread, NULL, wait_for_signals, NULL) == 0)
		(void)pthread_detach(thread);
	else
		(void)pthread_sigmask(SIG_UNBLOCK, &awaited, NULL);
	*ret = token;
	return 0;
}

int interrupt_signal(void)
{
	return atomic_load(&came);
}
