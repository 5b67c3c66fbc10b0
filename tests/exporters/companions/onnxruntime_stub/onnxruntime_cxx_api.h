// The part of ONNX Runtime's C++ interface that example.cpp uses, over the library that comes with the Python package,
// which ships no headers. Functions are taken by their place in the table of the C interface, which never changes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#define ORTCHAR_T char

struct OrtApiBase {
    const void* const* (*GetApi)(std::uint32_t version);
    const char* (*GetVersionString)();
};
extern "C" const OrtApiBase* OrtGetApiBase();

enum OrtLoggingLevel { ORT_LOGGING_LEVEL_WARNING = 2 };
enum OrtAllocatorType { OrtArenaAllocator = 1 };
enum OrtMemType { OrtMemTypeDefault = 0 };

namespace Ort {
inline const void* const* api() {
    static const void* const* table = OrtGetApiBase()->GetApi(16);
    return table;
}
template <typename... Arguments>
void call(int place, Arguments... arguments) {
    using Function = void* (*)(Arguments...);
    if (void* status = reinterpret_cast<Function>(api()[place])(arguments...)) {
        throw std::runtime_error(reinterpret_cast<const char* (*)(const void*)>(api()[2])(status));
    }
}
struct Held {
    void* held = nullptr;
    Held() = default;
    Held(const Held&) = delete;
    Held(Held&& other) noexcept : held(std::exchange(other.held, nullptr)) {}
    void release(int place) {
        if (held) reinterpret_cast<void (*)(void*)>(api()[place])(held);
    }
};
struct Env : Held {
    Env(OrtLoggingLevel level, const char* name) { call(3, static_cast<int>(level), name, &held); }
    ~Env() { release(92); }
};
struct SessionOptions : Held {
    SessionOptions() { call(10, &held); }
    SessionOptions(SessionOptions&&) = default;
    ~SessionOptions() { release(100); }
    void SetIntraOpNumThreads(int count) { call(24, held, count); }
};
struct RunOptions : Held {
    explicit RunOptions(std::nullptr_t) {}
};
struct MemoryInfo : Held {
    static MemoryInfo CreateCpu(OrtAllocatorType allocator, OrtMemType type) {
        MemoryInfo made;
        call(69, static_cast<int>(allocator), static_cast<int>(type), &made.held);
        return made;
    }
    MemoryInfo() = default;
    MemoryInfo(MemoryInfo&&) = default;
    ~MemoryInfo() { release(94); }
};
template <typename T> struct Number;
template <> struct Number<float> { static constexpr int value = 1; };
template <> struct Number<std::uint8_t> { static constexpr int value = 2; };
template <> struct Number<std::int8_t> { static constexpr int value = 3; };
template <> struct Number<std::int64_t> { static constexpr int value = 7; };
template <> struct Number<bool> { static constexpr int value = 9; };
struct Value : Held {
    explicit Value(std::nullptr_t) {}
    Value(Value&&) = default;
    ~Value() { release(96); }
    template <typename T>
    static Value CreateTensor(const MemoryInfo& memory, T* data, std::size_t count, const std::int64_t* shape,
                              std::size_t rank) {
        Value made(nullptr);
        call(49, static_cast<const void*>(memory.held), static_cast<void*>(data), count * sizeof(T), shape, rank,
             Number<T>::value, &made.held);
        return made;
    }
    template <typename T> const T* GetTensorData() const {
        void* data = nullptr;
        call(51, held, &data);
        return static_cast<const T*>(data);
    }
};
static_assert(sizeof(Value) == sizeof(void*), "arrays of values are arrays of pointers");
struct Session : Held {
    Session(const Env& env, const char* path, const SessionOptions& options) {
        call(7, static_cast<const void*>(env.held), path, static_cast<const void*>(options.held), &held);
    }
    ~Session() { release(95); }
    std::vector<Value> Run(const RunOptions& options, const char* const* input_names, const Value* inputs,
                           std::size_t input_count, const char* const* output_names, std::size_t output_count) {
        std::vector<Value> outputs;
        for (std::size_t i = 0; i < output_count; ++i) outputs.emplace_back(nullptr);
        call(9, held, static_cast<const void*>(options.held), input_names, reinterpret_cast<void* const*>(inputs),
             input_count, output_names, output_count, reinterpret_cast<void**>(outputs.data()));
        return outputs;
    }
};
}  // namespace Ort
