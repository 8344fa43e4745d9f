/* SPDX-License-Identifier: Apache-2.0 */
/* long: one world, of which every part watches over the same state */
#include "fake_pool.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/mem.h"
#include "fake_sandbox.h"

#define BOXES_MAX     1024
#define PROCESSES_MAX 64
#define NAME_SIZE     128

struct handle;

struct box {
	unsigned refs; /* the world's, and those of handles and sandboxes */
	bool there;
	unsigned number;
	char name[NAME_SIZE];
	bool known;
	bool has_user;
	bool has_thread;
	char user[64];
	char thread[64];
	char fingerprint[65];
	int state; /* as if there was no lease */
	struct handle *holder_handle;
	struct handle *maker;
	bool starting;
	int64_t since_ms;
	int64_t lease_until_ms;
	char holder[64];
	char label[64];
	bool hung;
	bool sick;
	bool stuck;
	char output[128];
	int code;
	char directories[512];
	char owner[32];
	char env[256];
	char trace[64];
	uint64_t idle_ms;
	int on_idle;
	bool keep;
};

struct process {
	char label[64];
	bool dead;
};

struct handle {
	struct process *process;
	struct box *box;
	holt_pool_entry entry; /* what look gave */
	char name[NAME_SIZE];
	char instance[32];
	char user[64];
	char thread[64];
	char fingerprint[65];
	char holder[64];
	char label[64];
	struct handle *next;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t change;
	struct box boxes[BOXES_MAX];
	struct process processes[PROCESSES_MAX];
	unsigned n_processes;
	struct handle *handles;
	unsigned numbers;
	unsigned sandboxes;
	unsigned destroyed;
	unsigned violations;
	bool locked;
	int64_t now_ms;
	char image[65];
	struct {
		unsigned calls;
		int code;
		unsigned fails;
		unsigned delay_ms;
		bool closed;
		unsigned waiting;
	} ops[FAKE_OPS];
	struct {
		char name[NAME_SIZE];
		char reason[32];
	} last[64];
	unsigned n_last;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

static void enter(void)
{
	(void)pthread_mutex_lock(&world.lock);
}

static void leave(void)
{
	(void)pthread_mutex_unlock(&world.lock);
}

static void changed(void)
{
	(void)pthread_cond_broadcast(&world.change);
}

/* A while, with the lock let go; tokens tell nobody here. */
static void wait_a_bit(void)
{
	struct timespec until;

	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 2000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	(void)pthread_cond_timedwait(&world.change, &world.lock, &until);
}

static int fail(holt_error **reterr, int code, const char *object, const char *message)
{
	return holt_error_set(reterr, code, 0, "fake pool", object, message);
}

/* Every operation begins with it: counts, waits and fails as the test says. Lock held. */
static int begin(enum fake_op op, const struct process *p, holt_error **reterr)
{
	world.ops[op].calls++;
	world.ops[op].waiting++;
	changed();
	if (world.ops[op].delay_ms) {
		const uint64_t until_ms = clock_mono_ms() + world.ops[op].delay_ms;

		while (clock_mono_ms() < until_ms)
			wait_a_bit();
	}
	while (world.ops[op].closed)
		wait_a_bit();
	world.ops[op].waiting--;
	if (world.ops[op].fails > 0) {
		world.ops[op].fails--;
		return fail(reterr, world.ops[op].code, NULL, "scripted");
	}
	return p && p->dead ? fail(reterr, HOLT_EIO, NULL, "the process has crashed") : 0;
}

static int end(int r)
{
	leave();
	return r;
}

static bool leased(const struct box *b)
{
	return b->lease_until_ms > world.now_ms;
}

static int state_of(const struct box *b)
{
	return b->state == HOLT_POOL_WARM && leased(b) ? HOLT_POOL_ACTIVE : b->state;
}

static void unref(struct box *b)
{
	if (--b->refs == 0)
		*b = (struct box){0};
}

static struct box *by_name(const char *name)
{
	for (int i = 0; i < BOXES_MAX; i++) {
		if (world.boxes[i].there && strcmp(world.boxes[i].name, name) == 0)
			return &world.boxes[i];
	}
	return NULL;
}

static struct box *box_new(const char *name)
{
	for (int i = 0; i < BOXES_MAX; i++) {
		struct box *b = &world.boxes[i];

		if (b->refs > 0)
			continue;
		*b = (struct box){.refs = 1,
			.there = true,
			.number = ++world.numbers,
			.since_ms = world.now_ms,
			.output = "ok\n"};
		(void)snprintf(b->name, sizeof b->name, "%s", name);
		return b;
	}
	return NULL;
}

static void go(struct box *b)
{
	b->there = false;
	b->holder_handle = NULL;
	b->maker = NULL;
	unref(b);
	changed();
}

static void let_go(struct handle *h)
{
	struct box *b = h->box;

	if (b->holder_handle == h) {
		b->holder_handle = NULL;
		if (!b->stuck)
			b->state = HOLT_POOL_WARM;
		b->since_ms = world.now_ms;
	}
	if (b->there && b->maker == h && !b->starting) {
		b->maker = NULL;
		if (b->state == HOLT_POOL_MAKING)
			go(b);
	}
	changed();
}

static int handle_new(struct process *p, struct box *b, void **ret, holt_error **reterr)
{
	struct handle *h = mem_zalloc(sizeof *h);

	if (!h)
		return fail(reterr, HOLT_ENO_MEMORY, NULL, "no memory");
	h->process = p;
	h->box = b;
	b->refs++;
	h->next = world.handles;
	world.handles = h;
	*ret = h;
	return 0;
}

/* ---- the table ---- */

static int fake_fingerprint(
	void *self, const holt_pool_shape *shape, char ret[65], holt_error **reterr)
{
	enter();
	int r = begin(FAKE_FINGERPRINT, self, reterr);
	if (r == 0 && !world.image[0])
		r = fail(reterr, HOLT_ENOT_FOUND, shape->image, "there is no such image");
	if (r == 0)
		(void)snprintf(ret, 65, "%.40s:%u", world.image, shape->memory_mib);
	return end(r);
}

static bool given_up(const holt_call *call, uint64_t begun_ms, int *ret)
{
	*ret = cancel_fired(call->cancel)                       ? -HOLT_ECANCELLED
	       : call->timeout_ms == HOLT_FOREVER               ? 0
	       : clock_mono_ms() - begun_ms >= call->timeout_ms ? -HOLT_EBUSY
								: 0;
	return *ret < 0;
}

/* The gate of FAKE_REGISTRY is one that is slow, and can be given up. */
static int fake_fetch(void *self, const holt_pool_shape *shape, int32_t pull, const holt_call *call,
	holt_error **reterr)
{
	const uint64_t begun_ms = clock_mono_ms();

	(void)shape;
	enter();
	int r = begin(FAKE_FETCH, self, reterr);
	while (r == 0 && world.ops[FAKE_REGISTRY].closed && !given_up(call, begun_ms, &r))
		wait_a_bit();
	if (r == 0 && (pull == HOLT_PULL_ALWAYS || !world.image[0]))
		(void)snprintf(world.image, sizeof world.image, "pulled-%d", pull);
	return end(r);
}

static int fake_prepare(void *self, const holt_pool_wish *wish, uint32_t spares,
	const holt_call *call, holt_error **reterr)
{
	(void)wish;
	(void)spares;
	(void)call;
	enter();
	return end(begin(FAKE_PREPARE, self, reterr));
}

static int fake_lock(
	void *self, const char *pool, const holt_call *call, void **ret_lock, holt_error **reterr)
{
	const uint64_t begun_ms = clock_mono_ms();

	(void)pool;
	enter();
	int r = begin(FAKE_LOCK, self, reterr);
	while (r == 0 && world.locked) {
		/* It is never held for long. */
		if (cancel_fired(call->cancel))
			r = fail(reterr, HOLT_ECANCELLED, NULL, "cancelled");
		else if (clock_mono_ms() - begun_ms > 10000)
			r = fail(reterr, HOLT_EBUSY, NULL, "the pool is locked");
		else
			wait_a_bit();
	}
	if (r == 0) {
		world.locked = true;
		*ret_lock = &world;
	}
	return end(r);
}

static void fake_unlock(void *self, void *lock)
{
	(void)self;
	(void)lock;
	enter();
	world.locked = false;
	changed();
	leave();
}

static void fill(const struct box *b, holt_pool_entry *e, char instance[32])
{
	(void)snprintf(instance, 32, "instance-%u", b->number);
	*e = (holt_pool_entry){.struct_size = sizeof *e,
		.name = b->name,
		.instance = instance,
		.known = b->known,
		.user = b->has_user ? b->user : NULL,
		.user_len = strlen(b->user),
		.thread = b->has_thread ? b->thread : NULL,
		.thread_len = strlen(b->thread),
		.fingerprint = b->fingerprint,
		.state = state_of(b),
		.since_ms = b->since_ms,
		.lease_until_ms = leased(b) ? b->lease_until_ms : 0,
		.holder = b->holder,
		.holder_label = b->label};
}

static int fake_list(
	void *self, const char *prefix, holt_pool_entry_fn entry, void *user, holt_error **reterr)
{
	enter();
	int r = begin(FAKE_LIST, self, reterr);
	for (int i = 0; r == 0 && i < BOXES_MAX; i++) {
		const struct box *b = &world.boxes[i];
		char instance[32];
		holt_pool_entry e;

		if (!b->there || strncmp(b->name, prefix, strlen(prefix)) != 0)
			continue;
		fill(b, &e, instance);
		if (entry(&e, user))
			r = fail(reterr, HOLT_ECANCELLED, NULL, "ended");
	}
	return end(r);
}

static int fake_find(void *self, const char *name, void **ret_box, holt_error **reterr)
{
	enter();
	int r = begin(FAKE_FIND, self, reterr);
	struct box *b = r == 0 ? by_name(name) : NULL;
	if (r == 0 && !b)
		r = fail(reterr, HOLT_ENOT_FOUND, name, "no such box");
	if (r == 0)
		r = handle_new(self, b, ret_box, reterr);
	return end(r);
}

static int begin_box(enum fake_op op, const struct handle *h, holt_error **reterr)
{
	const int r = begin(op, h->process, reterr);

	return r < 0 || h->box->there ? r : fail(reterr, HOLT_ECLOSED, h->box->name, "it is gone");
}

static int fake_look(void *self, void *box, holt_pool_entry *ret, holt_error **reterr)
{
	struct handle *h = box;

	(void)self;
	enter();
	const int r = begin_box(FAKE_LOOK, h, reterr);
	if (r == 0) {
		fill(h->box, &h->entry, h->instance);
#define COPY(field, from) ((void)snprintf(h->field, sizeof h->field, "%s", from), h->field)
		h->entry.name = COPY(name, h->box->name);
		h->entry.user = h->entry.user ? COPY(user, h->box->user) : NULL;
		h->entry.thread = h->entry.thread ? COPY(thread, h->box->thread) : NULL;
		h->entry.fingerprint = COPY(fingerprint, h->box->fingerprint);
		h->entry.holder = COPY(holder, h->box->holder);
		h->entry.holder_label = COPY(label, h->box->label);
		*ret = h->entry;
	}
	return end(r);
}

static void join(char *ret, size_t size, const char *const *list)
{
	size_t at = 0;

	ret[0] = '\0';
	for (size_t i = 0; list && list[i] && at + strlen(list[i]) + 2 < size; i++)
		at += (size_t)snprintf(ret + at, size - at, "%s;", list[i]);
}

static int fake_create(void *self, const char *name, const holt_pool_wish *wish, void **ret_box,
	holt_error **reterr)
{
	enter();
	int r = begin(FAKE_CREATE, self, reterr);
	if (r == 0 && by_name(name))
		r = fail(reterr, HOLT_EEXISTS, name, "the name is taken");
	struct box *b = r == 0 ? box_new(name) : NULL;
	if (r == 0 && !b)
		r = fail(reterr, HOLT_ELIMIT, name, "the world is full");
	if (r == 0) {
		r = handle_new(self, b, ret_box, reterr);
		if (r < 0)
			go(b);
	}
	if (r == 0) {
		b->maker = *ret_box;
		b->known = true;
		b->has_user = wish->user != NULL;
		b->has_thread = wish->thread != NULL;
		(void)snprintf(b->user, sizeof b->user, "%.*s", (int)wish->user_len,
			wish->user ? wish->user : "");
		(void)snprintf(b->thread, sizeof b->thread, "%.*s", (int)wish->thread_len,
			wish->thread ? wish->thread : "");
		(void)snprintf(b->fingerprint, sizeof b->fingerprint, "%s", wish->fingerprint);
		join(b->directories, sizeof b->directories, wish->directories);
		(void)snprintf(b->owner, sizeof b->owner, "%s", wish->owner ? wish->owner : "");
		b->keep = wish->keep;
		b->state = HOLT_POOL_MAKING;
	}
	changed();
	return end(r);
}

static void hold_now(struct handle *h, const holt_pool_holder *holder)
{
	struct box *b = h->box;

	if (b->holder_handle && b->holder_handle != h)
		world.violations++;
	b->holder_handle = h;
	b->maker = NULL;
	b->state = HOLT_POOL_ACTIVE;
	b->since_ms = world.now_ms;
	(void)snprintf(b->holder, sizeof b->holder, "%s", holder->instance);
	(void)snprintf(b->label, sizeof b->label, "%s", h->process->label);
	(void)snprintf(b->trace, sizeof b->trace, "%s", holder->trace);
	b->idle_ms = holder->idle_ms;
	b->on_idle = holder->on_idle;
	changed();
}

static int fake_start(void *self, void *box, const holt_pool_holder *holder, const holt_call *call,
	holt_error **reterr)
{
	struct handle *h = box;
	struct box *b = h->box;

	(void)self;
	enter();
	if (b->there && (b->starting || b->holder_handle ||
				(b->state != HOLT_POOL_MAKING && b->state != HOLT_POOL_STOPPED)))
		return end(fail(reterr, HOLT_EBUSY, b->label, "somebody else has it"));
	b->starting = true;
	b->refs++;
	int r = begin_box(FAKE_START, h, reterr);
	if (r == 0 && cancel_fired(call->cancel))
		r = fail(reterr, HOLT_ECANCELLED, NULL, "cancelled");
	b->starting = false;
	if (r == 0)
		hold_now(h, holder);
	unref(b);
	return end(r);
}

static int fake_hold(void *self, void *box, const holt_pool_holder *holder, const holt_call *call,
	holt_error **reterr)
{
	struct handle *h = box;
	struct box *b = h->box;
	const uint64_t begun_ms = clock_mono_ms();
	int r;

	(void)self;
	enter();
	r = begin_box(FAKE_HOLD, h, reterr);
	if (r == 0 && b->stuck)
		r = fail(reterr, HOLT_ETIMEOUT, b->name, "nothing answers");
	while (r == 0 && b->there && b->holder_handle != h &&
		(b->holder_handle || b->state != HOLT_POOL_WARM)) {
		int why = 0;

		if (given_up(call, begun_ms, &why))
			r = fail(reterr, -why, b->label, "it is held");
		else
			wait_a_bit();
	}
	if (r == 0 && !b->there)
		r = fail(reterr, HOLT_ECLOSED, b->name, "it has ended");
	if (r == 0 && h->process->dead)
		r = fail(reterr, HOLT_EIO, NULL, "the process has crashed");
	if (r == 0)
		hold_now(h, holder);
	return end(r);
}

static int fake_park(void *self, void *box, holt_error **reterr)
{
	struct handle *h = box;

	(void)self;
	enter();
	int r = begin_box(FAKE_PARK, h, reterr);
	if (r == 0 && h->box->stuck)
		r = fail(reterr, HOLT_ETIMEOUT, h->box->name, "nothing answers");
	if (r == 0)
		let_go(h);
	return end(r);
}

static int fake_lease(
	void *self, void *box, uint64_t lease_ms, const holt_call *call, holt_error **reterr)
{
	struct handle *h = box;

	(void)self;
	(void)call;
	enter();
	const int r = begin_box(FAKE_LEASE, h, reterr);
	if (r == 0)
		h->box->lease_until_ms = lease_ms ? world.now_ms + (int64_t)lease_ms : 0;
	return end(r);
}

static int fake_prove(void *self, void *box, uint64_t timeout_ms, holt_error **reterr)
{
	struct handle *h = box;

	(void)self;
	(void)timeout_ms;
	enter();
	int r = begin_box(FAKE_PROVE, h, reterr);
	if (r == 0 && h->box->sick)
		r = fail(reterr, HOLT_EGUEST_LOST, h->box->name, "the guest is lost");
	else if (r == 0 && h->box->hung)
		r = fail(reterr, HOLT_ETIMEOUT, h->box->name, "no answer");
	return end(r);
}

static int fake_end(struct handle *h, bool force, const char *reason, holt_error **reterr)
{
	struct box *b = h->box;

	enter();
	const int r = begin(force ? FAKE_DESTROY : FAKE_DISCARD, h->process, reterr);
	if (r < 0 || !b->there)
		return end(r);
	if (!force && b->state != HOLT_POOL_STOPPED)
		return end(fail(reterr, HOLT_EBUSY, b->name, "it runs"));
	if (b->holder_handle && b->holder_handle != h && b->known &&
		!b->holder_handle->process->dead)
		world.violations++;
	world.destroyed++;
	const unsigned at = world.n_last++ % 64;
	(void)snprintf(world.last[at].name, NAME_SIZE, "%s", b->name);
	(void)snprintf(world.last[at].reason, sizeof world.last[at].reason, "%s", reason);
	go(b);
	return end(0);
}

static int fake_destroy(void *self, void *box, const char *reason, holt_error **reterr)
{
	(void)self;
	return fake_end(box, true, reason, reterr);
}

static int fake_discard(void *self, void *box, const char *reason, holt_error **reterr)
{
	(void)self;
	return fake_end(box, false, reason, reterr);
}

static void fake_drop(void *self, void *box)
{
	struct handle *h = box;
	struct handle **at = &world.handles;

	(void)self;
	enter();
	if (!h->process->dead)
		let_go(h);
	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	unref(h->box);
	leave();
	mem_free(h);
}

/* ---- sandboxes ---- */

static int sandbox_execute(void *self, const holt_backend_command *c, const holt_call *call,
	holt_exit *ret, holt_error **reterr)
{
	struct box *b = self;
	char output[128];

	(void)call;
	enter();
	int r = begin(FAKE_EXECUTE, NULL, reterr);
	if (r == 0 && (!b->there || b->sick))
		r = fail(reterr, HOLT_EGUEST_LOST, b->name, "the box is gone");
	if (r == 0 && b->hung)
		ret->flags = HOLT_EXIT_TIMED_OUT;
	ret->code = b->hung ? 124 : b->code;
	(void)snprintf(output, sizeof output, "%s", b->output);
	leave();
	if (r == 0 && c->output && output[0])
		(void)c->output(HOLT_STDOUT, output, strlen(output), c->user);
	return r;
}

static void sandbox_close(void *self)
{
	enter();
	world.sandboxes--;
	unref(self);
	leave();
}

static const holt_backend backend = {.struct_size = sizeof backend,
	.name = "fake",
	.execute = sandbox_execute,
	.read = sandbox_read,
	.write = sandbox_write,
	.append = sandbox_write,
	.update = sandbox_write,
	.download = sandbox_download,
	.list = sandbox_list,
	.stat = sandbox_stat,
	.make_directory = sandbox_simple,
	.move = sandbox_move,
	.remove = sandbox_simple,
	.glob = sandbox_list,
	.grep = sandbox_grep,
	.close = sandbox_close};

static int fake_open(void *self, void *box, const holt_sandbox_options *options, holt_sandbox **ret,
	holt_error **reterr)
{
	holt_sandbox_options o = *options;
	struct handle *h = box;

	(void)self;
	/* Whose commands they are is the pool's business, not the contract's. */
	o.user = o.cwd = NULL;
	enter();
	int r = begin_box(FAKE_OPEN, h, reterr);
	if (r == 0) {
		join(h->box->env, sizeof h->box->env, options->env);
		h->box->refs++;
		world.sandboxes++;
	}
	leave();
	if (r < 0)
		return r;
	r = holt_sandbox_open_backend(&backend, h->box, &o, ret, reterr);
	if (r < 0)
		sandbox_close(h->box);
	return r;
}

const holt_pool fake_pool = {.name = "fake",
	.fingerprint = fake_fingerprint,
	.fetch = fake_fetch,
	.prepare = fake_prepare,
	.lock = fake_lock,
	.unlock = fake_unlock,
	.list = fake_list,
	.find = fake_find,
	.look = fake_look,
	.create = fake_create,
	.start = fake_start,
	.hold = fake_hold,
	.park = fake_park,
	.lease = fake_lease,
	.prove = fake_prove,
	.open = fake_open,
	.destroy = fake_destroy,
	.discard = fake_discard,
	.drop = fake_drop};

/* ---- what a test does ---- */

void fake_reset(void)
{
	enter();
	memset(world.boxes, 0, sizeof world.boxes);
	memset(world.ops, 0, sizeof world.ops);
	world.n_processes = world.numbers = world.destroyed = world.violations = 0;
	world.n_last = 0;
	world.now_ms = 1000000;
	(void)snprintf(world.image, sizeof world.image, "image-1");
	leave();
}

void *fake_process(const char *label)
{
	enter();
	struct process *p = &world.processes[world.n_processes++ % PROCESSES_MAX];
	*p = (struct process){0};
	(void)snprintf(p->label, sizeof p->label, "%s", label);
	leave();
	return p;
}

void fake_crash(void *process)
{
	struct process *p = process;

	enter();
	p->dead = true;
	for (struct handle *h = world.handles; h; h = h->next) {
		if (h->process == p)
			let_go(h);
	}
	leave();
}

int64_t fake_now_ms(void)
{
	enter();
	const int64_t now = world.now_ms;
	leave();
	return now;
}

void fake_advance(int64_t ms)
{
	enter();
	world.now_ms += ms;
	changed();
	leave();
}

unsigned fake_calls(enum fake_op op)
{
	enter();
	const unsigned n = world.ops[op].calls;
	leave();
	return n;
}

unsigned fake_all_calls(void)
{
	unsigned n = 0;

	enter();
	for (int i = 0; i < FAKE_OPS; i++)
		n += world.ops[i].calls;
	leave();
	return n;
}

void fake_fail(enum fake_op op, int code, unsigned times)
{
	enter();
	world.ops[op].code = code;
	world.ops[op].fails = times;
	leave();
}

void fake_delay(enum fake_op op, unsigned ms)
{
	enter();
	world.ops[op].delay_ms = ms;
	leave();
}

void fake_gate(enum fake_op op, bool closed)
{
	enter();
	world.ops[op].closed = closed;
	changed();
	leave();
}

unsigned fake_waiting(enum fake_op op)
{
	enter();
	const unsigned n = world.ops[op].waiting;
	leave();
	return n;
}

void fake_wait_for(enum fake_op op, unsigned n)
{
	enter();
	while (world.ops[op].waiting < n)
		wait_a_bit();
	leave();
}

void fake_image(const char *fingerprint)
{
	enter();
	(void)snprintf(world.image, sizeof world.image, "%s", fingerprint ? fingerprint : "");
	leave();
}

static struct box *by_id(const char *id)
{
	char name[NAME_SIZE];

	(void)snprintf(name, sizeof name, "holt-default-%s", id);
	return by_name(name);
}

struct fake_facts fake_box(const char *id)
{
	struct fake_facts f = {0};
	char name[NAME_SIZE];

	(void)snprintf(name, sizeof name, "holt-default-%s", id);
	enter();
	for (unsigned i = 0; i < world.n_last && i < 64; i++) {
		const unsigned at = (world.n_last - 1 - i) % 64;

		if (strcmp(world.last[at].name, name) == 0) {
			memcpy(f.last_reason, world.last[at].reason, sizeof f.last_reason);
			break;
		}
	}
	const struct box *b = by_name(name);
	if (b) {
		f.there = true;
		f.number = b->number;
		f.known = b->known;
		f.state = state_of(b);
		f.held = b->holder_handle != NULL;
		f.since_ms = b->since_ms;
		f.lease_until_ms = leased(b) ? b->lease_until_ms : 0;
		f.has_user = b->has_user;
		memcpy(f.user, b->user, sizeof f.user);
		memcpy(f.thread, b->thread, sizeof f.thread);
		memcpy(f.directories, b->directories, sizeof f.directories);
		memcpy(f.owner, b->owner, sizeof f.owner);
		memcpy(f.env, b->env, sizeof f.env);
		memcpy(f.trace, b->trace, sizeof f.trace);
		memcpy(f.fingerprint, b->fingerprint, sizeof f.fingerprint);
		f.idle_ms = b->idle_ms;
		f.on_idle = b->on_idle;
		f.keep = b->keep;
	}
	leave();
	return f;
}

void fake_kill(const char *id)
{
	enter();
	struct box *b = by_id(id);
	if (b)
		go(b);
	leave();
}

void fake_stop(const char *id)
{
	enter();
	struct box *b = by_id(id);
	if (b) {
		b->holder_handle = NULL;
		b->state = HOLT_POOL_STOPPED;
		b->since_ms = world.now_ms;
	}
	leave();
}

void fake_hang(const char *id, bool hung)
{
	enter();
	struct box *b = by_id(id);
	if (b)
		b->hung = hung;
	leave();
}

void fake_stick(const char *id, bool stuck)
{
	enter();
	struct box *b = by_id(id);
	if (b)
		b->stuck = stuck;
	leave();
}

void fake_answer(const char *id, const char *output, int code)
{
	enter();
	struct box *b = by_id(id);
	if (b) {
		(void)snprintf(b->output, sizeof b->output, "%s", output);
		b->code = code;
	}
	leave();
}

void fake_sicken(const char *id)
{
	enter();
	struct box *b = by_id(id);
	if (b)
		b->sick = true;
	leave();
}

void fake_foreign(
	const char *name, const char *user, const char *thread, const char *fingerprint, int state)
{
	enter();
	struct box *b = box_new(name);
	if (b) {
		b->known = fingerprint != NULL;
		b->has_user = user != NULL;
		b->has_thread = thread != NULL;
		(void)snprintf(b->user, sizeof b->user, "%s", user ? user : "");
		(void)snprintf(b->thread, sizeof b->thread, "%s", thread ? thread : "");
		(void)snprintf(b->fingerprint, sizeof b->fingerprint, "%s",
			fingerprint ? fingerprint : "");
		(void)snprintf(b->label, sizeof b->label, "process 7 (other)");
		b->state = state;
	}
	leave();
}

unsigned fake_boxes(void)
{
	unsigned n = 0;

	enter();
	for (int i = 0; i < BOXES_MAX; i++)
		n += world.boxes[i].there;
	leave();
	return n;
}

unsigned fake_handles(void)
{
	unsigned n = 0;
	struct handle *h;

	enter();
	for (h = world.handles; h; h = h->next)
		n++;
	leave();
	return n;
}

unsigned fake_sandboxes(void)
{
	enter();
	const unsigned n = world.sandboxes;
	leave();
	return n;
}

unsigned fake_destroyed(void)
{
	enter();
	const unsigned n = world.destroyed;
	leave();
	return n;
}

unsigned fake_violations(void)
{
	enter();
	const unsigned n = world.violations;
	leave();
	return n;
}
