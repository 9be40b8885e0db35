/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plugin_host - a host for libsalus_pjrt.so: loads it as a framework does, next to its own salusd.
 *
 * All calls go through the table that GetPjrtApi returns. A deadline ends a test that hangs.
 * Daemons die with the test.
 *
 *     SALUS_TEST_PATIENCE   factor on every deadline, for slow machines   (1; sanitizers: 5)
 */
#ifndef SAL_TESTS_PLUGIN_HOST_H
#define SAL_TESTS_PLUGIN_HOST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "pjrt_c_api.h"

/* The plugin's table; set by host_load. */
extern const PJRT_Api *api;

#define ARGS(name, var, ...) \
	PJRT_##name##_Args var = { .struct_size = PJRT_##name##_Args_STRUCT_SIZE, ##__VA_ARGS__ }
/* Calls an entry by name, with arguments that have no results. */
#define CALL(name, ...)                                                                        \
	api->PJRT_##name(&(PJRT_##name##_Args){ .struct_size = PJRT_##name##_Args_STRUCT_SIZE, \
						##__VA_ARGS__ })

#define F32 PJRT_Buffer_Type_F32
#define LANES 4 /* floats in a vector of most programs */

/* The process */

void host_load(void);
const char *host_plugin_path(void);
bool host_is_sanitized(void);
double host_patience(void);
uint64_t host_now_ns(void);
/* Ends the program if the test takes longer. 0: no deadline. */
void host_deadline(unsigned int seconds);
size_t host_fd_count(void);
size_t host_thread_count(void);
/* Waits until the counts are these again; ended threads may exist for another moment. */
void host_expect_counts(size_t fds, size_t threads);
/* Meaningless under a sanitizer, which delays the freeing of memory. */
uint64_t host_rss_bytes(void);
/* Bytes and number of mappings whose name contains `word`. */
uint64_t host_mapped_bytes(const char *word, size_t *out_count);
/* Waits for a child; returns its exit status, or -1 if it was killed or took too long. */
int host_wait_child(pid_t pid, unsigned int seconds);

/* Errors */

/* Takes the error; 0 if there is none. */
int code_of(PJRT_Error *error);
/* Takes the error and copies its text. */
int explain(PJRT_Error *error, char *text, size_t room);
void ok_at(PJRT_Error *error, const char *file, int line);
#define ok(error) ok_at(error, __FILE__, __LINE__)
/* Expects an error with this code, whose text contains `words` (may be NULL). */
void refused_at(PJRT_Error *error, int code, const char *words, const char *file, int line);
#define refused(error, code, words) refused_at(error, code, words, __FILE__, __LINE__)

/* Daemons */

struct host_daemon {
	pid_t pid;
	char dir[64];
	char socket[96];
};

/*
 * plugin NULL: the default one. more: further arguments, ended by NULL; may be NULL. Sets
 * SALUS_SOCKET.
 */
void daemon_start(struct host_daemon *d, const char *plugin, const char *const *more);
/* The daemon must exit by itself, with status 0. */
void daemon_stop(struct host_daemon *d);
void daemon_kill(struct host_daemon *d);
void daemon_freeze(struct host_daemon *d);
void daemon_thaw(struct host_daemon *d);
/* Sends a question to its admin side; the answer is one line of JSON. */
void daemon_ask(struct host_daemon *d, const char *question, char *answer, size_t room);
/* Waits until the daemon has this many sessions. */
void daemon_expect_sessions(struct host_daemon *d, unsigned int count);

/* Subjects: the suite's programs, for each device */

enum program_kind {
	PROGRAM_ADD, /* (a, b) -> a + b */
	PROGRAM_DONATE, /* the same, into the memory of a */
	PROGRAM_DONATE_BOTH, /* (a, b) -> b, a, each into the other's memory */
	PROGRAM_SWAP, /* (a, b) -> b, a */
	PROGRAM_MANY_ARGS, /* (100 vectors) -> the sum of the last two */
	PROGRAM_MANY_OUTPUTS, /* a -> a, 300 times (fake: 60) */
	PROGRAM_NOTHING, /* () -> nothing; for the fake, one output */
	PROGRAM_BROKEN,
};

struct subject {
	const char *name;
	const char *plugin; /* for salusd; NULL: the default */
	bool is_fake;
	const char *(*program)(enum program_kind kind);
	const char *broken_words; /* the words of the error about PROGRAM_BROKEN */
	int broken_code;
	const char *options; /* compile options */
	size_t options_size;
	size_t many_outputs;
};

/* The current subject. */
extern const struct subject *host_subject;

/*
 * Runs the suite once for each subject: the fake device, and the default plugin if there is one and
 * the sanitizer supports it. SALUS_TEST_SUBJECT selects one; an argument is a pattern of tests to
 * run.
 */
int host_main(int argc, char **argv, int (*suite)(void));

/* A client of a daemon */

struct bed {
	const struct subject *subject;
	struct host_daemon daemon;
	PJRT_Client *client;
	PJRT_Device *device;
	PJRT_Memory *memory;
	size_t fds, threads; /* before the client was created */
};

/* For a group of tests: one daemon. */
int bed_open(void **state);
int bed_close(void **state);
/* For a test: a client, and a deadline. The test must free everything. */
int bed_setup(void **state);
int bed_teardown(void **state);
/* For a test that kills its daemon: a daemon and a client. */
int bed_setup_own(void **state);
int bed_teardown_own(void **state);

PJRT_Client *client_create(void);
void client_destroy(PJRT_Client *client);

PJRT_Error *try_compile(struct bed *t, const char *text, size_t size, PJRT_LoadedExecutable **out);
PJRT_LoadedExecutable *compile_text(struct bed *t, const char *text);
PJRT_LoadedExecutable *compile(struct bed *t, enum program_kind kind);
void loaded_destroy(PJRT_LoadedExecutable *loaded);
PJRT_Executable *executable_of(PJRT_LoadedExecutable *loaded);
void executable_destroy(PJRT_Executable *executable);

struct array {
	PJRT_Buffer_Type type;
	const int64_t *dims;
	size_t rank;
	const void *data;
	const int64_t *strides; /* in bytes; NULL: dense */
	PJRT_HostBufferSemantics semantics;
};

/* The caller owns the event if out_done is given; otherwise the call waits for it. */
PJRT_Error *try_put(struct bed *t, const struct array *a, PJRT_Buffer **out, PJRT_Event **out_done);
PJRT_Buffer *put(struct bed *t, const struct array *a);
/* first, first + 1, first + 2, first + 3 */
PJRT_Buffer *put_vector(struct bed *t, float first);
PJRT_Error *try_get(PJRT_Buffer *b, void *dst, size_t size);
void get(PJRT_Buffer *b, void *dst, size_t size);
/* Checks that b is first, first + step, ... */
void expect_vector_at(PJRT_Buffer *b, float first, float step, const char *file, int line);
#define expect_vector(b, first, step) expect_vector_at(b, first, step, __FILE__, __LINE__)
void buffer_destroy(PJRT_Buffer *b);
bool is_deleted(PJRT_Buffer *b);
PJRT_Event *ready_event(PJRT_Buffer *b);
int await(PJRT_Event *e); /* returns the code, and destroys e */
PJRT_Error *await_error(PJRT_Event *e); /* destroys e */
int ready_code(PJRT_Buffer *b);

struct run {
	PJRT_LoadedExecutable *loaded;
	PJRT_Buffer *const *args;
	size_t arg_count;
	PJRT_Buffer **outputs;
	PJRT_Event **done; /* NULL: not asked for */
	const int64_t *retained;
	size_t retained_count;
	PJRT_Device *device;
	size_t devices; /* 0: one */
};
PJRT_Error *try_execute(const struct run *r);

#endif
