/* SPDX-License-Identifier: Apache-2.0 */
/*
 * false_daemon - plays salusd for one client, on a thread of the test: true to the protocol until told to lie.
 *
 * It knows one program, and all that is read from its buffers is zeros.
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

/* What it says first. */
struct greeting {
	struct sal_welcome welcome;
	int fds[4]; /* owned; -1: not sent, and nothing behind it */
	unsigned char *facts; /* owned; welcome.fact_bytes, unless a lie says otherwise */
	size_t fact_size;
	size_t cut; /* bytes that are missing at the end, where it hangs up */
};

/* What it says in the ring. */
enum answer {
	ANSWER_COMPILE,
	ANSWER_FETCH,
	ANSWER_EXECUTE,
	ANSWER_DOWNLOAD, /* with the bytes in its tail */
	ANSWER_DOWNLOAD_PLACED, /* with the bytes in the arena */
	ANSWER_UPLOAD_PLACED, /* released */
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
	uint32_t room; /* bytes of the ring it takes, whatever its header says */
	unsigned int times; /* it is said */
	uint64_t leap; /* the ring's head is shown so much further than it is */
	const char *word; /* said before, to no request; NULL: nothing */
	bool last; /* it hangs up afterwards, and has not rung */
};

/* And for a client whose arena is full. */
struct growth {
	struct sal_grown grown;
	int fd; /* owned; -1: none */
};

/* Each changes what would have been said; NULL: nothing. */
struct lie {
	const char *name;
	void (*of_device)(struct sal_device_facts *facts);
	void (*of_program)(struct sal_program_facts *facts);
	void (*greet)(struct greeting *g);
	void (*speak)(struct spoken *s);
	enum answer to; /* that speak changes */
	unsigned int honest; /* answers of this kind before that are true */
	bool once; /* and all after the first lie */
	void (*grow)(struct growth *g);
	unsigned int generous; /* it gives so many times what was asked for; 0: once */
	bool older; /* it tells nothing of the session's memory */
	bool sleeps; /* until its bell is rung, as the real one does; else it looks every millisecond */
};

/* What an Execute said. */
struct executed {
	uint32_t arg_count, retained_count;
	uint32_t retained[512]; /* the first of them */
};

struct false_daemon {
	char dir[64], path[96];
	int listener; /* owned */
	const struct lie *lie; /* borrowed */
	pthread_t thread;
	_Atomic bool stop;
	_Atomic bool deaf; /* it takes nothing from the ring; not for one that sleeps */
	_Atomic bool asleep; /* nothing but its bell, a question or the end wakes it */
	_Atomic unsigned int rings, records, growths; /* so far */
	_Atomic unsigned int unloads; /* so far */
	_Atomic bool is_full; /* it has waited for room in the ring */
	pthread_mutex_t lock; /* of what follows */
	struct sal_hello hello;
	struct executed executed; /* the last; written before it is answered */
};

/* Listens, and sets SALUS_SOCKET. */
void false_daemon_start(struct false_daemon *d, const struct lie *lie);
void false_daemon_stop(struct false_daemon *d);
/* Waits until it sleeps and has taken that many records. */
void false_daemon_expect_asleep(struct false_daemon *d, unsigned int records);
/* What the client said first. */
struct sal_hello false_daemon_hello(struct false_daemon *d);
/* The last Execute that it has answered. */
struct executed false_daemon_executed(struct false_daemon *d);
/* Lets it take records from the ring, or not. */
void false_daemon_hear(struct false_daemon *d, bool hears);

#endif
