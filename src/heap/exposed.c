/* SPDX-License-Identifier: Apache-2.0 */
#include "heap/exposed.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Linux 5.1; old headers lack it. */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static uint32_t count_of(const struct sal_exposures *e, uint32_t meter)
{
	uint32_t count = 0;

	for (uint32_t i = 1; i < e->end; i++)
		count += e->all[i].state != SAL_EXPOSED_UNUSED && e->all[i].meter == meter;
	return count;
}

bool sal_exposed_is_full(const struct sal_exposures *e, uint32_t meter)
{
	return e->count >= e->max || count_of(e, meter) >= e->session_max;
}

uint32_t sal_exposed_add(struct sal_exposures *e, uint32_t meter, uint32_t span, uint32_t pages)
{
	uint32_t i = 1;

	if (sal_exposed_is_full(e, meter))
		return SAL_NOT_EXPOSED;
	while (i < e->end && e->all[i].state != SAL_EXPOSED_UNUSED)
		i++;
	if (i == SAL_EXPOSED_MAX)
		return SAL_NOT_EXPOSED;
	e->end = i >= e->end ? i + 1 : e->end;
	e->count++;
	e->all[i] = (struct sal_exposed){ .number = ++e->last_number,
					  .meter = meter,
					  .span = span,
					  .pages = pages,
					  .fd = -1,
					  .state = SAL_EXPOSED_USED };
	return i;
}

void sal_exposed_remove(struct sal_exposures *e, uint32_t index)
{
	e->all[index] = (struct sal_exposed){ .fd = -1 };
	e->count--;
}

uint32_t sal_exposed_find_free(const struct sal_exposures *e, uint32_t meter, uint32_t pages)
{
	for (uint32_t i = 1; i < e->end; i++)
		if (e->all[i].state == SAL_EXPOSED_FREE && e->all[i].meter == meter &&
		    e->all[i].pages == pages)
			return i;
	return SAL_NOT_EXPOSED;
}

uint32_t sal_exposed_any_free(const struct sal_exposures *e, uint32_t meter)
{
	for (uint32_t i = 1; i < e->end; i++)
		if (e->all[i].state == SAL_EXPOSED_FREE && (!meter || e->all[i].meter == meter))
			return i;
	return SAL_NOT_EXPOSED;
}

uint32_t sal_exposed_find(const struct sal_exposures *e, uint64_t number)
{
	for (uint32_t i = 1; i < e->end; i++)
		if (e->all[i].state != SAL_EXPOSED_UNUSED && e->all[i].number == number)
			return i;
	return SAL_NOT_EXPOSED;
}

void sal_exposed_abandon(struct sal_exposures *e, uint32_t meter)
{
	for (uint32_t i = 1; i < e->end; i++)
		if (e->all[i].state == SAL_EXPOSED_USED && e->all[i].meter == meter)
			e->all[i].is_orphan = true;
}

static bool put_private(void *at, size_t bytes)
{
	return mmap(at, bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

int sal_exposed_open(void *at, size_t bytes)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
	int fd = memfd_create("salus-block", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t)bytes) < 0 ||
	    mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
		(void)close(fd);
		return -1;
	}
	if (fcntl(fd, F_ADD_SEALS, seals) == 0)
		return fd;
	(void)put_private(at, bytes); /* else it is memory like any other: nobody has the memfd */
	(void)close(fd);
	return -1;
}

bool sal_exposed_close(void *at, size_t bytes, int fd)
{
	if (!put_private(at, bytes))
		return false;
	(void)close(fd);
	return true;
}
