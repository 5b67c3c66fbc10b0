// Acts with the policy @POLICY@ through @FILE@, with ONNX Runtime's C++ interface.
//
//     g++ -std=c++17 -I<onnxruntime>/include example.cpp -L<onnxruntime>/lib -lonnxruntime -o example
//     ./example @FILE@
//
@DESCRIBED@
#include <onnxruntime_cxx_api.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <vector>

// One step at a time, a batch of 1: fill the inputs, call step(), read the outputs.
class Policy {
public:
@MEMBERS@
    explicit Policy(const ORTCHAR_T* path) : session(env, path, options()) {@OPENING@}
@RESET@
    void step() {
        std::array<Ort::Value, @COUNT@> inputs{
@FEEDS@        };
        const std::array<const char*, @COUNT@> input_names{@INPUT_NAMES@};
        const std::array<const char*, @OUTPUT_COUNT@> output_names{@OUTPUT_NAMES@};
        std::vector<Ort::Value> outputs = session.Run(Ort::RunOptions{nullptr}, input_names.data(), inputs.data(),
                                                      inputs.size(), output_names.data(), output_names.size());
@READS@    }

private:
    static Ort::SessionOptions options() {
        Ort::SessionOptions chosen;
        chosen.SetIntraOpNumThreads(1);
        return chosen;
    }

    // The tensor reads the array where it lies.
    template <typename T, std::size_t N, std::size_t R>
    Ort::Value tensor(std::array<T, N>& values, const std::array<std::int64_t, R>& shape) {
        return Ort::Value::CreateTensor<T>(memory, values.data(), N, shape.data(), R);
    }

    template <typename T, std::size_t N>
    static void read(const Ort::Value& value, std::array<T, N>& into) {
        const T* found = value.GetTensorData<T>();
        std::copy(found, found + N, into.begin());
    }

    Ort::Env env{ORT_LOGGING_LEVEL_WARNING, "policy"};
    Ort::MemoryInfo memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    Ort::Session session;
};

template <typename T, std::size_t N>
void print(const char* name, const std::array<T, N>& values) {
    std::cout << name << std::setprecision(9);
    for (const T& value : values) {
        std::cout << ' ' << +value;
    }
    std::cout << '\n';
}

int main(int count, char** words) {
    Policy policy(count > 1 ? words[1] : "@FILE@");
@MAIN@    return 0;
}
