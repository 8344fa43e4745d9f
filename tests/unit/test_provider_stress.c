/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads, three providers in three processes, one pool: everything that can happen at once,
 * at random, and the rules that hold all the same.
 *
 *   a box never has two holders, and nobody ends what a living process holds (fake_pool.c watches)
 *   who acquires gets the box of his own user and thread
 *   in the end nothing is left: no handle, no sandbox, no hold, no box
 *
 * A second and a half; HOLT_LONG=1 makes it a minute.
 */
#include <stdlib.h>

#include "provider_fixture.h"

#define WORKERS   8
#define PROCESSES 3
#define SCOPES    6

/* The last two have the same token, and are two tenants. */
static const struct {
	const char *user;
	const char *thread;
} scopes[SCOPES] = {{NULL, "t"}, {"u", "t"}, {"u", "t2"}, {"v", "t"}, {"a:b", "c"}, {"a", "b:c"}};

static struct {
	pthread_rwlock_t lock; /* exclusive: for replacing a provider */
	void *process[PROCESSES];
	struct holt_provider *p[PROCESSES];
	atomic_bool stop;
	atomic_uint acquired;
	atomic_uint refused;
	atomic_uint wrong;
} all = {.lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP};

static unsigned roll(unsigned *seed, unsigned n)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (*seed >> 16) % n;
}

static void may_fail(int r)
{
	switch (-r) {
	case HOLT_OK:
		atomic_fetch_add(&all.acquired, 1);
		break;
	case HOLT_EEXISTS:
	case HOLT_EBUSY:
	case HOLT_ETIMEOUT:
	case HOLT_ECANCELLED:
	case HOLT_ECLOSED:
	case HOLT_EUNAVAILABLE:
	case HOLT_EGUEST_LOST:
	case HOLT_EIO: /* of a process that has crashed */
		atomic_fetch_add(&all.refused, 1);
		break;
	default:
		fprintf(stderr, "unexpected: %d\n", r);
		atomic_fetch_add(&all.wrong, 1);
	}
}

/* What is acquired is the scope's, as long as nobody else can take it away. */
static void check_mine(struct holt_provider *p, const char *id, unsigned scope)
{
	const struct fake_facts f = fake_box(id);

	/* Another worker of this provider may have let it go already. */
	if (!is_active(p, id) || !f.there)
		return;
	if (strcmp(f.thread, scopes[scope].thread) != 0 ||
		strcmp(f.user, scopes[scope].user ? scopes[scope].user : "") != 0) {
		/* Released and acquired by the other tenant since. */
		if (scope < 4)
			atomic_fetch_add(&all.wrong, 1);
	}
}

static void use(struct holt_provider *p, const char *id)
{
	holt_sandbox *s = provider_get(p, id);
	holt_command *c = NULL;

	if (!s)
		return;
	(void)holt_sandbox_execute(s, "x", NULL, &c, NULL);
	holt_command_free(c);
	holt_sandbox_free(s);
}

static void acquire_later(struct holt_provider *p, unsigned scope, unsigned *seed)
{
	const struct scope_key key = key_of(scopes[scope].user, scopes[scope].thread);
	const struct acquire_wish w = {.key = &key, .timeout_ms = 1 + roll(seed, 100)};
	struct holt_acquire *a = NULL;
	char id[ID_SIZE];

	if (provider_acquire_start(p, &w, NULL, NULL, &a, NULL) < 0)
		return;
	if (roll(seed, 2))
		may_fail(acquire_wait(a, HOLT_FOREVER, id, NULL));
	acquire_free(a);
}

static void by_lease(struct holt_provider *p, unsigned scope, unsigned *seed)
{
	const struct scope_key key = key_of(scopes[scope].user, scopes[scope].thread);
	const struct acquire_wish w = {.key = &key, .timeout_ms = 1 + roll(seed, 100)};
	char owner[24];
	char id[ID_SIZE];

	(void)snprintf(owner, sizeof owner, "run-%u", roll(seed, 1000000));
	const int r = lease_acquire(p, owner, roll(seed, 2), &w, id, NULL);
	if (r != -HOLT_EINVALID) /* two runs of one name */
		may_fail(r);
	(void)lease_release(p, owner, NULL);
}

static void step(struct holt_provider *p, unsigned *seed)
{
	const unsigned scope = roll(seed, SCOPES);
	char id[ID_SIZE];
	char token[SCOPE_TOKEN_LEN + 1];
	const struct scope_key key = key_of(scopes[scope].user, scopes[scope].thread);

	(void)scope_token(key.user, key.user_len, key.thread, key.thread_len, token, NULL);
	switch (roll(seed, 16)) {
	case 0:
		fake_sicken(token);
		break;
	case 1:
		fake_hang(token, true);
		break;
	case 2:
		fake_image(roll(seed, 4) ? "image-1" : "image-2");
		break;
	case 3:
		fake_advance(roll(seed, 3000));
		break;
	case 4:
		reaper_pass(p);
		break;
	case 5:
	case 6:
		acquire_later(p, scope, seed);
		break;
	case 7:
		by_lease(p, scope, seed);
		break;
	case 8:
		if (try_for(p, "u", NULL, 100, id, NULL) == 0)
			release(p, id);
		break;
	case 9:
	case 10:
		(void)provider_release(p, token, NULL);
		break;
	case 11:
		use(p, token);
		break;
	default: {
		const int r = try_for(p, key.user, key.thread, 1 + roll(seed, 100), id, NULL);

		may_fail(r);
		if (r < 0)
			break;
		check_mine(p, id, scope);
		use(p, id);
		if (roll(seed, 3))
			(void)provider_release(p, id, NULL);
	}
	}
}

static void *work(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg * 2654435761u;

	while (!atomic_load(&all.stop)) {
		(void)pthread_rwlock_rdlock(&all.lock);
		for (int i = 0; i < 20; i++)
			step(all.p[roll(&seed, PROCESSES)], &seed);
		(void)pthread_rwlock_unlock(&all.lock);
		(void)sched_yield();
	}
	return NULL;
}

static struct holt_provider *another(unsigned i)
{
	char label[32];

	(void)snprintf(label, sizeof label, "process %u", i);
	all.process[i] = fake_process(label);
	return provider_with(all.process[i], NULL, 3,
		(const char *const[]){"replicas: 4", "idle_timeout: 5",
			i == 1 ? "health_check_skip_seconds: 1" : "health_check: exec",
			i == 2 ? "on_shutdown: keep" : "spares: 1", NULL});
}

/* A process that crashes, is reset or is shut down, while the others work in it, and the next. */
static void replace(unsigned i, unsigned *seed)
{
	switch (roll(seed, 4)) {
	case 0:
		fake_crash(all.process[i]);
		break;
	case 1:
		provider_reset(all.p[i]);
		break;
	case 2:
		ck_assert_int_eq(provider_shutdown(all.p[i], NULL), 0);
		break;
	default:
		break;
	}
	(void)pthread_rwlock_wrlock(&all.lock);
	provider_free(all.p[i]);
	all.p[i] = another(i);
	(void)pthread_rwlock_unlock(&all.lock);
}

START_TEST(everything_at_once)
{
	const uint64_t for_ms = getenv("HOLT_LONG") ? 60000 : 1500;
	pthread_t threads[WORKERS];
	unsigned seed = (unsigned)clock_mono_us();
	unsigned replaced = 0;

	fake_reset();
	printf("seed %u\n", seed);
	for (unsigned i = 0; i < PROCESSES; i++)
		all.p[i] = another(i);
	for (uintptr_t i = 0; i < WORKERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, work,
					 (void *)(i + 1 + roll(&seed, 1000))),
			0);
	for (const uint64_t until_ms = clock_mono_ms() + for_ms; clock_mono_ms() < until_ms;) {
		nap_ms(20);
		replace(roll(&seed, PROCESSES), &seed);
		replaced++;
	}
	atomic_store(&all.stop, true);
	for (int i = 0; i < WORKERS; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	printf("%u acquired, %u refused, %u providers replaced\n", atomic_load(&all.acquired),
		atomic_load(&all.refused), replaced);
	ck_assert_uint_eq(atomic_load(&all.wrong), 0);
	ck_assert_uint_gt(atomic_load(&all.acquired), 50);
	for (unsigned i = 0; i < PROCESSES; i++) {
		UNTIL(stats_of(all.p[i]).acquiring == 0);
		UNTIL(serializer_count(all.p[i]->serializer) == 0);
		shut(all.p[i]);
	}
	/* What was kept, or was another one's when that ended, waits for its time. */
	fake_advance(INT64_C(1) << 40);
	struct holt_provider *last = PROVIDER(fake_process("last"), "idle_timeout: 5");
	reaper_pass(last);
	shut(last);
	ck_assert_uint_eq(fake_boxes(), 0);
	world_is_clean();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("provider_stress");
	TCase *t = tcase_create("stress");

	tcase_set_timeout(t, getenv("HOLT_LONG") ? 110 : 60);
	tcase_add_test(t, everything_at_once);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return run_suite(suite());
}
