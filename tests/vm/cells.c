/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: cells LAYOUT OTHER-LAYOUT
 *
 * For tests: what an acquire meets (docs/provider.md has the table), each cell with two providers
 * over the pool of the home, each with a handle of its own, and with a process that is killed. The
 * image "cells" is LAYOUT; importing OTHER-LAYOUT in its place is "another fingerprint".
 *
 * Prints a line for each row of the table that held; exit status 1 with the first thing that is
 * wrong.
 */
#include "holt.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ID      "b0ee04f880c4ff42" /* of both scopes */
#define WAIT_MS 60000u
#define SOON_MS 300u

static const char config[] = "sandbox: {image: cells, pool: cells, replicas: 20}";
static const char config_stop[] =
	"sandbox: {image: cells, pool: cells, replicas: 20, idle_timeout: 1, on_idle: stop}";
static const char config_keep[] =
	"sandbox: {image: cells, pool: cells, replicas: 20, on_shutdown: keep}";

struct side {
	holt_home *home;
	holt_provider *provider;
};

struct scope {
	const char *user;
	const char *thread;
};
static const struct scope ours = {"a:b", "c"}, theirs = {"a", "b:c"};
static const char *layouts[2];
static char before[128], after[128]; /* instances of the id's box */

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)fprintf(stderr, "cells: ");
	(void)vfprintf(stderr, fmt, ap);
	(void)fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

static void check(int code, const char *what, holt_error *error)
{
	if (code < 0)
		die("%s: %s: %s", what, holt_code_name(-code), holt_error_message(error));
}

static struct side open_side(const char *text)
{
	struct side s = {0};
	holt_config *c = NULL;
	holt_error *error = NULL;

	check(holt_home_open(NULL, &s.home, &error), "home", error);
	check(holt_config_parse(text, strlen(text), NULL, &c, &error), "configuration", error);
	check(holt_provider_open(s.home, c, NULL, &s.provider, &error), "provider", error);
	holt_config_free(c);
	return s;
}

static void close_side(struct side *s)
{
	holt_provider_free(s->provider);
	holt_home_close(s->home);
}

static void use_image(struct side *s, int which)
{
	holt_image_import_options o = HOLT_IMAGE_IMPORT_OPTIONS_INIT;
	holt_error *error = NULL;

	o.name = "cells";
	check(holt_image_import(s->home, layouts[which], &o, NULL, &error), "import", error);
}

static int acquire(struct side *s, struct scope who, uint64_t timeout_ms, char *object, size_t size)
{
	holt_acquire_options o = HOLT_ACQUIRE_OPTIONS_INIT;
	holt_scope scope = HOLT_SCOPE_INIT;
	char id[HOLT_SANDBOX_ID_MAX + 1] = "";
	holt_error *error = NULL;

	scope.user = who.user;
	scope.user_len = strlen(who.user);
	scope.thread = who.thread;
	scope.thread_len = strlen(who.thread);
	o.timeout_ms = timeout_ms;
	const int r = holt_provider_acquire(s->provider, &scope, &o, id, &error);
	if (r == 0 && strcmp(id, ID) != 0)
		die("the id is '%s'", id);
	(void)snprintf(object, size, "%s", holt_error_object(error));
	holt_error_free(error);
	return -r;
}

struct found {
	char instance[128];
	int state;
	char label[128];
};

static int on_entry(const holt_pool_entry *e, void *user)
{
	struct found *f = user;

	if (strcmp(e->name, "holt-cells-" ID) != 0)
		return 0;
	(void)snprintf(f->instance, sizeof f->instance, "%s", e->instance);
	(void)snprintf(f->label, sizeof f->label, "%s", e->holder_label);
	f->state = e->state;
	return 0;
}

static struct found find(struct side *s)
{
	struct found f = {.state = -1};
	holt_error *error = NULL;

	check(holt_provider_list(s->provider, on_entry, &f, &error), "list", error);
	return f;
}

/* Acquire as @who: @code, and whether the box is the one that was there before. */
#define SAME  1
#define FRESH 0
static void cell(const char *name, struct side *s, struct scope who, int code, int same)
{
	char object[128];
	struct found f = find(s);

	(void)snprintf(before, sizeof before, "%s", f.instance);
	const int got = acquire(
		s, who, code == HOLT_EBUSY ? SOON_MS : WAIT_MS, object, sizeof object);
	if (got != code)
		die("%s: %s instead of %s", name, holt_code_name(got), holt_code_name(code));
	f = find(s);
	(void)snprintf(after, sizeof after, "%s", f.instance);
	if ((strcmp(before, after) == 0) != same)
		die("%s: the box was %s and is %s", name, before, after);
	if (code == HOLT_EBUSY && strcmp(object, f.label) != 0)
		die("%s: '%s' is named, and '%s' has it", name, object, f.label);
	if (code == 0 && f.state != HOLT_POOL_ACTIVE)
		die("%s: it is %s", name, holt_pool_state_name(f.state));
}

static void release(struct side *s)
{
	holt_error *error = NULL;

	check(holt_provider_release(s->provider, ID, &error), "release", error);
}

static void await_state(struct side *s, int state)
{
	for (int i = 0; find(s).state != state; i++) {
		if (i == 1000)
			die("it does not become %s, it is %s", holt_pool_state_name(state),
				holt_pool_state_name(find(s).state));
		(void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	}
}

/* By hand, after a release: whoever has it in mind may not know of it otherwise. */
static void destroy(struct side *s)
{
	holt_box *b = NULL;
	holt_error *error = NULL;

	release(s);
	check(holt_box_get(s->home, "holt-cells-" ID, &b, &error), "box", error);
	check(holt_box_remove(b, 1, &error), "remove", error);
	holt_box_close(b);
}

/* ---- rows ---- */

static void row_absent(struct side *p, struct side *q)
{
	cell("absent", p, ours, 0, FRESH);
	destroy(p);
	/* Whichever fingerprint and scope there were. */
	cell("absent, other scope", q, theirs, 0, FRESH);
	use_image(p, 1);
	destroy(q);
	cell("absent, other fingerprint", q, theirs, 0, FRESH);
	use_image(p, 0);
	destroy(q);
}

static void row_warm(struct side *p, struct side *q)
{
	holt_box *b = NULL;
	holt_box_info info = HOLT_BOX_INFO_INIT;
	holt_error *error = NULL;

	cell("absent", p, ours, 0, FRESH);
	release(p);
	cell("warm, of the same process", p, ours, 0, SAME);
	release(p);
	cell("warm", q, ours, 0, SAME);
	release(q);
	cell("warm, other scope", q, theirs, HOLT_EEXISTS, SAME);
	cell("warm, other scope, where it was released", p, theirs, HOLT_EEXISTS, SAME);
	use_image(p, 1);
	cell("warm, other scope and fingerprint", q, theirs, HOLT_EEXISTS, SAME);
	cell("warm, other fingerprint", q, ours, 0, FRESH);
	release(q);
	check(holt_box_get(q->home, "holt-cells-" ID, &b, &error), "box", error);
	(void)holt_box_get_info(b, &info);
	(void)kill(info.vmm_pid, SIGSTOP);
	holt_box_close(b);
	cell("warm and dead", p, ours, 0, FRESH);
	use_image(p, 0);
	destroy(p);
}

static void row_active(struct side *p, struct side *q)
{
	cell("absent", p, ours, 0, FRESH);
	cell("active here", p, ours, 0, SAME);
	cell("active here, other scope", p, theirs, HOLT_EEXISTS, SAME);
	cell("active elsewhere", q, ours, HOLT_EBUSY, SAME);
	cell("active elsewhere, other scope", q, theirs, HOLT_EEXISTS, SAME);
	use_image(p, 1);
	cell("active here, other fingerprint", p, ours, HOLT_EBUSY, SAME);
	cell("active here, other scope and fingerprint", p, theirs, HOLT_EEXISTS, SAME);
	cell("active elsewhere, other fingerprint", q, ours, HOLT_EBUSY, SAME);
	cell("active elsewhere, other scope and fingerprint", q, theirs, HOLT_EEXISTS, SAME);
	use_image(p, 0);
	cell("active here, still", p, ours, 0, SAME);
	destroy(p);
}

struct running {
	holt_sandbox *sandbox;
	char text[64];
};

static void *run_slowly(void *arg)
{
	struct running *r = arg;
	holt_command *c = NULL;
	holt_error *error = NULL;
	size_t len = 0;

	check(holt_sandbox_execute(r->sandbox, "sleep 1; echo over", NULL, &c, &error), "command",
		error);
	const char *text = holt_command_output(c, HOLT_STDOUT, &len, NULL);
	(void)snprintf(r->text, sizeof r->text, "%.*s", (int)len, text);
	holt_command_free(c);
	return NULL;
}

/* A command that runs goes on through a release and an acquire by another process. */
static void row_running(struct side *p, struct side *q)
{
	struct running r = {0};
	pthread_t thread;

	cell("absent", p, ours, 0, FRESH);
	r.sandbox = holt_provider_get(p->provider, ID);
	if (!r.sandbox || pthread_create(&thread, NULL, run_slowly, &r) != 0)
		die("no sandbox, or no thread");
	(void)nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
	release(p);
	if (find(p).state != HOLT_POOL_WARM)
		die("it is not warm while a command runs");
	cell("warm, with a command that runs", q, ours, 0, SAME);
	(void)pthread_join(thread, NULL);
	if (strcmp(r.text, "over\n") != 0)
		die("the command said '%s'", r.text);
	holt_sandbox_free(r.sandbox);
	destroy(q);
}

/* A process that has it, and is killed; then @s acquires as @who. */
static void after_a_kill(
	const char *name, struct side *s, struct scope who, int image, int code, int same)
{
	int said[2];
	char c;

	if (pipe(said) < 0)
		die("no pipe");
	const pid_t pid = fork();
	if (pid == 0) {
		struct side mine = open_side(config);
		char object[128];

		if (acquire(&mine, ours, WAIT_MS, object, sizeof object) != 0)
			_exit(1);
		(void)!write(said[1], "x", 1);
		(void)pause();
		_exit(1);
	}
	(void)close(said[1]);
	if (pid < 0 || read(said[0], &c, 1) != 1)
		die("%s: the process that is to be killed has not got it", name);
	(void)close(said[0]);
	use_image(s, image);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	cell(name, s, who, code, same);
	use_image(s, 0);
}

static void row_dead_owner(struct side *p, struct side *q)
{
	after_a_kill("its owner dead", p, ours, 0, 0, SAME);
	release(p);
	after_a_kill("its owner dead, other scope", q, theirs, 0, HOLT_EEXISTS, SAME);
	after_a_kill("its owner dead, other fingerprint", q, ours, 1, 0, FRESH);
	destroy(q);
}

/* A box under the name that somebody has made by hand, whose nobody knows. */
static void by_hand(struct side *s, uint32_t start)
{
	holt_box_options o = HOLT_BOX_OPTIONS_INIT;
	holt_start_options how = HOLT_START_OPTIONS_INIT;
	holt_error *error = NULL;
	holt_box *b = NULL;

	o.name = "holt-cells-" ID;
	how.flags = HOLT_START_DETACHED;
	check(holt_box_create(s->home, "cells", &o, &b, &error), "create", error);
	if (start)
		check(holt_box_start(b, &how, NULL, &error), "start", error);
	holt_box_close(b);
}

static void row_unknown(struct side *p, struct side *q)
{
	by_hand(p, 1);
	cell("unknown", p, ours, 0, FRESH);
	destroy(p);
	by_hand(p, 0);
	cell("unknown, stopped", q, theirs, 0, FRESH);
	destroy(q);
	/* What was renamed into the pool is known, and not of this pool. */
	cell("absent", p, ours, 0, FRESH);
	release(p);
	holt_error *error = NULL;
	holt_box *b = NULL;
	check(holt_box_get(p->home, "holt-cells-" ID, &b, &error), "box", error);
	check(holt_box_rename(b, "holt-elsewhere-" ID, &error), "rename", error);
	struct side r = open_side("sandbox: {image: cells, pool: elsewhere}");
	char object[128], of[128];
	(void)snprintf(of, sizeof of, "%s", holt_box_id(b));
	holt_box_close(b);
	if (acquire(&r, ours, WAIT_MS, object, sizeof object) != 0)
		die("a box that was renamed is in the way");
	check(holt_box_get(r.home, "holt-elsewhere-" ID, &b, &error), "box", error);
	if (strcmp(holt_box_id(b), of) == 0)
		die("a box of another pool was handed out");
	check(holt_box_remove(b, 1, &error), "remove", error);
	holt_box_close(b);
	close_side(&r);
}

static void row_stopped(void)
{
	struct side p = open_side(config_stop), q = open_side(config_stop);

	cell("absent", &p, ours, 0, FRESH);
	release(&p);
	await_state(&q, HOLT_POOL_STOPPED);
	cell("stopped, other scope", &q, theirs, HOLT_EEXISTS, SAME);
	cell("stopped", &q, ours, 0, SAME);
	release(&q);
	await_state(&p, HOLT_POOL_STOPPED);
	use_image(&p, 1);
	cell("stopped, other fingerprint", &p, ours, 0, FRESH);
	use_image(&p, 0);
	destroy(&p);
	close_side(&p);
	close_side(&q);
}

/* Shut @s down, and see with @other what has become of the id's box. */
static void shut_down(const char *name, struct side *s, struct side *other, int state)
{
	char object[128];
	holt_error *error = NULL;

	check(holt_provider_shutdown(s->provider, &error), name, error);
	if (find(other).state != state)
		die("%s: it is %s", name, holt_pool_state_name(find(other).state));
	if (acquire(s, ours, WAIT_MS, object, sizeof object) != HOLT_ECLOSED)
		die("%s: it can be acquired still", name);
	close_side(s);
}

static void row_shutdown(void)
{
	struct side p = open_side(config_keep), q = open_side(config);

	cell("before a shutdown that keeps", &p, ours, 0, FRESH);
	shut_down("kept", &p, &q, HOLT_POOL_WARM);
	p = open_side(config);
	cell("kept by a shutdown", &p, ours, 0, SAME);
	release(&p);
	cell("taken before a shutdown", &q, ours, 0, SAME);
	shut_down("another's", &p, &q, HOLT_POOL_ACTIVE);
	release(&q);
	p = open_side(config);
	shut_down("last released here", &q, &p, -1);
	q = open_side(config);
	cell("before a shutdown", &p, ours, 0, FRESH);
	shut_down("active here", &p, &q, -1);
	close_side(&q);
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		(void)fprintf(stderr, "usage: cells LAYOUT OTHER-LAYOUT\n");
		return 2;
	}
	layouts[0] = argv[1];
	layouts[1] = argv[2];
	struct side p = open_side(config), q = open_side(config);
	use_image(&p, 0);
	row_absent(&p, &q);
	(void)printf("absent\n");
	row_warm(&p, &q);
	(void)printf("warm\n");
	row_active(&p, &q);
	(void)printf("active\n");
	row_running(&p, &q);
	(void)printf("running\n");
	row_dead_owner(&p, &q);
	(void)printf("owner dead\n");
	row_unknown(&p, &q);
	(void)printf("unknown\n");
	close_side(&p);
	close_side(&q);
	row_stopped();
	(void)printf("stopped\n");
	row_shutdown();
	(void)printf("shut down\n");
	return 0;
}
