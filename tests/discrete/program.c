/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: compiling, loading, and what an execution needs to know of them. */
#include "discrete/discrete.h"

#include <string.h>

#include "compile/proto.h"
#include "device/pjrt/alias.h"

void disc_loaded_unref(PJRT_LoadedExecutable *p)
{
	PJRT_LoadedExecutable_Destroy_Args destroy = {
		.struct_size = PJRT_LoadedExecutable_Destroy_Args_STRUCT_SIZE,
		.executable = p->inner,
	};
	bool is_last;

	pthread_mutex_lock(&disc_lock);
	is_last = --p->refs == 0;
	pthread_mutex_unlock(&disc_lock);
	if (!is_last)
		return;
	disc_error_destroy(disc_wrap(disc_inner->PJRT_LoadedExecutable_Destroy(&destroy)));
	free(p->outputs);
	free(p->donated);
	free(p);
}

/* Takes the inner program, also on failure. */
static PJRT_Error *wrap_loaded(PJRT_Client *c, PJRT_LoadedExecutable *take_inner,
			       PJRT_LoadedExecutable **out_loaded)
{
	PJRT_LoadedExecutable *p = disc_new(1, sizeof(*p));
	PJRT_Error *error;

	p->client = c;
	p->inner = take_inner;
	p->refs = 1;
	error = disc_loaded_describe(p);
	if (error)
		disc_loaded_unref(p);
	else
		*out_loaded = p;
	return error;
}

static PJRT_Error *compile(PJRT_Client_Compile_Args *args)
{
	PJRT_Client_Compile_Args inner = *args;
	PJRT_Program program;
	PJRT_Error *error;

	DISC_ENTER(PJRT_Client_Compile_Args, args);
	DISC_ENTER(PJRT_Program, args->program);
	program = *args->program;
	program.struct_size = PJRT_Program_STRUCT_SIZE;
	inner.struct_size = PJRT_Client_Compile_Args_STRUCT_SIZE;
	inner.client = args->client->inner;
	inner.program = &program;
	error = disc_wrap(disc_inner->PJRT_Client_Compile(&inner));
	return error ? error : wrap_loaded(args->client, inner.executable, &args->executable);
}

static PJRT_Error *load(PJRT_Executable_DeserializeAndLoad_Args *args)
{
	PJRT_Executable_DeserializeAndLoad_Args inner = *args;
	PJRT_Error *error;

	DISC_ENTER(PJRT_Executable_DeserializeAndLoad_Args, args);
	inner.struct_size = PJRT_Executable_DeserializeAndLoad_Args_STRUCT_SIZE;
	inner.client = args->client->inner;
	error = disc_wrap(disc_inner->PJRT_Executable_DeserializeAndLoad(&inner));
	if (error)
		return error;
	return wrap_loaded(args->client, inner.loaded_executable, &args->loaded_executable);
}

static PJRT_Error *destroy_loaded(PJRT_LoadedExecutable_Destroy_Args *args)
{
	DISC_ENTER(PJRT_LoadedExecutable_Destroy_Args, args);
	disc_loaded_unref(args->executable);
	return NULL;
}

static PJRT_Error *assignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args *args)
{
	PJRT_LoadedExecutable_GetDeviceAssignment_Args inner = *args;
	PJRT_Error *error;

	DISC_ENTER(PJRT_LoadedExecutable_GetDeviceAssignment_Args, args);
	inner.struct_size = PJRT_LoadedExecutable_GetDeviceAssignment_Args_STRUCT_SIZE;
	inner.executable = args->executable->inner;
	error = disc_wrap(disc_inner->PJRT_LoadedExecutable_GetDeviceAssignment(&inner));
	inner.struct_size = args->struct_size;
	inner.executable = args->executable;
	*args = inner;
	return error;
}

/* What an execution needs to know */

/* Finds the field of a message; an empty text if there is none. */
static struct sal_text field(struct sal_text message, uint32_t number)
{
	struct sal_proto_field f;

	while (sal_proto_next(&message, &f) > 0)
		if (f.number == number && f.type == SAL_PROTO_BYTES)
			return f.bytes;
	return (struct sal_text){ 0 };
}

/* HloModuleProtoWithConfig.hlo_module (1).host_program_shape (4).parameters (1, repeated) */
static size_t count_parameters(struct sal_text program)
{
	struct sal_text shape = field(field(program, 1), 4);
	struct sal_proto_field f;
	size_t count = 0;

	while (sal_proto_next(&shape, &f) > 0)
		count += f.number == 1;
	return count;
}

static PJRT_Error *describe_parameters(PJRT_LoadedExecutable *p, PJRT_Executable *executable)
{
	PJRT_Program program = { .struct_size = PJRT_Program_STRUCT_SIZE };
	PJRT_Executable_OptimizedProgram_Args get = {
		.struct_size = PJRT_Executable_OptimizedProgram_Args_STRUCT_SIZE,
		.executable = executable,
		.program = &program,
	};
	struct sal_err err = { 0 };
	struct sal_text text;
	PJRT_Error *error = disc_wrap(disc_inner->PJRT_Executable_OptimizedProgram(&get));

	if (error)
		return error;
	program.code = disc_new(program.code_size, 1);
	error = disc_wrap(disc_inner->PJRT_Executable_OptimizedProgram(&get));
	text = (struct sal_text){ program.code, program.code_size };
	if (!error && sal_alias_read(text, &p->donated, &p->donated_count, &err) < 0)
		error = disc_error(PJRT_Error_Code_INTERNAL, "%s", err.text);
	p->parameter_count = count_parameters(text);
	free(program.code);
	return error;
}

static PJRT_Error *describe_outputs(PJRT_LoadedExecutable *p, PJRT_Executable *executable)
{
	PJRT_Executable_OutputElementTypes_Args types = {
		.struct_size = PJRT_Executable_OutputElementTypes_Args_STRUCT_SIZE,
		.executable = executable,
	};
	PJRT_Executable_OutputDimensions_Args dims = {
		.struct_size = PJRT_Executable_OutputDimensions_Args_STRUCT_SIZE,
		.executable = executable,
	};
	PJRT_Error *error = disc_wrap(disc_inner->PJRT_Executable_OutputElementTypes(&types));
	const int64_t *at;

	if (!error)
		error = disc_wrap(disc_inner->PJRT_Executable_OutputDimensions(&dims));
	if (error)
		return error;
	p->output_count = types.num_output_types;
	p->outputs = disc_new(p->output_count, sizeof(*p->outputs));
	at = dims.dims;
	for (size_t i = 0; i < p->output_count; i++) {
		p->outputs[i].type = types.output_types[i];
		p->outputs[i].rank = dims.dim_sizes[i];
		if (dims.dim_sizes[i] > DISC_RANK_MAX)
			return disc_error(PJRT_Error_Code_UNIMPLEMENTED, "too many dimensions");
		if (dims.dim_sizes[i] > 0)
			memcpy(p->outputs[i].dims, at, dims.dim_sizes[i] * sizeof(*at));
		at += dims.dim_sizes[i];
	}
	return NULL;
}

PJRT_Error *disc_loaded_describe(PJRT_LoadedExecutable *p)
{
	PJRT_LoadedExecutable_GetExecutable_Args get = {
		.struct_size = PJRT_LoadedExecutable_GetExecutable_Args_STRUCT_SIZE,
		.loaded_executable = p->inner,
	};
	PJRT_Executable_GetCompiledMemoryStats_Args stats = {
		.struct_size = PJRT_Executable_GetCompiledMemoryStats_Args_STRUCT_SIZE,
	};
	PJRT_Executable_Destroy_Args destroy = {
		.struct_size = PJRT_Executable_Destroy_Args_STRUCT_SIZE,
	};
	PJRT_Error *error = disc_wrap(disc_inner->PJRT_LoadedExecutable_GetExecutable(&get));

	if (error)
		return error;
	stats.executable = destroy.executable = get.executable;
	error = disc_wrap(disc_inner->PJRT_Executable_GetCompiledMemoryStats(&stats));
	p->temp_bytes =
		disc_memory_round(stats.temp_size_in_bytes + p->client->options.hidden_scratch);
	if (!error)
		error = describe_outputs(p, get.executable);
	if (!error)
		error = describe_parameters(p, get.executable);
	disc_error_destroy(disc_wrap(disc_inner->PJRT_Executable_Destroy(&destroy)));
	return error;
}

void disc_program_entries(PJRT_Api *api)
{
	api->PJRT_Client_Compile = compile;
	api->PJRT_Executable_DeserializeAndLoad = load;
	api->PJRT_LoadedExecutable_Destroy = destroy_loaded;
	api->PJRT_LoadedExecutable_GetDeviceAssignment = assignment;
}
