/* SPDX-License-Identifier: Apache-2.0 */
/* io: all bytes are moved, however the system splits them. */
#include "base/sys/io.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PIPE_BYTES 4096
#define BYTES (40 * PIPE_BYTES + 7) /* the writer must wait for the reader many times */

static unsigned char pattern_at(size_t i)
{
	return (unsigned char)(i * 31 + i / 251);
}

struct writer {
	int fd;
	size_t bytes;
	bool fine;
};

static void *write_pattern(void *arg)
{
	struct writer *w = arg;
	unsigned char *data = malloc(w->bytes);
	size_t i;

	for (i = 0; data && i < w->bytes; i++)
		data[i] = pattern_at(i);
	w->fine = data && sal_write_all(w->fd, data, w->bytes);
	free(data);
	(void)close(w->fd);
	return NULL;
}

static void pipe_of_one_page(int ends[2])
{
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_true(fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES) >= PIPE_BYTES);
}

static void on_signal(int number)
{
	(void)number;
}

/* From now on SIGUSR1 interrupts a call, in the middle of its bytes or before the first. */
static void let_signals_interrupt(void)
{
	struct sigaction action = { .sa_handler = on_signal };

	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

static void many_pieces_are_one(void **state)
{
	struct writer w = { .bytes = BYTES };
	unsigned char *data = malloc(BYTES);
	pthread_t thread;
	int ends[2];
	size_t i, piece;

	(void)state;
	assert_non_null(data);
	let_signals_interrupt();
	pipe_of_one_page(ends);
	w.fd = ends[1];
	assert_int_equal(pthread_create(&thread, NULL, write_pattern, &w), 0);
	for (i = 0; i < BYTES; i += piece) {
		piece = BYTES - i < 1000 ? BYTES - i : 1000;
		assert_true(sal_read_all(ends[0], data + i, piece));
		(void)pthread_kill(thread, SIGUSR1);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(w.fine);
	for (i = 0; i < BYTES; i++)
		assert_int_equal(data[i], pattern_at(i));
	free(data);
	(void)close(ends[0]);
}

static void an_early_end_is_a_failure(void **state)
{
	unsigned char data[100];
	int ends[2];

	(void)state;
	pipe_of_one_page(ends);
	assert_true(sal_write_all(ends[1], "0123456789", 10));
	(void)close(ends[1]);
	assert_false(sal_read_all(ends[0], data, sizeof(data)));
	assert_true(sal_read_all(ends[0], data, 0));
	assert_false(sal_read_all(ends[0], data, 1));
	(void)close(ends[0]);
}

static void a_reader_that_is_gone_is_a_failure(void **state)
{
	int ends[2];

	(void)state;
	(void)signal(SIGPIPE, SIG_IGN);
	pipe_of_one_page(ends);
	(void)close(ends[0]);
	assert_false(sal_write_all(ends[1], "x", 1));
	assert_true(sal_write_all(ends[1], "", 0));
	(void)close(ends[1]);
	assert_false(sal_read_all(-1, (char[1]){ 0 }, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_pieces_are_one),
		cmocka_unit_test(an_early_end_is_a_failure),
		cmocka_unit_test(a_reader_that_is_gone_is_a_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
