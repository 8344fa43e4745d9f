/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: fight CONFIG SECONDS NAME
 *
 * For tests (K27, K36): one of several processes whose providers fight over one pool. Its threads
 * acquire the sandboxes of a few scopes again and again. In each turn the sandbox must be theirs
 * alone:
 *
 *   /owner   is the scope that the box was made for: another one's content is a leak
 *   /turn    is there while somebody is at work: "NAME PID". One that is found is what a killed
 * process left; of a process that lives it is a second holder
 *
 * Now and then a process lets its provider go in the middle of everything, and opens another one.
 * Prints one line, "NAME turns=N busy=N fresh=N kept=N"; exit status 1 with the first thing that is
 * wrong.
 */
#include "holt.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS      4
#define SCOPES       3
#define RARE         16
#define SECONDS_MAX  600
#define WAIT_MS      20000
#define DYING_MS     2000
#define LIVE_ROUND_S 7 /* of one provider */

struct fight {
	const char *name;
	holt_provider *provider;
	atomic_int stop;
	atomic_ulong turns, busy, fresh, kept;
};

__attribute__((format(printf, 2, 3), noreturn)) static void die(
	const struct fight *f, const char *fmt, ...)
{
	va_list ap;

	(void)fprintf(stderr, "fight: %s: ", f->name);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fprintf(stderr, "\n");
	exit(1);
}

__attribute__((noreturn)) static void die_of(
	const struct fight *f, const char *what, const holt_error *error)
{
	die(f, "%s: %s: %s (%s) %s", what, holt_code_name(holt_error_code(error)),
		holt_error_message(error), holt_error_object(error), holt_error_hint(error));
}

/* Whether a process runs: not one that has ended and that nobody has waited for yet. */
static int runs(long pid)
{
	char path[64], text[256] = "";

	(void)snprintf(path, sizeof path, "/proc/%ld/stat", pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	(void)!fread(text, 1, sizeof text - 1, f);
	(void)fclose(f);
	const char *state = strrchr(text, ')');
	return state && state[1] == ' ' && !strchr("ZX", state[2]);
}

/* Whether the process in "NAME PID" lives on. One that is killed closes its files, and so lets go
 * of its sandboxes, before it is gone: it has its time for that. */
static int lives_on(const char *text)
{
	const char *blank = strchr(text, ' ');
	const long pid = blank ? strtol(blank + 1, NULL, 10) : 0;

	for (int i = 0; i < DYING_MS / 20 && pid > 0 && runs(pid); i++)
		(void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	return pid > 0 && runs(pid);
}

/* The file's text into @ret, "" for a missing file. */
static void read_small(struct fight *f, holt_sandbox *box, const char *path, char ret[128])
{
	holt_error *error = NULL;
	char *text = NULL;
	size_t len = 0;
	const int r = holt_sandbox_read(box, path, NULL, &text, &len, &error);

	if (r < 0 && r != -HOLT_ENOT_FOUND)
		die_of(f, path, error);
	(void)snprintf(ret, 128, "%s", r == 0 ? text : "");
	holt_error_free(error);
	holt_free(text);
}

static void write_small(struct fight *f, holt_sandbox *box, const char *path, const char *text)
{
	holt_error *error = NULL;

	if (holt_sandbox_write(box, path, text, strlen(text), NULL, &error) < 0)
		die_of(f, path, error);
}

/* What a turn finds and leaves. */
static void work(struct fight *f, holt_sandbox *box, const char *scope)
{
	char owner[128], turn[128], me[128];
	holt_error *error = NULL;

	read_small(f, box, "/owner", owner);
	if (*owner && strcmp(owner, scope) != 0)
		die(f, "the sandbox of '%s' has the files of '%s'", scope, owner);
	read_small(f, box, "/turn", turn);
	if (lives_on(turn))
		die(f, "the sandbox of '%s' has another holder: '%s'", scope, turn);
	atomic_fetch_add(*owner ? &f->kept : &f->fresh, 1);
	(void)snprintf(me, sizeof me, "%s %ld", f->name, (long)getpid());
	write_small(f, box, "/owner", scope);
	write_small(f, box, "/turn", me);
	(void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	read_small(f, box, "/turn", turn);
	if (strcmp(turn, me) != 0)
		die(f, "somebody else was in the sandbox of '%s': '%s'", scope, turn);
	if (holt_sandbox_remove(box, "/turn", NULL, &error) < 0)
		die_of(f, "/turn", error);
}

/* Threads of one process meet in an active sandbox, as they may: a lock for each scope keeps the
 * turns apart, so that what is seen of others is other processes. */
static pthread_mutex_t scope_locks[SCOPES + 1];

/* One of the scopes; now and then one that comes only once, for which another box has to go: the
 * few would all be there soon, and nothing was made or destroyed any more. */
static unsigned pick_scope(unsigned *seed)
{
	const unsigned r = (unsigned)rand_r(seed);

	return r % RARE == 0 ? SCOPES + (unsigned)rand_r(seed) : r / RARE % SCOPES;
}

static void one_turn(struct fight *f, unsigned number)
{
	holt_acquire_options options = HOLT_ACQUIRE_OPTIONS_INIT;
	holt_scope scope = HOLT_SCOPE_INIT;
	char thread[32], id[HOLT_SANDBOX_ID_MAX + 1];
	holt_error *error = NULL;

	(void)snprintf(thread, sizeof thread, "thread-%u", number);
	scope.user = "fighter";
	scope.user_len = strlen(scope.user);
	scope.thread = thread;
	scope.thread_len = strlen(thread);
	options.timeout_ms = WAIT_MS;
	const int r = holt_provider_acquire(f->provider, &scope, &options, id, &error);
	if (r == -HOLT_EBUSY || r == -HOLT_ETIMEOUT) {
		atomic_fetch_add(&f->busy, 1);
		holt_error_free(error);
		return;
	}
	if (r < 0)
		die_of(f, "acquire", error);
	holt_sandbox *box = holt_provider_get(f->provider, id);
	if (!box)
		die(f, "what was acquired is not active: %s", id);
	work(f, box, thread);
	holt_sandbox_free(box);
	if (holt_provider_release(f->provider, id, &error) < 0)
		die_of(f, "release", error);
	atomic_fetch_add(&f->turns, 1);
}

static void *fighter(void *arg)
{
	struct fight *f = arg;
	unsigned seed = (unsigned)time(NULL) ^ (unsigned)getpid() ^
			(unsigned)(size_t)pthread_self();

	while (!atomic_load(&f->stop)) {
		const unsigned number = pick_scope(&seed);
		pthread_mutex_t *lock = &scope_locks[number < SCOPES ? number : SCOPES];

		(void)pthread_mutex_lock(lock);
		one_turn(f, number);
		(void)pthread_mutex_unlock(lock);
	}
	return NULL;
}

/* One provider's life. */
static void live(struct fight *f, holt_home *home, holt_config *config, unsigned seconds)
{
	pthread_t threads[THREADS];
	holt_error *error = NULL;

	atomic_store(&f->stop, 0);
	if (holt_provider_open(home, config, NULL, &f->provider, &error) < 0)
		die_of(f, "open", error);
	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&threads[i], NULL, fighter, f) != 0)
			die(f, "no thread");
	}
	(void)sleep(seconds);
	atomic_store(&f->stop, 1);
	for (int i = 0; i < THREADS; i++)
		(void)pthread_join(threads[i], NULL);
	holt_provider_free(f->provider);
}

int main(int argc, char **argv)
{
	struct fight f = {.name = argc == 4 ? argv[3] : "?"};
	const long seconds = argc == 4 ? strtol(argv[2], NULL, 10) : 0;
	holt_config *config = NULL;
	holt_error *error = NULL;
	holt_home *home = NULL;

	if (seconds < 1 || seconds > SECONDS_MAX) {
		(void)fprintf(stderr, "usage: fight CONFIG SECONDS NAME\n");
		return 2;
	}
	for (int i = 0; i <= SCOPES; i++)
		(void)pthread_mutex_init(&scope_locks[i], NULL);
	if (holt_config_load(argv[1], &config, &error) < 0)
		die_of(&f, "configuration", error);
	if (holt_home_open(NULL, &home, &error) < 0)
		die_of(&f, "home", error);
	for (long left = seconds; left > 0; left -= LIVE_ROUND_S)
		live(&f, home, config, (unsigned)(left < LIVE_ROUND_S ? left : LIVE_ROUND_S));
	holt_home_close(home);
	holt_config_free(config);
	printf("%s turns=%lu busy=%lu fresh=%lu kept=%lu\n", f.name, f.turns, f.busy, f.fresh,
		f.kept);
	return 0;
}
