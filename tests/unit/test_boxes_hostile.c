/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keepers that hang, that are killed, and that get nonsense at their door: the box and whoever uses
 * it stay usable, and what cannot be done says so in the time it promises.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include "boxes_fixture.h"

#include "base/fd.h"
#include "box/keeper.h"
#include "wire/wire.h"

#define SILENT 40 /* more than the keeper waits for at once */
/* What a busy machine may add to a stated time. */
#define SLACK_MS 2500u

/* ---- keepers that hang or die ---- */

static void check_since(uint64_t before_ms, uint64_t stated_ms)
{
	ck_assert_uint_lt(clock_mono_ms() - before_ms, stated_ms + SLACK_MS);
}

START_TEST(a_hung_keeper_holds_up_nobody_longer_than_said)
{
	holt_box *b = make("p", HOLT_BOX_KEEP, "sleep 100");
	holt_box_stats stats = HOLT_BOX_STATS_INIT;
	holt_box **list = NULL;
	size_t n = 0;

	for (int connected = 0; connected < 2; connected++) {
		start_box(b, HOLT_START_DETACHED);
		holt_box *other = get(home, "p");
		if (connected)
			check_works(other);
		ck_assert_int_eq(kill(info_of(b).keeper_pid, SIGSTOP), 0);
		uint64_t before = clock_mono_ms();
		ck_assert_int_eq(info_of(other).state, HOLT_BOX_RUNNING);
		ok(holt_box_list(home, &list, &n, E));
		ck_assert_uint_eq(n, 1);
		holt_box_list_free(list, n);
		check_since(before, 0);
		before = clock_mono_ms();
		fails(HOLT_ETIMEOUT, holt_box_ping(other, 200, NULL, E));
		check_since(before, 200);
		before = clock_mono_ms();
		fails(HOLT_ETIMEOUT, holt_box_wait(other, 200, NULL, NULL, E));
		check_since(before, 200);
		before = clock_mono_ms();
		if (connected)
			fails(HOLT_ETIMEOUT, holt_box_pause(other, E));
		else
			fails(HOLT_ETIMEOUT, holt_box_get_stats(other, &stats, E));
		check_since(before, 5000);
		before = clock_mono_ms();
		ok(holt_box_stop(other, 300, E));
		check_since(before, 300 + 2000);
		check_end(b, HOLT_BOX_EXITED, HOLT_END_STOPPED, 137);
		holt_box_close(other);
	}
	drop(b);
}
END_TEST

START_TEST(a_hung_keeper_is_killed_and_its_box_removed)
{
	holt_box *b = make("p", HOLT_BOX_KEEP, NULL);

	for (int removed = 0; removed < 2; removed++) {
		start_box(b, HOLT_START_DETACHED);
		holt_box *other = get(home, "p");
		ck_assert_int_eq(kill(info_of(b).keeper_pid, SIGSTOP), 0);
		const uint64_t before = clock_mono_ms();
		if (removed) {
			fails(HOLT_EBUSY, holt_box_remove(other, 0, E));
			ok(holt_box_remove(other, 1, E));
			check_since(before, 10000);
			ck_assert_int_eq(info_of(b).state, HOLT_BOX_GONE);
		} else {
			ok(holt_box_kill(other, SIGKILL, E));
			check_since(before, 5000);
			check_end(b, HOLT_BOX_EXITED, HOLT_END_KILLED, 137);
		}
		holt_box_close(other);
	}
	holt_box_close(b);
}
END_TEST

START_TEST(a_killed_keeper_is_lost_and_its_box_starts_again)
{
	holt_box *b = make("p", HOLT_BOX_KEEP, "echo up; sleep 100");

	for (int i = 0; i < 2; i++) {
		holt_error *e = NULL;
		holt_exit result = HOLT_EXIT_INIT;

		start_box(b, i ? 0 : HOLT_START_DETACHED);
		holt_exec *x = run(b, "sleep 100", 0);
		const uint64_t before = clock_mono_ms();
		ck_assert_int_eq(kill(info_of(b).keeper_pid, SIGKILL), 0);
		fails(HOLT_EGUEST_LOST, holt_exec_wait(x, 20000, &result, E));
		holt_exec_free(x);
		check_end(b, HOLT_BOX_EXITED, HOLT_END_LOST, 137);
		check_since(before, 0);
		ck_assert_int_eq(try_run(b, &e), -HOLT_EGUEST_LOST);
		holt_error_free(e);
		fails(HOLT_ECLOSED, holt_box_kill(b, SIGKILL, E));
		ok(holt_box_stop(b, 0, E));
	}
	start_box(b, HOLT_START_DETACHED);
	check_works(b);
	drop(b);
	/* One that is not kept goes with its handle. */
	b = make("q", 0, NULL);
	start_box(b, 0);
	ck_assert_int_eq(kill(info_of(b).keeper_pid, SIGKILL), 0);
	holt_box_close(b);
	ck_assert_uint_eq(boxes_left(), 0);
}
END_TEST

START_TEST(many_have_tried_a_hung_keeper_before_it_is_killed)
{
	holt_box *b = make("p", HOLT_BOX_KEEP, NULL);

	start_box(b, HOLT_START_DETACHED);
	ck_assert_int_eq(kill(info_of(b).keeper_pid, SIGSTOP), 0);
	for (int i = 0; i < 100; i++) {
		holt_box *other = get(home, "p");

		ck_assert_int_eq(holt_box_ping(other, 1, NULL, NULL), -HOLT_ETIMEOUT);
		holt_box_close(other);
	}
	ok(holt_box_kill(b, SIGKILL, E));
	check_end(b, HOLT_BOX_EXITED, HOLT_END_KILLED, 137);
	drop(b);
}
END_TEST

/* ---- nonsense at the door ---- */

static int knock_raw(holt_box *b, const void *data, size_t len, const int *fds, size_t n_fds)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	const struct timeval wait = {.tv_sec = 20};
	char path[160];
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(8 * sizeof(int))];
	} control = {0};

	snprintf(path, sizeof path, "%s/boxes/%s/sock", home_path, holt_box_id(b));
	ck_assert_uint_lt(strlen(path), sizeof addr.sun_path);
	strcpy(addr.sun_path, path);
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait), 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
	if (!data)
		return fd;
	struct iovec part = {.iov_base = memcpy(path, data, len), .iov_len = len};
	struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
	if (n_fds > 0) {
		msg.msg_control = control.room;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	ck_assert_int_eq(sendmsg(fd, &msg, MSG_NOSIGNAL), (ssize_t)len);
	return fd;
}

/* The verdict, or -1 where the keeper just hangs up. */
static int verdict(int fd)
{
	struct keeper_answer answer = {0};
	const ssize_t n = recv(fd, &answer, sizeof answer, 0);

	/* A keeper that closes with something unread resets. */
	ck_assert(n == (ssize_t)sizeof answer || n == 0 || errno == ECONNRESET);
	close(fd);
	if (n <= 0)
		return -1;
	ck_assert_uint_eq(answer.magic, KEEPER_MAGIC);
	ck_assert_uint_eq(answer.version, KEEPER_PROTOCOL);
	return answer.verdict;
}

static const struct keeper_knock good = {
	.magic = KEEPER_MAGIC, .version = KEEPER_PROTOCOL, .oldest = KEEPER_PROTOCOL_OLDEST};

START_TEST(nonsense_at_the_door_is_turned_away)
{
	holt_box *b = make("p", 0, NULL);
	struct keeper_knock knock = good;
	int control[2], bulk[2];
	char noise[64];

	start_box(b, 0);
	ck_assert_int_eq(fd_socketpair(control), 0);
	ck_assert_int_eq(fd_socketpair(bulk), 0);
	const int fds[] = {control[1], bulk[1], control[1], bulk[1], control[1]};
	memset(noise, 'x', sizeof noise);
	for (size_t n_fds = 0; n_fds <= 5; n_fds++) {
		/* With three it is a claim, which only a spare takes. */
		if (n_fds != 2)
			ck_assert_int_eq(verdict(knock_raw(b, &good, sizeof good, fds, n_fds)),
				n_fds == KNOCK_FDS ? KEEPER_NO_SPARE : -1);
		ck_assert_int_eq(verdict(knock_raw(b, noise, sizeof noise, fds, n_fds)), -1);
	}
	ck_assert_int_eq(verdict(knock_raw(b, &good, sizeof good - 1, fds, 2)), -1);
	ck_assert_int_eq(verdict(knock_raw(b, &good, 1, fds, 2)), -1);
	knock.magic ^= 1;
	ck_assert_int_eq(verdict(knock_raw(b, &knock, sizeof knock, fds, 2)), -1);
	/* Other versions. */
	knock = good;
	knock.version = KEEPER_PROTOCOL_OLDEST - 1;
	ck_assert_int_eq(verdict(knock_raw(b, &knock, sizeof knock, fds, 2)), KEEPER_WRONG_VERSION);
	knock.version = UINT16_MAX;
	knock.oldest = KEEPER_PROTOCOL + 1;
	ck_assert_int_eq(verdict(knock_raw(b, &knock, sizeof knock, fds, 2)), KEEPER_WRONG_VERSION);
	/* A newer client that speaks ours, too. */
	knock.oldest = KEEPER_PROTOCOL_OLDEST;
	ck_assert_int_eq(verdict(knock_raw(b, &knock, sizeof knock, fds, 2)), KEEPER_WELCOME);
	close(knock_raw(b, NULL, 0, NULL, 0));
	check_works(b);
	for (int i = 0; i < 2; i++) {
		close(control[i]);
		close(bulk[i]);
	}
	holt_box *other = get(home, "p");
	check_works(other);
	holt_box_close(other);
	holt_box_close(b);
}
END_TEST

START_TEST(lanes_that_are_none_hurt_only_their_client)
{
	holt_box *b = make("p", 0, NULL);
	int pair[2], ends[2], file, pipes[2];

	start_box(b, 0);
	ck_assert_int_eq(fd_socketpair(pair), 0);
	ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
	file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(file, 0);
	const int lanes[][2] = {{file, file}, {pair[0], file}, {file, pair[0]}, {pair[0], pair[0]},
		{pipes[0], pipes[1]}, {pipes[1], pair[0]}};
	for (size_t i = 0; i < sizeof lanes / sizeof lanes[0]; i++) {
		ck_assert_int_eq(
			verdict(knock_raw(b, &good, sizeof good, lanes[i], 2)), KEEPER_WELCOME);
		check_works(b);
	}
	/* A client that talks nonsense, on either lane. */
	for (int lane = 0; lane < 2; lane++) {
		int both[2][2];
		char noise[64], c;

		ck_assert_int_eq(fd_socketpair(both[0]), 0);
		ck_assert_int_eq(fd_socketpair(both[1]), 0);
		ends[0] = both[0][1];
		ends[1] = both[1][1];
		ck_assert_int_eq(
			verdict(knock_raw(b, &good, sizeof good, ends, 2)), KEEPER_WELCOME);
		close(ends[0]);
		close(ends[1]);
		memset(noise, 0xff, sizeof noise);
		ck_assert_int_eq(write(both[lane][0], noise, sizeof noise), sizeof noise);
		/* It is shut out: both lanes end. */
		for (int i = 0; i < 2; i++) {
			while (read(both[i][0], &c, 1) > 0)
				;
			close(both[i][0]);
		}
		check_works(b);
	}
	close(file);
	for (int i = 0; i < 2; i++) {
		close(pair[i]);
		close(pipes[i]);
	}
	holt_box_close(b);
}
END_TEST

START_TEST(silent_visitors_block_nobody)
{
	holt_box *b = make("p", 0, NULL);
	int fds[SILENT];
	char c;

	start_box(b, 0);
	for (int i = 0; i < SILENT; i++)
		fds[i] = knock_raw(b, NULL, 0, NULL, 0);
	holt_box *other = get(home, "p");
	check_works(other);
	holt_box_close(other);
	/* The first of them had to make room, the last ones are still waited for. */
	ck_assert_int_eq(recv(fds[0], &c, 1, 0), 0);
	ck_assert_int_lt(recv(fds[SILENT - 1], &c, 1, MSG_DONTWAIT), 0);
	for (int i = 0; i < SILENT; i++)
		close(fds[i]);
	check_works(b);
	holt_box_close(b);
}
END_TEST

/* ---- clients that do not take what they get ---- */

START_TEST(a_client_that_reads_nothing_holds_up_only_itself)
{
	holt_box *b = make("p", 0, NULL);
	holt_exec *x[6];
	uint64_t us = 0;

	start_box(b, 0);
	for (int i = 0; i < 6; i++)
		x[i] = run(b, "yes", 0);
	holt_box *other = get(home, "p");
	check_works(other);
	ok(holt_box_ping(other, 0, &us, E));
	holt_box_close(other);
	for (int i = 0; i < 6; i++)
		holt_exec_free(x[i]);
	check_works(b);
	holt_box_close(b);
}
END_TEST

/* Not with the next open of the home only. */
START_TEST(what_is_not_kept_goes_by_force_too)
{
	holt_box *b = make("p", 0, NULL);

	start_box(b, HOLT_START_DETACHED);
	ck_assert_int_eq(kill(info_of(b).keeper_pid, SIGSTOP), 0);
	ok(holt_box_kill(b, SIGKILL, E));
	ck_assert_int_eq(info_of(b).state, HOLT_BOX_GONE);
	ck_assert_uint_eq(boxes_left(), 0);
	holt_box_close(b);
}
END_TEST

static void *ping_thread(void *arg)
{
	return holt_box_ping(arg, 20000, NULL, NULL) == 0 ? NULL : arg;
}

/* All find the handle without a connection, and knock; while the keeper stands still, too. */
START_TEST(many_threads_connect_one_handle)
{
	holt_box *b = make("p", 0, NULL);
	pthread_t t[16];

	start_box(b, 0);
	for (int hung = 0; hung < 2; hung++) {
		const int keeper = info_of(b).keeper_pid;
		holt_box *other = get(home, "p");

		if (hung)
			ck_assert_int_eq(kill(keeper, SIGSTOP), 0);
		for (int i = 0; i < 16; i++)
			ck_assert_int_eq(pthread_create(&t[i], NULL, ping_thread, other), 0);
		if (hung) {
			/* Nobody who only looks is held up by those who knock. */
			const uint64_t before = clock_mono_ms();
			ck_assert_int_eq(info_of(other).state, HOLT_BOX_RUNNING);
			ck_assert_uint_lt(clock_mono_ms() - before, 1000);
			ck_assert_int_eq(kill(keeper, SIGCONT), 0);
		}
		for (int i = 0; i < 16; i++) {
			void *failed = NULL;

			ck_assert_int_eq(pthread_join(t[i], &failed), 0);
			ck_assert_ptr_null(failed);
		}
		holt_box_close(other);
	}
	check_works(b);
	holt_box_close(b);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {a_hung_keeper_holds_up_nobody_longer_than_said,
		a_hung_keeper_is_killed_and_its_box_removed,
		a_killed_keeper_is_lost_and_its_box_starts_again,
		many_have_tried_a_hung_keeper_before_it_is_killed,
		nonsense_at_the_door_is_turned_away, lanes_that_are_none_hurt_only_their_client,
		silent_visitors_block_nobody, a_client_that_reads_nothing_holds_up_only_itself,
		what_is_not_kept_goes_by_force_too, many_threads_connect_one_handle};

	return run_tests("hostile boxes", tests, sizeof tests / sizeof tests[0]);
}
