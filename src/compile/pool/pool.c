/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/pool/pool.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "compile/frame.h"
#include "compile/store/image.h"
#include "compile/options.h"
#include "compile/pool/pool_impl.h"

/* Bytes of unused programs in memory. */
#define SHELF_BYTES (UINT64_C(256) << 20)
/* A second idle helper ends after this time. */
#define SPARE_NS (UINT64_C(60) * 1000000000)

/* Open and close */

static void pool_free(struct sal_compile_pool *pool)
{
	sal_disk_close(&pool->disk);
	sal_shelf_destroy(pool->shelf);
	sodium_memzero(&pool->seal, sizeof(pool->seal));
	free(pool->posts);
	free(pool->helper_path);
	free(pool->plugin_path);
	free(pool);
}

void sal_pool_unpin(struct sal_compile_pool *pool)
{
	if (--pool->pins == 0)
		pool_free(pool);
}

static void handle_closed(uv_handle_t *handle)
{
	sal_pool_unpin(handle->data);
}

static int check_sigpipe(struct sal_err *err)
{
	struct sigaction action;

	if (sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL)
		return sal_err_set(err, SAL_FAILED_PRECONDITION,
				   "a process that compiles must ignore SIGPIPE");
	return SAL_OK;
}

static int copy_config(struct sal_compile_pool *pool, const struct sal_compile_config *cfg,
		       struct sal_err *err)
{
	const struct sal_identity_source identity = { .plugin_path = cfg->plugin_path,
						      .plugin_options = cfg->plugin_options,
						      .platform_version = cfg->platform_version,
						      .device_kind = cfg->device_kind,
						      .api_major = cfg->api_major,
						      .api_minor = cfg->api_minor };

	pool->helper_path = strdup(cfg->helper_path);
	pool->plugin_path = strdup(cfg->plugin_path);
	pool->plugin_options = cfg->plugin_options;
	if (!pool->helper_path || !pool->plugin_path)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a compile pool");
	sal_identity_make(&identity, pool->identity);
	return SAL_OK;
}

/* Without a disk, the secret lives as long as the pool. */
static void open_disk(struct sal_compile_pool *pool, const struct sal_compile_config *cfg)
{
	uint8_t secret[SAL_SEAL_SECRET_BYTES];

	if (cfg->cache_dir)
		pool->stats.has_disk = sal_disk_open(&pool->disk, cfg->cache_dir, cfg->cache_bytes,
						     pool->identity,
						     &pool->stats.disk_err) == SAL_OK;
	if (pool->stats.has_disk) {
		pool->seal = pool->disk.seal;
		return;
	}
	randombytes_buf(secret, sizeof(secret));
	sal_seal_init(&pool->seal, secret, pool->identity);
	sodium_memzero(secret, sizeof(secret));
}

static void set_limits(struct sal_compile_pool *pool, const struct sal_compile_config *cfg)
{
	uint64_t limit_ns = cfg->task_limit_ns ? cfg->task_limit_ns : SAL_COMPILE_TIME_NS;

	pool->task_limit_ns = limit_ns;
	pool->spare_ns = cfg->spare_ns ? cfg->spare_ns : SPARE_NS;
	pool->limits.memory_bytes = cfg->helper_memory_bytes;
	if (cfg->task_cpu_ns)
		pool->limits.cpu_s = cfg->task_cpu_ns / 1000000000u + 1;
	else
		pool->limits.cpu_s = (limit_ns / 1000000000u + 1) * uv_available_parallelism();
}

static int pool_init(struct sal_compile_pool *pool, const struct sal_compile_config *cfg,
		     struct sal_err *err)
{
	int rc = check_sigpipe(err);

	if (rc < 0)
		return rc;
	if (sodium_init() < 0)
		return sal_err_set(err, SAL_INTERNAL, "libsodium cannot be initialised");
	rc = copy_config(pool, cfg, err);
	if (rc < 0)
		return rc;
	pool->shelf = sal_shelf_create(SHELF_BYTES);
	if (!pool->shelf)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a compile pool");
	open_disk(pool, cfg);
	set_limits(pool, cfg);
	return sal_crew_open(pool, cfg->helpers ? cfg->helpers : 1, err);
}

int sal_compile_pool_open(uv_loop_t *loop, const struct sal_compile_config *cfg,
			  struct sal_compile_pool **out_pool, struct sal_err *err)
{
	struct sal_compile_pool *pool = calloc(1, sizeof(*pool));
	int rc;

	*out_pool = NULL;
	if (!pool)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a compile pool");
	pool->loop = loop;
	pool->disk.dir_fd = -1;
	LIST_INIT(&pool->tasks);
	RB_INIT(&pool->by_key);
	LIST_INIT(&pool->owners);
	TAILQ_INIT(&pool->turns);
	STAILQ_INIT(&pool->store_queue);
	TAILQ_INIT(&pool->ready);
	rc = pool_init(pool, cfg, err);
	if (rc < 0) {
		pool_free(pool);
		return rc;
	}
	(void)uv_idle_init(loop, &pool->deliver);
	(void)uv_timer_init(loop, &pool->watch);
	(void)uv_timer_init(loop, &pool->lull);
	pool->deliver.data = pool->watch.data = pool->lull.data = pool;
	pool->pins += 3;
	*out_pool = pool;
	return SAL_OK;
}

/* A task that a thread or a helper works on is freed later, when that work ends. */
static void forget_requests(struct sal_compile_pool *pool)
{
	struct sal_compile_request *r;
	struct sal_task *task = LIST_FIRST(&pool->tasks);

	while (task) {
		struct sal_task *next = LIST_NEXT(task, all);

		while ((r = TAILQ_FIRST(&task->waiters))) {
			TAILQ_REMOVE(&task->waiters, r, link);
			sal_request_free(r);
		}
		if (task->stage == SAL_TASK_QUEUED)
			sal_task_free(task);
		task = next;
	}
	while ((r = TAILQ_FIRST(&pool->ready))) {
		TAILQ_REMOVE(&pool->ready, r, link);
		sal_request_free(r);
	}
	pool->ready_count = 0;
}

void sal_compile_pool_close(struct sal_compile_pool *pool)
{
	if (!pool)
		return;
	pool->closing = true;
	forget_requests(pool);
	sal_crew_stop(pool);
	uv_close((uv_handle_t *)&pool->deliver, handle_closed);
	uv_close((uv_handle_t *)&pool->watch, handle_closed);
	uv_close((uv_handle_t *)&pool->lull, handle_closed);
	sal_store_queue_flush(pool);
}

/* Programs */

static bool text_is(struct sal_text text, const char *name)
{
	return text.size == strlen(name) && memcmp(text.at, name, text.size) == 0;
}

/* Other formats can carry options that options.h does not check. */
static int check_source(const struct sal_compile_source *source, struct sal_err *err)
{
	uint64_t sizes[SAL_FRAME_PARTS] = { source->format.size, source->program.size,
					    source->options.size };

	if (!text_is(source->format, "mlir") && !text_is(source->format, "hlo"))
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "the program's format must be \"mlir\" or \"hlo\", not \"%.*s\"",
				   source->format.size < 40 ? (int)source->format.size : 40,
				   source->format.at);
	if (sal_frame_bytes(sizes) == UINT64_MAX)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "the program is too large: %zu bytes, and 1 GiB is the limit",
				   source->program.size);
	return SAL_OK;
}

/* Takes the program's bytes only on success. */
static int submit(struct sal_compile_pool *pool, const struct sal_compile_source *source,
		  const struct sal_compile_asker *asker, struct sal_compile_request **out_request,
		  struct sal_err *err)
{
	struct sal_compile_source clean = *source;
	struct sal_compile_request *r;
	struct sal_task *task = NULL;
	char *options;
	int rc = check_source(source, err);

	if (rc < 0)
		return rc;
	rc = sal_options_clean(source->options, &options, &clean.options.size, err);
	if (rc < 0)
		return rc;
	pool->stats.options_dropped += (uint64_t)rc;
	clean.options.at = options;
	r = sal_request_create(pool, asker);
	if (r)
		task = sal_task_create(pool, asker->owner, &clean, err);
	else
		(void)sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a request");
	free(options);
	if (!task) {
		free(r);
		return -SAL_RESOURCE_EXHAUSTED;
	}
	r->task = task;
	TAILQ_INSERT_TAIL(&task->waiters, r, link);
	sal_task_start(task);
	*out_request = r;
	return SAL_OK;
}

int sal_compile_submit(struct sal_compile_pool *pool, const struct sal_compile_source *take_source,
		       const struct sal_compile_asker *asker,
		       struct sal_compile_request **out_request, struct sal_err *err)
{
	int rc;

	*out_request = NULL;
	rc = submit(pool, take_source, asker, out_request, err);
	if (rc < 0)
		free((void *)take_source->program.at);
	return rc;
}

struct sal_image *sal_compile_find(struct sal_compile_pool *pool,
				   const uint8_t key[SAL_PROGRAM_KEY_BYTES])
{
	struct sal_image *image = sal_shelf_find(pool->shelf, key);

	if (image || !pool->stats.has_disk)
		return image;
	image = sal_disk_read(&pool->disk, key);
	return image ? sal_shelf_put(pool->shelf, image) : NULL;
}

int sal_image_seal(const struct sal_compile_pool *pool, struct sal_image *image, void **out_bytes,
		   size_t *out_size, struct sal_err *err)
{
	size_t size = sal_seal_bytes(image);
	uint8_t *bytes = malloc(size);

	*out_bytes = NULL;
	*out_size = 0;
	if (!bytes)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED,
				   "no memory for a program of %zu bytes", size);
	sal_seal_make(&pool->seal, image, bytes, bytes + size - SAL_SEAL_MAC_BYTES);
	memcpy(bytes + SAL_SEAL_HEAD_BYTES, sal_image_room(image), sal_image_bytes(image));
	*out_bytes = bytes;
	*out_size = size;
	return SAL_OK;
}

int sal_image_open(const struct sal_compile_pool *pool, const void *bytes, size_t size,
		   struct sal_image **out_image, struct sal_err *err)
{
	const uint8_t *at = bytes;
	uint8_t head[SAL_SEAL_HEAD_BYTES];
	uint8_t mac[SAL_SEAL_MAC_BYTES];
	struct sal_image *image;
	int rc;

	*out_image = NULL;
	if (size < sizeof(head) + sizeof(mac))
		return sal_err_set(err, SAL_DATA_LOSS, "these bytes are not a sealed program");
	memcpy(head, at, sizeof(head)); /* a client may change its bytes during the check */
	memcpy(mac, at + size - sizeof(mac), sizeof(mac));
	rc = sal_seal_begin(head, size, &image, err);
	if (rc < 0)
		return rc;
	memcpy(sal_image_room(image), at + sizeof(head), sal_image_bytes(image));
	rc = sal_seal_check(&pool->seal, image, head, mac, err);
	if (rc < 0) {
		sal_image_unref(image);
		return rc;
	}
	*out_image = image;
	return SAL_OK;
}

struct sal_image *sal_compile_adopt(struct sal_compile_pool *pool, struct sal_image *take_image)
{
	return sal_shelf_put(pool->shelf, take_image);
}

void sal_compile_stats(const struct sal_compile_pool *pool, struct sal_compile_stats *out_stats)
{
	*out_stats = pool->stats;
}
