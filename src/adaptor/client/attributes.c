/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/client/attributes.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "wire/facts.h"

PJRT_NamedValue *adp_named_values(struct sal_values values)
{
	PJRT_NamedValue *all = calloc(values.count + 1, sizeof(*all));
	size_t i;

	for (i = 0; all && i < values.count; i++) {
		const struct sal_value *v = &values.at[i];
		PJRT_NamedValue *n = &all[i];

		n->struct_size = PJRT_NamedValue_STRUCT_SIZE;
		n->name = v->name.at;
		n->name_size = v->name.size;
		n->type = (PJRT_NamedValue_Type)v->kind;
		n->value_size = 1;
		switch (v->kind) {
		case SAL_VALUE_TEXT:
			n->string_value = v->text.at;
			n->value_size = v->text.size;
			break;
		case SAL_VALUE_INT:
			n->int64_value = v->number;
			break;
		case SAL_VALUE_INTS:
			n->int64_array_value = v->numbers;
			n->value_size = v->number_count;
			break;
		case SAL_VALUE_FLOAT:
			n->float_value = v->real;
			break;
		case SAL_VALUE_BOOL:
			n->bool_value = v->number != 0;
			break;
		}
	}
	return all;
}

/*
 * The attributes of the plugin live as long as the process, and JAX reads them without a client. So
 * they are a copy of the first daemon's.
 */
static struct {
	pthread_mutex_t lock;
	void *bytes;
	struct sal_device_facts *facts;
	PJRT_NamedValue *values;
	size_t count;
} plugin = { .lock = PTHREAD_MUTEX_INITIALIZER };

void adp_attributes_remember(struct sal_text bytes)
{
	(void)pthread_mutex_lock(&plugin.lock);
	if (!plugin.bytes) {
		plugin.bytes = malloc(bytes.size);
		if (plugin.bytes)
			memcpy(plugin.bytes, bytes.at, bytes.size);
		if (plugin.bytes &&
		    sal_device_facts_unpack(plugin.bytes, bytes.size, &plugin.facts, NULL) >= 0)
			plugin.values = adp_named_values(plugin.facts->plugin_attributes);
		plugin.count = plugin.values ? plugin.facts->plugin_attributes.count : 0;
	}
	(void)pthread_mutex_unlock(&plugin.lock);
}

PJRT_Error *adp_Plugin_Initialize(PJRT_Plugin_Initialize_Args *args)
{
	(void)args;
	return NULL;
}

PJRT_Error *adp_Plugin_Attributes(PJRT_Plugin_Attributes_Args *args)
{
	(void)pthread_mutex_lock(&plugin.lock);
	args->attributes = plugin.values;
	args->num_attributes = plugin.count;
	(void)pthread_mutex_unlock(&plugin.lock);
	return NULL;
}
