/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a compilation, and its facts. */
#include "device/pjrt/vendor.h"

#include <stdlib.h>
#include <string.h>

#include "device/compiler.h"
#include "device/pjrt/alias.h"

struct sal_compiled {
	const struct sal_device *device; /* borrowed */
	const struct sal_stream *stream; /* borrowed; NULL: compiled without a device */
	/* Owned; stays, because executable depends on it. NULL: compiled without a device. */
	PJRT_LoadedExecutable *loaded;
	PJRT_Executable *executable; /* owned; the facts point into it */
	struct sal_program_facts facts;
	struct sal_text image, optimized; /* in the bag */
	uint32_t *donated; /* owned */
	bool knows_aliases;
	struct vendor_bag bag; /* owned */
};

static int no_memory(struct sal_err *err)
{
	return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for the facts of a program");
}

/* Outputs */

/* Bits of an element on the device, which packs small types. */
static uint64_t device_bits(int32_t type)
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
		return 8 * (uint64_t)sal_type_bytes(type);
	}
}

static uint64_t device_bytes(const struct sal_output_facts *o)
{
	uint64_t bits = device_bits(o->type);

	for (uint32_t i = 0; i < o->rank; i++)
		bits *= (uint64_t)o->dims[i];
	return bits / 8 + (bits % 8 != 0);
}

int sal_vendor_outputs(const struct sal_device *d, PJRT_Executable *executable,
		       struct vendor_bag *bag, struct sal_program_facts *facts, struct sal_err *err)
{
	struct sal_output_facts *outputs;
	const int64_t *dims;
	size_t count;
	int rc;

	VENDOR_ARGS(d, PJRT_Executable_NumOutputs_Args, number, .executable = executable);
	VENDOR_ARGS(d, PJRT_Executable_OutputElementTypes_Args, types, .executable = executable);
	VENDOR_ARGS(d, PJRT_Executable_OutputDimensions_Args, shapes, .executable = executable);

	rc = sal_vendor_check(d, d->api->PJRT_Executable_NumOutputs(&number.args), err);
	if (rc < 0)
		return rc;
	rc = sal_vendor_check(d, d->api->PJRT_Executable_OutputElementTypes(&types.args), err);
	if (rc < 0)
		return rc;
	rc = sal_vendor_check(d, d->api->PJRT_Executable_OutputDimensions(&shapes.args), err);
	if (rc < 0)
		return rc;
	count = number.args.num_outputs;
	if (types.args.num_output_types != count || shapes.args.num_outputs != count)
		return sal_err_set(err, SAL_INTERNAL,
				   "the plugin contradicts itself: %zu, %zu "
				   "and %zu outputs",
				   count, types.args.num_output_types, shapes.args.num_outputs);
	outputs = sal_vendor_bag_take(bag, count, sizeof(*outputs));
	if (!outputs)
		return no_memory(err);
	dims = shapes.args.dims;
	for (size_t i = 0; i < count; i++) {
		outputs[i].type = (int32_t)types.args.output_types[i];
		outputs[i].rank = (uint32_t)shapes.args.dim_sizes[i];
		outputs[i].dims = dims;
		outputs[i].bytes = device_bytes(&outputs[i]);
		if (outputs[i].rank > 0) /* only scalars may come without an array */
			dims += outputs[i].rank;
	}
	facts->outputs = outputs;
	facts->output_count = count;
	return SAL_OK;
}

/* The memory kinds of the outputs. A plugin that does not report them uses its default memory. */
static void describe_kinds(struct sal_compiled *c, struct sal_output_facts *outputs)
{
	const struct sal_device *d = c->device;
	const struct sal_device_facts *f = &d->facts;

	VENDOR_ARGS(d, PJRT_Executable_OutputMemoryKinds_Args, get, .executable = c->executable);

	for (size_t i = 0; i < c->facts.output_count && f->memory_count > 0; i++)
		outputs[i].memory_kind = f->memories[f->default_memory].kind;
	if (!VENDOR_HAS(d, PJRT_Executable_OutputMemoryKinds) ||
	    sal_vendor_check(d, d->api->PJRT_Executable_OutputMemoryKinds(&get.args), NULL) < 0)
		return;
	for (size_t i = 0; i < c->facts.output_count && i < get.args.num_outputs; i++) {
		outputs[i].memory_kind.at = get.args.memory_kinds[i];
		outputs[i].memory_kind.size = get.args.memory_kind_sizes[i];
	}
}

static struct sal_text serialize_layout(struct sal_compiled *c, void *layout)
{
	const struct sal_device *d = c->device;
	struct sal_text text;
	struct {
		struct layouts_serialize_args args;
		unsigned char tail[VENDOR_TAIL];
	} ser = { .args = { .struct_size = sizeof(ser.args) + d->tail, .layout = layout } };

	if (sal_vendor_check(d, d->layouts->serialize(&ser.args), NULL) < 0)
		return (struct sal_text){ 0 };
	text = sal_vendor_bag_text(&c->bag, ser.args.bytes, ser.args.byte_count);
	if (ser.args.delete_backing)
		ser.args.delete_backing(ser.args.backing);
	return text;
}

static void describe_layouts(struct sal_compiled *c, struct sal_output_facts *outputs)
{
	const struct sal_device *d = c->device;
	struct {
		struct layouts_outputs_args args;
		unsigned char tail[VENDOR_TAIL];
	} get = { .args = { .struct_size = sizeof(get.args) + d->tail,
			    .executable = c->executable } };

	if (!d->layouts || !d->layouts->of_outputs || !d->layouts->serialize ||
	    sal_vendor_check(d, d->layouts->of_outputs(&get.args), NULL) < 0)
		return;
	for (size_t i = 0; i < c->facts.output_count && i < get.args.count; i++)
		outputs[i].layout = serialize_layout(c, get.args.layouts[i]);
}

/* The rest of the facts */

static int describe_names(struct sal_compiled *c, struct sal_err *err)
{
	const struct sal_device *d = c->device;
	struct sal_program_facts *f = &c->facts;
	int rc;

	VENDOR_ARGS(d, PJRT_Executable_Name_Args, name, .executable = c->executable);
	VENDOR_ARGS(d, PJRT_Executable_NumReplicas_Args, replicas, .executable = c->executable);
	VENDOR_ARGS(d, PJRT_Executable_NumPartitions_Args, parts, .executable = c->executable);
	VENDOR_ARGS(d, PJRT_Executable_Fingerprint_Args, print, .executable = c->executable);

	rc = sal_vendor_check(d, d->api->PJRT_Executable_Name(&name.args), err);
	if (rc < 0)
		return rc;
	f->name.at = name.args.executable_name;
	f->name.size = name.args.executable_name_size;
	rc = sal_vendor_check(d, d->api->PJRT_Executable_NumReplicas(&replicas.args), err);
	if (rc < 0)
		return rc;
	f->replicas = (uint32_t)replicas.args.num_replicas;
	rc = sal_vendor_check(d, d->api->PJRT_Executable_NumPartitions(&parts.args), err);
	if (rc < 0)
		return rc;
	f->partitions = (uint32_t)parts.args.num_partitions;
	if (VENDOR_HAS(d, PJRT_Executable_Fingerprint) &&
	    sal_vendor_check(d, d->api->PJRT_Executable_Fingerprint(&print.args), NULL) == SAL_OK) {
		f->fingerprint.at = print.args.executable_fingerprint;
		f->fingerprint.size = print.args.executable_fingerprint_size;
	}
	return SAL_OK;
}

/* Zeros if the plugin does not report the memory. */
static void describe_memory(struct sal_compiled *c)
{
	const struct sal_device *d = c->device;

	VENDOR_ARGS(d, PJRT_Executable_SizeOfGeneratedCodeInBytes_Args, code,
		    .executable = c->executable);
	VENDOR_ARGS(d, PJRT_Executable_GetCompiledMemoryStats_Args, stats,
		    .executable = c->executable);

	if (VENDOR_HAS(d, PJRT_Executable_SizeOfGeneratedCodeInBytes) &&
	    sal_vendor_check(d, d->api->PJRT_Executable_SizeOfGeneratedCodeInBytes(&code.args),
			     NULL) == SAL_OK)
		c->facts.code_bytes = code.args.size_in_bytes;
	if (!VENDOR_HAS(d, PJRT_Executable_GetCompiledMemoryStats) ||
	    sal_vendor_check(d, d->api->PJRT_Executable_GetCompiledMemoryStats(&stats.args), NULL) <
		    0)
		return;
	c->facts.memory = (struct sal_program_memory){
		.generated_code = stats.args.generated_code_size_in_bytes,
		.argument = stats.args.argument_size_in_bytes,
		.output = stats.args.output_size_in_bytes,
		.alias = stats.args.alias_size_in_bytes,
		.temp = stats.args.temp_size_in_bytes,
		.host_generated_code = stats.args.host_generated_code_size_in_bytes,
		.host_argument = stats.args.host_argument_size_in_bytes,
		.host_output = stats.args.host_output_size_in_bytes,
		.host_alias = stats.args.host_alias_size_in_bytes,
		.host_temp = stats.args.host_temp_size_in_bytes,
		.peak = stats.args.peak_memory_in_bytes,
	};
}

static int describe_costs(struct sal_compiled *c, struct sal_err *err)
{
	const struct sal_device *d = c->device;

	VENDOR_ARGS(d, PJRT_Executable_GetCostAnalysis_Args, get, .executable = c->executable);

	if (!VENDOR_HAS(d, PJRT_Executable_GetCostAnalysis) ||
	    sal_vendor_check(d, d->api->PJRT_Executable_GetCostAnalysis(&get.args), NULL) < 0)
		return SAL_OK;
	return sal_vendor_values(&c->bag, get.args.properties, get.args.num_properties,
				 &c->facts.costs, err);
}

static int describe_assignment(struct sal_compiled *c, struct sal_err *err)
{
	const struct sal_device *d = c->device;

	VENDOR_ARGS(d, PJRT_LoadedExecutable_GetDeviceAssignment_Args, get,
		    .executable = c->loaded);

	if (!c->loaded || !VENDOR_HAS(d, PJRT_LoadedExecutable_GetDeviceAssignment) ||
	    sal_vendor_check(d, d->api->PJRT_LoadedExecutable_GetDeviceAssignment(&get.args),
			     NULL) < 0)
		return SAL_OK;
	c->facts.device_assignment = sal_vendor_bag_text(&c->bag, get.args.serialized_bytes,
							 get.args.serialized_bytes_size);
	if (get.args.serialized_device_assignment_deleter)
		get.args.serialized_device_assignment_deleter(
			get.args.serialized_device_assignment);
	return c->facts.device_assignment.at ? SAL_OK : no_memory(err);
}

static int describe_chips(struct sal_compiled *c, struct sal_err *err)
{
	uint32_t *chips;
	int rc;

	if (!c->stream)
		return SAL_OK;
	rc = sal_vendor_chips(c->stream, c->loaded, &c->bag, &chips, &c->facts.chip_count, err);
	c->facts.chips = chips;
	c->facts.is_portable = c->stream->chip_count > 1 && c->facts.chip_count == 0;
	return rc;
}

/* Asks twice: for the size, then for the bytes. Empty if the plugin does not provide our format. */
static int describe_optimized(struct sal_compiled *c, struct sal_err *err)
{
	static const char wanted[] = "hlo_with_config";
	const struct sal_device *d = c->device;
	char *bytes;

	VENDOR_ARGS(d, PJRT_Program, program, .extension_start = NULL);
	VENDOR_ARGS(d, PJRT_Executable_OptimizedProgram_Args, get, .executable = c->executable,
		    .program = &program.args);

	if (!VENDOR_HAS(d, PJRT_Executable_OptimizedProgram) ||
	    sal_vendor_check(d, d->api->PJRT_Executable_OptimizedProgram(&get.args), NULL) < 0 ||
	    program.args.format_size != sizeof(wanted) - 1 ||
	    memcmp(program.args.format, wanted, sizeof(wanted) - 1) != 0)
		return SAL_OK;
	bytes = sal_vendor_bag_take(&c->bag, program.args.code_size, 1);
	if (!bytes)
		return no_memory(err);
	program.args.code = bytes;
	if (sal_vendor_check(d, d->api->PJRT_Executable_OptimizedProgram(&get.args), NULL) < 0)
		return SAL_OK;
	c->optimized = (struct sal_text){ .at = bytes, .size = program.args.code_size };
	return SAL_OK;
}

static int describe_aliases(struct sal_compiled *c, struct sal_err *err)
{
	int rc;

	if (c->optimized.size == 0)
		return SAL_OK;
	rc = sal_alias_read(c->optimized, &c->donated, &c->facts.donated_count, err);
	if (rc < 0)
		return rc;
	c->facts.donated = c->donated;
	c->knows_aliases = true;
	return SAL_OK;
}

static int describe_image(struct sal_compiled *c, const struct vendor_source *source,
			  struct sal_err *err)
{
	const struct sal_device *d = c->device;
	struct sal_text bytes = { 0 };

	VENDOR_ARGS(d, PJRT_Executable_Serialize_Args, ser, .executable = c->executable);

	if (VENDOR_HAS(d, PJRT_Executable_Serialize) &&
	    VENDOR_HAS(d, PJRT_Executable_DeserializeAndLoad) &&
	    sal_vendor_check(d, d->api->PJRT_Executable_Serialize(&ser.args), NULL) == SAL_OK) {
		bytes.at = ser.args.serialized_bytes;
		bytes.size = ser.args.serialized_bytes_size;
	}
	c->image = sal_vendor_image(&c->bag, bytes, source, c->knows_aliases);
	if (ser.args.serialized_executable_deleter)
		ser.args.serialized_executable_deleter(ser.args.serialized_executable);
	return c->image.at ? SAL_OK : no_memory(err);
}

static int describe_outputs(struct sal_compiled *c, struct sal_err *err)
{
	int rc = sal_vendor_outputs(c->device, c->executable, &c->bag, &c->facts, err);

	if (rc < 0)
		return rc;
	/* The bag owns the outputs, so they may be changed. */
	describe_kinds(c, (struct sal_output_facts *)c->facts.outputs);
	describe_layouts(c, (struct sal_output_facts *)c->facts.outputs);
	return SAL_OK;
}

static int describe(struct sal_compiled *c, const struct vendor_source *source, struct sal_err *err)
{
	int rc;

	rc = describe_names(c, err);
	if (rc < 0)
		return rc;
	rc = describe_outputs(c, err);
	if (rc < 0)
		return rc;
	describe_memory(c);
	rc = describe_costs(c, err);
	if (rc < 0)
		return rc;
	rc = describe_assignment(c, err);
	if (rc < 0)
		return rc;
	rc = describe_chips(c, err);
	if (rc < 0)
		return rc;
	rc = describe_optimized(c, err);
	if (rc < 0)
		return rc;
	rc = describe_aliases(c, err);
	if (rc < 0)
		return rc;
	return describe_image(c, source, err);
}

static void free_compiled(struct sal_compiled *c)
{
	if (!c)
		return;
	sal_vendor_destroy_executable(c->device, c->executable);
	sal_vendor_destroy_loaded(c->device, c->loaded);
	sal_vendor_bag_empty(&c->bag);
	free(c->donated);
	free(c);
}

static int compile(struct sal_stream *s, struct sal_text format, struct sal_text program,
		   struct sal_text options, struct sal_compiled **out_compiled, struct sal_err *err)
{
	const struct vendor_source source = { format, program, options };
	struct sal_compiled *c;
	int rc;

	*out_compiled = NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return no_memory(err);
	c->device = s->device;
	c->stream = s;
	rc = sal_vendor_compile(s, format, program, options, &c->loaded, err);
	if (rc < 0)
		goto fail;
	rc = sal_vendor_get_executable(c->device, c->loaded, &c->executable, err);
	if (rc < 0)
		goto fail;
	rc = describe(c, &source, err);
	if (rc < 0)
		goto fail;
	*out_compiled = c;
	return SAL_OK;
fail:
	free_compiled(c);
	return rc;
}

int sal_vendor_compile_for(const struct sal_device *d, const PJRT_TopologyDescription *topology,
			   const struct vendor_source *source, struct sal_compiled **out_compiled,
			   struct sal_err *err)
{
	struct sal_compiled *c = calloc(1, sizeof(*c));
	int rc;

	VENDOR_ARGS(d, PJRT_Program, program, .code = (char *)source->program.at,
		    .code_size = source->program.size, .format = source->format.at,
		    .format_size = source->format.size);
	VENDOR_ARGS(d, PJRT_Compile_Args, compile, .topology = topology, .program = &program.args,
		    .compile_options = source->options.at,
		    .compile_options_size = source->options.size);

	*out_compiled = NULL;
	if (!c)
		return no_memory(err);
	c->device = d;
	rc = sal_vendor_check(d, d->api->PJRT_Compile(&compile.args), err);
	c->executable = compile.args.executable;
	if (rc >= 0)
		rc = describe(c, source, err);
	if (rc < 0)
		free_compiled(c);
	else
		*out_compiled = c;
	return rc;
}

static const struct sal_program_facts *compiled_facts(struct sal_compiled *c)
{
	return &c->facts;
}

static struct sal_text compiled_image(struct sal_compiled *c)
{
	return c->image;
}

static struct sal_text compiled_optimized(struct sal_compiled *c)
{
	return c->optimized;
}

const struct sal_compiler_ops sal_compiler_pjrt = {
	.compile = compile,
	.facts = compiled_facts,
	.image = compiled_image,
	.optimized = compiled_optimized,
	.free_compiled = free_compiled,
};
