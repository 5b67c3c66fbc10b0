/*
 * Replays what the policy answered when it was exported: exit code 0 if this build answers the same.
 *
 *     cc -std=c99 -O2 selftest.c policy.c -lm -o selftest && ./selftest
 */
#include "policy.h"

#include <math.h>
#include <stdio.h>

#define STEPS @steps@

/* 1 where an episode begins. */
static const unsigned char begins[STEPS] = {@begins@};

static const @prefix@_input inputs[STEPS] = {
@inputs@
};

static const @prefix@_output expected[STEPS] = {
@outputs@
};

static double largest = 0.0;

static int differs(double found, double wanted, double atol, double rtol)
{
    const double error = fabs(found - wanted);
    if (error > largest)
        largest = error;
    return !(error <= atol + rtol * fabs(wanted));
}

int main(void)
{
    static @prefix@_state state;
    @prefix@_output output;
    int wrong = 0;

    @prefix@_init(&state);
    for (int i = 0; i < STEPS; ++i) {
        if (begins[i])
            @prefix@_reset(&state);
        @prefix@_step(&state, &inputs[i], &output);
@comparisons@
    }
    printf("%s: %d steps, %d numbers differ, largest difference %.1e\n", @prefix@_fingerprint, STEPS, wrong, largest);
    return wrong != 0;
}
