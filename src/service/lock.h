/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock - the one lock of salusd. It guards decisions: the engine, the sessions and their maps.
 *
 * The rule: a thread that holds the lock makes no vendor call, makes no call that can block, does
 * not write to the log's file, and runs no loop whose length a client chooses. So a thread holds
 * the lock for microseconds.
 * Every vendor call goes through svc_vendor() (server.h), which asserts in every build that the
 * caller does not hold the lock.
 *
 * The lock is fair. It consists of two mutexes: a thread locks the door, then the room. A thread
 * that waits for the room holds the door. So a thread that releases the lock and wants it back at
 * once comes after the waiting thread.
 *
 * clang's -Wthread-safety checks the functions marked SVC_LOCKED and SVC_UNLOCKED. The process has
 * one lock, so one name, svc_decisions, stands for the lock. This name has no object behind it.
 */
#ifndef SAL_SERVICE_LOCK_H
#define SAL_SERVICE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/annotate.h"

struct SAL_CAPABILITY("lock") svc_capability;
extern struct svc_capability svc_decisions;

/* The caller holds the lock before and after the call. */
#define SVC_LOCKED SAL_REQUIRES(svc_decisions)
/* The caller does not hold the lock. */
#define SVC_UNLOCKED SAL_EXCLUDES(svc_decisions)

struct svc_lock {
	pthread_mutex_t door, room;
	_Atomic(const void *) owner; /* names the thread that holds the lock; NULL: none */
};

struct svc_server;

void svc_lock_init(struct svc_lock *lock);
void svc_lock_fini(struct svc_lock *lock);

void svc_lock_enter(struct svc_lock *lock) SAL_ACQUIRES(svc_decisions);
void svc_lock_leave(struct svc_lock *lock) SAL_RELEASES(svc_decisions);

/* The same for the server's lock. */
void svc_lock(struct svc_server *server) SAL_ACQUIRES(svc_decisions);
/* Never waits. False: another thread holds the lock or waits for it. */
bool svc_trylock(struct svc_server *server) SAL_TRY_ACQUIRES(svc_decisions);
void svc_unlock(struct svc_server *server) SAL_RELEASES(svc_decisions);
/* Release the lock and take it again, after a thread that waits for the lock. */
void svc_lock_breathe(struct svc_server *server) SVC_LOCKED;

void svc_assert_locked(const struct svc_server *server) SAL_ASSERTS(svc_decisions);
void svc_assert_unlocked(const struct svc_server *server);

#endif
