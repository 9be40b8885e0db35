/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compile_for - loads a plugin and compiles a program for a device that is not there, with the code
 * that salus-compile uses. Prints what the plugin is, and the program's facts or the error.
 *
 *     compile_for PLUGIN TARGET PROGRAM   TARGET: a file with the text of a GpuTargetConfigProto;
 *                                         PROGRAM: a file with MLIR
 */
#include "device/pjrt/vendor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/compiler.h"

static struct sal_text read_file(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = calloc(1, 1 << 20);
	size_t size;

	if (!file || !text) {
		perror(path);
		exit(EXIT_FAILURE);
	}
	size = fread(text, 1, (1 << 20) - 1, file);
	(void)fclose(file);
	return (struct sal_text){ text, size };
}

static PJRT_NamedValue text_value(const char *name, struct sal_text value)
{
	return (PJRT_NamedValue){ .struct_size = PJRT_NamedValue_STRUCT_SIZE,
				  .name = name,
				  .name_size = strlen(name),
				  .type = PJRT_NamedValue_kString,
				  .string_value = value.at,
				  .value_size = value.size };
}

static int create_topology(const struct sal_device *d, const char *target,
			   PJRT_TopologyDescription **out_topology, struct sal_err *err)
{
	const PJRT_NamedValue options[] = {
		text_value("target_config", read_file(target)),
		text_value("topology", (struct sal_text){ "1x1x1", 5 }),
	};
	int rc;

	VENDOR_ARGS(d, PJRT_TopologyDescription_Create_Args, create, .topology_name = "",
		    .create_options = options, .num_options = 2);

	rc = sal_vendor_check(d, d->api->PJRT_TopologyDescription_Create(&create.args), err);
	*out_topology = create.args.topology;
	return rc;
}

static void print_plugin(const struct sal_device *d)
{
	struct vendor_bag bag = { 0 };
	struct sal_values values = { 0 };

	VENDOR_ARGS(d, PJRT_Plugin_Attributes_Args, get, .extension_start = NULL);

	(void)printf("pjrt %d.%d\n", d->api->pjrt_api_version.major_version,
		     d->api->pjrt_api_version.minor_version);
	if (sal_vendor_check(d, d->api->PJRT_Plugin_Attributes(&get.args), NULL) >= 0)
		(void)sal_vendor_values(&bag, get.args.attributes, get.args.num_attributes, &values,
					NULL);
	for (size_t i = 0; i < values.count; i++)
		(void)printf("attribute %.*s\n", (int)values.at[i].name.size, values.at[i].name.at);
	sal_vendor_bag_empty(&bag);
}

static void print_facts(struct sal_compiled *c)
{
	const struct sal_program_facts *f = sal_compiler_pjrt.facts(c);

	(void)printf("name %.*s\n", (int)f->name.size, f->name.at);
	(void)printf("temp %lld\nargument %lld\noutput %lld\nalias %lld\n",
		     (long long)f->memory.temp, (long long)f->memory.argument,
		     (long long)f->memory.output, (long long)f->memory.alias);
	(void)printf("donated %zu\n", f->donated_count);
	for (size_t i = 0; i < f->output_count; i++)
		(void)printf("output %zu bytes %llu kind %.*s\n", i,
			     (unsigned long long)f->outputs[i].bytes,
			     (int)f->outputs[i].memory_kind.size, f->outputs[i].memory_kind.at);
	(void)printf("optimized %zu\nimage %zu\n", sal_compiler_pjrt.optimized(c).size,
		     sal_compiler_pjrt.image(c).size);
}

int main(int argc, char **argv)
{
	/* CompileOptionsProto: one replica, one partition. */
	static const char options[] = { 0x1a, 0x04, 0x20, 0x01, 0x28, 0x01 };
	struct sal_device *d = calloc(1, sizeof(*d));
	struct sal_err err = { 0 };
	struct sal_compiled *c = NULL;
	PJRT_TopologyDescription *topology;
	struct vendor_source source;
	int rc;

	if (argc != 4 || !d) {
		free(d);
		return 64;
	}
	source = (struct vendor_source){ .format = { "mlir", 4 },
					 .program = read_file(argv[3]),
					 .options = { options, sizeof(options) } };
	rc = sal_vendor_load(d, argv[1], &err);
	if (rc >= 0)
		print_plugin(d);
	if (rc >= 0)
		rc = create_topology(d, argv[2], &topology, &err);
	if (rc >= 0)
		rc = sal_vendor_compile_for(d, topology, &source, &c, &err);
	if (rc < 0)
		(void)printf("error %s: %s\n", sal_code_name(rc), err.text);
	else
		print_facts(c);
	sal_compiler_pjrt.free_compiled(c);
	return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
