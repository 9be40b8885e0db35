/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of the device, and the link between it and the host: one of each in a process. */
#include "discrete/discrete.h"

#include <time.h>

#define NS_PER_S INT64_C(1000000000)

/* under disc_lock */
static struct {
	unsigned int clients;
	int64_t limit_bytes, used_bytes;
	int64_t free_ns[2]; /* when the link is free: to the host, to the device */
} device;

PJRT_Error *disc_memory_join(const PJRT_Client *c)
{
	PJRT_Error *error = NULL;

	pthread_mutex_lock(&disc_lock);
	if (device.clients == 0)
		device.limit_bytes = c->options.memory_limit;
	if (device.limit_bytes == c->options.memory_limit)
		device.clients++;
	else
		error = disc_error(PJRT_Error_Code_INVALID_ARGUMENT,
				   "another client has a memory_limit of %lld",
				   (long long)device.limit_bytes);
	pthread_mutex_unlock(&disc_lock);
	return error;
}

void disc_memory_leave(void)
{
	pthread_mutex_lock(&disc_lock);
	device.clients--;
	if (device.clients == 0 && device.used_bytes != 0)
		disc_die("%lld bytes are in use, but there is no client",
			 (long long)device.used_bytes);
	pthread_mutex_unlock(&disc_lock);
}

int64_t disc_memory_round(int64_t bytes)
{
	return (bytes + DISC_GRAIN - 1) / DISC_GRAIN * DISC_GRAIN;
}

bool disc_memory_take(PJRT_Client *c, int64_t bytes)
{
	bool fits;

	pthread_mutex_lock(&disc_lock);
	fits = bytes <= device.limit_bytes - device.used_bytes;
	if (fits) {
		device.used_bytes += bytes;
		c->used_bytes += bytes;
		c->allocations += bytes > 0;
		if (c->used_bytes > c->peak_bytes)
			c->peak_bytes = c->used_bytes;
		if (bytes > c->largest_bytes)
			c->largest_bytes = bytes;
	}
	pthread_mutex_unlock(&disc_lock);
	return fits;
}

PJRT_Error *disc_memory_full(const PJRT_Client *c, int64_t bytes)
{
	int64_t used_bytes;

	pthread_mutex_lock(&disc_lock);
	used_bytes = device.used_bytes;
	pthread_mutex_unlock(&disc_lock);
	return disc_error(PJRT_Error_Code_RESOURCE_EXHAUSTED,
			  "Out of memory while trying to allocate %lld bytes: %lld of %lld are in "
			  "use.",
			  (long long)bytes, (long long)used_bytes,
			  (long long)c->options.memory_limit);
}

static int64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

void disc_memory_transfer(const PJRT_Client *c, bool to_device, int64_t bytes)
{
	struct timespec until;
	int64_t end_ns = now_ns();

	if (c->options.bandwidth == 0)
		return;
	pthread_mutex_lock(&disc_lock);
	if (device.free_ns[to_device] > end_ns)
		end_ns = device.free_ns[to_device];
	end_ns += (int64_t)((double)bytes / (double)c->options.bandwidth * (double)NS_PER_S);
	device.free_ns[to_device] = end_ns;
	pthread_mutex_unlock(&disc_lock);
	until = (struct timespec){ .tv_sec = end_ns / NS_PER_S, .tv_nsec = end_ns % NS_PER_S };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
		;
}
