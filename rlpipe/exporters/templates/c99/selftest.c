/*
 * Replays what the policy answered when it was exported: exit code 0 if this build answers the same.
 *
 *     cc -std=c99 -O2 selftest.c policy.c -lm -o selftest && ./selftest
 */
#include "policy.h"

#include <math.h>
#include <stdio.h>

/* Single steps. */
#define ROWS @rows@

static const @prefix@_input inputs[ROWS] = {
@inputs@
};

static const @prefix@_output expected[ROWS] = {
@outputs@
};

@memory@
@run@
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

    for (int i = 0; i < ROWS; ++i) {
        @prefix@_init(&state);
@given@
        @prefix@_step(&state, &inputs[i], &output);
@comparisons@
    }
@replay@
    printf("%s: %d steps, %d numbers differ, largest difference %.1e\n", @prefix@_fingerprint, @total@, wrong, largest);
    return wrong != 0;
}
