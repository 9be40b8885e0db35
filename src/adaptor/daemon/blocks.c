/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/daemon/blocks.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <unistd.h>

#include "adaptor/daemon/conn.h"
#include "adaptor/daemon/conn_state.h"
#include "base/sys/fd.h"
#include "link/socket.h"

#define ASK_TIMEOUT_MS 10000

struct block {
	LIST_ENTRY(block) link;
	uint64_t number, bytes;
	void *at; /* owned mapping; NULL: not yet */
	uint32_t users;
	bool is_withdrawn;
};

struct adp_blocks {
	pthread_mutex_t lock;
	LIST_HEAD(, block) all;
};

struct adp_blocks *adp_blocks_create(void)
{
	struct adp_blocks *blocks = calloc(1, sizeof(*blocks));

	if (blocks)
		(void)pthread_mutex_init(&blocks->lock, NULL);
	return blocks;
}

static void block_free(struct block *b)
{
	LIST_REMOVE(b, link);
	if (b->at)
		(void)munmap(b->at, (size_t)b->bytes);
	free(b);
}

void adp_blocks_destroy(struct adp_blocks *blocks)
{
	struct block *b;

	if (!blocks)
		return;
	while ((b = LIST_FIRST(&blocks->all))) /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
		block_free(b); /* takes it out of the list, too */
	(void)pthread_mutex_destroy(&blocks->lock);
	free(blocks);
}

bool adp_blocks_can(const struct adp_conn *conn)
{
	return conn->minor >= SAL_MINOR_EXPOSE;
}

static struct block *find(struct adp_blocks *blocks, uint64_t number)
{
	struct block *b;

	LIST_FOREACH(b, &blocks->all, link)
		if (b->number == number)
			return b;
	return NULL;
}

/* The block of this number, with one more use. NULL for lack of memory. */
static struct block *use(struct adp_blocks *blocks, const struct sal_exposed_place *place)
{
	struct block *b;

	(void)pthread_mutex_lock(&blocks->lock);
	b = find(blocks, place->block);
	if (!b) {
		b = calloc(1, sizeof(*b));
		if (b) {
			b->number = place->block;
			b->bytes = place->bytes;
			LIST_INSERT_HEAD(&blocks->all, b, link);
		}
	}
	if (b)
		b->users++;
	(void)pthread_mutex_unlock(&blocks->lock);
	return b;
}

static void drop(struct adp_blocks *blocks, struct block *b)
{
	(void)pthread_mutex_lock(&blocks->lock);
	if (--b->users == 0 && (b->is_withdrawn || !b->at))
		block_free(b);
	(void)pthread_mutex_unlock(&blocks->lock);
}

/* NULL: the daemon does not give the block. The caller holds the grow lock. */
static void *ask(struct adp_conn *conn, const struct block *b)
{
	struct sal_grow question = { .bytes = SAL_GROW_BLOCK | b->number };
	struct sal_grown got = { 0 };
	void *at = NULL;
	int fd = -1;

	if (adp_conn_is_dead(conn) ||
	    sal_socket_send(conn->socket, &question, sizeof(question), NULL, 0, NULL) < 0 ||
	    sal_socket_receive(conn->socket, &got, sizeof(got), &fd, 1, ASK_TIMEOUT_MS, NULL) < 0)
		return NULL;
	if (got.code == 0 && fd >= 0 && got.bytes == b->bytes)
		at = sal_shared_map_to_read(fd, b->bytes);
	sal_close(&fd);
	return at;
}

void *adp_block_use(struct adp_conn *conn, const struct sal_exposed_place *place)
{
	struct block *b = use(conn->blocks, place);
	void *at = NULL;

	if (!b)
		return NULL;
	(void)pthread_mutex_lock(&conn->grow_lock);
	if (!b->at && b->number < SAL_GROW_BLOCK) {
		at = ask(conn, b);
		(void)pthread_mutex_lock(&conn->blocks->lock);
		b->at = at;
		(void)pthread_mutex_unlock(&conn->blocks->lock);
	}
	at = b->bytes == place->bytes ? b->at : NULL;
	(void)pthread_mutex_unlock(&conn->grow_lock);
	if (!at)
		drop(conn->blocks, b);
	return at;
}

void adp_block_drop(struct adp_conn *conn, uint64_t number)
{
	struct block *b;

	if (adp_conn_is_forked(conn)) /* the lock may be locked for ever */
		return;
	(void)pthread_mutex_lock(&conn->blocks->lock);
	b = find(conn->blocks, number);
	(void)pthread_mutex_unlock(&conn->blocks->lock);
	if (b)
		drop(conn->blocks, b); /* the caller's use keeps it until here */
}

void adp_block_withdraw(struct adp_blocks *blocks, uint64_t number)
{
	struct block *b;

	(void)pthread_mutex_lock(&blocks->lock);
	b = find(blocks, number);
	if (b) {
		b->is_withdrawn = true;
		if (b->users == 0)
			block_free(b);
	}
	(void)pthread_mutex_unlock(&blocks->lock);
}
