// The gated delta rule as a plug-in in CUDA: the equations of docs/contract.md, section 1.1, token by token, with
// a thread for each value of a head. recurrence.hip is the same file for ROCm.
//
//     nvcc -O2 -std=c++17 -shared -Xcompiler -fPIC recurrence.cu -o librecurrence.so $(pkg-config --cflags gdnbench)
//     hipcc -O2 -shared -fPIC recurrence.hip -o librecurrence.so $(pkg-config --cflags gdnbench)   # or clang++
//     gdnbench verify --plugin librecurrence.so
//
// It only enqueues on the stream that it is given, so that it can be captured in a graph, and lets the kernel
// read sequence_offsets on the device: they may be others at the time of a run than when it was planned.
#include <gdnbench_plugin.h>

#include <cstdio>

#if defined(__HIPCC__) || defined(__HIP__)
#include <hip/hip_runtime.h>
#define BACKEND "hip"
using Stream = hipStream_t;
static const char* failure_of_launch() {
  const hipError_t error = hipGetLastError();
  return error == hipSuccess ? nullptr : hipGetErrorString(error);
}
#else
#include <cuda_runtime.h>
#define BACKEND "cuda"
using Stream = cudaStream_t;
static const char* failure_of_launch() {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}
#endif

namespace {

constexpr int64_t kMostValues = 1024;  // threads of a block

// An array of rows [first, second, ..] whose last dimensions are dense.
template <typename T>
struct Rows {
  T* data;
  int64_t first, second;
  __device__ T* at(int64_t i, int64_t j) const { return data + i * first + j * second; }
};

struct Call {
  Rows<const float> query, key, value, log_decay, beta;
  Rows<float> output, state;
  const int64_t* offsets;
  int64_t Dk, Dv, group;
  float scale;
  bool reads_state;
};

// A block for each sequence and value head, and a thread for each column of its state, which lies in the pool.
__global__ void recurrence(Call call) {
  const int64_t n = blockIdx.y, h = blockIdx.x, j = threadIdx.x;
  const int64_t begin = call.offsets[n], end = call.offsets[n + 1];
  if (begin == end) return;  // its state stays as it is
  float* const S = call.state.at(n, h) + j;
  if (!call.reads_state) {
    for (int64_t i = 0; i < call.Dk; ++i) S[i * call.Dv] = 0;
  }
  for (int64_t t = begin; t < end; ++t) {
    const float* const q = call.query.at(t, h / call.group);
    const float* const k = call.key.at(t, h / call.group);
    const float alpha = expf(*call.log_decay.at(t, h));  // 0 of -inf: a full reset
    float r = call.value.at(t, h)[j], o = 0;
    for (int64_t i = 0; i < call.Dk; ++i) r -= (S[i * call.Dv] *= alpha) * k[i];
    for (int64_t i = 0; i < call.Dk; ++i) {
      S[i * call.Dv] += *call.beta.at(t, h) * k[i] * r;
      o += S[i * call.Dv] * q[i];
    }
    call.output.at(t, h)[j] = call.scale * o;
  }
}

gdnbench_status supports(const gdnbench_plugin_problem* problem, gdnbench_plugin_message* message) {
  if (!gdnbench_plugin_field_is(problem, "dtype", "f32")) {
    std::snprintf(message->text, sizeof message->text, "dtype=%s, expected f32",
                  gdnbench_plugin_field(problem, "dtype"));
    return GDNBENCH_UNSUPPORTED;
  }
  if (problem->value_head_dim > kMostValues) {
    std::snprintf(message->text, sizeof message->text, "Dv=%lld, expected at most %lld",
                  static_cast<long long>(problem->value_head_dim),
                  static_cast<long long>(kMostValues));
    return GDNBENCH_UNSUPPORTED;
  }
  return GDNBENCH_OK;
}

Rows<const float> read(const gdnbench_array* array) {
  return {static_cast<const float*>(array->read), array->strides[0], array->strides[1]};
}
Rows<float> written(const gdnbench_array* array) {
  return {static_cast<float*>(array->written), array->strides[0], array->strides[1]};
}

gdnbench_status enqueue(const gdnbench_plugin_problem* problem, const gdnbench_array* arrays,
                        int64_t num_arrays, void*, void* stream, gdnbench_plugin_message* message) {
  const auto array = [&](const char* name) {
    return gdnbench_plugin_array(arrays, num_arrays, name);
  };
  Call call{};
  call.query = read(array("q"));
  call.key = read(array("k"));
  call.value = read(array("v"));
  call.log_decay = read(array("log_decay"));
  call.beta = read(array("beta"));
  call.output = written(array("output"));
  call.state = written(array("initial_state"));  // always: ht is not among the fields it honours
  call.offsets = static_cast<const int64_t*>(array("sequence_offsets")->read);
  call.Dk = problem->key_head_dim;
  call.Dv = problem->value_head_dim;
  call.group = problem->num_value_heads / problem->num_key_heads;
  call.scale = static_cast<float>(problem->scale);
  call.reads_state = array("initial_state")->read != nullptr;
  if (problem->num_sequences == 0) return GDNBENCH_OK;
  const dim3 blocks(static_cast<unsigned>(problem->num_value_heads),
                    static_cast<unsigned>(problem->num_sequences));
  recurrence<<<blocks, static_cast<unsigned>(call.Dv), 0, static_cast<Stream>(stream)>>>(call);
  const char* const failure = failure_of_launch();
  if (failure == nullptr) return GDNBENCH_OK;
  std::snprintf(message->text, sizeof message->text, "%s", failure);
  return GDNBENCH_DEVICE_FAILURE;
}

const gdnbench_plugin_implementation kImplementations[] = {{
    BACKEND "/recurrence_of_a_plugin",
    "gated_delta",
    BACKEND,
    "the equations with a thread a value, an example of a plug-in",
    "h0,scale",
    1,  // is_repeatable
    1,  // is_batch_invariant
    supports,
    nullptr,  // no workspace
    enqueue,
}};

}  // namespace

const gdnbench_plugin* gdnbench_plugin_v1(void) {
  static const gdnbench_plugin table = {
      GDNBENCH_PLUGIN_VERSION, sizeof(gdnbench_plugin_implementation), 1, kImplementations};
  return &table;
}
