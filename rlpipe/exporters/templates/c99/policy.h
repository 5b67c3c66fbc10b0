/*
 * A trained policy: one observation in, one action out. Plain C99, needs libm; no allocation, no global state.
 *
@summary@
 *
 *     @prefix@_state state;
 *     @prefix@_init(&state);              once
 *     @prefix@_reset(&state);             whenever an episode begins
 *     @prefix@_step(&state, &input, &output);
 *
 * Every state is independent of all others: one for each robot or thread. Do not compile with -ffast-math.
 */
#ifndef @PREFIX@_H
#define @PREFIX@_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the environment gives. */
typedef struct @prefix@_input {
@input@
} @prefix@_input;

/* What the environment takes. */
typedef struct @prefix@_output {
@output@
} @prefix@_output;

/* What lasts from step to step, and room to work in. */
typedef struct @prefix@_state {
@state@
} @prefix@_state;

void @prefix@_init(@prefix@_state *state);
void @prefix@_reset(@prefix@_state *state);
void @prefix@_step(@prefix@_state *state, const @prefix@_input *input, @prefix@_output *output);

/* The tensors by name. An offset counts bytes in the input or output, or where `kept` is 1, in the state. */
typedef struct @prefix@_tensor {
    size_t offset;
    int size, rank, shape[8], kept;
    char dtype[8], name[@name_length@];
} @prefix@_tensor;

#define @PREFIX@_INPUTS @inputs@
#define @PREFIX@_OUTPUTS @outputs@
extern const @prefix@_tensor @prefix@_input_table[@PREFIX@_INPUTS];
extern const @prefix@_tensor @prefix@_output_table[@PREFIX@_OUTPUTS];

/* How many inputs and outputs, and the bytes of an input, an output, a state and an entry of a table. */
extern const int @prefix@_sizes[6];

/* Identifies the policy: the first digits of the hash of all that acts. */
extern const char @prefix@_fingerprint[@fingerprint_length@];

#ifdef __cplusplus
}
#endif

#endif
