/* SPDX-License-Identifier: Apache-2.0 */
#include "adaptor/program/facts.h"

#include "adaptor/error.h"
#include "adaptor/program/program.h"

static void free_nothing(PJRT_DeviceAssignmentSerialized *serialized)
{
	(void)serialized; /* the bytes are the program's */
}

PJRT_Error *
adp_LoadedExecutable_GetDeviceAssignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args *args)
{
	args->serialized_bytes = args->executable->program->facts->device_assignment.at;
	args->serialized_bytes_size = args->executable->program->facts->device_assignment.size;
	args->serialized_device_assignment = NULL;
	args->serialized_device_assignment_deleter = free_nothing;
	return NULL;
}

PJRT_Error *adp_Executable_Name(PJRT_Executable_Name_Args *args)
{
	ADP_GIVE_TEXT(args, executable_name, args->executable->program->facts->name);
}

PJRT_Error *adp_Executable_NumReplicas(PJRT_Executable_NumReplicas_Args *args)
{
	args->num_replicas = args->executable->program->facts->replicas;
	return NULL;
}

PJRT_Error *adp_Executable_NumPartitions(PJRT_Executable_NumPartitions_Args *args)
{
	args->num_partitions = args->executable->program->facts->partitions;
	return NULL;
}

PJRT_Error *adp_Executable_NumOutputs(PJRT_Executable_NumOutputs_Args *args)
{
	args->num_outputs = args->executable->program->facts->output_count;
	return NULL;
}

PJRT_Error *
adp_Executable_SizeOfGeneratedCodeInBytes(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args *args)
{
	args->size_in_bytes = args->executable->program->facts->code_bytes;
	return NULL;
}

PJRT_Error *adp_Executable_GetCostAnalysis(PJRT_Executable_GetCostAnalysis_Args *args)
{
	args->properties = args->executable->program->costs;
	args->num_properties = args->executable->program->facts->costs.count;
	return NULL;
}

PJRT_Error *adp_Executable_OutputMemoryKinds(PJRT_Executable_OutputMemoryKinds_Args *args)
{
	args->num_outputs = args->executable->program->facts->output_count;
	args->memory_kinds = args->executable->program->kinds;
	args->memory_kind_sizes = args->executable->program->kind_sizes;
	return NULL;
}

PJRT_Error *adp_Executable_OutputElementTypes(PJRT_Executable_OutputElementTypes_Args *args)
{
	args->output_types = args->executable->program->types;
	args->num_output_types = args->executable->program->facts->output_count;
	return NULL;
}

PJRT_Error *adp_Executable_OutputDimensions(PJRT_Executable_OutputDimensions_Args *args)
{
	args->num_outputs = args->executable->program->facts->output_count;
	args->dims = args->executable->program->dims;
	args->dim_sizes = args->executable->program->ranks;
	return NULL;
}

static PJRT_Error *give_fingerprint(const struct adp_program *p, const char **out, size_t *out_size)
{
	if (p->facts->fingerprint.size == 0)
		return adp_error(SAL_UNIMPLEMENTED, "salus: the vendor gives no fingerprint");
	*out = p->facts->fingerprint.at;
	*out_size = p->facts->fingerprint.size;
	return NULL;
}

PJRT_Error *adp_Executable_Fingerprint(PJRT_Executable_Fingerprint_Args *args)
{
	return give_fingerprint(args->executable->program, &args->executable_fingerprint,
				&args->executable_fingerprint_size);
}

PJRT_Error *adp_LoadedExecutable_Fingerprint(PJRT_LoadedExecutable_Fingerprint_Args *args)
{
	return give_fingerprint(args->executable->program, &args->executable_fingerprint,
				&args->executable_fingerprint_size);
}

PJRT_Error *adp_Executable_GetCompiledMemoryStats(PJRT_Executable_GetCompiledMemoryStats_Args *args)
{
	const struct sal_program_memory *m = &args->executable->program->facts->memory;

	args->generated_code_size_in_bytes = m->generated_code;
	args->argument_size_in_bytes = m->argument;
	args->output_size_in_bytes = m->output;
	args->alias_size_in_bytes = m->alias;
	args->temp_size_in_bytes = m->temp;
	if (args->struct_size <
	    PJRT_STRUCT_SIZE(PJRT_Executable_GetCompiledMemoryStats_Args, host_temp_size_in_bytes))
		return NULL;
	args->host_generated_code_size_in_bytes = m->host_generated_code;
	args->host_argument_size_in_bytes = m->host_argument;
	args->host_output_size_in_bytes = m->host_output;
	args->host_alias_size_in_bytes = m->host_alias;
	args->host_temp_size_in_bytes = m->host_temp;
	if (args->struct_size >= PJRT_Executable_GetCompiledMemoryStats_Args_STRUCT_SIZE)
		args->peak_memory_in_bytes = m->peak;
	return NULL;
}
