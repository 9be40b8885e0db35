/* SPDX-License-Identifier: Apache-2.0 */
/* Contents in the device's memory, and the bytes they take. */
#include "discrete/discrete.h"

#include "base/facts.h"

/* The device packs small types. */
static int64_t element_bits(PJRT_Buffer_Type type)
{
	switch (type) {
	case PJRT_Buffer_Type_S4:
	case PJRT_Buffer_Type_U4:
	case PJRT_Buffer_Type_F4E2M1FN:
		return 4;
	case PJRT_Buffer_Type_S2:
	case PJRT_Buffer_Type_U2:
		return 2;
	default:
		return 8 * (int64_t)sal_type_bytes((int32_t)type);
	}
}

static int64_t elements(const struct disc_shape *shape)
{
	int64_t count = 1;

	for (size_t i = 0; i < shape->rank; i++)
		if (__builtin_mul_overflow(count, shape->dims[i], &count))
			return INT64_MAX / 128;
	return count;
}

int64_t disc_shape_bytes(const struct disc_shape *shape)
{
	return (elements(shape) * element_bits(shape->type) + 7) / 8;
}

int64_t disc_shape_host_bytes(const struct disc_shape *shape)
{
	return elements(shape) * (int64_t)sal_type_bytes((int32_t)shape->type);
}

struct disc_store *disc_store(PJRT_Client *c, PJRT_Memory *memory, int64_t bytes)
{
	struct disc_store *s = disc_new(1, sizeof(*s));

	s->client = c;
	s->memory = memory;
	s->bytes = bytes;
	s->refs = 1;
	s->defined = disc_event();
	pthread_mutex_lock(&disc_lock);
	c->stores++;
	pthread_mutex_unlock(&disc_lock);
	return s;
}

struct disc_store *disc_store_ref(struct disc_store *s)
{
	pthread_mutex_lock(&disc_lock);
	s->refs++;
	pthread_mutex_unlock(&disc_lock);
	return s;
}

void disc_inner_destroy(PJRT_Buffer *inner)
{
	PJRT_Buffer_Destroy_Args destroy = { .struct_size = PJRT_Buffer_Destroy_Args_STRUCT_SIZE,
					     .buffer = inner };

	if (inner)
		disc_error_destroy(disc_wrap(disc_inner->PJRT_Buffer_Destroy(&destroy)));
}

void disc_store_unref(struct disc_store *s)
{
	bool is_last;

	pthread_mutex_lock(&disc_lock);
	is_last = --s->refs == 0;
	pthread_mutex_unlock(&disc_lock);
	if (!is_last)
		return;
	disc_inner_destroy(s->inner);
	(void)disc_memory_take(s->client, -s->bytes);
	disc_event_unref(s->defined);
	pthread_mutex_lock(&disc_lock);
	s->client->stores--;
	pthread_mutex_unlock(&disc_lock);
	free(s);
}

void disc_store_define(struct disc_store *s, PJRT_Buffer *take_inner, const PJRT_Error *error)
{
	s->inner = take_inner;
	disc_event_fire(s->defined, error ? error->code : PJRT_Error_Code_OK,
			error ? error->text : "");
}

PJRT_Error *disc_store_read(struct disc_store *s)
{
	pthread_mutex_lock(&disc_lock);
	s->readers++;
	pthread_mutex_unlock(&disc_lock);
	return disc_event_wait(s->defined);
}

void disc_store_leave(struct disc_store *s)
{
	pthread_mutex_lock(&disc_lock);
	s->readers--;
	pthread_cond_broadcast(&disc_changed);
	pthread_mutex_unlock(&disc_lock);
}
