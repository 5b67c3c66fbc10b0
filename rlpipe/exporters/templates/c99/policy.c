/* Generated from a trained policy; see policy.h. */
#include "policy.h"

#include <math.h>

#ifdef __cplusplus
#define RESTRICT __restrict
#else
#define RESTRICT restrict
#endif

@constants@
@kernels@
void @prefix@_step(@prefix@_state *RESTRICT state, const @prefix@_input *RESTRICT input, @prefix@_output *RESTRICT output)
{
@body@
}

void @prefix@_reset(@prefix@_state *state)
{
@reset@
}

void @prefix@_init(@prefix@_state *state)
{
    @prefix@_reset(state);
}

const @prefix@_tensor @prefix@_input_table[@PREFIX@_INPUTS] = {
@input_table@
};

const @prefix@_tensor @prefix@_output_table[@PREFIX@_OUTPUTS] = {
@output_table@
};

const int @prefix@_sizes[6] = {
    @PREFIX@_INPUTS,
    @PREFIX@_OUTPUTS,
    (int)sizeof(@prefix@_input),
    (int)sizeof(@prefix@_output),
    (int)sizeof(@prefix@_state),
    (int)sizeof(@prefix@_tensor),
};

const char @prefix@_fingerprint[@fingerprint_length@] = @fingerprint@;

/* essentials: @essentials@ */
