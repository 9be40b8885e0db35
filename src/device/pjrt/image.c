/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images: a head, then the vendor's serialised program. If a plugin cannot serialise, the source
 * follows instead, and is compiled again when it is loaded.
 *
 * Images go to other processes and to disk, on the same kind of machine: the head has native byte
 * order, and its mark shows a wrong order.
 */
#include "device/pjrt/vendor.h"

#include <stdlib.h>
#include <string.h>

#include "device/pjrt/ffi/python.h"

#define IMAGE_MARK 0x31494c53u /* "SLI1" */

struct image_head {
	uint32_t mark;
	uint32_t flags; /* enum vendor_image_flag */
	/*
	 * Sizes of the three texts that follow, if the image is a source. Otherwise the size of the
	 * vendor's bytes, 0 and 0.
	 */
	uint64_t sizes[3];
};

struct sal_text sal_vendor_image(struct vendor_bag *bag, struct sal_text serialized,
				 const struct vendor_source *source, bool knows_aliases)
{
	bool is_source = serialized.size == 0;
	const struct sal_text parts[3] = {
		is_source ? source->format : serialized,
		is_source ? source->program : (struct sal_text){ 0 },
		is_source ? source->options : (struct sal_text){ 0 },
	};
	struct image_head head = {
		.mark = IMAGE_MARK,
		.flags = (is_source ? IMAGE_SOURCE : 0) | (knows_aliases ? IMAGE_ALIASES : 0),
		.sizes = { parts[0].size, parts[1].size, parts[2].size },
	};
	size_t size = sizeof(head) + parts[0].size + parts[1].size + parts[2].size;
	char *image = sal_vendor_bag_take(bag, size, 1);
	char *at = image;

	if (!image)
		return (struct sal_text){ 0 };
	memcpy(at, &head, sizeof(head));
	at += sizeof(head);
	for (size_t i = 0; i < 3; i++) {
		if (parts[i].size > 0)
			memcpy(at, parts[i].at, parts[i].size);
		at += parts[i].size;
	}
	return (struct sal_text){ .at = image, .size = size };
}

static int read_image(struct sal_text image, uint32_t *out_flags, struct sal_text parts[3],
		      struct sal_err *err)
{
	struct image_head head = { 0 };
	size_t left;

	if (image.size >= sizeof(head))
		memcpy(&head, image.at, sizeof(head));
	if (head.mark != IMAGE_MARK)
		return sal_err_set(err, SAL_DATA_LOSS, "%zu bytes are not an image of a program",
				   image.size);
	image.at += sizeof(head);
	left = image.size - sizeof(head);
	for (size_t i = 0; i < 3; i++) {
		if (head.sizes[i] > left)
			return sal_err_set(err, SAL_DATA_LOSS,
					   "the image of a program is truncated");
		parts[i] = (struct sal_text){ .at = image.at, .size = (size_t)head.sizes[i] };
		image.at += head.sizes[i];
		left -= head.sizes[i];
	}
	if (left > 0)
		return sal_err_set(err, SAL_DATA_LOSS, "the image of a program is too long");
	*out_flags = head.flags;
	return SAL_OK;
}

/* The vendor's two objects */

int sal_vendor_compile(struct sal_stream *s, struct sal_text format, struct sal_text program,
		       struct sal_text options, PJRT_LoadedExecutable **out_loaded,
		       struct sal_err *err)
{
	const struct sal_device *d = s->device;
	int rc;

	VENDOR_ARGS(d, PJRT_Program, source, .code = (char *)program.at, .code_size = program.size,
		    .format = format.at, .format_size = format.size);
	VENDOR_ARGS(d, PJRT_Client_Compile_Args, compile, .client = s->client,
		    .program = &source.args, .compile_options = options.at,
		    .compile_options_size = options.size);

	*out_loaded = NULL;
	rc = sal_vendor_check(d, d->api->PJRT_Client_Compile(&compile.args), err);
	if (rc < 0)
		return rc;
	*out_loaded = compile.args.executable;
	return SAL_OK;
}

void sal_vendor_destroy_loaded(const struct sal_device *d, PJRT_LoadedExecutable *loaded)
{
	VENDOR_ARGS(d, PJRT_LoadedExecutable_Destroy_Args, destroy, .executable = loaded);

	if (loaded)
		sal_vendor_drop(d, d->api->PJRT_LoadedExecutable_Destroy(&destroy.args));
}

int sal_vendor_get_executable(const struct sal_device *d, PJRT_LoadedExecutable *loaded,
			      PJRT_Executable **out_executable, struct sal_err *err)
{
	int rc;

	VENDOR_ARGS(d, PJRT_LoadedExecutable_GetExecutable_Args, get, .loaded_executable = loaded);

	*out_executable = NULL;
	rc = sal_vendor_check(d, d->api->PJRT_LoadedExecutable_GetExecutable(&get.args), err);
	if (rc < 0)
		return rc;
	*out_executable = get.args.executable;
	return SAL_OK;
}

void sal_vendor_destroy_executable(const struct sal_device *d, PJRT_Executable *executable)
{
	VENDOR_ARGS(d, PJRT_Executable_Destroy_Args, destroy, .executable = executable);

	if (executable)
		sal_vendor_drop(d, d->api->PJRT_Executable_Destroy(&destroy.args));
}

static int deserialize(struct sal_stream *s, struct sal_text bytes,
		       PJRT_LoadedExecutable **out_loaded, struct sal_err *err)
{
	const struct sal_device *d = s->device;
	int rc;

	VENDOR_ARGS(d, PJRT_Executable_DeserializeAndLoad_Args, load, .client = s->client,
		    .serialized_executable = bytes.at, .serialized_executable_size = bytes.size);

	if (!VENDOR_HAS(d, PJRT_Executable_DeserializeAndLoad))
		return sal_err_set(err, SAL_UNIMPLEMENTED,
				   "the plugin cannot load serialised programs");
	rc = sal_vendor_check(d, d->api->PJRT_Executable_DeserializeAndLoad(&load.args), err);
	if (rc < 0)
		return rc;
	*out_loaded = load.args.loaded_executable;
	return SAL_OK;
}

/* Finds the facts of the outputs that every execution needs. */
static int describe_outputs(struct sal_loaded *p, struct sal_err *err)
{
	const struct sal_device *d = p->stream->device;
	struct sal_program_facts facts = { 0 };
	struct vendor_bag bag = { 0 };
	PJRT_Executable *executable;
	int rc;

	rc = sal_vendor_get_executable(d, p->executable, &executable, err);
	if (rc < 0)
		return rc;
	rc = sal_vendor_outputs(d, executable, &bag, &facts, err);
	if (rc < 0)
		goto out;
	p->output_count = facts.output_count;
	p->output_bytes = calloc(facts.output_count + 1, sizeof(*p->output_bytes));
	if (!p->output_bytes) {
		rc = sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a program");
		goto out;
	}
	for (size_t i = 0; i < facts.output_count && rc >= 0; i++) {
		const struct sal_output_facts *o = &facts.outputs[i];
		struct sal_array array = { .type = o->type, .rank = o->rank, .dims = o->dims };

		/* Tokens have no bytes. */
		if (o->type != PJRT_Buffer_Type_TOKEN)
			rc = sal_vendor_host_bytes(&array, &p->output_bytes[i], err);
	}
out:
	sal_vendor_bag_empty(&bag);
	sal_vendor_destroy_executable(d, executable);
	return rc;
}

static int find_chips(struct sal_loaded *p, struct sal_err *err)
{
	struct vendor_bag bag = { 0 };
	uint32_t *chips;
	int rc = sal_vendor_chips(p->stream, p->executable, &bag, &chips, &p->chip_count, err);

	p->is_portable = p->stream->chip_count > 1 && p->chip_count == 0;
	if (rc >= 0 && p->chip_count > 0) {
		p->chips = calloc(p->chip_count, sizeof(*p->chips));
		if (p->chips)
			memcpy(p->chips, chips, p->chip_count * sizeof(*chips));
		else
			rc = sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a program");
	}
	if (p->chip_count == 0)
		p->chip_count = 1;
	sal_vendor_bag_empty(&bag);
	return rc;
}

int sal_pjrt_load(struct sal_stream *s, struct sal_text image, struct sal_loaded **out_loaded,
		  struct sal_err *err)
{
	struct sal_text parts[3] = { { NULL, 0 } };
	struct sal_loaded *p;
	uint32_t flags = 0;
	int rc;

	*out_loaded = NULL;
	rc = read_image(image, &flags, parts, err);
	if (rc < 0)
		return rc;
	p = calloc(1, sizeof(*p));
	if (!p)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a program");
	p->stream = s;
	p->retains_all = !(flags & IMAGE_ALIASES);
	p->may_call = flags & IMAGE_SOURCE || sal_python_is_in(parts[0]);
	if (flags & IMAGE_SOURCE)
		rc = sal_vendor_compile(s, parts[0], parts[1], parts[2], &p->executable, err);
	else
		rc = deserialize(s, parts[0], &p->executable, err);
	if (rc < 0)
		goto fail;
	rc = find_chips(p, err);
	if (rc < 0)
		goto fail;
	rc = describe_outputs(p, err);
	if (rc < 0)
		goto fail;
	*out_loaded = p;
	return SAL_OK;
fail:
	sal_pjrt_unload(p);
	return rc;
}

void sal_pjrt_unload(struct sal_loaded *p)
{
	if (!p)
		return;
	sal_vendor_destroy_loaded(p->stream->device, p->executable);
	free(p->chips);
	free(p->output_bytes);
	free(p);
}
