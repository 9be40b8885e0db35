/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions: of the plugin, and of programs. Values in lists are longer than in our header. */
#include "discrete/discrete.h"

#include <string.h>

#define VALUE_BYTES (sizeof(PJRT_NamedValue) + DISC_GROWTH)

PJRT_NamedValue *disc_value_at(PJRT_NamedValue *values, size_t index)
{
	return (PJRT_NamedValue *)(void *)((char *)values + index * VALUE_BYTES);
}

PJRT_NamedValue *disc_values(const PJRT_NamedValue *values, size_t count)
{
	PJRT_NamedValue *list = disc_new(count, VALUE_BYTES);

	for (size_t i = 0; i < count; i++) {
		PJRT_NamedValue *value = disc_value_at(list, i);

		*value = values[i];
		value->struct_size = VALUE_BYTES;
		/* A reader that steps by its own size reads this. */
		memset(value + 1, 0xff, DISC_GROWTH);
	}
	return list;
}

/* The plugin */

static PJRT_Error *initialize(PJRT_Plugin_Initialize_Args *args)
{
	PJRT_Plugin_Initialize_Args inner = {
		.struct_size = PJRT_Plugin_Initialize_Args_STRUCT_SIZE,
	};
	PJRT_Error *error;

	DISC_ENTER(PJRT_Plugin_Initialize_Args, args);
	error = disc_load();
	return error ? error : disc_wrap(disc_inner->PJRT_Plugin_Initialize(&inner));
}

/* The inner plugin's, which say what programs it takes, and CUDA's version. */
static PJRT_Error *plugin_attributes(PJRT_Plugin_Attributes_Args *args)
{
	static const char name[] = "cuda_version";
	static PJRT_NamedValue *list; /* for good, as the attributes of every plugin */
	PJRT_Plugin_Attributes_Args inner = {
		.struct_size = PJRT_Plugin_Attributes_Args_STRUCT_SIZE,
	};
	PJRT_NamedValue *all;
	PJRT_Error *error;

	DISC_ENTER(PJRT_Plugin_Attributes_Args, args);
	error = disc_wrap(disc_inner->PJRT_Plugin_Attributes(&inner));
	if (error)
		return error;
	all = disc_new(inner.num_attributes + 1, sizeof(*all));
	memcpy(all, inner.attributes, inner.num_attributes * sizeof(*all));
	all[inner.num_attributes] = (PJRT_NamedValue){ .name = name,
						       .name_size = sizeof(name) - 1,
						       .type = PJRT_NamedValue_kInt64,
						       .int64_value = 12000,
						       .value_size = 1 };
	pthread_mutex_lock(&disc_lock);
	if (!list)
		list = disc_values(all, inner.num_attributes + 1);
	pthread_mutex_unlock(&disc_lock);
	free(all);
	args->attributes = list;
	args->num_attributes = inner.num_attributes + disc_is_cuda();
	return NULL;
}

static PJRT_Error *device_attributes(PJRT_DeviceDescription_Attributes_Args *args)
{
	static const PJRT_NamedValue values[] = {
		{ .name = "vendor",
		  .name_size = 6,
		  .type = PJRT_NamedValue_kString,
		  .string_value = "salus",
		  .value_size = 5 },
		{ .name = "core_count",
		  .name_size = 10,
		  .type = PJRT_NamedValue_kInt64,
		  .int64_value = 2,
		  .value_size = 1 },
	};
	static PJRT_NamedValue *list; /* for good */

	DISC_ENTER(PJRT_DeviceDescription_Attributes_Args, args);
	pthread_mutex_lock(&disc_lock);
	if (!list)
		list = disc_values(values, 2);
	pthread_mutex_unlock(&disc_lock);
	args->attributes = list;
	args->num_attributes = 2;
	return NULL;
}

/* Programs */

static PJRT_Error *get_executable(PJRT_LoadedExecutable_GetExecutable_Args *args)
{
	PJRT_LoadedExecutable_GetExecutable_Args get = {
		.struct_size = PJRT_LoadedExecutable_GetExecutable_Args_STRUCT_SIZE,
	};
	PJRT_Error *error;

	DISC_ENTER(PJRT_LoadedExecutable_GetExecutable_Args, args);
	get.loaded_executable = args->loaded_executable->inner;
	error = disc_wrap(disc_inner->PJRT_LoadedExecutable_GetExecutable(&get));
	if (error)
		return error;
	args->executable = disc_new(1, sizeof(*args->executable));
	args->executable->inner = get.executable;
	return NULL;
}

static PJRT_Error *destroy(PJRT_Executable_Destroy_Args *args)
{
	PJRT_Executable_Destroy_Args inner = {
		.struct_size = PJRT_Executable_Destroy_Args_STRUCT_SIZE,
	};

	DISC_ENTER(PJRT_Executable_Destroy_Args, args);
	inner.executable = args->executable->inner;
	free(args->executable->costs);
	free(args->executable->kinds);
	free(args->executable->kind_sizes);
	free(args->executable);
	return disc_wrap(disc_inner->PJRT_Executable_Destroy(&inner));
}

/* Passes a question about a program on to the inner plugin. */
#define FORWARD(function, entry)                                     \
	static PJRT_Error *function(PJRT_##entry##_Args *args)       \
	{                                                            \
		PJRT_##entry##_Args inner = *args;                   \
		PJRT_Error *error;                                   \
                                                                     \
		DISC_ENTER(PJRT_##entry##_Args, args);               \
		inner.struct_size = PJRT_##entry##_Args_STRUCT_SIZE; \
		inner.executable = args->executable->inner;          \
		error = disc_wrap(disc_inner->PJRT_##entry(&inner)); \
		inner.struct_size = args->struct_size;               \
		inner.executable = args->executable;                 \
		*args = inner;                                       \
		return error;                                        \
	}

FORWARD(name, Executable_Name)
FORWARD(replicas, Executable_NumReplicas)
FORWARD(partitions, Executable_NumPartitions)
FORWARD(outputs, Executable_NumOutputs)
FORWARD(code_size, Executable_SizeOfGeneratedCodeInBytes)
FORWARD(inner_costs, Executable_GetCostAnalysis)
FORWARD(serialize, Executable_Serialize)
FORWARD(output_types, Executable_OutputElementTypes)
FORWARD(output_dims, Executable_OutputDimensions)
FORWARD(fingerprint, Executable_Fingerprint)
FORWARD(memory_stats, Executable_GetCompiledMemoryStats)

static PJRT_Error *costs(PJRT_Executable_GetCostAnalysis_Args *args)
{
	PJRT_Error *error = inner_costs(args);

	if (error)
		return error;
	free(args->executable->costs);
	args->executable->costs = disc_values(args->properties, args->num_properties);
	args->properties = args->executable->costs;
	return NULL;
}

static PJRT_Error *memory_kinds(PJRT_Executable_OutputMemoryKinds_Args *args)
{
	PJRT_Executable_NumOutputs_Args number = {
		.struct_size = PJRT_Executable_NumOutputs_Args_STRUCT_SIZE + DISC_GROWTH,
		.executable = args->executable,
	};
	PJRT_Executable *x = args->executable;
	PJRT_Error *error;

	DISC_ENTER(PJRT_Executable_OutputMemoryKinds_Args, args);
	error = outputs(&number);
	if (error)
		return error;
	if (!x->kinds) {
		x->kinds = disc_new(number.num_outputs, sizeof(*x->kinds));
		x->kind_sizes = disc_new(number.num_outputs, sizeof(*x->kind_sizes));
	}
	for (size_t i = 0; i < number.num_outputs; i++) {
		x->kinds[i] = "device";
		x->kind_sizes[i] = strlen("device");
	}
	args->num_outputs = number.num_outputs;
	args->memory_kinds = x->kinds;
	args->memory_kind_sizes = x->kind_sizes;
	return NULL;
}

static PJRT_Error *optimized(PJRT_Executable_OptimizedProgram_Args *args)
{
	PJRT_Executable_OptimizedProgram_Args inner = {
		.struct_size = PJRT_Executable_OptimizedProgram_Args_STRUCT_SIZE,
	};
	PJRT_Program program;
	PJRT_Error *error;

	DISC_ENTER(PJRT_Executable_OptimizedProgram_Args, args);
	DISC_ENTER(PJRT_Program, args->program);
	program = *args->program;
	program.struct_size = PJRT_Program_STRUCT_SIZE;
	inner.executable = args->executable->inner;
	inner.program = &program;
	error = disc_wrap(disc_inner->PJRT_Executable_OptimizedProgram(&inner));
	program.struct_size = args->program->struct_size;
	*args->program = program;
	return error;
}

void disc_describe_entries(PJRT_Api *api)
{
	api->PJRT_Plugin_Initialize = initialize;
	api->PJRT_Plugin_Attributes = plugin_attributes;
	api->PJRT_DeviceDescription_Attributes = device_attributes;
	api->PJRT_LoadedExecutable_GetExecutable = get_executable;
	api->PJRT_Executable_Destroy = destroy;
	api->PJRT_Executable_Name = name;
	api->PJRT_Executable_NumReplicas = replicas;
	api->PJRT_Executable_NumPartitions = partitions;
	api->PJRT_Executable_NumOutputs = outputs;
	api->PJRT_Executable_SizeOfGeneratedCodeInBytes = code_size;
	api->PJRT_Executable_GetCostAnalysis = costs;
	api->PJRT_Executable_Serialize = serialize;
	api->PJRT_Executable_OutputElementTypes = output_types;
	api->PJRT_Executable_OutputDimensions = output_dims;
	api->PJRT_Executable_Fingerprint = fingerprint;
	api->PJRT_Executable_GetCompiledMemoryStats = memory_stats;
	api->PJRT_Executable_OutputMemoryKinds = memory_kinds;
	api->PJRT_Executable_OptimizedProgram = optimized;
}
