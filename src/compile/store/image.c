/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/store/image.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct whole {
	struct sal_image image; /* first, so that pointers to image and to the whole are equal */
	_Atomic uint32_t refs;
	char room[];
};

static struct whole *whole_of(const struct sal_image *image)
{
	return (struct whole *)image;
}

struct sal_image *sal_image_create(const uint64_t sizes[SAL_FRAME_PARTS])
{
	uint64_t bytes = sal_frame_bytes(sizes);
	struct whole *w;

	if (bytes == UINT64_MAX)
		return NULL;
	w = malloc(sizeof(*w) + bytes);
	if (!w)
		return NULL;
	memset(w, 0, sizeof(*w));
	atomic_init(&w->refs, 1);
	w->image.facts = (struct sal_text){ w->room, sizes[0] };
	w->image.image = (struct sal_text){ w->room + sizes[0], sizes[1] };
	w->image.optimized = (struct sal_text){ w->room + sizes[0] + sizes[1], sizes[2] };
	return &w->image;
}

char *sal_image_room(struct sal_image *image)
{
	return whole_of(image)->room;
}

size_t sal_image_bytes(const struct sal_image *image)
{
	return image->facts.size + image->image.size + image->optimized.size;
}

bool sal_image_is_shared(const struct sal_image *image)
{
	/* Acquire: if one reference is left, all accesses through the others have happened. */
	return atomic_load_explicit(&whole_of(image)->refs, memory_order_acquire) > 1;
}

struct sal_image *sal_image_ref(struct sal_image *image)
{
	atomic_fetch_add_explicit(&whole_of(image)->refs, 1, memory_order_relaxed);
	return image;
}

void sal_image_unref(struct sal_image *image)
{
	if (!image)
		return;
	/* Acquire and release: all accesses by other threads happen before the free. */
	if (atomic_fetch_sub_explicit(&whole_of(image)->refs, 1, memory_order_acq_rel) == 1)
		free(whole_of(image));
}
