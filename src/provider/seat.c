/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/inside.h"

#include <stdio.h>
#include <string.h>

#include "base/cond.h"
#include "sandbox/contract.h"
#include "base/banned.h"

/*
 * Seats, and the bell.
 *
 * A sandbox that finds out that its box is dead tells its provider, by the number of its seat: an
 * id may have another box by then. Sandboxes outlive their providers, and tell on the threads of
 * those who use them. So between the two is a bell, which belongs to all of them together and knows
 * whether there is still a provider.
 */
struct bell {
	pthread_mutex_t lock;
	pthread_cond_t quiet;
	struct holt_provider *p; /* NULL: it has gone */
	unsigned ringing;
	unsigned refs;
};

struct bell_pull {
	struct bell *bell;
	uint64_t generation;
};

static void bell_unref(struct bell *b)
{
	(void)pthread_mutex_lock(&b->lock);
	const unsigned left = --b->refs;
	(void)pthread_mutex_unlock(&b->lock);
	if (left > 0)
		return;
	(void)pthread_cond_destroy(&b->quiet);
	(void)pthread_mutex_destroy(&b->lock);
	mem_free(b);
}

int bell_new(struct holt_provider *p, struct bell **ret, holt_error **reterr)
{
	struct bell *b = mem_zalloc(sizeof *b);

	if (!b)
		return err_nomem(reterr);
	(void)pthread_mutex_init(&b->lock, NULL);
	cond_init(&b->quiet);
	b->p = p;
	b->refs = 1;
	*ret = b;
	return 0;
}

void bell_mute(struct bell *b)
{
	if (!b)
		return;
	(void)pthread_mutex_lock(&b->lock);
	b->p = NULL;
	while (b->ringing > 0)
		(void)pthread_cond_wait(&b->quiet, &b->lock);
	(void)pthread_mutex_unlock(&b->lock);
	bell_unref(b);
}

static void pull(const char *id, const holt_error *error, void *user)
{
	const struct bell_pull *pull_ = user;
	struct bell *b = pull_->bell;

	(void)error;
	(void)pthread_mutex_lock(&b->lock);
	struct holt_provider *p = b->p;
	b->ringing += p != NULL;
	(void)pthread_mutex_unlock(&b->lock);
	if (!p)
		return;
	provider_invalidate(p, id, pull_->generation);
	(void)pthread_mutex_lock(&b->lock);
	if (--b->ringing == 0)
		(void)pthread_cond_broadcast(&b->quiet);
	(void)pthread_mutex_unlock(&b->lock);
}

static void pull_freed(void *user)
{
	struct bell_pull *pull_ = user;

	bell_unref(pull_->bell);
	mem_free(pull_);
}

static struct bell_pull *pull_new(struct seat *s)
{
	struct bell_pull *pull_ = mem_zalloc(sizeof *pull_);

	if (!pull_)
		return NULL;
	pull_->bell = s->p->bell;
	pull_->generation = s->generation;
	(void)pthread_mutex_lock(&pull_->bell->lock);
	pull_->bell->refs++;
	(void)pthread_mutex_unlock(&pull_->bell->lock);
	return pull_;
}

int seat_new(struct holt_provider *p, void *box, struct seat **ret, holt_error **reterr)
{
	struct seat *s = mem_zalloc(sizeof *s);

	if (!s) {
		p->pool->drop(p->self, box);
		return err_nomem(reterr);
	}
	s->p = p;
	s->refs = 1;
	s->box = box;
	(void)pthread_mutex_lock(&p->lock);
	s->generation = ++p->generations;
	(void)pthread_mutex_unlock(&p->lock);
	*ret = s;
	return 0;
}

int seat_find(struct holt_provider *p, const char *name, struct seat **ret, holt_error **reterr)
{
	void *box = NULL;
	const int r = p->pool->find(p->self, name, &box, reterr);

	return r < 0 ? r : seat_new(p, box, ret, reterr);
}

struct seat *seat_ref(struct seat *s)
{
	(void)__atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
	return s;
}

void seat_unref(struct seat *s)
{
	if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	contract_free(s->sandbox);
	s->p->pool->drop(s->p->self, s->box);
	mem_free(s);
}

bool seat_is_open(const struct seat *s)
{
	return s->sandbox && !contract_is_closed(s->sandbox);
}

int seat_open(struct seat *s, const char *id, holt_error **reterr)
{
	struct holt_provider *p = s->p;
	holt_sandbox_options o = HOLT_SANDBOX_OPTIONS_INIT;
	holt_sandbox *sandbox = NULL;

	if (seat_is_open(s))
		return 0;
	struct bell_pull *pull_ = pull_new(s);
	if (!pull_)
		return err_nomem(reterr);
	o.id = id;
	o.env = (const char *const *)p->config.environment;
	o.user = p->sandbox.user;
	o.cwd = p->sandbox.cwd;
	o.user_data = p->sandbox.user_data;
	o.flags = p->sandbox.flags;
	o.terminal = pull;
	o.terminal_user = pull_;
	const int r = p->pool->open(p->self, s->box, &o, &sandbox, reterr);
	if (r < 0) {
		pull_freed(pull_);
		return r;
	}
	contract_on_free(sandbox, pull_freed, pull_);
	contract_free(s->sandbox);
	s->sandbox = sandbox;
	return 0;
}

int seat_look(struct seat *s, holt_pool_entry *ret, holt_error **reterr)
{
	*ret = (holt_pool_entry){.struct_size = sizeof *ret};
	const int r = s->p->pool->look(s->p->self, s->box, ret, reterr);

	if (r == 0)
		(void)snprintf(s->instance, sizeof s->instance, "%s", ret->instance);
	return r;
}

static bool is_free(struct seat *s, bool left)
{
	holt_pool_entry e;

	return seat_look(s, &e, NULL) == 0 &&
	       (e.state == HOLT_POOL_WARM || (left && e.state == HOLT_POOL_ACTIVE &&
						     strcmp(e.holder, s->p->instance) == 0));
}

int seat_take(struct seat *s, bool left, holt_error **reterr)
{
	struct holt_provider *p = s->p;
	const holt_pool_holder holder = provider_holder(p);
	const holt_call now = {0};
	holt_error *error = NULL;
	const int r = p->pool->hold(p->self, s->box, &holder, &now, &error);

	if (r == 0)
		return 0;
	/* Nothing has answered, not even to say no. Had somebody got the box, that would show. */
	if (r == -HOLT_ETIMEOUT && is_free(s, left)) {
		holt_error_free(error);
		return 1;
	}
	return error ? err_take(reterr, error)
		     : err_make(reterr, -r, "the pool fails and does not say why");
}

void seat_close(struct seat *s)
{
	contract_close(s->sandbox);
}
