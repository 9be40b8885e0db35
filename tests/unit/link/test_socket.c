/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socket: complete messages, descriptors that arrive and descriptors that must not stay open,
 * sealed memory, and doorbells.
 */
#include "link/socket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS 10000

/* Every test starts with a pair of sockets, and ends without a leaked descriptor */

struct ends {
	int a, b;
	int open_before;
};

static int count_open(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

static int ends_open(void **state)
{
	struct ends *ends = calloc(1, sizeof(*ends));
	int pair[2];

	if (!ends)
		return -1;
	ends->open_before = count_open();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		free(ends);
		return -1;
	}
	ends->a = pair[0];
	ends->b = pair[1];
	*state = ends;
	return 0;
}

static int ends_close(void **state)
{
	struct ends *ends = *state;
	int leaked;

	if (ends->a >= 0)
		(void)close(ends->a);
	if (ends->b >= 0)
		(void)close(ends->b);
	leaked = count_open() - ends->open_before;
	free(ends);
	return leaked;
}

static bool is_same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* Bytes */

static void a_message_comes_whole(void **state)
{
	struct ends *ends = *state;
	char got[6] = "";

	assert_int_equal(sal_socket_send(ends->a, "hello", 6, NULL, 0, NULL), SAL_OK);
	assert_int_equal(sal_socket_receive(ends->b, got, 6, NULL, 0, PATIENCE_MS, NULL), SAL_OK);
	assert_string_equal(got, "hello");
}

struct dripper {
	int fd;
	const char *bytes;
	size_t size;
};

/* Sends each byte after the one before has been read. */
static void *drip(void *arg)
{
	struct dripper *d = arg;
	size_t i;

	for (i = 0; i < d->size; i++) {
		int unread = 1;

		while (ioctl(d->fd, SIOCOUTQ, &unread) == 0 && unread > 0)
			(void)sched_yield();
		if (write(d->fd, d->bytes + i, 1) != 1)
			break;
	}
	return NULL;
}

static void bytes_that_come_one_by_one_are_put_together(void **state)
{
	struct ends *ends = *state;
	struct dripper d = { ends->a, "one by one", 11 };
	pthread_t thread;
	char got[11] = "";

	assert_int_equal(pthread_create(&thread, NULL, drip, &d), 0);
	assert_int_equal(sal_socket_receive(ends->b, got, 11, NULL, 0, PATIENCE_MS, NULL), SAL_OK);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_string_equal(got, "one by one");
}

/*
 * A message larger than the kernel's buffer goes in parts. The bytes after it stay in the stream.
 */
static void *send_much(void *arg)
{
	struct dripper *d = arg;

	return sal_socket_send(d->fd, d->bytes, d->size, NULL, 0, NULL) == SAL_OK ? NULL : arg;
}

static void large_messages_go_in_parts(void **state)
{
	enum {
		SIZE = 4 << 20
	};
	struct ends *ends = *state;
	char *sent = malloc(SIZE + 1), *got = malloc(SIZE);
	struct dripper d = { ends->a, sent, SIZE + 1 };
	pthread_t thread;
	void *failed;
	char last;
	size_t i;

	assert_non_null(sent);
	assert_non_null(got);
	for (i = 0; i < SIZE + 1; i++)
		sent[i] = (char)(i * 31 + i / 4096);
	assert_int_equal(pthread_create(&thread, NULL, send_much, &d), 0);
	assert_int_equal(sal_socket_receive(ends->b, got, SIZE, NULL, 0, PATIENCE_MS, NULL),
			 SAL_OK);
	assert_memory_equal(got, sent, SIZE);
	assert_int_equal(sal_socket_receive(ends->b, &last, 1, NULL, 0, PATIENCE_MS, NULL), SAL_OK);
	assert_int_equal(last, sent[SIZE]);
	assert_int_equal(pthread_join(thread, &failed), 0);
	assert_null(failed);
	free(sent);
	free(got);
}

/* Ends */

static void silence_is_an_error_in_time(void **state)
{
	struct ends *ends = *state;
	struct sal_err err = { 0 };
	char got[4];

	assert_int_equal(sal_socket_receive(ends->b, got, 4, NULL, 0, 20, &err), -SAL_UNAVAILABLE);
	assert_string_equal(err.text, "no answer");
	assert_int_equal(write(ends->a, "12", 2), 2);
	assert_int_equal(sal_socket_receive(ends->b, got, 4, NULL, 0, 20, &err), -SAL_UNAVAILABLE);
}

static void do_nothing(int number)
{
	(void)number;
}

/* A signal neither ends the wait nor makes it longer. */
static void a_signal_does_not_prolong_the_wait(void **state)
{
	struct sigaction action = { .sa_handler = do_nothing }, before;
	struct itimerval soon = { .it_value = { .tv_usec = 5000 } };
	struct ends *ends = *state;
	char got[4];

	assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	assert_int_equal(sal_socket_receive(ends->b, got, 4, NULL, 0, 50, NULL), -SAL_UNAVAILABLE);
	/* An old errno is not a reason to wait again. */
	errno = EINTR;
	assert_int_equal(sal_socket_receive(ends->b, got, 4, NULL, 0, 20, NULL), -SAL_UNAVAILABLE);
	assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
}

static void hanging_up_is_an_error(void **state)
{
	struct ends *ends = *state;
	struct sal_err err = { 0 };
	char got[4];

	assert_int_equal(write(ends->a, "12", 2), 2);
	(void)close(ends->a);
	ends->a = -1;
	assert_int_equal(sal_socket_receive(ends->b, got, 4, NULL, 0, PATIENCE_MS, &err),
			 -SAL_UNAVAILABLE);
	assert_string_equal(err.text, "the other side hung up");
}

/* Sending raises no SIGPIPE. */
static void sending_to_nobody_is_an_error(void **state)
{
	struct ends *ends = *state;

	(void)close(ends->b);
	ends->b = -1;
	assert_int_equal(sal_socket_send(ends->a, "x", 1, NULL, 0, NULL), -SAL_UNAVAILABLE);
}

/* Descriptors */

static void open_files(int fds[SAL_FDS_MAX])
{
	int i;

	for (i = 0; i < SAL_FDS_MAX; i++) {
		fds[i] = sal_shared_create("test", 4096 * (uint64_t)(i + 1), NULL);
		assert_true(fds[i] >= 0);
	}
}

static void close_all(const int *fds, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		(void)close(fds[i]);
}

static void descriptors_arrive_in_order(void **state)
{
	struct ends *ends = *state;
	int sent[SAL_FDS_MAX], got[SAL_FDS_MAX];
	char bytes[3];
	int i;

	open_files(sent);
	assert_int_equal(sal_socket_send(ends->a, "abc", 3, sent, SAL_FDS_MAX, NULL), SAL_OK);
	assert_int_equal(sal_socket_receive(ends->b, bytes, 3, got, SAL_FDS_MAX, PATIENCE_MS, NULL),
			 SAL_OK);
	for (i = 0; i < SAL_FDS_MAX; i++) {
		assert_true(is_same_file(sent[i], got[i]));
		assert_true(fcntl(got[i], F_GETFD) & FD_CLOEXEC);
	}
	close_all(sent, SAL_FDS_MAX);
	close_all(got, SAL_FDS_MAX);
}

/* A message that is sent in many pieces carries its descriptors once. */
struct sender {
	struct dripper message;
	int fd;
};

static void *send_much_with_one(void *arg)
{
	struct sender *s = arg;

	return sal_socket_send(s->message.fd, s->message.bytes, s->message.size, &s->fd, 1, NULL) ==
			       SAL_OK
		       ? NULL
		       : arg;
}

/* A signal ends each piece early. Otherwise the kernel would take the message in one piece. */
static void descriptors_go_with_the_first_piece(void **state)
{
	enum {
		SIZE = 4 << 20,
		PIECE = 64 << 10
	};
	struct sigaction action = { .sa_handler = do_nothing }, before;
	struct ends *ends = *state;
	struct sender s = { { ends->a, calloc(1, SIZE), SIZE },
			    sal_shared_create("test", 4096, NULL) };
	char *got = malloc(PIECE);
	int fds[SAL_FDS_MAX], first = -1, i, at;
	pthread_t thread;
	void *failed;

	assert_true(got && s.message.bytes && s.fd >= 0);
	assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
	assert_int_equal(pthread_create(&thread, NULL, send_much_with_one, &s), 0);
	for (at = 0; at < SIZE; at += PIECE) {
		assert_int_equal(sal_socket_receive(ends->b, got, PIECE, fds, SAL_FDS_MAX,
						    PATIENCE_MS, NULL),
				 SAL_OK);
		if (at == 0)
			first = fds[0];
		for (i = at == 0; i < SAL_FDS_MAX; i++)
			assert_int_equal(fds[i], -1);
		(void)pthread_kill(thread, SIGUSR1);
	}
	assert_int_equal(pthread_join(thread, &failed), 0);
	assert_null(failed);
	assert_true(is_same_file(s.fd, first));
	assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
	(void)close(first);
	(void)close(s.fd);
	free((void *)s.message.bytes);
	free(got);
}

/* Descriptors beyond the requested number do not stay open: ends_close counts. */
static void extra_descriptors_are_closed(void **state)
{
	struct ends *ends = *state;
	int sent[SAL_FDS_MAX], got[2];
	char bytes[3];

	open_files(sent);
	assert_int_equal(sal_socket_send(ends->a, "abc", 3, sent, SAL_FDS_MAX, NULL), SAL_OK);
	assert_int_equal(sal_socket_receive(ends->b, bytes, 3, got, 2, PATIENCE_MS, NULL), SAL_OK);
	assert_true(is_same_file(sent[0], got[0]) && is_same_file(sent[1], got[1]));
	assert_int_equal(sal_socket_send(ends->a, "abc", 3, sent, SAL_FDS_MAX, NULL), SAL_OK);
	assert_int_equal(sal_socket_receive(ends->b, bytes, 3, NULL, 0, PATIENCE_MS, NULL), SAL_OK);
	close_all(sent, SAL_FDS_MAX);
	close_all(got, 2);
}

static void missing_descriptors_are_minus_one(void **state)
{
	struct ends *ends = *state;
	int sent[SAL_FDS_MAX], got[SAL_FDS_MAX];
	char bytes[3];
	int i;

	open_files(sent);
	assert_int_equal(sal_socket_send(ends->a, "abc", 3, sent, 1, NULL), SAL_OK);
	assert_int_equal(sal_socket_receive(ends->b, bytes, 3, got, SAL_FDS_MAX, PATIENCE_MS, NULL),
			 SAL_OK);
	assert_true(is_same_file(sent[0], got[0]));
	for (i = 1; i < SAL_FDS_MAX; i++)
		assert_int_equal(got[i], -1);
	close_all(sent, SAL_FDS_MAX);
	(void)close(got[0]);
}

/* The descriptors of an incomplete message are closed. */
static void descriptors_of_a_broken_message_are_closed(void **state)
{
	struct ends *ends = *state;
	int sent[SAL_FDS_MAX], got[SAL_FDS_MAX];
	char bytes[8];
	int i;

	open_files(sent);
	assert_int_equal(sal_socket_send(ends->a, "abc", 3, sent, SAL_FDS_MAX, NULL), SAL_OK);
	assert_int_equal(sal_socket_receive(ends->b, bytes, 8, got, SAL_FDS_MAX, 20, NULL),
			 -SAL_UNAVAILABLE);
	for (i = 0; i < SAL_FDS_MAX; i++)
		assert_int_equal(got[i], -1);
	close_all(sent, SAL_FDS_MAX);
}

/* Shared memory */

static void sealed_memory_keeps_its_size(void **state)
{
	int fd = sal_shared_create("test", 8192, NULL);
	char *at;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, 16384), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(pwrite(fd, "x", 1, 8192), -1);
	assert_int_equal(fallocate(fd, 0, 8192, 4096), -1);
	/* The seals cannot be changed either: both sides can still write. */
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(fcntl(fd, F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	at = sal_shared_map(fd, 8192);
	assert_non_null(at);
	at[8191] = 7;
	/* A hole is the worst that a peer can make: a hole reads as zeros. */
	assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 8192), 0);
	assert_int_equal(at[8191], 0);
	assert_int_equal(munmap(at, 8192), 0);
	(void)close(fd);
}

static void memory_of_another_size_is_not_mapped(void **state)
{
	int fd = sal_shared_create("test", 8192, NULL);

	(void)state;
	assert_true(fd >= 0);
	assert_null(sal_shared_map(fd, 4096));
	assert_null(sal_shared_map(fd, 8193));
	assert_null(sal_shared_map(fd, 0));
	assert_null(sal_shared_map(-1, 8192));
	(void)close(fd);
	/* Memory that could shrink later is refused, too. */
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, 8192), 0);
	assert_null(sal_shared_map(fd, 8192));
	/* One seal of the two is not enough. */
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	assert_null(sal_shared_map(fd, 8192));
	(void)close(fd);
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, 8192), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_null(sal_shared_map(fd, 8192));
	(void)close(fd);
	assert_int_equal(sal_shared_create("test", UINT64_MAX, NULL), -SAL_RESOURCE_EXHAUSTED);
}

static void both_see_the_same_bytes(void **state)
{
	struct ends *ends = *state;
	int fd = sal_shared_create("test", 4096, NULL), got;
	char *ours, *theirs;
	char byte;

	assert_int_equal(sal_socket_send(ends->a, "x", 1, &fd, 1, NULL), SAL_OK);
	assert_int_equal(sal_socket_receive(ends->b, &byte, 1, &got, 1, PATIENCE_MS, NULL), SAL_OK);
	ours = sal_shared_map(fd, 4096);
	theirs = sal_shared_map(got, 4096);
	assert_non_null(ours);
	assert_non_null(theirs);
	memcpy(ours + 4000, "shared", sizeof("shared"));
	assert_string_equal(theirs + 4000, "shared");
	(void)munmap(ours, 4096);
	(void)munmap(theirs, 4096);
	(void)close(fd);
	(void)close(got);
}

/* Doorbells */

static bool is_ringing(int bell)
{
	struct pollfd p = { .fd = bell, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void a_doorbell_rings_until_it_is_quieted(void **state)
{
	int ring, wait, i;

	(void)state;
	assert_int_equal(sal_doorbell_create(&ring, &wait, NULL), SAL_OK);
	assert_false(is_ringing(wait));
	sal_doorbell_quiet(wait); /* does not wait */
	for (i = 0; i < 1000; i++)
		sal_doorbell_ring(ring);
	assert_true(is_ringing(wait));
	sal_doorbell_quiet(wait);
	assert_false(is_ringing(wait));
	(void)close(ring);
	(void)close(wait);
}

/*
 * However often the doorbell rings before a read, and whatever flags the peer sets on its own end.
 */
static void a_doorbell_never_blocks(void **state)
{
	int ring, wait, i;

	(void)state;
	assert_int_equal(sal_doorbell_create(&ring, &wait, NULL), SAL_OK);
	/*
	 * This side rings. Any process with a copy of this side's end may have changed its flags,
	 * too.
	 */
	assert_int_equal(fcntl(wait, F_SETFL, 0), 0);
	assert_int_equal(fcntl(ring, F_SETFL, 0), 0);
	(void)alarm(60);
	for (i = 0; i < 1000000; i++)
		sal_doorbell_ring(ring);
	(void)alarm(0);
	(void)close(ring);
	(void)close(wait);
	assert_int_equal(sal_doorbell_create(&ring, &wait, NULL), SAL_OK);
	assert_int_equal(fcntl(ring, F_SETFL, 0), 0); /* this side waits */
	sal_doorbell_quiet(wait);
	(void)close(ring);
	(void)close(wait);
}

/* The plugin is a guest in its process: ringing at a dead daemon must not raise a fatal signal. */
static void ringing_at_nobody_does_no_harm(void **state)
{
	int ring, wait;

	(void)state;
	assert_ptr_not_equal(signal(SIGPIPE, SIG_DFL), SIG_ERR);
	assert_int_equal(sal_doorbell_create(&ring, &wait, NULL), SAL_OK);
	(void)close(wait);
	sal_doorbell_ring(ring);
	(void)close(ring);
}

/* Connecting */

static void nobody_there_is_unavailable(void **state)
{
	char path[200];
	struct sal_err err = { 0 };

	(void)state;
	assert_int_equal(sal_socket_connect("/nowhere/at/all", &err), -SAL_UNAVAILABLE);
	assert_non_null(strstr(err.text, "/nowhere/at/all"));
	memset(path, 'x', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(sal_socket_connect(path, NULL), -SAL_INVALID_ARGUMENT);
	path[sizeof(((struct sockaddr_un *)0)->sun_path)] = '\0'; /* no room for the NUL */
	assert_int_equal(sal_socket_connect(path, NULL), -SAL_INVALID_ARGUMENT);
	path[strlen(path) - 1] = '\0';
	assert_int_equal(sal_socket_connect(path, NULL), -SAL_UNAVAILABLE);
}

static void somebody_there_is_a_descriptor(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char folder[] = "/tmp/salus-test-XXXXXX";
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;

	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/s", folder);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 1), 0);
	fd = sal_socket_connect(address.sun_path, NULL);
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	(void)close(fd);
	(void)close(listener);
	/* The socket's file is left, but no process listens. */
	assert_int_equal(sal_socket_connect(address.sun_path, NULL), -SAL_UNAVAILABLE);
	(void)unlink(address.sun_path);
	(void)rmdir(folder);
}

/*
 * The bytes that fit are sent, with the descriptor at the first byte. Then nothing is sent, without
 * a wait. Then the peer's end is an error.
 */
static void sending_what_fits(void **state)
{
	struct ends *ends = *state;
	static char bytes[1 << 20], got[1 << 20];
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), fd = -1;
	int first = sal_socket_try_send(ends->a, bytes, sizeof(bytes), &null, 1);
	size_t sent = (size_t)first;
	int n;

	assert_in_range(first, 1, sizeof(bytes) - 1);
	while ((n = sal_socket_try_send(ends->a, bytes, sizeof(bytes), NULL, 0)) > 0)
		sent += (size_t)n;
	assert_int_equal(n, 0);
	assert_true(sent <= sizeof(got));
	assert_int_equal(sal_socket_receive(ends->b, got, sent, &fd, 1, PATIENCE_MS, NULL), SAL_OK);
	assert_true(fd >= 0);
	(void)close(fd);
	(void)close(null);
	assert_true(sal_socket_try_send(ends->a, bytes, 1, NULL, 0) == 1);
	assert_int_equal(shutdown(ends->b, SHUT_RDWR), 0);
	assert_int_equal(sal_socket_try_send(ends->a, bytes, 1, NULL, 0), -SAL_UNAVAILABLE);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, ends_open, ends_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sending_what_fits),
		TEST(a_message_comes_whole),
		TEST(bytes_that_come_one_by_one_are_put_together),
		TEST(large_messages_go_in_parts),
		TEST(silence_is_an_error_in_time),
		TEST(a_signal_does_not_prolong_the_wait),
		TEST(hanging_up_is_an_error),
		TEST(sending_to_nobody_is_an_error),
		TEST(descriptors_arrive_in_order),
		TEST(descriptors_go_with_the_first_piece),
		TEST(extra_descriptors_are_closed),
		TEST(missing_descriptors_are_minus_one),
		TEST(descriptors_of_a_broken_message_are_closed),
		TEST(sealed_memory_keeps_its_size),
		TEST(memory_of_another_size_is_not_mapped),
		TEST(both_see_the_same_bytes),
		TEST(a_doorbell_rings_until_it_is_quieted),
		TEST(a_doorbell_never_blocks),
		TEST(ringing_at_nobody_does_no_harm),
		TEST(nobody_there_is_unavailable),
		TEST(somebody_there_is_a_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
