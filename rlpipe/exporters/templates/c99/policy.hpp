// The same for C++17: a value that remembers.
#ifndef @PREFIX@_HPP
#define @PREFIX@_HPP

#include "policy.h"

namespace @prefix@ {

using Input = @prefix@_input;
using Output = @prefix@_output;

class Policy {
public:
    Policy() noexcept { @prefix@_init(&state_); }

    // An episode begins.
    void reset() noexcept { @prefix@_reset(&state_); }

    // One observation to one action.
    Output operator()(const Input &input) noexcept
    {
        Output output{};
        @prefix@_step(&state_, &input, &output);
        return output;
    }

    static const char *fingerprint() noexcept { return @prefix@_fingerprint; }

private:
    @prefix@_state state_{};
};

} // namespace @prefix@

#endif
