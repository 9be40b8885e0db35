/* SPDX-License-Identifier: Apache-2.0 */
/*
 * false_daemon - plays salusd for one client, on a thread of the test. It follows the protocol
 * until the test tells it to lie.
 *
 * It knows one program, and all its buffers contain zeros.
 */
#ifndef SAL_TESTS_FALSE_DAEMON_H
#define SAL_TESTS_FALSE_DAEMON_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/facts.h"
#include "wire/messages.h"

#define FALSE_RING_BYTES (UINT64_C(2) * SAL_RECORD_MAX)
#define FALSE_SEGMENT_BYTES (UINT64_C(1) << 20)

/* The first message of the daemon. */
struct greeting {
	struct sal_welcome welcome;
	int fds[4]; /* owned; -1: not sent, and nothing after it */
	unsigned char *facts; /* owned; welcome.fact_bytes long, unless a lie says otherwise */
	size_t fact_size;
	size_t cut; /* bytes that are missing at the end; then it closes the connection */
};

/* Its answers in the ring. */
enum answer {
	ANSWER_COMPILE,
	ANSWER_FETCH,
	ANSWER_EXECUTE,
	ANSWER_DOWNLOAD, /* the bytes follow the record */
	ANSWER_DOWNLOAD_PLACED, /* the bytes are in the arena */
	ANSWER_UPLOAD_PLACED, /* reports that the place in the arena is free */
	ANSWER_COUNT,
};

struct spoken {
	union {
		struct sal_header header;
		struct sal_msg_reply reply;
		struct sal_msg_done done;
		struct sal_msg_released released;
		unsigned char bytes[1024];
	} record;
	uint32_t room; /* its size in the ring, whatever its header says */
	unsigned int times; /* it is sent this many times */
	uint64_t leap; /* the ring's head is shown this much too far */
	const char *word; /* a message before the answer; NULL: none */
	bool last; /* afterwards it closes the connection without ringing */
};

/* Its answer to a client whose arena is full. */
struct growth {
	struct sal_grown grown;
	int fd; /* owned; -1: none */
	const char *last; /* its reason to leave; then it does not answer. NULL: none */
};

/* Each function changes an answer; NULL: no change. */
struct lie {
	const char *name;
	void (*of_device)(struct sal_device_facts *facts);
	void (*of_program)(struct sal_program_facts *facts);
	void (*greet)(struct greeting *g);
	void (*speak)(struct spoken *s);
	enum answer to; /* the answers that speak changes */
	unsigned int honest; /* true answers of this kind before the first lie */
	bool once; /* only one answer is a lie */
	void (*grow)(struct growth *g);
	unsigned int generous; /* it gives this many times the requested size; 0: once */
	bool older; /* it is older: it does not report the session's memory */
	bool sleeps; /* waits for its bell, as salusd does; else it polls */
};

/* The contents of an Execute record. */
struct executed {
	uint32_t arg_count, retained_count;
	uint32_t retained[512]; /* the first ones */
};

struct false_daemon {
	char dir[64], path[96];
	int listener; /* owned */
	const struct lie *lie; /* borrowed */
	pthread_t thread;
	_Atomic bool stop;
	_Atomic bool deaf; /* it reads nothing from the ring; not together with sleeps */
	_Atomic bool asleep; /* only its bell, a question or the end wakes it */
	_Atomic unsigned int rings, records, growths; /* so far */
	_Atomic unsigned int unloads; /* so far */
	_Atomic bool is_full; /* it has waited for room in the ring */
	pthread_mutex_t lock; /* guards the next fields */
	struct sal_hello hello;
	struct executed executed; /* the last one; written before it is answered */
};

/* Listens, and sets SALUS_SOCKET. */
void false_daemon_start(struct false_daemon *d, const struct lie *lie);
void false_daemon_stop(struct false_daemon *d);
/* Waits until it sleeps and has read this many records. */
void false_daemon_expect_asleep(struct false_daemon *d, unsigned int records);
/* The first message of the client. */
struct sal_hello false_daemon_hello(struct false_daemon *d);
/* The last Execute that it has answered. */
struct executed false_daemon_executed(struct false_daemon *d);
/* Makes it read records from the ring, or stop reading. */
void false_daemon_hear(struct false_daemon *d, bool hears);

#endif
