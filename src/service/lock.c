/* SPDX-License-Identifier: Apache-2.0 */
#include "service/lock.h"

#include "service/server.h"

/* Returns a different address in each thread. */
static const void *this_thread(void)
{
	static _Thread_local char here;

	return &here;
}

void svc_lock_init(struct svc_lock *lock)
{
	(void)pthread_mutex_init(&lock->door, NULL);
	(void)pthread_mutex_init(&lock->room, NULL);
	atomic_init(&lock->owner, NULL);
}

void svc_lock_fini(struct svc_lock *lock)
{
	(void)pthread_mutex_destroy(&lock->door);
	(void)pthread_mutex_destroy(&lock->room);
}

static bool is_mine(const struct svc_lock *lock)
{
	return atomic_load_explicit(&lock->owner, memory_order_relaxed) == this_thread();
}

SAL_UNCHECKED void svc_lock_enter(struct svc_lock *lock)
{
	SAL_ASSERT(!is_mine(lock));
	(void)pthread_mutex_lock(&lock->door);
	(void)pthread_mutex_lock(&lock->room);
	(void)pthread_mutex_unlock(&lock->door);
	atomic_store_explicit(&lock->owner, this_thread(), memory_order_relaxed);
}

SAL_UNCHECKED void svc_lock_leave(struct svc_lock *lock)
{
	SAL_ASSERT(is_mine(lock));
	atomic_store_explicit(&lock->owner, NULL, memory_order_relaxed);
	(void)pthread_mutex_unlock(&lock->room);
}

SAL_UNCHECKED void svc_lock(struct svc_server *server)
{
	svc_lock_enter(&server->lock);
}

SAL_UNCHECKED bool svc_trylock(struct svc_server *server)
{
	bool has_room = false;

	if (pthread_mutex_trylock(&server->lock.door) != 0)
		return false;
	has_room = pthread_mutex_trylock(&server->lock.room) == 0;
	(void)pthread_mutex_unlock(&server->lock.door);
	if (has_room)
		atomic_store_explicit(&server->lock.owner, this_thread(), memory_order_relaxed);
	return has_room;
}

SAL_UNCHECKED void svc_unlock(struct svc_server *server)
{
	svc_lock_leave(&server->lock);
}

SAL_UNCHECKED void svc_lock_breathe(struct svc_server *server)
{
	svc_lock_leave(&server->lock);
	svc_lock_enter(&server->lock);
}

void svc_assert_locked(const struct svc_server *server)
{
	SAL_ASSERT(is_mine(&server->lock));
}

void svc_assert_unlocked(const struct svc_server *server)
{
	SAL_ASSERT(!is_mine(&server->lock));
}
