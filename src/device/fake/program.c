/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the text of a program; compile and load. */
#include "device/fake/program.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "device/compiler.h"
#include "device/fake/impl.h"

#define LINE_BYTES_MAX 256

/* Indexed by PJRT_Buffer_Type. Other types have only a number. */
static const char *const type_names[] = {
	[1] = "pred", [2] = "s8",   [3] = "s16",   [4] = "s32",	 [5] = "s64",
	[6] = "u8",   [7] = "u16",  [8] = "u32",   [9] = "u64",	 [10] = "f16",
	[11] = "f32", [12] = "f64", [13] = "bf16", [14] = "c64", [15] = "c128",
};

static int32_t type_of(const char *name)
{
	char *end;
	long number;

	for (size_t i = 1; i < SAL_COUNT(type_names); i++) {
		if (strcmp(name, type_names[i]) == 0)
			return (int32_t)i;
	}
	number = strtol(name, &end, 10);
	if (end == name || *end || number < 0 || number > INT32_MAX ||
	    sal_type_bytes((int32_t)number) == 0)
		return 0;
	return (int32_t)number;
}

int32_t sal_fake_type(struct sal_text name)
{
	char word[16] = "";

	if (name.size >= sizeof(word))
		return 0;
	memcpy(word, name.at, name.size);
	return type_of(word);
}

/* Lines */

static bool read_number(char **rest, uint64_t *out_number)
{
	char *word = strsep(rest, " ");
	char *end;

	if (!word || *word < '0' || *word > '9')
		return false;
	*out_number = strtoull(word, &end, 10);
	return *end == '\0' && *out_number <= INT64_MAX;
}

static bool read_arg(struct fake_program *p, char **rest, uint32_t *out_arg)
{
	uint64_t number;

	if (!read_number(rest, &number) || number >= 4096)
		return false;
	*out_arg = (uint32_t)number;
	if (p->arg_count <= number)
		p->arg_count = number + 1;
	return true;
}

static bool read_op(struct fake_program *p, struct fake_output *o, char *rest)
{
	const char *op = strsep(&rest, " ");
	uint64_t byte;

	if (!op)
		return false;
	if (strcmp(op, "copy") == 0) {
		o->op = FAKE_COPY;
		return read_arg(p, &rest, &o->a) && !rest;
	}
	if (strcmp(op, "add") == 0) {
		o->op = FAKE_ADD;
		return read_arg(p, &rest, &o->a) && read_arg(p, &rest, &o->b) && !rest;
	}
	if (strcmp(op, "fill") == 0) {
		o->op = FAKE_FILL;
		if (!read_number(&rest, &byte) || byte > 255)
			return false;
		o->a = (uint32_t)byte;
		return !rest;
	}
	return false;
}

static bool read_output(struct fake_program *p, char *rest)
{
	struct fake_output o = { .takes = -1 };
	const char *word = strsep(&rest, " ");

	if (p->output_count == FAKE_OUTPUTS_MAX || !word)
		return false;
	o.type = type_of(word);
	o.bytes = sal_type_bytes(o.type);
	while (rest && *rest != '=') {
		uint64_t dim;

		if (o.rank == FAKE_RANK_MAX || !read_number(&rest, &dim) ||
		    __builtin_mul_overflow(o.bytes, dim, &o.bytes))
			return false;
		o.dims[o.rank++] = (int64_t)dim;
	}
	if (o.type == 0 || o.bytes > INT64_MAX || !rest || strncmp(rest, "= ", 2) != 0)
		return false;
	if (!read_op(p, &o, rest + 2))
		return false;
	p->outputs[p->output_count++] = o;
	return true;
}

static bool read_donate(struct fake_program *p, char *rest)
{
	uint64_t output;
	uint32_t arg;

	if (!read_arg(p, &rest, &arg) || !read_number(&rest, &output) || rest ||
	    output >= p->output_count || p->outputs[output].takes >= 0)
		return false;
	for (size_t i = 0; i < p->output_count; i++) {
		if (p->outputs[i].takes == (int64_t)arg)
			return false;
	}
	p->outputs[output].takes = arg;
	return true;
}

static bool read_host(struct fake_program *p, char *rest)
{
	uint64_t output;

	if (!read_number(&rest, &output) || rest || output >= p->output_count)
		return false;
	return p->outputs[output].is_host = true;
}

static bool read_failure(struct fake_failure *failure, char *rest)
{
	uint64_t code;

	if (!read_number(&rest, &code) || code == 0 || code > SAL_UNAUTHENTICATED || !rest)
		return false;
	failure->code = (int)code;
	snprintf(failure->text, sizeof(failure->text), "%s", rest);
	return true;
}

static bool read_compile_fault(struct fake_program *p, const char *word, char *rest)
{
	if (strcmp(word, "spin") == 0)
		return p->spins = !rest;
	if (strcmp(word, "gulp") == 0)
		return p->gulps = !rest;
	if (strcmp(word, "gorge") == 0)
		return p->gorges = !rest;
	if (strcmp(word, "burn") == 0)
		return read_number(&rest, &p->burn_ms) && !rest;
	if (strcmp(word, "shout") == 0)
		return read_number(&rest, &p->shouts) && !rest;
	return false;
}

static bool read_line(struct fake_program *p, char *line)
{
	char *rest = line;
	const char *word = strsep(&rest, " ");

	if (strcmp(word, "name") == 0 && rest)
		return snprintf(p->name, sizeof(p->name), "%s", rest) < (int)sizeof(p->name);
	if (strcmp(word, "output") == 0)
		return read_output(p, rest);
	if (strcmp(word, "donate") == 0)
		return read_donate(p, rest);
	if (strcmp(word, "host") == 0)
		return read_host(p, rest);
	if (strcmp(word, "temp") == 0)
		return read_number(&rest, &p->temp_bytes) && !rest;
	if (strcmp(word, "chips") == 0)
		return read_number(&rest, &p->chip_count) && !rest && p->chip_count > 0 &&
		       p->chip_count <= FAKE_CHIPS_MAX;
	if (strcmp(word, "chip") == 0)
		return read_number(&rest, &p->first_chip) && !rest &&
		       p->first_chip < FAKE_CHIPS_MAX;
	if (strcmp(word, "time") == 0) {
		p->has_run_ns = true;
		return read_number(&rest, &p->run_ns) && !rest;
	}
	if (strcmp(word, "fail") == 0)
		return read_failure(&p->fail, rest);
	if (strcmp(word, "refuse") == 0)
		return read_failure(&p->refuse, rest);
	if (strcmp(word, "reject") == 0)
		return read_failure(&p->reject, rest);
	if (strcmp(word, "hang") == 0)
		return p->hangs = !rest;
	if (strcmp(word, "crash") == 0)
		return p->crashes = !rest;
	return read_compile_fault(p, word, rest);
}

/*
 * Removes the first line from the text and its comment from the line. False if the line is too
 * long.
 */
static bool next_line(struct sal_text *text, char line[LINE_BYTES_MAX])
{
	const char *newline = memchr(text->at, '\n', text->size);
	size_t size = newline ? (size_t)(newline - text->at) : text->size;

	if (size >= LINE_BYTES_MAX)
		return false;
	memcpy(line, text->at, size);
	line[size] = '\0';
	text->at += size + (newline ? 1 : 0);
	text->size -= size + (newline ? 1 : 0);
	size = strcspn(line, "#");
	while (size > 0 && line[size - 1] == ' ')
		size--;
	line[size] = '\0';
	return true;
}

int sal_fake_parse(struct sal_text text, struct fake_program *out_program, struct sal_err *err)
{
	char line[LINE_BYTES_MAX] = "";
	unsigned int number = 1;

	*out_program = (struct fake_program){ .name = "fake", .chip_count = 1 };
	if (!next_line(&text, line) || strcmp(line, "fake 1") != 0)
		return sal_err_set(err, SAL_INVALID_ARGUMENT,
				   "a program for the fake device starts with \"fake 1\"");
	while (text.size > 0) {
		char copy[LINE_BYTES_MAX];

		number++;
		if (!next_line(&text, line))
			return sal_err_set(err, SAL_INVALID_ARGUMENT, "line %u is too long",
					   number);
		memcpy(copy, line, sizeof(copy));
		if (*line && !read_line(out_program, copy))
			return sal_err_set(err, SAL_INVALID_ARGUMENT,
					   "line %u, \"%s\", is not a line of a fake program",
					   number, line);
	}
	return SAL_OK;
}

/* Compilations */

struct sal_compiled {
	struct fake_program program;
	struct sal_program_facts facts;
	struct sal_output_facts outputs[FAKE_OUTPUTS_MAX];
	uint32_t donated[FAKE_OUTPUTS_MAX];
	uint32_t chips[FAKE_CHIPS_MAX];
	struct sal_value flops;
	char fingerprint[20];
	size_t text_size;
	char text[];
};

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a;
	uint32_t y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static uint64_t hash(const char *at, size_t size)
{
	uint64_t h = 14695981039346656037u; /* FNV-1a */

	for (size_t i = 0; i < size; i++)
		h = (h ^ (unsigned char)at[i]) * 1099511628211u;
	return h;
}

static void describe_outputs(struct sal_compiled *c)
{
	static const struct sal_text device = { "device", 6 }, host = { "pinned_host", 11 };
	struct sal_program_facts *f = &c->facts;

	for (size_t i = 0; i < c->program.output_count; i++) {
		const struct fake_output *o = &c->program.outputs[i];

		c->outputs[i] = (struct sal_output_facts){
			.type = o->type,
			.rank = o->rank,
			.dims = o->dims,
			.memory_kind = o->is_host ? host : device,
			.bytes = o->bytes,
		};
		*(o->is_host ? &f->memory.host_output : &f->memory.output) += (int64_t)o->bytes;
		if (o->takes >= 0) {
			c->donated[f->donated_count++] = (uint32_t)o->takes;
			f->memory.alias += (int64_t)o->bytes;
		}
	}
	if (f->donated_count > 0)
		qsort(c->donated, f->donated_count, sizeof(c->donated[0]), compare);
	f->outputs = c->outputs;
	f->output_count = c->program.output_count;
	f->donated = c->donated;
}

static void describe(struct sal_compiled *c)
{
	static const char flops[] = "flops";
	struct sal_program_facts *f = &c->facts;

	snprintf(c->fingerprint, sizeof(c->fingerprint), "%016" PRIx64,
		 hash(c->text, c->text_size));
	f->name = (struct sal_text){ c->program.name, strlen(c->program.name) };
	f->fingerprint = (struct sal_text){ c->fingerprint, strlen(c->fingerprint) };
	f->replicas = 1;
	f->partitions = (uint32_t)c->program.chip_count;
	for (size_t i = 0; i < c->program.chip_count; i++)
		c->chips[i] = (uint32_t)(c->program.first_chip + i);
	f->chips = c->chips;
	f->chip_count = c->program.chip_count;
	f->code_bytes = (int64_t)c->text_size;
	f->memory.generated_code = (int64_t)c->text_size;
	f->memory.temp = (int64_t)c->program.temp_bytes;
	describe_outputs(c);
	f->memory.peak = f->memory.output - f->memory.alias + f->memory.temp;
	c->flops = (struct sal_value){
		.name = { flops, sizeof(flops) - 1 },
		.kind = SAL_VALUE_FLOAT,
		.real = (float)f->memory.output,
	};
	f->costs = (struct sal_values){ &c->flops, 1 };
}

/* Fails as a vendor in C++ does. */
static void gorge(void)
{
	const size_t piece = (size_t)1 << 20;
	void *at;

	while ((at = malloc(piece)))
		memset(at, 1, piece);
	errno = 0; /* malloc may change it before it fails */
	abort();
}

static void gulp(void)
{
	void *volatile at =
		malloc(SIZE_MAX / 4); /* volatile, so that the compiler does not remove it */

	free(at);
	abort();
}

static uint64_t used_ms(void)
{
	struct timespec used = { 0 };

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * 1000 + (uint64_t)used.tv_nsec / 1000000;
}

static void misbehave(const struct fake_program *p)
{
	volatile bool forever = p->spins;
	uint64_t end_ms = used_ms() + p->burn_ms;

	while (used_ms() < end_ms)
		continue;
	for (uint64_t i = 0; i < p->shouts; i++)
		(void)fprintf(stderr, "fake: unwanted line %" PRIu64 "\n", i);
	if (p->crashes) {
		(void)fprintf(stderr, "fake: a crash on purpose");
		abort();
	}
	if (p->gulps)
		gulp();
	if (p->gorges)
		gorge();
	while (forever)
		continue;
}

static int check_chips(const struct sal_stream *s, const struct fake_program *p,
		       struct sal_err *err)
{
	if (p->first_chip + p->chip_count <= s->chip_count)
		return SAL_OK;
	return sal_err_set(err, SAL_INVALID_ARGUMENT,
			   "the program needs chip %" PRIu64 ", but the stream has %u",
			   p->first_chip + p->chip_count - 1, (unsigned)s->chip_count);
}

static int compile(struct sal_stream *s, struct sal_text format, struct sal_text program,
		   struct sal_text options, struct sal_compiled **out_compiled, struct sal_err *err)
{
	struct sal_compiled *c;
	int rc;

	(void)format;
	(void)options;
	*out_compiled = NULL;
	c = calloc(1, sizeof(*c) + program.size + 1);
	if (!c)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a program");
	c->text_size = program.size;
	if (program.size > 0)
		memcpy(c->text, program.at, program.size);
	rc = sal_fake_parse((struct sal_text){ c->text, c->text_size }, &c->program, err);
	if (rc >= 0)
		rc = check_chips(s, &c->program, err);
	if (rc >= 0)
		misbehave(&c->program);
	if (rc >= 0 && c->program.reject.code)
		rc = sal_err_set(err, (enum sal_code)c->program.reject.code, "%s",
				 c->program.reject.text);
	if (rc < 0) {
		free(c);
		return rc;
	}
	describe(c);
	*out_compiled = c;
	return SAL_OK;
}

static const struct sal_program_facts *compiled_facts(struct sal_compiled *c)
{
	return &c->facts;
}

static struct sal_text compiled_image(struct sal_compiled *c)
{
	return (struct sal_text){ c->text, c->text_size };
}

static struct sal_text compiled_optimized(struct sal_compiled *c)
{
	return (struct sal_text){ c->text, c->text_size };
}

static void free_compiled(struct sal_compiled *c)
{
	free(c);
}

/* Loaded programs */

int sal_fake_load(struct sal_stream *s, struct sal_text image, struct sal_loaded **out_loaded,
		  struct sal_err *err)
{
	struct sal_loaded *p;
	int rc;

	*out_loaded = NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return sal_err_set(err, SAL_RESOURCE_EXHAUSTED, "no memory for a program");
	p->stream = s;
	rc = sal_fake_parse(image, &p->program, err);
	if (rc < 0) {
		free(p);
		return sal_err_set(err, SAL_DATA_LOSS, "%zu bytes are not an image of a program",
				   image.size);
	}
	rc = check_chips(s, &p->program, err);
	if (rc < 0) {
		free(p);
		return rc;
	}
	*out_loaded = p;
	return SAL_OK;
}

void sal_fake_unload(struct sal_loaded *p)
{
	free(p);
}

const struct sal_compiler_ops sal_compiler_fake = {
	.compile = compile,
	.facts = compiled_facts,
	.image = compiled_image,
	.optimized = compiled_optimized,
	.free_compiled = free_compiled,
};
